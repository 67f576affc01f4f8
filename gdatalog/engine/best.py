"""Rows of which only the best value per group is kept: recursive `min` and `max`.

It holds arrays of the device whose operations it is given, and what comes from elsewhere is laid
there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gdatalog.engine.derived import away, laid
from gdatalog.errors import EvaluationError
from gdatalog.parser.syntax import Call, HeadAggregate
from gdatalog.planner.checked import CheckedRule
from gdatalog.planner.walk import walk
from gdatalog.storage.keys import decode_value
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import Columns
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array
from gdatalog.values import TypeName


def optimum_columns(rules: Sequence[CheckedRule]) -> dict[int, str]:
    """The columns of a relation of which only the best value per group is kept."""
    kinds: dict[int, str] = {}
    for rule in rules:
        for at, arg in enumerate(rule.head.args):
            inside = [part for part in walk(arg) if isinstance(part, HeadAggregate)]
            if not inside:
                continue
            if not isinstance(arg, HeadAggregate) or arg.kind not in ("min", "max"):
                return {}
            kinds[at] = arg.kind
    return kinds


def is_clamped(rule: CheckedRule) -> bool:
    """Whether `min(...)` or `max(...)` of two values bounds what a rule derives."""
    nodes = [*rule.head.args, *([] if rule.body is None else [rule.body])]
    return any(
        isinstance(part, Call) and part.name in ("min", "max")
        for node in nodes
        for part in walk(node)
    )


def improves_for_ever(
    name: str, group: Sequence[tuple[str, int, Any]], symbols: SymbolTable, rule: CheckedRule
) -> EvaluationError:
    """The error for a cycle that makes a group's value better each time around."""
    told = ", ".join(
        f"{column} = {decode_value(key, kind, symbols)!r}" for column, key, kind in group
    )
    return EvaluationError(
        f"{name} improves for ever: a cycle makes the best value of "
        f"({told or 'its one group'}) better each time around",
        rule.span,
        hint="look for a cycle of negative weight (for max: of positive weight)",
    )


class Best:
    """Rows of which only the best value per group is kept: recursive min and max."""

    def __init__(
        self,
        columns: tuple[str, ...],
        types: tuple[TypeName, ...],
        kinds: Mapping[int, str],
        symbols: SymbolTable,
        ops: Any,
    ) -> None:
        self.columns = columns
        self.types = types
        self.kinds = dict(kinds)  # column -> "min" or "max"
        self.symbols = symbols
        self.ops = ops
        self._rows: Columns | None = None
        self._full = Relation.empty(columns, types)

    @property
    def length(self) -> int:
        return self._full.length

    @property
    def nbytes(self) -> int:
        return self._full.nbytes

    def full(self) -> Relation:
        return self._full

    def add(self, rows: Columns, count: int) -> Relation:
        """Adds rows; gives those of the groups that are new or better now."""
        if count == 0:
            return Relation.empty(self.columns, self.types)
        ops, before = self.ops, self.length
        rows = laid(rows, ops)
        both = rows if self._rows is None else ops.concatenate([self._rows, rows])
        groups_by = [both[at] for at in range(len(both)) if at not in self.kinds]
        first, groups = ops.group_rows(groups_by, len(both[0]))
        best: list[Array] = []
        changed = first >= before  # groups are stable-sorted: known rows come first
        for at, column in enumerate(both):
            kind = self.kinds.get(at)
            if kind is None:
                best.append(column[first])
                continue
            value = column[ops.best_by(groups, len(first), self._ranked(column, at), kind == "min")]
            changed = changed | (value != column[first])
            best.append(value)
        keys = ops.narrowed(best)
        ordered = ops.order_rows(keys)
        self._rows = tuple(key[ordered] for key in keys)
        self._full = self._relation(self._rows, len(first))
        news = ops.survivors(changed[ordered])
        return self._relation(tuple(key[news] for key in self._rows), len(news))

    def settle(self, relation: Relation) -> None:
        """Has these rows, one for each group, and takes no more."""
        self._full = relation

    def _relation(self, rows: Columns, count: int) -> Relation:
        return Relation(self.columns, self.types, rows, count, away(self.ops))

    def _ranked(self, column: Array, at: int) -> Array:
        if self.types[at] == "symbol":
            ranks: Array = self.ops.ranks_of(self.symbols, column)
            return ranks
        return column.astype(self.ops.xp.int64)

    def group(self, relation: Relation, row: int) -> Sequence[tuple[str, int, Any]]:
        """A row's group, as (column, key, type), for messages."""
        return [
            (self.columns[at], int(relation.keys[at][row]), self.types[at])
            for at in range(len(self.types))
            if at not in self.kinds
        ]
