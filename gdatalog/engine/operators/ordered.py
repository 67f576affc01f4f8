"""`Ordered`: a rule whose head has functions that depend on the order of rows.

The checks give such functions a rule of their own (`planner/check/ordered_heads.py`): all that it
reads are columns of one relation. It runs on the CPU, over whole columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from typing import Any

import numpy as np

from gdatalog.cpu_ops.group_statistics import Groups, correlation, mode, quantile, variance
from gdatalog.cpu_ops.ordered_groups import OrderedRows, joined, top
from gdatalog.decimals import DIGITS, LIMIT, scale_of
from gdatalog.engine.context import ExecutionContext, StratumInputs
from gdatalog.engine.operators import Relations
from gdatalog.engine.operators.base import LeafOperator
from gdatalog.errors import EvaluationError, UsageError
from gdatalog.parser.format import format_node
from gdatalog.parser.syntax import Atom, Const, Expr, HeadAggregate, Null, Var
from gdatalog.plan.conditions import When
from gdatalog.plan.functions import PICKS, STATISTICS
from gdatalog.planner.check import CheckedRule, Stratum
from gdatalog.planner.placement import Work
from gdatalog.planner.rewrite.program_sizes import Expected
from gdatalog.records import dataclass
from gdatalog.storage.keys import encode_value, float_to_key, key_to_float, narrow
from gdatalog.storage.ordered import ranks_of
from gdatalog.storage.relation import Relation
from gdatalog.storage.row_order import backward
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array
from gdatalog.values import NULL, TypeName, Value

REASON = "rows are put in order there"


@dataclass(frozen=True, slots=True)
class Ordered(LeafOperator):
    """The rule reads `relation`."""

    rule: CheckedRule
    relation: str

    def __str__(self) -> str:
        shown = ", ".join(map(format_node, self.functions))
        return f"in order: {shown} over {self.relation}"

    @property
    def functions(self) -> list[HeadAggregate]:
        args: tuple[Any, ...] = self.rule.head.args
        return [arg for arg in args if isinstance(arg, HeadAggregate)]

    def work(self, expected: Expected, context: ExecutionContext) -> Work:
        return Work(expected.looked)

    def run(
        self, prepared: Any, inputs: StratumInputs, until: tuple[When, ...] = ()
    ) -> Relations | When:
        context, schema = inputs.context, inputs.schemas[self.rule.head.name]
        relation = inputs.relation(self.relation)
        record = context.metrics.begun(Stratum((schema.name,), (self.rule,), False), context.limits)
        context.limits.look(relation.length)
        assert isinstance(self.rule.body, Atom)
        own = inputs.schemas[self.relation].nullable
        rows = ReadRows(self.rule, relation, context.scope.symbols, context.scope.params, own)
        found = rows.picked(self.functions[0]) if _picks(self.functions) else rows.numbered()
        columns = tuple(map(narrow, found))
        count = len(columns[0])
        record.end({schema.name: count})
        of = schema.columns, schema.types
        return {schema.name: Relation.of_blocks(*of, [columns], count, True)}


def _between(to_numbers: Callable[[Array], Array], *given: Array) -> Array:
    low, high, share = to_numbers(given[0]), to_numbers(given[1]), given[2]
    found: Array = np.where((share == 0) | (low == high), low, low + (high - low) * share)
    return found


def _time_between(lower: Array, upper: Array, share: Array) -> Array:
    low = lower.astype(np.int64)
    found: Array = low + ((upper - low) * share).astype(np.int64)
    return found


def applies(stratum: Stratum) -> Ordered | None:
    """If the stratum has such a rule, which is its only one."""
    rule = stratum.rules[0]
    return Ordered(rule, rule.atoms[0].name) if rule.ordered else None


def _picks(functions: Sequence[HeadAggregate]) -> bool:
    return functions[0].kind in PICKS


class ReadRows:
    """The columns that a rule reads, by the names of its variables."""

    def __init__(
        self,
        rule: CheckedRule,
        relation: Relation,
        symbols: SymbolTable,
        params: Any,
        nullable: Sequence[bool],
    ) -> None:
        assert isinstance(rule.body, Atom)
        names = [arg.name for arg in rule.body.args if isinstance(arg, Var)]
        args: tuple[Any, ...] = rule.head.args
        read = {arg.name for part in args for arg in (part, *getattr(part, "targets", ()))
                if isinstance(arg, Var)}  # fmt: skip
        self.length, self.symbols, self.params = relation.length, symbols, params
        self.columns: dict[str, Array] = {
            name: np.asarray(column)
            for name, column in zip(names, relation.store.as_they_are(), strict=True)
            if name in read
        }
        self.types = dict(zip(names, relation.types, strict=True))
        self.nullable = dict(zip(names, nullable or [False] * len(names), strict=True))
        self.args = args
        self.own = [arg.name for arg in args if isinstance(arg, Var)]

    def numbered(self) -> list[Array]:
        """The columns of a head whose functions give each row a value."""
        return [
            self.columns[arg.name] if isinstance(arg, Var) else self._window(arg)
            for arg in self.args
        ]

    def picked(self, function: HeadAggregate) -> list[Array]:
        """The columns of a head whose function picks values of each group."""
        group = [self.columns[name] for name in self.own]
        if function.kind == "top":
            most, item, *keys = function.targets
            given, name = self._value(most), self._name(item)
            if given < 0:
                message = f"a number of rows cannot be negative: {given}"
                raise UsageError(message, most.span, hint="give 0 or more")
            there = self.without_nulls([name])
            group = [there.columns[name] for name in self.own]
            turned = there.turned(keys, function.down)
            places = top(group, there.columns[name], there.sortable(name), turned, given)
            return [column[places] for column in (*group, there.columns[name])]
        if function.kind in STATISTICS:
            return self._statistic(function, group)
        item, separator, *keys = function.targets
        name = self._name(item)
        keys_of = [*self.turned(keys, function.down), self.sortable(name)]
        rows = OrderedRows(self.length, group, keys_of, ())
        text = str(self._value(separator))
        places, texts = joined(rows, self.columns[name], self.symbols.texts_of, text)
        return [*(column[places] for column in group), self.symbols.intern_many(texts)]

    def without_nulls(self, names: Sequence[str]) -> ReadRows:
        """The rows in which none of these columns is null."""
        there = np.flatnonzero(~self._nulls(names))
        if len(there) == self.length:
            return self
        rows = copy(self)
        rows.length = len(there)
        rows.columns = {name: column[there] for name, column in self.columns.items()}
        return rows

    def _nulls(self, names: Sequence[str]) -> Array:
        """In which rows one of these columns is null."""
        found: Array = np.zeros(self.length, dtype=np.bool_)
        for name in names:
            if self.nullable[name]:
                found |= self.columns[name] == NULL
        return found

    def _statistic(self, function: HeadAggregate, group: Sequence[Array]) -> list[Array]:
        """The columns of the groups, and the keys of their values. Nulls are skipped; where nothing
        is left the value is null."""
        kind, targets = function.kind, function.targets
        given = 2 if kind in ("quantile", "corr") else 1
        names = [target.name for target in targets[:given] if isinstance(target, Var)]
        weights = self.columns[self._name(targets[given])] if len(targets) > given else None
        groups = Groups(group, ~self._nulls(names), weights)
        with np.errstate(all="ignore"):
            values, found = (
                part[groups.present] for part in self._statistics(function, names, groups)
            )
        if values.dtype == np.float64:
            if np.isnan(values[found]).any():
                raise EvaluationError("a statistic of inf is not a number", function.span)
            values = float_to_key(np.where(found, values, 0.0))
        return [*groups.keys, np.where(found, values, NULL)]

    def _statistics(
        self, function: HeadAggregate, names: Sequence[str], groups: Groups
    ) -> tuple[Array, Array]:
        """The values of groups, floats or keys, and which of them there are."""
        kind, name = function.kind, names[0]
        if kind == "mode":
            rows, found = mode(groups, self.sortable(name))
            return self.columns[name][rows].astype(np.int64), found
        if kind in ("median", "quantile"):
            share = 0.5 if kind == "median" else float(self._value(function.targets[1]))
            if not 0 <= share <= 1:
                message = f"a quantile is from 0 to 1, not {share}"
                raise UsageError(message, function.targets[1].span, hint="the median is at 0.5")
            decoded = {"int": lambda keys: keys.astype(np.float64), "float": key_to_float}
            to_numbers = decoded.get(self.types[name])
            between = partial(_between, to_numbers) if to_numbers else _time_between
            return quantile(groups, self.columns[name], share, between)
        numbers = [(self.columns[name], self.types[name] == "float") for name in names]
        if kind == "corr":
            return correlation(groups, *numbers)
        values, found = variance(groups, *numbers)
        return (np.sqrt(values) if kind == "stddev" else values), found

    def _window(self, function: HeadAggregate) -> Array:
        targets, kind = function.targets, function.kind
        end = len(targets) - len(function.down)
        args, parts = targets[: end - function.partition], targets[end - function.partition : end]
        group = [self.columns[self._name(part)] for part in parts]
        keys = self.turned(targets[end:], function.down)
        known = {part.name for part in (*parts, *targets[end:]) if isinstance(part, Var)}
        ties = [self.sortable(name) for name in self.own if name not in known]
        rows = OrderedRows(self.length, group, keys, ties)
        if kind in ("lag", "lead"):
            values, default = map(self._column, args, [self.types[self._name(args[0])]] * 2)
            return rows.neighbour(values, default, kind == "lag")
        if kind == "running_sum":
            name = self._name(args[0])
            of_floats = self.types[name] == "float"
            values = np.where(self._nulls([name]), 0, self.columns[name])
            sums = rows.running_sum(values, of_floats)
            if sums is None and of_floats:
                raise EvaluationError("the sum of inf and -inf is not a number", function.span)
            digits = scale_of(self.types[name])
            if digits and sums is not None and (abs(sums) >= LIMIT).any():
                sums = None
            if sums is None:
                room = f"{DIGITS} digits" if digits else "64 bits"
                message = f"a running sum does not fit into {room}"
                raise EvaluationError(message, function.span, hint="sum floats: to_float(x)")
            return sums
        found: Array = getattr(rows, kind)()
        return found

    def turned(self, keys: Sequence[Expr], down: Sequence[bool]) -> list[Array]:
        found = []
        for name, turn in zip(map(self._name, keys), down, strict=True):
            key = self.sortable(name)
            found.append(backward(key, self.nullable[name]) if turn else key)
        return found

    def sortable(self, name: str) -> Array:
        column = self.columns[name]
        is_text = self.types[name] == "symbol"
        return ranks_of(column, self.symbols.ranks()) if is_text else column

    def _column(self, expr: Expr, kind: TypeName) -> Array:
        if isinstance(expr, Var):
            return self.columns[expr.name]
        if isinstance(expr, Null):
            return np.full(self.length, NULL)
        return np.full(self.length, encode_value(self._value(expr), kind, self.symbols))

    def _name(self, expr: Expr) -> str:
        assert isinstance(expr, Var)
        return expr.name

    def _value(self, expr: Expr) -> Any:
        value: Value = expr.value if isinstance(expr, Const) else self.params[expr.name]  # type: ignore[union-attr]  # the checks leave nothing else
        return value
