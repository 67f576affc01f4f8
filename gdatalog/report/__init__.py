"""How a plan is seen: what will be done (`Explanation`) and what was done (`Profile`)."""

from gdatalog.report.explanation import Explanation, explain
from gdatalog.report.profile import Profile

__all__ = ["Explanation", "Profile", "explain"]
