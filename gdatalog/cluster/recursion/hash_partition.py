"""An owner of a hash partition of a fixpoint's rows: what a worker does in each round.

Owners send each other derived rows, which other owners may know already, and deltas, which are new.
A step takes over its owner's state and changes it in place: see `PartitionState`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any

from gdatalog.calls import Limits
from gdatalog.cluster.pool.calls import Lost
from gdatalog.cluster.recursion.routes import ALL, Distribution, Routes
from gdatalog.cluster.rows.shuffle import ShuffleBlock, columns_of, rows_by_owner
from gdatalog.cluster.workers.own_process import CallContext, own_address
from gdatalog.engine.context import StratumInputs
from gdatalog.engine.derived import Derived, Rows, together, union_rows
from gdatalog.engine.device import Device
from gdatalog.engine.fixpoint.delta import DeltaRelation
from gdatalog.engine.fixpoint.lattice_rounds import LatticeRounds
from gdatalog.engine.planned_rules import PlannedRules
from gdatalog.engine.stratum_run import NO_PARTS, Parts, StratumRun
from gdatalog.engine.variants import Variant
from gdatalog.errors import Caution
from gdatalog.executors.sinks import StepCounts
from gdatalog.plan.effects import all_steps
from gdatalog.plan.join_plan import TrieRef
from gdatalog.planner.check import Schema, Stratum
from gdatalog.records import dataclass
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import Columns, concatenate
from gdatalog.storage.sorting import sort_rows
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.trie import Trie
from gdatalog.values import TypeName

SMALL = 1 << 14  # bytes that a step may send through the driver

# Rows by relation or distribution: columns, and the number of rows, which matters without columns.
Parcel = dict[str, Rows]
# Rows of an owner: the kind of table, its name, the columns, and the number of rows.
TableBlock = tuple[str, str, Columns, int]


class StaleState(Lost):
    """A later step has changed the owner's state, and the result of that step is lost."""


@dataclass(frozen=True, slots=True)
class PartitionTask:
    """What all owners' steps have in common. `rules`: the number of each plan's rule."""

    stratum: Stratum
    schemas: Mapping[str, Schema]
    routes: Routes
    rules: tuple[int, ...]
    passing: frozenset[str]
    owners: int
    context: CallContext


@dataclass(frozen=True, slots=True)
class OwnerInputs:
    """What an owner's rules read beside its rows. In the driver, the fields are broadcast or remote
    values.

    `tries`: of relations that every owner has whole; `fragments`: this owner's parts of others.
    """

    task: PartitionTask
    number: int
    tries: Mapping[TrieRef, Trie]
    fragments: Mapping[str, Relation]
    symbols: SymbolTable


@dataclass(slots=True)
class RuleStep:
    """The figures of rule number `rule` in a step, as in `RuleRound`. `new`: rows that this owner
    had not derived before, if it counts them."""

    rule: int
    tried: int
    new: int
    seconds: float
    executors: dict[int, str]


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


