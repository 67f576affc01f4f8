"""The steps of owners: what the driver calls on a worker in each round, and what it returns.

A step takes over its owner's state and changes it in place: see `PartitionState`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any

from gdatalog.cluster.pool.calls import Lost
from gdatalog.cluster.recursion.hash_partition import (
    HashPartition,
    OwnerInputs,
    RuleStep,
    TableBlock,
)
from gdatalog.cluster.recursion.routes import Parcel, size_of
from gdatalog.cluster.rows.shuffle import ShuffleBlock
from gdatalog.cluster.workers.own_process import own_address
from gdatalog.engine.fixpoint.lattice_rounds import LatticeRounds
from gdatalog.errors import Caution
from gdatalog.executors.sinks import StepCounts
from gdatalog.limits import Limits
from gdatalog.records import dataclass
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import Columns, concatenate
from gdatalog.values import TypeName

SMALL = 1 << 14  # bytes that a step may send through the driver


class StaleState(Lost):
    """A later step has changed the owner's state, and the result of that step is lost."""


@dataclass(slots=True)
class StepSummary:
    """What a step reports to the driver.

    `out`: the bytes of rows for each owner; `small`: the rows themselves if they are few. `new`:
    the number of new rows of each relation; `total`: the number of all its rows. `sample`: a group
    of each lattice relation that improved.
    """

    out: dict[int, int]
    small: dict[int, Parcel] | None
    new: dict[str, int]
    total: dict[str, int]
    sample: dict[str, Sequence[tuple[str, int, TypeName]]]
    rules: list[RuleStep]
    cautions: list[Caution]
    moved: int
    held: int


class StepOutput(dict[Any, Any]):
    """The result of a step: its "state", its "summary", and a `ShuffleBlock` for each owner that
    gets rows. If Dask repeats a step, rows that their owners already have may be missing."""

    def __missing__(self, owner: int) -> ShuffleBlock:
        return ShuffleBlock({}, own_address(), 0)


def given(owner: HashPartition, told: StepSummary | None, out: Mapping[int, Parcel]) -> StepOutput:
    here = own_address()
    pieces = {to: ShuffleBlock(parcel, here, size_of(parcel)) for to, parcel in out.items()}
    found: dict[Any, Any] = {"state": PartitionState(owner), "summary": told, **pieces}
    return StepOutput(found)


class PartitionState:
    """An owner's state after a step. The next step takes the state over and changes it. On another
    worker, the state is rebuilt from blocks of rows, if they are unchanged."""

    def __init__(self, owner: HashPartition | None, moved: Iterable[TableBlock] | None = None):
        self.owner = owner
        self._moved = moved
        self._lock = Lock()

    def take(self, inputs: OwnerInputs) -> HashPartition:
        """Takes the owner over, or rebuilds it if this process does not have it."""
        with self._lock:
            owner, self.owner = self.owner, None
        if owner is None:
            if self._moved is None:
                raise StaleState
            owner = HashPartition(inputs)
            for table, name, rows, count in self._moved:
                tables = owner.homes if table == "homes" else owner.tables
                tables[name].add(rows, count)
        return owner

    def blocks(self) -> Iterator[TableBlock]:
        """The rows from which another worker can rebuild the state."""
        with self._lock:
            if self.owner is not None:
                yield from self.owner.blocks()
            elif self._moved is None:
                raise StaleState
            else:
                yield from self._moved

    def __sizeof__(self) -> int:
        owner = self.owner
        return 0 if owner is None else owner.nbytes

    def __reduce__(self) -> tuple[object, ...]:
        try:
            moved = list(self.blocks())
        except StaleState:
            moved = None
        return PartitionState, (None, moved)


def step(
    inputs: OwnerInputs,
    first: bool,
    before: StepOutput | None,
    inbox: Sequence[ShuffleBlock | Parcel | None],
) -> StepOutput:
    """Runs an owner's step on its state `before`; returns the new state, and rows for owners.

    `first`: the inbox has derived rows, which the owner adds to its home rows; otherwise deltas,
    over which it runs the rules. A None in the inbox is this owner's own output of the step
    `before`.
    """
    task, number = inputs.task, inputs.number
    owner = HashPartition(inputs) if before is None else before["state"].take(inputs)
    limits, own = Limits(), owner.context.limits
    own.watch, own.checks = limits.watch, limits.checks  # of the current caller
    pieces = [before[number] if each is None and before is not None else each for each in inbox]
    moved = sum(each.moved for each in pieces if isinstance(each, ShuffleBlock))
    parcels: list[Parcel] = [e.value if isinstance(e, ShuffleBlock) else e for e in pieces if e]
    news: dict[str, Relation] = {}
    rules: list[RuleStep] = []
    if first:
        news = owner.settle(parcels)
        out = owner.routed(news)
        if task.routes.aligned:
            parcels = [out.get(number, {})]
    if not first or task.routes.aligned:
        owner.receive(parcels)
        out, rules = owner.follow()
    sizes = {to: size_of(parcel) for to, parcel in out.items()}
    little = sum(sizes.values()) <= SMALL
    told = StepSummary(
        sizes,
        out if little else None,
        {name: new.length for name, new in news.items()},
        {name: table.length for name, table in owner.homes.items()},
        {
            name: table.group(news[name].keys, 0)
            for name, table in owner.homes.items()
            if isinstance(table, LatticeRounds) and name in news and news[name].length
        },
        rules,
        list(owner.context.scope.cautions.values()),
        moved,
        owner.nbytes,
    )
    return given(owner, told, out)


def seen_of(found: StepOutput) -> list[dict[int, StepCounts]]:
    """Row counts of the plans' steps, if this process has them."""
    owner: HashPartition | None = found["state"].owner
    return [] if owner is None else owner.seen()


def rows_at_home(found: StepOutput, name: str) -> Columns:
    """An owner's home rows of a relation, after its last step."""
    state: PartitionState = found["state"]
    return concatenate([rows for *of, rows, _ in state.blocks() if of == ["homes", name]])
