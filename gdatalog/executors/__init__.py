"""Executors run join plans: breadth-first in array operations, depth-first in loops."""
