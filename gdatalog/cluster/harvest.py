"""What the cells of a rule gave: brought here if it is little, else left where they ran.

Few rows, and few groups, are put together here. Many stay on the workers: rows as parts of a
relation, and groups are merged there, each by the owner that the hash of its keys tells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gdatalog.cluster.exchange import Exchange, Piece, owner_of, parts_of, size_of
from gdatalog.cluster.parts import columns_of
from gdatalog.cluster.pool import Kept, Placed, Pool
from gdatalog.cpu_ops.evaluate import Scope
from gdatalog.engine.derived import Blocks, Derived, lying_afar
from gdatalog.engine.device import CPU
from gdatalog.engine.run import rows_of_groups
from gdatalog.executors.gather import Gathering
from gdatalog.executors.limits import Limits
from gdatalog.executors.sinks import RowSet
from gdatalog.plan.nodes import Apply, Expr, RulePlan, Slot
from gdatalog.storage.afar import AfarRows, Keeper, Part
from gdatalog.storage.elsewhere import Known
from gdatalog.storage.rows import Columns
from gdatalog.storage.symbols import SymbolTable
from gdatalog.values import Value

SMALL = 1 << 18  # bytes that a call gives, up to which they come here at once
EASILY = 1 << 26  # bytes that all calls of a rule give, up to which they come here in the end
SHARE = 8  # but no more than this part of the memory limit


class Left(NamedTuple):
    """What is told of what stays where it was made: rows, or groups, and what they take."""

    rows: int
    nbytes: int


@dataclass(slots=True)
class Harvest:
    """Of one rule: what its calls give is added, and is a relation's rows in the end."""

    pool: Pool
    keeper: Keeper
    plan: RulePlan
    scope: Scope
    limits: Limits
    here: list[Any] = field(default_factory=list)  # columns, or gatherings
    left: list[tuple[Kept, Left]] = field(default_factory=list)

    def add(self, told: Any, kept: Kept | None = None) -> None:
        """`told`: what `brief` said of what is kept."""
        if isinstance(told, Left):
            assert kept is not None
            self.left.append((kept, told))
        else:
            self.here.append(told)

    def rows(self, distinct: bool) -> Derived:
        """The rows, of at least one column. `distinct`: no two calls gave the same row."""
        if not self._few():
            parts = self._parts()
            if not distinct:
                nbytes = sum(part.nbytes for part in parts)
                told = f"{self.plan.relation}: distinct"
                exchange = Exchange.over(self.pool, told, self.limits, nbytes)
                owned = exchange.distinct([part.value for part in parts])
                parts, distinct = parts_of(owned), True
            if not self._easily(sum(part.nbytes for part in parts)):
                return lying_afar(AfarRows(parts, self.keeper, Known.DISTINCT))
            self.here, self.left = self._brought([part.value for part in parts]), []
        blocks = [columns_of(value) for value in self._all()]
        blocks = [block for block in blocks if len(block[0])]
        if distinct and len(blocks) > 1:
            return Blocks(blocks, sum(len(block[0]) for block in blocks))
        sink = RowSet(self.plan.head, CPU.ops, self.scope, self.limits, None)
        sink.add_blocks(blocks)
        return sink.finish()

    def groups(self, symbols: Placed | None) -> Derived:
        """The rows that the head says of groups, of which calls may have given parts. `symbols`:
        the table of texts on the workers, if the head or what is gathered asks for it."""
        plan = self.plan
        if not plan.keys or makes_texts(plan.head) or self._few():
            whole = Gathering(plan.gathers, CPU.ops, self.scope, self.limits)
            for value in self._all():
                whole.join(gathering_of(value))
            return rows_of_groups(plan, whole, CPU.ops, self.scope)
        merging = Merging(plan, self.scope.params, self.limits.memory)
        values = [*self.here, *(kept for kept, _ in self.left)]
        nbytes = sum(left.nbytes for _, left in self.left)
        exchange = Exchange.over(self.pool, f"{plan.relation}: groups", self.limits, nbytes)
        pieces = exchange.deal(values, split_groups, merging, symbols)
        parts = parts_of(exchange.merge(pieces, merged_groups, merging, symbols, told=size_of))
        names = {expr.name for expr in plan.head if isinstance(expr, Slot)}
        apart = names.issuperset(key.name for key in plan.keys)
        return lying_afar(AfarRows(parts, self.keeper, Known.DISTINCT if apart else Known.NOTHING))

    def _few(self) -> bool:
        """Whether there is so little that it need not be left on the workers."""
        return not self.left or self._easily(sum(told.nbytes for _, told in self.left))

    def _easily(self, nbytes: int) -> bool:
        return nbytes <= min(EASILY, (self.limits.memory or 1 << 40) // SHARE)

    def _parts(self) -> list[Part]:
        parts = [Part(kept, *told) for kept, told in self.left]
        for value in self.here:
            columns = columns_of(value)
            if len(columns[0]):
                parts.append(Part(columns, len(columns[0]), _nbytes(columns)))
        return parts

    def _all(self) -> list[Any]:
        return [*self.here, *self._brought([kept for kept, _ in self.left])]

    def _brought(self, values: Sequence[Any]) -> list[Any]:
        return self.pool.bring(values, f"{self.plan.relation}: fetch", self.limits)


def makes_texts(expressions: Sequence[Expr]) -> bool:
    """Whether computing them may give texts that are in no table yet."""
    return any(isinstance(expr, Apply) and expr.type == "symbol" for expr in expressions)


# ------------------------------------------------------------------------------- on a worker


def brief(value: Any) -> Any:
    """What a call gave, if that is small; else what is told of it."""
    gathering = _gathering(value)
    if gathering is not None:
        count = sum(len(block[-1]) for block in gathering.blocks)
        left = Left(count, gathering.nbytes)
    else:
        columns = columns_of(value)
        left = Left(len(columns[0]) if columns else 0, _nbytes(columns))
    return value if left.nbytes <= SMALL else left


def gathering_of(value: Any) -> Gathering:
    found = _gathering(value)
    assert found is not None
    return found


def _gathering(value: Any) -> Gathering | None:
    """Groups, or those that something has, or None."""
    found: Gathering | None
    found = value if isinstance(value, Gathering) else getattr(value, "gathering", None)
    return found


def _nbytes(columns: Columns) -> int:
    return sum(column.nbytes for column in columns)


@dataclass(frozen=True, slots=True)
class Merging:
    """What merging the groups of a rule takes."""

    plan: RulePlan
    params: Mapping[str, Value]
    memory: int | None

    def together(
        self, values: Sequence[Any], symbols: SymbolTable | None
    ) -> tuple[Gathering, Scope]:
        scope = Scope(symbols or SymbolTable(), self.params)
        whole = Gathering(self.plan.gathers, CPU.ops, scope, Limits(memory=self.memory))
        for value in values:
            whole.join(gathering_of(value))
        return whole, scope


def split_groups(
    values: Sequence[Any], owners: int, merging: Merging, symbols: SymbolTable | None
) -> list[Gathering]:
    """Groups by their owners."""
    whole, _ = merging.together(values, symbols)
    return whole.dealt(owners, owner_of)


def merged_groups(
    pieces: Sequence[Piece], merging: Merging, symbols: SymbolTable | None
) -> Columns:
    """What the head says of an owner's groups."""
    whole, scope = merging.together([one.value for one in pieces], symbols)
    rows, _ = rows_of_groups(merging.plan, whole, CPU.ops, scope)
    return rows
