"""The planner: checks programs, rewrites them, and plans the joins of rules."""

from gdatalog.planner.rule import plan_over, plan_rule

__all__ = ["plan_over", "plan_rule"]
