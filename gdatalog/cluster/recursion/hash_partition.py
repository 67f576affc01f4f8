"""An owner of a hash partition of a fixpoint's rows: what a worker does in each round.

Owners send each other derived rows, which other owners may know already, and deltas, which are new.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from gdatalog.cluster.recursion.routes import ALL, Distribution, Parcel, Routes, rows_by_partition
from gdatalog.cluster.workers.own_process import CallContext
from gdatalog.engine.context import StratumInputs
from gdatalog.engine.derived import Derived, Rows, together, union_rows
from gdatalog.engine.fixpoint.delta import DeltaRelation
from gdatalog.engine.fixpoint.lattice_rounds import LatticeRounds
from gdatalog.engine.planned_rules import PlannedRules
from gdatalog.engine.stratum_run import StratumRun
from gdatalog.engine.variants import Variant
from gdatalog.executors.sinks import StepCounts
from gdatalog.plan.effects import all_steps
from gdatalog.plan.join_plan import TrieRef
from gdatalog.planner.check import Schema, Stratum
from gdatalog.records import dataclass
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import Columns
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.trie import Trie

# Rows of an owner: the kind of table, its name, the columns, and the number of rows.
TableBlock = tuple[str, str, Columns, int]


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


class HashPartition:
    """A worker's partition of a stratum's rows, and the rules that run over it.

    The tables of `run` are what this owner has derived so far, and the rows that rules look up.
    `homes`: the rows that it owns.
    """

    def __init__(self, given: OwnerInputs) -> None:
        self.owned, self.task = given, given.task
        task, routes = given.task, given.task.routes
        self.context = task.context.here(given.symbols)
        relation = given.fragments.__getitem__
        inputs = StratumInputs(self.context, task.schemas, {}, relation, tries=given.tries)
        self.run = StratumRun(PlannedRules(task.stratum, ()), inputs)
        self.tables = self.run.tables
        self.homes = {name: self.run.new_table(name) for name in task.stratum.relations}
        for name, table in self.tables.items():
            if isinstance(table, DeltaRelation):
                table.passing = True
            if name in task.passing and isinstance(own := self.homes[name], DeltaRelation):
                own.passing = True
        for name in routes.indexes:
            table = self.tables[name] = self.run.new_table(routes.places[name].relation)
            if isinstance(table, DeltaRelation):
                table.indexed = True
        self.variants = [
            Variant(self.run, task.stratum.rules[rule], plan, 0)
            for rule, plan in zip(task.rules, routes.plans, strict=True)
        ]

    @property
    def nbytes(self) -> int:
        return sum(table.nbytes for table in (*self.tables.values(), *self.homes.values()))

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

    def settle(self, inbox: Sequence[Parcel]) -> dict[str, Relation]:
        """Adds derived rows to the home tables; returns the new ones."""
        news: dict[str, Relation] = {}
        for name, table in self.homes.items():
            news[name] = table.add(*self._received(name, inbox))
            self.context.limits.charge(f"{name} at home", table.nbytes)
        return news

    def _received(self, name: str, inbox: Sequence[Parcel]) -> Rows:
        parts = [parcel[name] for parcel in inbox if name in parcel]
        return union_rows(parts, self.run.ops)

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
                schema, blocks = self.run.inputs.schemas[place.relation], [rows] if count else []
                self.run.deltas[name] = Relation.of_blocks(
                    schema.columns, schema.types, blocks, count, True
                )
                continue
            if isinstance(known, LatticeRounds):
                self.run.olds[name] = known.full()
            self.run.deltas[name] = known.add(rows, count)
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
            if not self.run.deltas[variant.follows].length:
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
            new = self.run.add(name, derived[name], found[name])
            self.context.limits.charge(name, self.tables[name].nbytes)
            home = self.task.routes.homes[name]
            fresh = (new.rows if new.types else ()), new.length
            for owner, part in rows_by_partition(fresh, home, self.task.owners).items():
                out[owner][name] = part
        self.run.record.end_round()
        self.run.record.rules.clear()
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
