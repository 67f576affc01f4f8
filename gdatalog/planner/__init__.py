"""The planner: checks programs, rewrites them, and plans the joins of rules."""

from gdatalog.planner.pipeline import PASSES
from gdatalog.planner.rule import plan_over, plan_rule

__all__ = ["PASSES", "plan_over", "plan_rule"]
