"""An owner of a hash partition of a fixpoint's rows: what a worker does in each round.

Owners send each other derived rows, which may be new, and news, which are new; nothing else. An
owner's state is changed in place by the one step that takes it over: see `PartitionState`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from threading import Lock
from time import perf_counter
from typing import Any

from gdatalog.calls import Limits
from gdatalog.cluster.pool import Lost
from gdatalog.cluster.recursion import ALL, Distribution, Routes
from gdatalog.cluster.rows import ShuffleBlock, columns_of, rows_by_owner
from gdatalog.cluster.workers import own_address
from gdatalog.cpu_ops.functions import Scope
from gdatalog.engine.context import ExecutionContext, StratumInputs
from gdatalog.engine.derived import Derived, Rows, together, union_rows
from gdatalog.engine.device import Device
from gdatalog.engine.fixpoint import NO_PARTS, Parts, StratumRun
from gdatalog.engine.fixpoint.delta import DeltaRelation
from gdatalog.engine.fixpoint.lattice_rounds import LatticeRounds
from gdatalog.engine.fixpoint.variants import Variant
from gdatalog.engine.metrics import Metrics, RuleRound
from gdatalog.engine.session import Knobs
from gdatalog.errors import Caution
from gdatalog.executors.levelwise import StepCounts
from gdatalog.plan import TrieRef
from gdatalog.plan.effects import all_steps
from gdatalog.plan.tuning import Tuning
from gdatalog.planner.check import Schema, Stratum
from gdatalog.records import dataclass
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import Columns, concatenate
from gdatalog.storage.sorting import sort_rows
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.trie import Trie
from gdatalog.values import TypeName, Value

SMALL = 1 << 14  # bytes that a step may send through the driver

# Rows by relation or distribution: columns, and the number of rows, which matters without columns.
Parcel = dict[str, Rows]
# An owner's rows: the kind of table, its name, the number of rows, and their blocks.
TableBlocks = tuple[str, str, int, Iterable[Columns]]


class StaleState(Lost):
    """A later step has changed the owner's state, and its result is lost."""


@dataclass(frozen=True, slots=True)
class PartitionTask:
    """What all owners' steps have in common. `rules`: the number of each plan's rule. `counted`:
    count rows, for a profile."""

    stratum: Stratum
    schemas: Mapping[str, Schema]
    routes: Routes
    rules: tuple[int, ...]
    passing: frozenset[str]
    owners: int
    params: Mapping[str, Value]
    memory: int
    knobs: Knobs
    counted: bool
    tuning: Tuning = Tuning()


@dataclass(slots=True)
class RuleStep:
    """What a rule did in a step: see `RuleRound`. `new`: rows that this owner had not derived
    before, if that is counted."""

    tried: int
    new: int
    seconds: float
    executors: dict[int, str]


@dataclass(slots=True)
class StepSummary:
    """What the driver needs to know of a step.

    `out`: the bytes that it has for each owner; `small`: the rows themselves if they are few.
    `new`: the number of new rows of each relation; `total`: of all rows. `sample`: a group that
    improved, of each lattice relation.
    """

    out: dict[int, int]
    small: dict[int, Parcel] | None
    new: dict[str, int]
    total: dict[str, int]
    sample: dict[str, Sequence[tuple[str, int, Any]]]
    rules: dict[int, RuleStep]
    cautions: list[Caution]
    moved: int
    held: int
    seconds: float


class StepOutput(dict[Any, Any]):
    """The result of a step: its "state", its "summary", and a `ShuffleBlock` for each owner that
    gets rows. A repeated step may have no rows where it had some, because their owners have them by
    now."""

    def __missing__(self, owner: int) -> ShuffleBlock:
        return ShuffleBlock({}, own_address(), 0)


def given(owner: HashPartition, told: StepSummary | None, out: Mapping[int, Parcel]) -> StepOutput:
    here = own_address()
    pieces = {to: ShuffleBlock(parcel, here, size_of(parcel)) for to, parcel in out.items()}
    found = StepOutput(state=PartitionState(owner), summary=told)
    found.update(pieces)
    return found


