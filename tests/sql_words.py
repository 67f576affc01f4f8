"""DuckDB's words for our types, functions, aggregates and values."""

from __future__ import annotations

from tests.oracle_values import Ts, Value

COLUMN = {
    "int": "BIGINT",
    "float": "DOUBLE",
    "symbol": "VARCHAR",
    "bool": "BOOLEAN",
    "timestamp": "BIGINT",
}
INFIX = {"-": "-", "*": "*", "band": "&", "bor": "|"}
NAMED = {"bxor": "xor", "min": "least", "max": "greatest", "abs": "abs", "floor": "floor"}
NAMED |= {"ceil": "ceil", "upper": "upper", "lower": "lower", "strlen": "length"}
RESULT = dict.fromkeys(("strlen", "band", "bor", "bxor"), "int") | dict.fromkeys(
    ("contains", "starts_with"), "bool"
)
RESULT |= dict.fromkeys(("cat", "substr", "split_part", "to_string"), "symbol")
RESULT |= {"to_float": "float"}
AGGREGATE = {"sum": "sum", "mean": "avg", "min": "min", "max": "max", "any_value": "min"}


def aggregate_sql(kind: str, values: list[str], type_name: str) -> str:
    if kind == "count":
        return "count(*)"
    if kind == "count_distinct":
        return f"count(DISTINCT row({', '.join(values)}))"
    if kind == "sum":
        # DuckDB's sum of BIGINTs has 128 bits, in which `2 * sum(x)` would not wrap around.
        return f"CAST(coalesce(sum({values[0]}), 0) AS {COLUMN[type_name]})"
    return f"{AGGREGATE[kind]}({values[0]})"


def literal(value: Value) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, Ts):
        return str(value.ns)
    return f"CAST('{value}' AS DOUBLE)" if isinstance(value, float) else str(value)
