"""Plans: plain data, which the planner makes and the executors run."""