class PartitionState:
    """An owner's state after a step. The next step takes the state over and changes it. On another
    worker, the state is rebuilt from blocks of rows, if they are unchanged."""

    def __init__(self, owner: HashPartition | None, moved: Sequence[TableBlocks] | None = None):
        self._owner = owner
        self._moved = moved
        self._lock = Lock()

    def take(self, made: Callable[[], HashPartition]) -> HashPartition:
        """Takes the owner over; `made` creates an empty one if this process does not have it."""
        with self._lock:
            owner, self._owner = self._owner, None
        if owner is None:
            moved, owner = list(self.blocks()), made()
            for table, name, count, blocks in moved:
                for rows in blocks or [()]:
                    owner.load(table, name, (rows, len(rows[0]) if rows else count))
        return owner

    def home_rows(self, name: str) -> Rows:
        """The home rows of a relation."""
        for table, of, count, blocks in self.blocks():
            if (table, of) == ("homes", name):
                return concatenate(list(blocks)), count
        raise KeyError(name)

    def seen(self) -> list[dict[int, StepCounts]]:
        """Row counts of the plans' steps, if this process has them."""
        owner = self._owner
        return [] if owner is None else owner.seen()

    def blocks(self) -> Iterator[TableBlocks]:
        """The rows from which another worker can rebuild the state."""
        with self._lock:
            if self._owner is not None:
                yield from self._owner.blocks()
            elif self._moved is None:
                raise StaleState
            else:
                yield from self._moved

    def __sizeof__(self) -> int:
        owner = self._owner
        return 0 if owner is None else owner.nbytes

    def __reduce__(self) -> tuple[Any, ...]:
        try:
            moved = [(*told, list(blocks)) for *told, blocks in self.blocks()]
        except StaleState:
            moved = None
        return PartitionState, (None, moved)


class HashPartition(StratumRun):
    """A worker's partition of a stratum's rows, and the rules that run over it."""

    def __init__(
        self,
        task: PartitionTask,
        number: int,
        tries: Mapping[TrieRef, Trie],
        fragments: Mapping[str, Relation],
        symbols: SymbolTable,
    ) -> None:
        self.task = task
        self.number = number
        self.tries = tries
        self.fragments = fragments
        limits, scope = Limits(memory=task.memory), Scope(symbols, task.params)
        context = ExecutionContext(
            limits, scope, Metrics(task.counted), task.knobs, tuning=task.tuning
        )
        inputs = StratumInputs(context, task.schemas, {}, fragments.__getitem__)
        super().__init__(task.stratum, inputs)
        routes = task.routes
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

    def called_by(self, limits: Limits) -> None:
        """Uses the current caller's limits from now on."""
        self.context.limits.watch, self.context.limits.poll = limits.watch, limits.poll

    @property
    def nbytes(self) -> int:
        return sum(table.nbytes for table in (*self.tables.values(), *self.homes.values()))

    # -------------------------------------------------------------------- from place to place

    def _stays(self) -> Iterator[tuple[str, DeltaRelation | LatticeRounds]]:
        """The home tables that are needed later."""
        for name, table in self.homes.items():
            if name not in self.task.passing or isinstance(table, LatticeRounds):
                yield name, table

    def blocks(self) -> Iterator[TableBlocks]:
        """The rows from which another worker can rebuild this partition."""
        indexes = ((name, self.tables[name]) for name in self.task.routes.indexes)
        for table, some in (("homes", self._stays()), ("indexes", indexes)):
            for name, each in some:
                blocks = each.blocks() if each.types and each.length else [each.full().rows]
                yield table, name, each.length, blocks if each.types else ()

    def load(self, table: str, name: str, rows: Rows) -> None:
        """Adds rows that `blocks` returned."""
        tables = self.homes if table == "homes" else self.tables
        tables[name].add(*rows)

    def trie_of(self, ref: TrieRef, device: Device | None = None, parts: Parts = NO_PARTS) -> Trie:
        found = self.tries.get(ref)
        return super().trie_of(ref, device, parts) if found is None else found

    # ------------------------------------------------------------------------------- steps

    def settle(self, inbox: Sequence[Parcel]) -> dict[str, Relation]:
        """Adds derived rows to the home tables; returns the new ones."""
        news: dict[str, Relation] = {}
        for name, table in self.homes.items():
            parts = [parcel[name] for parcel in inbox if name in parcel]
            rows, count = union_rows(parts, self.ops)
            news[name] = table.add(rows, count)
            self.context.limits.charge(f"{name} at home", table.nbytes)
        return news

    def routed(self, news: Mapping[str, Relation]) -> dict[int, Parcel]:
        """The news, by owners whose rules follow or look them up."""
        out: dict[int, Parcel] = {}
        for name, place in self.task.routes.places.items():
            new = news[place.relation]
            if new.length:
                self._deal(out, name, place, (new.rows, new.length))
        return out

    def _deal(self, out: dict[int, Parcel], name: str, place: Distribution, rows: Rows) -> None:
        if self.task.routes.at_home(place):
            out.setdefault(self.number, {})[name] = rows
        elif place.by == ALL:
            for owner in range(self.task.owners):
                out.setdefault(owner, {})[name] = rows
        else:
            assert isinstance(place.by, int)
            for owner, mine in rows_by_partition(rows, (place.by,), self.task.owners).items():
                out.setdefault(owner, {})[name] = mine

    def receive(self, inbox: Sequence[Parcel]) -> None:
        """Makes news available to rules, and adds them to the indexes."""
        routes = self.task.routes
        for name, place in routes.places.items():
            parts = [parcel[name] for parcel in inbox if name in parcel]
            rows, count = union_rows(parts, self.ops)
            known = self.tables.get(name)
            if known is None:
                schema = self.inputs.schemas[place.relation]
                self.deltas[name] = (
                    Relation.of_blocks(schema.columns, schema.types, [rows], count, True)
                    if count
                    else Relation.empty(schema.columns, schema.types)
                )
                continue
            if isinstance(known, LatticeRounds):
                self.olds[name] = known.full()
            self.deltas[name] = known.add(rows, count)
            if isinstance(known, DeltaRelation):
                known.take_turn(False)
            self.context.limits.charge(f"{name} to look up", known.nbytes)

    def follow(self) -> tuple[dict[int, Parcel], dict[int, RuleStep]]:
        """Runs the rules on the news; returns derived rows that were not sent before, by home
        owner."""
        derived: dict[str, list[Derived]] = {}
        found: dict[str, int] = {}
        did: dict[int, RuleStep] = {}
        told: list[tuple[RuleRound, RuleStep]] = []
        for rule, variant in zip(self.task.rules, self.variants, strict=True):
            if not self.deltas[variant.follows].length:
                continue
            rows, done = variant.follow()
            name = variant.plan.relation
            found[name] = found.get(name, 0) + variant.found
            if rows:
                derived.setdefault(name, []).append(together(rows))
            told.append((done, mine := did.setdefault(rule, RuleStep(0, 0, 0.0, {}))))
            mine.tried += done.tried
            mine.seconds += done.seconds
            mine.executors |= done.executors
        for name in self.task.routes.indexes:
            table = self.tables[name]
            if isinstance(table, DeltaRelation):
                table.take_turn(True)
        out: dict[int, Parcel] = {}
        for name in self.homes:
            new = self._add(name, derived.get(name, ()), found.get(name, 0))
            self.context.limits.charge(name, self.tables[name].nbytes)
            home = self.task.routes.homes[name]
            for owner, part in rows_by_partition(_rows_of(new), home, self.task.owners).items():
                out.setdefault(owner, {})[name] = part
        for done, mine in told:
            mine.new += done.new or 0
        self.record.end_round()
        self.record.rules.clear()
        return out, did

    def seen(self) -> list[dict[int, StepCounts]]:
        """Row counts at each plan's steps, by the step's place."""
        found: list[dict[int, StepCounts]] = []
        for plan in self.task.routes.plans:
            report = self.context.metrics.run_of(plan)
            seen = {} if report is None else report.seen
            steps = all_steps(plan.joins[0].steps)
            found.append({at: seen[id(s)] for at, s in enumerate(steps) if id(s) in seen})
        return found


