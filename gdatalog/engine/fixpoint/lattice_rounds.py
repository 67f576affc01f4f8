"""Rows that keep only the best value of each group: recursive `min` and `max`.

`LatticeRounds` starts from nothing, and `MaintainedLattice` continues from known rows. The arrays
belong to the device whose operations it is given; rows from elsewhere are copied there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gdatalog.engine.derived import laid
from gdatalog.errors import EvaluationError
from gdatalog.executors.ops import Ops
from gdatalog.parser.syntax import FunctionCall, HeadAggregate
from gdatalog.planner.check import CheckedRule, Stratum
from gdatalog.planner.check.strata import steps_of
from gdatalog.planner.check.walk import all_of
from gdatalog.records import dataclass, field
from gdatalog.storage.keys import decode_value, narrow
from gdatalog.storage.membership import places_in
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import Columns, order_rows
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array
from gdatalog.values import TypeName

AT_ONCE = 1 << 20  # rows copied at once


def optimum_columns(rules: Sequence[CheckedRule]) -> dict[int, str]:
    """The columns of a relation that keep only the best value of each group."""
    kinds: dict[int, str] = {}
    for rule in [rule for rule in rules if rule.aggregated]:
        for at, arg in enumerate(rule.head.args):
            inside = all_of(HeadAggregate, arg)
            if not inside:
                continue
            if not isinstance(arg, HeadAggregate) or arg.kind not in ("min", "max"):
                return {}
            kinds[at] = arg.kind
    return kinds


def is_clamped(rule: CheckedRule) -> bool:
    """Whether `min(...)` or `max(...)` of two values bounds what a rule derives."""
    calls = (part for part in rule.parts if isinstance(part, FunctionCall))
    return any(call.name in ("min", "max") for call in calls)


def improves_for_ever(
    name: str, group: Sequence[tuple[str, int, TypeName]], symbols: SymbolTable, rule: CheckedRule
) -> EvaluationError:
    """The error for a cycle that improves a group's value each time around."""
    examples = ", ".join(
        f"{column} = {decode_value(key, kind, symbols)!r}" for column, key, kind in group
    )
    return EvaluationError(
        f"{name} improves for ever: a cycle makes the best value of "
        f"({examples or 'its one group'}) better each time around",
        rule.span,
        hint="look for a cycle of negative weight (for max: of positive weight)",
    )


_SortedRun = tuple[Array, list[Array]]  # packed groups in ascending order; values by column


