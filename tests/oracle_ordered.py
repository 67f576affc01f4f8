"""Functions of heads that depend on the order of rows, for the oracle: every row looks at all."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cmp_to_key
from itertools import product
from typing import Any

from gdatalog.parser.syntax import Atom, Const, Expr, FunctionCall, Var, Window
from tests.oracle_heads import is_aggregate
from tests.oracle_normal import names

WINDOWS = {"row_number", "rank", "dense_rank", "lag", "lead", "running_sum"}
STATISTICS = {"median", "quantile", "stddev", "var", "mode", "corr"}
PICKS = {"top", "arg_max", "arg_min", "string_agg"} | STATISTICS
Row = dict[Any, Any]


def calls(node: Any, kinds: set[str]) -> list[Any]:
    """The calls of such functions in a node."""
    if isinstance(node, FunctionCall | Window) and node.name in kinds:
        return [node]
    if isinstance(node, tuple):
        return [found for part in node for found in calls(part, kinds)]
    if not is_dataclass(node):
        return []
    return [found for part in fields(node) for found in calls(getattr(node, part.name), kinds)]


def put(node: Any, change: Callable[[Any], Any]) -> Any:
    """The node with other parts where `change` gives one."""
    found = change(node)
    if found is not None:
        return found
    if isinstance(node, tuple):
        return tuple(put(part, change) for part in node)
    if not is_dataclass(node):
        return node
    parts = {
        p.name: getattr(node, p.name) for p in fields(node) if p.name not in ("span", "source")
    }
    return replace(node, **{name: put(part, change) for name, part in parts.items()})


def window_rows(
    head: Atom,
    columns: Sequence[str],
    derive: Callable[[Atom], Iterable[tuple[Any, ...]]],
    value: Callable[[Expr, Row], Any],
) -> Iterator[tuple[Any, ...]]:
    """The rows of a head with functions that give each row a value. `derive`: the rows of a head
    without; `value`: of an expression without variables but those given."""
    terms: list[Any] = []
    for arg in head.args:
        if not calls(arg, WINDOWS):
            terms.append(arg)
        else:
            terms += beside(arg)
    pairs = zip(columns, head.args, strict=False)
    named = {column: arg for column, arg in pairs if arg in terms}
    known = names(tuple(term for term in terms if isinstance(term, Var)))

    def resolved(part: Any) -> Any:
        if part in terms:
            return part
        if isinstance(part, Var) and part.name not in known:
            return named.get(part.name)
        return None

    windows = [put(call, resolved) for call in calls(head.args, WINDOWS)]
    read = [(*call.args, *call.partition, *(key for _, key in call.rest)) for call in windows]
    exprs = [expr for each in read for expr in each]
    given = [dict(zip([*map(str, terms), *map(str, exprs)], row, strict=True))
             for row in derive(replace(head, args=(*terms, *exprs), columns=()))]  # fmt: skip
    used = [part for call in windows for expr in (*call.args, *(k for _, k in call.rest))
            for part in inner(expr, terms)]  # fmt: skip
    group = [str(term) for term in terms if term not in used]
    for row in given:
        values = [
            _value(call, row, given, group, [str(term) for term in terms]) for call in windows
        ]
        results = dict(zip(map(str, calls(head.args, WINDOWS)), values, strict=True))

        def known_value(part: Any, row: Row = row, results: Row = results) -> Any:
            if str(part) in results:
                return _const(results[str(part)])
            return _const(row[str(part)]) if part in terms else None

        yield tuple(value(put(arg, known_value), {}) for arg in head.args)


def beside(node: Any) -> list[Any]:
    """The variables and aggregates beside functions in an argument."""
    if isinstance(node, Var) or (isinstance(node, FunctionCall) and is_aggregate(node)):
        return [node]
    if isinstance(node, FunctionCall):
        return [part for arg in node.args for part in beside(arg)]
    return []


def inner(expr: Any, terms: Sequence[Any]) -> list[Any]:
    """The terms that an expression holds."""
    if expr in terms:
        return [expr]
    parts = expr if isinstance(expr, tuple) else ()
    if is_dataclass(expr):
        parts = tuple(getattr(expr, part.name) for part in fields(expr) if part.name != "span")
    return [found for part in parts for found in inner(part, terms)]


def _const(value: Any) -> Const:
    return Const("value", value)  # type: ignore[arg-type]  # the oracle takes it as it is


def _before(keys: Sequence[tuple[str, str]]) -> Callable[[Row, Row], int]:
    def compare(one: Row, other: Row) -> int:
        for word, key in keys:
            if one[key] != other[key]:
                if one[key] is None or other[key] is None:
                    return 1 if one[key] is None else -1
                return 1 if (one[key] > other[key]) == (word == "asc") else -1
        return 0

    return compare


def _value(call: Window, row: Row, rows: list[Row], group: list[str], terms: list[str]) -> Any:
    parts = list(map(str, call.partition)) or group
    keys = [(word, str(key)) for word, key in call.rest]
    peers = [other for other in rows if all(other[part] == row[part] for part in parts)]
    order = _before(keys)
    if call.name == "rank":
        return 1 + sum(order(other, row) < 0 for other in peers)
    if call.name == "dense_rank":
        ahead = [tuple(other[k] for _, k in keys) for other in peers if order(other, row) < 0]
        return 1 + len(set(ahead))
    peers.sort(key=cmp_to_key(_before([*keys, *(("asc", term) for term in terms)])))
    at = peers.index(row)
    if call.name == "row_number":
        return at + 1
    if call.name == "running_sum":
        return sum(other[str(call.args[0])] or 0 for other in peers[: at + 1])
    other = at - 1 if call.name == "lag" else at + 1
    item, *default = call.args
    if 0 <= other < len(peers):
        return peers[other][str(item)]
    return row[str(default[0])] if default else None


def picked(call: Any, envs: Iterable[Row], value: Callable[[Expr, Row], Any]) -> list[Any]:
    """What a function picks of the bindings of a group."""
    if call.name in STATISTICS:
        found = [[value(arg, env) for arg in call.args] for env in envs]
        rest = [row for row in found if None not in row]
        return statistic(call.name, rest) if rest or not found else [None]
    keys = call.rest if isinstance(call, Window) else ()
    if call.name in ("arg_max", "arg_min"):
        keys = (("desc" if call.name == "arg_max" else "asc", call.args[1]),)
        call = Window("top", (Const("int", 1), call.args[0]), (), keys)
    item = call.args[1 if call.name == "top" else 0]
    rows = [
        {"item": value(item, env), **{f"k{at}": value(k, env) for at, (_, k) in enumerate(keys)}}
        for env in envs
    ]
    names_of_keys = [(word, f"k{at}") for at, (word, _) in enumerate(keys)]
    rows.sort(key=cmp_to_key(_before([*names_of_keys, ("asc", "item")])))
    items = [row["item"] for row in rows if row["item"] is not None]
    if call.name == "string_agg":
        return [value(call.args[1], {}).join(items)]
    return list(dict.fromkeys(items))[: value(call.args[0], {})]


def statistic(name: str, rows: list[list[Any]]) -> list[Any]:
    """A statistic of rows of arguments without nulls; a null if it has no value."""
    rows = [row for row in rows if None not in row]
    if not rows:
        return [None]
    values = sorted(row[0] for row in rows)
    if name == "mode":
        return [max(values, key=lambda value: (values.count(value), -values.index(value)))]
    if name in ("median", "quantile"):
        place = (rows[0][1] if name == "quantile" else 0.5) * (len(values) - 1)
        low = values[int(place)]
        high = values[min(int(place) + 1, len(values) - 1)]
        if not isinstance(low, int | float):
            return [type(low)(low.ns + int((high.ns - low.ns) * (place - int(place))))]
        return [low + (high - low) * (place - int(place)) + 0.0]
    if len(rows) < 2:
        return [None]
    if name == "corr":
        one, other = zip(*rows, strict=True)
        if len({*one}) == 1 or len({*other}) == 1:
            return [None]
        return [statistics.correlation(one, other) + 0.0]
    found = statistics.variance(map(float, values))
    return [found**0.5 if name == "stddev" else found + 0.0]


def each_choice(found: Sequence[tuple[Any, list[Any]]]) -> Iterator[dict[int, Any]]:
    """Every combination of the values that functions picked, by their ids."""
    for values in product(*(values for _, values in found)):
        yield {id(call): value for (call, _), value in zip(found, values, strict=True)}
