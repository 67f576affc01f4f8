"""The planner: checks programs, rewrites rules, and plans their joins."""