@dataclass(eq=False)
class LatticeRounds:
    """Rows that keep only the best value of each group: recursive min and max.

    They are stored as runs sorted by group, which merge geometrically: a round touches only groups
    that have improved.
    """

    columns: tuple[str, ...]
    types: tuple[TypeName, ...]
    kinds: Mapping[int, str]  # by column: "min" or "max"
    symbols: SymbolTable
    ops: Ops
    _packing: Any = None
    _wide: Columns | None = None  # the rows, if their groups cannot be packed
    _runs: list[_SortedRun] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.by = [at for at in range(len(self.types)) if at not in self.kinds]  # a group's columns
        self._full: Relation | None = Relation.empty(self.columns, self.types)

    @property
    def length(self) -> int:
        if self._full is not None:
            return self._full.length
        return sum(len(codes) for codes, _ in self._runs)

    @property
    def nbytes(self) -> int:
        held = sum(int(part.nbytes) for codes, values in self._runs for part in (codes, *values))
        return held + (self._full.nbytes if self._full is not None else 0)

    def full(self) -> Relation:
        """All rows as a relation."""
        if self._full is None:
            while len(self._runs) > 1:
                self._merge()
            ((codes, values),) = self._runs
            self._full = self._made(codes, [v.copy() for v in values])  # they improve in place
        return self._full

    def blocks(self) -> Iterator[Columns]:
        """All rows of at least one column, in any order, copied in small blocks."""
        if self._full is not None:
            yield self._full.rows
            return
        for codes, values in self._runs:
            for start in range(0, len(codes), AT_ONCE):
                some = slice(start, start + AT_ONCE)
                yield self._made(codes[some], [value[some] for value in values]).rows

    def add(self, rows: Columns, count: int) -> Relation:
        """Adds rows; returns those of groups that are new or improved."""
        if count == 0:
            return Relation.empty(self.columns, self.types)
        rows = laid(rows, self.ops)
        if self._wide is None and self.by and self._fit([rows[at] for at in self.by]):
            return self._add_packed(rows)
        return self._add_wide(rows)

    # ---------------------------------------------------------------- groups that can be packed

    def _fit(self, groups: Columns | list[Array]) -> bool:
        """Adapts the packing to these groups; returns False if no packing fits."""
        if self._packing is not None and self.ops.holds(self._packing, groups):
            return True
        known = [self._unpack(codes) for codes, _ in self._runs]
        packing = self.ops.packing(self.ops.concatenate([*known, tuple(groups)]), spare=4)
        if packing is None:
            return False
        pairs = zip(self._runs, known, strict=True)
        self._runs = [(packing.pack(columns), values) for (_, values), columns in pairs]
        self._packing = packing
        return True

    def _unpack(self, codes: Array) -> Columns:
        dtypes = [self.ops.xp.dtype("int64")] * len(self.by)
        return tuple(self._packing.unpack(codes, dtypes))

    def _add_packed(self, rows: Columns) -> Relation:
        """Sorts only the new rows; known groups are found by search and improved in place."""
        ops, xp = self.ops, self.ops.xp
        first, groups = ops.group_rows([rows[at] for at in self.by], len(rows[0]))
        codes = self._packing.pack([rows[at][first] for at in self.by])
        values = []
        for at, kind in self.kinds.items():
            best = ops.best_by(groups, len(first), self._ranked(rows[at], at), kind == "min")
            values.append(rows[at][best].astype(xp.int64))
        changed = xp.zeros(len(codes), dtype=bool)
        unknown = xp.ones(len(codes), dtype=bool)
        for old_codes, old_values in self._runs:
            at = xp.minimum(xp.searchsorted(old_codes, codes), len(old_codes) - 1)
            here = ops.survivors(old_codes[at] == codes)
            if not len(here):
                continue
            unknown[here] = False
            at = at[here]
            for mine, known, column in zip(values, old_values, self.kinds, strict=True):
                old, new = known[at], mine[here]
                better = self._better(column, new, old)
                mine[here] = known[at] = xp.where(better, new, old)
                changed[here] |= better
        news = ops.survivors(unknown)
        if len(news):
            self._runs.append((codes[news], [value[news] for value in values]))
            while len(self._runs) > 1 and 2 * len(self._runs[-1][0]) > len(self._runs[-2][0]):
                self._merge()
        changed |= unknown
        delta = ops.survivors(changed)
        if len(delta):
            self._full = None
        return self._made(codes[delta], [value[delta] for value in values])

    def _better(self, at: int, new: Array, old: Array) -> Array:
        new, old = self._ranked(new, at), self._ranked(old, at)
        better: Array = new < old if self.kinds[at] == "min" else new > old
        return better

    def _merge(self) -> None:
        """Merges the last two runs."""
        small, large = self._runs.pop(), self._runs.pop()
        codes, *values = self.ops.concatenate([(run[0], *run[1]) for run in (large, small)])
        order = self.ops.order_rows((codes,))
        self._runs.append((codes[order], [value[order] for value in values]))

    def _made(self, codes: Array, values: Sequence[Array]) -> Relation:
        """The relation of groups in ascending order of their codes, with their values."""
        if not len(codes):
            return Relation.empty(self.columns, self.types)
        keys = dict(zip(self.by, self._unpack(codes), strict=True))
        keys |= dict(zip(self.kinds, values, strict=True))
        rows = self.ops.narrowed([keys[at] for at in range(len(self.types))])
        if min(self.kinds) < len(self.by):  # a value column precedes a group column
            order = self.ops.order_rows(rows)
            rows = tuple(column[order] for column in rows)
        return self._relation(rows, len(codes))

    # ------------------------------------------------------------------------------ others

    def _add_wide(self, rows: Columns) -> Relation:
        """Sorts old and new rows together by their groups."""
        ops, before = self.ops, self.length
        both = rows
        if before:
            both = ops.concatenate([laid(self.full().sorted_keys, ops), rows])
        first, groups = ops.group_rows([both[at] for at in self.by], len(both[0]))
        best: list[Array] = []
        changed = first >= before  # the sort is stable: known rows come first
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
        self._runs, self._packing = [], None
        self._wide = tuple(key[ordered] for key in keys)
        self._full = self._relation(self._wide, len(first))
        news = ops.survivors(changed[ordered])
        return self._relation(tuple(key[news] for key in self._wide), len(news))

    def settle(self, relation: Relation) -> None:
        """Takes these rows, one for each group, as final."""
        self._full = relation

    def _relation(self, rows: Columns, count: int) -> Relation:
        return Relation(self.columns, self.types, rows, count, self.ops.on_device)

    def _ranked(self, column: Array, at: int) -> Array:
        if self.types[at] == "symbol":
            ranks: Array = self.ops.ranks_of(self.symbols, column)
            return ranks
        return column.astype(self.ops.xp.int64)

    def group(self, keys: Columns, row: int) -> Sequence[tuple[str, int, TypeName]]:
        """A row's group as (column, key, type), for messages."""
        return [(self.columns[at], int(keys[at][row]), self.types[at]) for at in self.by]


