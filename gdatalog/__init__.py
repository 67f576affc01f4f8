"""gdatalog: Datalog whose rules compile into worst-case-optimal joins."""

__version__ = "0.1.0"
