"""gdatalog: Datalog whose rules compile into worst-case-optimal joins.

import gdatalog as gd
db = gd.connect()
db["E"] = edges
db.query("tr(x,y,z) <- E(x,y), E(y,z), E(x,z), x < y < z.").df()
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gdatalog.distribution import VERSION as __version__  # noqa: F401, for who asks the package
from gdatalog.errors import (
    DataError,
    DeviceError,
    Error,
    EvaluationError,
    Interrupted,
    MemoryLimitError,
    NameResolutionError,
    ParseError,
    RowLimitError,
    SafetyError,
    StratificationError,
    TimeLimitError,
    TypeMismatchError,
    UsageError,
)

if TYPE_CHECKING:
    from gdatalog.database import Database, ProgramWarning
    from gdatalog.opening import connect, query
    from gdatalog.progress import Progress
    from gdatalog.report import Explanation, Profile
    from gdatalog.result import Result
    from gdatalog.shell.doctor import doctor

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
    "RowLimitError",
    "SafetyError",
    "StratificationError",
    "TimeLimitError",
    "TypeMismatchError",
    "UsageError",
    "connect",
    "doctor",
    "query",
]

# Imported when first asked for, so that `import gdatalog` does not wait for NumPy and the engine.
_HOMES = {
    **dict.fromkeys(("Database", "ProgramWarning"), "database"),
    **dict.fromkeys(("Explanation", "Profile"), "report"),
    **dict.fromkeys(("connect", "query"), "opening"),
    **dict.fromkeys(("load_ipython_extension", "unload_ipython_extension"), "notebook"),
    "Progress": "progress",
    "Result": "result",
    "doctor": "shell.doctor",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gdatalog' has no attribute {name!r}")
    from gdatalog.importing import whole_imports

    with whole_imports():
        value = getattr(import_module(f"gdatalog.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