def monotone(stratum: Stratum, changed: Collection[str], new: Collection[CheckedRule] = ()) -> bool:
    """Whether more rows of the `changed` relations, and `new` rules, only add rows or improve
    values."""
    for name in stratum.relations:
        rules = [rule for rule in stratum.rules if rule.head.name == name]
        kinds = optimum_columns(rules)
        if any(rule.aggregated for rule in rules) and not kinds:
            return False
        if kinds != optimum_columns([rule for rule in rules if rule not in new]):
            return False  # rows that it has so far are no longer the best of their group
    return not any(
        step.through and step.body in changed for rule in stratum.rules for step in steps_of(rule)
    )


class MaintainedLattice(LatticeRounds):
    """A relation that keeps the best value of each group and continues from known rows.

    Known groups stay in order where they are, and their values improve in place; new groups are
    stored beside them.
    """

    def __init__(
        self, known: Relation, kinds: Mapping[int, str], symbols: SymbolTable, ops: Ops
    ) -> None:
        super().__init__(known.columns, known.types, kinds, symbols, ops)
        self.known = known
        self.came = 0
        self._more = LatticeRounds(known.columns, known.types, kinds, symbols, ops)
        self._news: list[Relation] = []
        self._improved = False
        self._now: Relation | None = known
        # If the values follow the groups, as is usual, rows are in the order of groups.
        self._in_order = self.by == list(range(len(self.by)))
        keys = known.keys
        if not self._in_order and self.by:
            order = order_rows([keys[at] for at in self.by])
            keys = tuple(key[order] for key in keys)
        self._keys = [keys[at] if at in self.by else keys[at].copy() for at in range(len(keys))]

    @property
    def length(self) -> int:
        return self.known.length + self._more.length

    @property
    def nbytes(self) -> int:
        return self.known.nbytes + self._more.nbytes

    def add(self, rows: Columns, count: int) -> Relation:
        """Adds rows; returns those of groups that are new or improved."""
        if not count:
            return Relation.empty(self.columns, self.types)
        best = LatticeRounds(self.columns, self.types, self.kinds, self.symbols, self.ops)
        rows = best.add(rows, count).keys
        groups = [rows[at] for at in self.by]
        if groups:
            places, there = places_in(tuple(self._keys[at] for at in self.by), tuple(groups))
        else:
            there = np.full(1, self.known.length > 0)
            places = np.zeros(1, dtype=np.int64)
        better = self._improve(places[there], [column[there] for column in rows])
        new = self._more.add(tuple(column[~there] for column in rows), int((~there).sum()))
        blocks = [block for block in (better, new.keys) if len(block[0])]
        length = len(better[0]) + new.length
        if not length:
            return Relation.empty(self.columns, self.types)
        self.came += length
        self._now = None
        delta = Relation.of_blocks(self.columns, self.types, blocks, length, True)
        self._news.append(delta)
        return delta

    def _improve(self, places: Array, rows: Sequence[Array]) -> Columns:
        """Improves values in place; returns the rows that changed."""
        changed = np.zeros(len(places), dtype=np.bool_)
        for at in self.kinds:
            new = rows[at]
            better = np.flatnonzero(self._better(at, new, self._keys[at][places]))
            if len(better):
                wide = np.promote_types(self._keys[at].dtype, new.dtype)
                self._keys[at] = self._keys[at].astype(wide, copy=False)
                self._keys[at][places[better]] = new[better]
                changed[better] = True
        self._improved = self._improved or bool(changed.any())
        return tuple(key[places[changed]] for key in self._keys)

    def full(self) -> Relation:
        if self._now is None:
            made = self.known
            if self._improved:
                keys = tuple(narrow(key.copy()) for key in self._keys)
                names, kinds, count = self.columns, self.types, self.known.length
                made = Relation.of_blocks(names, kinds, [keys], count, True)
                if self._in_order:
                    made = Relation(names, kinds, keys, count)
            self._now = made.beside(self._more.full()) if self._more.length else made
        return self._now

    def finished(self) -> Relation:
        full = self.full()
        if full is self.known:
            return full.unchanged()
        # If no group has improved, rows were only added.
        only_new = not self._improved and self.came == self._more.length
        return full.coming_from(self.known, self._news) if only_new and self.came else full
