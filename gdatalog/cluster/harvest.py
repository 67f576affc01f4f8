"""What the cells of a rule gave, and left where they ran: brought here if it is little, else left.

Few rows, and few groups, are put together here. Many stay on the workers: rows as parts of a
relation, and groups are merged there, each by the owner that the hash of its keys tells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gdatalog.cluster.exchange import Exchange, Piece, columns_of, measured, owner_of
from gdatalog.cluster.pool import Kept, Placed, Pool
from gdatalog.cpu_ops.evaluate import Scope
from gdatalog.engine.derived import Blocks, Derived, lying_afar
from gdatalog.engine.device import CPU
from gdatalog.engine.run import rows_of_groups
from gdatalog.executors.gather import Gathering
from gdatalog.executors.limits import Limits
from gdatalog.executors.sinks import RowSet
from gdatalog.plan.nodes import Apply, Expr, RulePlan, Slot
from gdatalog.storage.afar import AfarRows, Keeper
from gdatalog.storage.elsewhere import Known
from gdatalog.storage.rows import Columns
from gdatalog.storage.symbols import SymbolTable
from gdatalog.values import Value

EASILY = 1 << 26  # bytes that come here in any case, and the share of the memory limit
SHARE = 8


class HavingGroups(Protocol):
    """What has groups on a worker."""

    @property
    def groups(self) -> Gathering: ...


@dataclass(frozen=True, slots=True)
class Harvest:
    """Of one rule. `symbols`: the table of texts, where workers have it."""

    pool: Pool
    keeper: Keeper
    plan: RulePlan
    scope: Scope
    limits: Limits
    symbols: Placed

    def rows(self, values: Sequence[Kept], distinct: bool) -> Derived:
        """The rows, of at least one column, of what has columns. `distinct`: no two have a row in
        common."""
        if self._few(values):
            blocks = [columns_of(value) for value in self.pool.bring(values)]
            blocks = [block for block in blocks if len(block[0])]
            if distinct and len(blocks) > 1:
                return Blocks(blocks, sum(len(block[0]) for block in blocks))
            sink = RowSet(self.plan.head, CPU.ops, self.scope, self.limits, None)
            sink.add_blocks(blocks)
            return sink.finish()
        parts = measured(self.pool, self.limits, values)
        known = Known.DISTINCT if distinct else Known.NOTHING
        return lying_afar(AfarRows(parts, self.keeper, known))

    def groups(self, values: Sequence[Kept]) -> Derived:
        """The rows that the head says of groups of which any two may have some in common."""
        plan, pool = self.plan, self.pool
        if not plan.keys or makes_texts(plan.head) or self._few(values):
            whole = Gathering(plan.gathers, CPU.ops, self.scope, self.limits)
            for value in pool.bring(values):
                whole.join(groups_of(value))
            return rows_of_groups(plan, whole, CPU.ops, self.scope)
        told = Told(plan, self.scope.params, self.memory)
        what, nbytes = f"{plan.relation}: groups", sum(pool.sizes(values))
        exchange = Exchange.over(pool, what, self.limits, nbytes)
        pieces = exchange.deal(values, split_groups, told, self.symbols)
        merged = exchange.merge(pieces, merged_groups, told, self.symbols)
        parts = measured(pool, self.limits, merged)
        names = {expr.name for expr in plan.head if isinstance(expr, Slot)}
        apart = names.issuperset(key.name for key in plan.keys)
        return lying_afar(AfarRows(parts, self.keeper, Known.DISTINCT if apart else Known.NOTHING))

    @property
    def memory(self) -> int:
        return self.limits.memory or 1 << 40

    def _few(self, values: Sequence[Kept]) -> bool:
        """Whether there is so little that it need not be left on the workers."""
        most = min(EASILY, self.memory // SHARE)
        return sum(self.pool.sizes(values)) <= most


def makes_texts(expressions: Sequence[Expr]) -> bool:
    """Whether computing them may give texts that are in no table yet."""
    return any(isinstance(expr, Apply) and expr.type == "symbol" for expr in expressions)


# ------------------------------------------------------------------------------- on a worker


@dataclass(frozen=True, slots=True)
class Told:
    """What merging groups of a rule takes."""

    plan: RulePlan
    params: Mapping[str, Value]
    memory: int


def groups_of(value: Gathering | HavingGroups) -> Gathering:
    return value if isinstance(value, Gathering) else value.groups


def _together(told: Told, values: Sequence[Any], symbols: SymbolTable) -> tuple[Gathering, Scope]:
    scope = Scope(symbols, told.params)
    limits = Limits(memory=told.memory)
    whole = Gathering(told.plan.gathers, CPU.ops, scope, limits)
    for value in values:
        whole.join(groups_of(value))
    return whole, scope


def split_groups(
    values: Sequence[Any], owners: int, told: Told, symbols: SymbolTable
) -> list[Gathering]:
    """Groups by their owners."""
    whole, _ = _together(told, values, symbols)
    return whole.dealt(owners, owner_of)


def merged_groups(pieces: Sequence[Piece], told: Told, symbols: SymbolTable) -> Columns:
    """What the head says of an owner's groups."""
    whole, scope = _together(told, [one.value for one in pieces], symbols)
    rows, _ = rows_of_groups(told.plan, whole, CPU.ops, scope)
    return rows