class HashPartition(StratumRun):
    """A worker's partition of a stratum's rows, and the rules that run over it."""

    def __init__(self, given: OwnerInputs) -> None:
        self.owned, self.task = given, given.task
        task, routes = given.task, given.task.routes
        context = task.context.here(given.symbols)
        inputs = StratumInputs(context, task.schemas, {}, given.fragments.__getitem__)
        super().__init__(PlannedRules(task.stratum, ()), inputs)
        self.homes = {name: self.new_table(name) for name in task.stratum.relations}
        for name, table in self.tables.items():  # what this owner has derived so far
            if isinstance(table, DeltaRelation):
                table.passing = True
            if name in task.passing and isinstance(own := self.homes[name], DeltaRelation):
                own.passing = True
        for name in routes.indexes:
            table = self.tables[name] = self.new_table(routes.places[name].relation)
            if isinstance(table, DeltaRelation):
                table.indexed = True
        self.variants = [
            Variant(self, task.stratum.rules[rule], plan, 0)
            for rule, plan in zip(task.rules, routes.plans, strict=True)
        ]

    @property
    def nbytes(self) -> int:
        return sum(table.nbytes for table in (*self.tables.values(), *self.homes.values()))

    # -------------------------------------------------------------------- from place to place

    def blocks(self) -> Iterator[TableBlock]:
        """The rows from which another worker can rebuild this partition; at least one block of
        each table."""
        passing = self.task.passing
        homes = {
            name: table
            for name, table in self.homes.items()
            if name not in passing or isinstance(table, LatticeRounds)
        }
        indexes = {name: self.tables[name] for name in self.task.routes.indexes}
        for table, some in (("homes", homes), ("indexes", indexes)):
            for name, each in some.items():
                blocks = each.blocks() if each.types and each.length else [each.full().rows]
                for rows in blocks:
                    yield table, name, rows, len(rows[0]) if rows else each.length

    def trie_of(self, ref: TrieRef, device: Device | None = None, parts: Parts = NO_PARTS) -> Trie:
        found = self.owned.tries.get(ref)
        return super().trie_of(ref, device, parts) if found is None else found

    # ------------------------------------------------------------------------------- steps

    def settle(self, inbox: Sequence[Parcel]) -> dict[str, Relation]:
        """Adds derived rows to the home tables; returns the new ones."""
        news: dict[str, Relation] = {}
        for name, table in self.homes.items():
            news[name] = table.add(*self._received(name, inbox))
            self.context.limits.charge(f"{name} at home", table.nbytes)
        return news

    def _received(self, name: str, inbox: Sequence[Parcel]) -> Rows:
        parts = [parcel[name] for parcel in inbox if name in parcel]
        return union_rows(parts, self.ops)

    def routed(self, news: Mapping[str, Relation]) -> dict[int, Parcel]:
        """The new rows, by owners whose rules read them."""
        out: defaultdict[int, Parcel] = defaultdict(dict)
        for name, place in self.task.routes.places.items():
            new = news[place.relation]
            for owner, mine in self._dealt(place, (new.rows, new.length)).items():
                out[owner][name] = mine
        return out

    def _dealt(self, place: Distribution, rows: Rows) -> Mapping[int, Rows]:
        """Rows by owner."""
        if self.task.routes.at_home(place):
            return {self.owned.number: rows} if rows[1] else {}
        if place.by == ALL:
            return dict.fromkeys(range(self.task.owners), rows) if rows[1] else {}
        assert isinstance(place.by, int)
        return rows_by_partition(rows, (place.by,), self.task.owners)

    def receive(self, inbox: Sequence[Parcel]) -> None:
        """Makes new rows the deltas of the rules, and adds them to the indexes."""
        routes = self.task.routes
        for name, place in routes.places.items():
            rows, count = self._received(name, inbox)
            known = self.tables.get(name)
            if known is None:
                schema, blocks = self.inputs.schemas[place.relation], [rows] if count else []
                self.deltas[name] = Relation.of_blocks(
                    schema.columns, schema.types, blocks, count, True
                )
                continue
            if isinstance(known, LatticeRounds):
                self.olds[name] = known.full()
            self.deltas[name] = known.add(rows, count)
            if isinstance(known, DeltaRelation):
                known.take_turn(False)
            self.context.limits.charge(f"{name} to look up", known.nbytes)

    def follow(self) -> tuple[dict[int, Parcel], list[RuleStep]]:
        """Runs the rules on the deltas; returns derived rows that were not sent before, by home
        owner."""
        derived: defaultdict[str, list[Derived]] = defaultdict(list)
        found: Counter[str] = Counter()
        steps: list[RuleStep] = []
        for rule, variant in zip(self.task.rules, self.variants, strict=True):
            if not self.deltas[variant.follows].length:
                continue
            rows, done = variant.follow()
            name = variant.plan.relation
            found[name] += variant.found
            if rows:
                derived[name].append(together(rows))
            steps.append(RuleStep(rule, done.tried, done.new or 0, done.seconds, done.executors))
        for name in self.task.routes.indexes:
            table = self.tables[name]
            if isinstance(table, DeltaRelation):
                table.take_turn(True)
        out: defaultdict[int, Parcel] = defaultdict(dict)
        for name in self.homes:
            new = self._add(name, derived[name], found[name])
            self.context.limits.charge(name, self.tables[name].nbytes)
            home = self.task.routes.homes[name]
            fresh = (new.rows if new.types else ()), new.length
            for owner, part in rows_by_partition(fresh, home, self.task.owners).items():
                out[owner][name] = part
        self.record.end_round()
        self.record.rules.clear()
        return out, steps

    def seen(self) -> list[dict[int, StepCounts]]:
        """Row counts at each plan's steps, by the step's place."""
        found: list[dict[int, StepCounts]] = []
        for plan in self.task.routes.plans:
            report = self.context.metrics.run_of(plan)
            seen = {} if report is None else report.seen
            steps = all_steps(plan.joins[0].steps)
            found.append({at: seen[id(s)] for at, s in enumerate(steps) if id(s) in seen})
        return found


def rows_by_partition(rows: Rows, home: Sequence[int], owners: int) -> dict[int, Rows]:
    """Rows by owner, by a hash of the `home` columns. Without columns there is one owner."""
    columns, count = rows
    if not count:
        return {}
    if not home or owners == 1:
        return {0: rows}
    parts = rows_by_owner(tuple(columns[at] for at in home), columns, owners)
    return {to: (mine, len(mine[0])) for to, mine in enumerate(parts) if len(mine[0])}


# ------------------------------------------------------------------------------- what is called


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


def size_of(parcel: Parcel) -> int:
    return 64 + sum(column.nbytes for columns, _ in parcel.values() for column in columns)


def parcels_of(
    values: Sequence[object], owners: int, name: str, home: Sequence[int]
) -> list[Parcel]:
    """The distinct rows of values on this worker, as parcels for their home owners."""
    rows = sort_rows(concatenate([columns_of(value) for value in values]))
    parts = rows_by_partition((rows, len(rows[0])), home, owners)
    return [{name: parts[owner]} if owner in parts else {} for owner in range(owners)]


def fragment_of(
    pieces: Sequence[ShuffleBlock], name: str, columns: tuple[str, ...], types: tuple[TypeName, ...]
) -> Relation:
    """An owner's part of a relation, from parcels."""
    some = [piece.value[name] for piece in pieces if name in piece.value]
    blocks, count = [rows for rows, _ in some], sum(count for _, count in some)
    return Relation.of_blocks(columns, types, blocks, count, len(blocks) < 2)
