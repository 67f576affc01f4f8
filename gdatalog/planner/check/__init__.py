"""The checks: they turn a parsed program into a typed one, or report all of its errors."""

from gdatalog.planner.check.checked import (
    AnswerCut,
    Checked,
    CheckedQuery,
    CheckedRule,
    Schema,
    Stratum,
    ValueList,
)

__all__ = ["AnswerCut", "Checked", "CheckedQuery", "CheckedRule", "Schema", "Stratum", "ValueList"]
