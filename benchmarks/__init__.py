"""How fast gdatalog is beside what a user would pick instead: `python -m benchmarks`."""
