"""`Explanation` shows how a program will be evaluated, `Profile` how it was evaluated.

Both are trees, which can be viewed in several ways.
"""

from gdatalog.report.plan_tree import Explanation, explain
from gdatalog.report.profile_tree import Profile
from gdatalog.report.shown import Shown

__all__ = ["Explanation", "Profile", "Shown", "explain"]