def _rows_of(relation: Relation) -> Rows:
    count = relation.length
    return (relation.rows if relation.types else ()), count


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
    task: PartitionTask,
    number: int,
    tries: Mapping[TrieRef, Trie],
    fragments: Mapping[str, Relation],
    symbols: SymbolTable,
    first: bool,
    before: StepOutput | None,
    inbox: Sequence[ShuffleBlock | Parcel | None],
) -> StepOutput:
    """Runs an owner's step on its state `before`; returns the new state, and rows for owners.

    `first`: the inbox has derived rows to settle; else news to follow. A None in the inbox stands
    for this owner's own output of the step `before`.
    """
    began = perf_counter()

    def made() -> HashPartition:
        return HashPartition(task, number, tries, fragments, symbols)

    owner = made() if before is None else before["state"].take(made)
    owner.called_by(Limits())
    pieces = [before[number] if each is None and before is not None else each for each in inbox]
    moved = sum(each.moved for each in pieces if isinstance(each, ShuffleBlock))
    parcels: list[Parcel] = [e.value if isinstance(e, ShuffleBlock) else e for e in pieces if e]
    news: dict[str, Relation] = {}
    rules: dict[int, RuleStep] = {}
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
        perf_counter() - began,
    )
    return given(owner, told, out)


def summary_of(found: StepOutput) -> StepSummary:
    told: StepSummary = found["summary"]
    return told


def seen_of(found: StepOutput) -> list[dict[int, StepCounts]]:
    """Row counts of an owner's plans."""
    state: PartitionState = found["state"]
    return state.seen()


def rows_at_home(found: StepOutput, name: str) -> Columns:
    """An owner's home rows of a relation, after its last step."""
    state: PartitionState = found["state"]
    return state.home_rows(name)[0]


def size_of(parcel: Parcel) -> int:
    return 64 + sum(column.nbytes for columns, _ in parcel.values() for column in columns)


def parcels_of(values: Sequence[Any], owners: int, name: str, home: Sequence[int]) -> list[Parcel]:
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
