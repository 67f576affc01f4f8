"""gdatalog: Datalog whose rules compile into worst-case-optimal joins.

import gdatalog as gd
db = gd.connect()
db["E"] = edges
db.query("tr(x,y,z) <- E(x,y), E(y,z), E(x,z), x < y < z.").df()
"""

from gdatalog.database import Database, ProgramWarning, connect, query
from gdatalog.errors import (
    DataError,
    DeviceError,
    Error,
    EvaluationError,
    Interrupted,
    MemoryLimitError,
    NameResolutionError,
    ParseError,
    SafetyError,
    StratificationError,
    TypeMismatchError,
    UsageError,
)
from gdatalog.report import Explanation, Profile
from gdatalog.result import Result
from gdatalog.shell.doctor import doctor
from gdatalog.workspace import Progress

__version__ = "0.1.0"

__all__ = [
    "DataError",
    "Database",
    "DeviceError",
    "Error",
    "EvaluationError",
    "Explanation",
    "Interrupted",
    "MemoryLimitError",
    "NameResolutionError",
    "ParseError",
    "Profile",
    "ProgramWarning",
    "Progress",
    "Result",
    "SafetyError",
    "StratificationError",
    "TypeMismatchError",
    "UsageError",
    "connect",
    "doctor",
    "query",
]
