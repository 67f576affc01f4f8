"""`Explanation` shows how a program will be evaluated, `Profile` how it was evaluated."""

from gdatalog.report.explanation import Explanation, explain
from gdatalog.report.profile import Profile

__all__ = ["Explanation", "Profile", "explain"]
