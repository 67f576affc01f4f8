"""`Explanation` shows how a program will be evaluated, `Profile` how it was evaluated."""

from gdatalog.report.shown import Explanation, Profile, explain

__all__ = ["Explanation", "Profile", "explain"]
