"""A fixpoint whose rows are hash-partitioned among workers, the owners: they exchange new rows in
each round.

The driver sends the first rows, tells owners in each round where their input is, and counts rows.
When a worker dies, its rows are lost. Then all owners go back to the last checkpoint
(`checkpoints.py`), or start again if there is none.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from time import perf_counter, sleep
from typing import Any

from gdatalog.cluster.pool.calls import Call, Lost, RemoteValue
from gdatalog.cluster.pool.task_stage import Pool, TaskStage
from gdatalog.cluster.recursion.checkpoints import Checkpoints, seated
from gdatalog.cluster.recursion.hash_partition import OwnerInputs, PartitionTask
from gdatalog.cluster.recursion.key_ranges import memory_of
from gdatalog.cluster.recursion.owner_steps import SMALL, StepSummary, rows_at_home, seen_of, step
from gdatalog.cluster.recursion.routes import (
    Parcel,
    Routes,
    fragment_of,
    parcels_of,
    routes_of,
    rows_by_partition,
)
from gdatalog.cluster.rows.shuffle import Shuffle, parts_of, size_of, stays_remote
from gdatalog.cluster.rows.texts import asks_for_ranks, expressions_of, makes_texts, texts_for
from gdatalog.cluster.workers.own_process import CallContext
from gdatalog.engine.context import StratumInputs
from gdatalog.engine.derived import Derived, far_rows, in_order, union_rows
from gdatalog.engine.device import CPU
from gdatalog.engine.fixpoint.lattice_rounds import LatticeRounds, improves_for_ever, is_clamped
from gdatalog.engine.metrics import Mark, Round, RuleRound
from gdatalog.engine.operators.semi_naive import Rounds, SemiNaive
from gdatalog.engine.variants import alone
from gdatalog.errors import DeviceError, MemoryLimitError
from gdatalog.executors.sinks import StepCounts
from gdatalog.plan.effects import all_steps
from gdatalog.plan.join_plan import RulePlan
from gdatalog.plan.placement import ExecutorChoice
from gdatalog.progress import format_bytes
from gdatalog.records import dataclass, field, replace
from gdatalog.storage.on_device import brought
from gdatalog.storage.relation import Relation
from gdatalog.storage.remote import Keeper, RemoteRows

TIMES = 4  # how often a round may start that a worker does not survive
# Seconds to wait for a replacement of a dead worker, before others take its part; at most as long
# as the fixpoint has run.
SOON = 5.0
LOOK = 0.05  # seconds between checks for new workers


@dataclass(slots=True)
class _Course:
    """The state of the rounds: the rows of the owners, rows in transit, and the owners' summaries.

    `inbox`: for each owner, the numbers of the owners that have rows for it, or rows that come from
    the driver. `told`: each owner's last summary. `mark`: the position in the profile's record.
    `followed`: the figures of rules of which it is not known yet how many of their rows are new.
    """

    mark: Mark
    kept: dict[int, RemoteValue] = field(default_factory=dict)
    inbox: dict[int, list[object]] = field(default_factory=dict)
    told: dict[int, StepSummary] = field(default_factory=dict)
    rounds: list[Round] = field(default_factory=list)
    moved: int = 0
    followed: list[RuleRound] = field(default_factory=list)

    def again(self, kept: dict[int, RemoteValue], mark: Mark) -> _Course:
        """An independent copy."""
        told, rounds = dict(self.told), list(self.rounds)
        return replace(self, mark=mark, kept=kept, inbox=dict(self.inbox), told=told, rounds=rounds)

    def rows(self, name: str) -> int:
        """The number of rows of a relation."""
        return sum(each.total[name] for each in self.told.values())


class HashPartitions:
    """A recursive stratum, and the workers that own its rows. `parted`: relations that do not grow
    are partitioned too; otherwise each worker gets all that its rules read."""

    def __init__(
        self,
        pool: Pool,
        keeper: Keeper,
        rounds: SemiNaive,
        inputs: StratumInputs,
        parted: bool,
    ) -> None:
        self.pool = pool
        self.keeper = keeper
        self.how, self.passing = rounds.projections, rounds.passing
        self.run = Rounds(rounds.prepare(inputs.context), inputs)
        self.inputs, self.context = self.run.inputs, inputs.context
        self.parted = parted
        self.rules: list[int] = []
        self.wholes: list[RulePlan] = []
        self.plans: list[RulePlan] = []
        for number, (_, whole) in enumerate(rounds.of.plans):
            if whole is not None:
                self.plans += [alone(whole, join) for join in range(len(whole.joins))]
                self.rules += [number] * len(whole.joins)
                self.wholes += [whole] * len(whole.joins)
        groups = {
            name: table.by if isinstance(table, LatticeRounds) else range(len(table.types))
            for name, table in self.run.tables.items()
        }
        self.routes: Routes = routes_of(
            self.plans, groups, lambda name: inputs.relation(name).at_most, parted
        )

    # --------------------------------------------------------------------------------- running

    def relations(self) -> dict[str, Relation]:
        """Runs the fixpoint; returns its relations."""
        threads = self.pool.workers
        self.workers: Sequence[str] = sorted(threads)
        self.threads = min(threads.values(), default=1)
        derived = {name: self.run.first(name) for name in self.run.tables}
        self.begun = self.run.record.end_round()
        self.begin = self.run.record.mark()
        self.began = perf_counter()
        self._place()
        self.checkpoints = Checkpoints(self.pool, self.run.name, self.context.limits)
        self.deaths: Counter[int] = Counter()  # by round
        course = self._first(derived)
        try:
            while (found := self._fixpoint(course)) is None:
                number = len(course.rounds)
                self.deaths[number] += 1
                if self.deaths[number] == TIMES:
                    raise DeviceError(
                        f"round {number} of {self.run.name} was started {TIMES} times, and each "
                        "time a worker was lost",
                        hint="see the logs of the cluster's workers; they may have too little "
                        "memory",
                    )
                course.kept.clear()  # frees the old states first
                course = self._back(derived)
        except BaseException:
            self.checkpoints.drop()
            raise
        self.checkpoints.last = None
        for name, relation in found.items():
            self.context.limits.charge(name, relation.nbytes)
            self.context.device.hold(relation)
        self._record(found)
        return found

    def _fixpoint(self, course: _Course) -> dict[str, Relation] | None:
        """The fixpoint's relations; None if a worker died with its rows."""
        try:
            return self._rounds(course)
        except Lost as lost:
            lost.__traceback__ = None  # frees what the frames hold
            return None

    def _rounds(self, course: _Course) -> dict[str, Relation]:
        limits = self.context.limits
        self.course = course
        with limits.watch.work("round", self.run.name, unit="rows") as work:
            try:
                settling = True
                while course.inbox:
                    if settling and course.kept:
                        self._checkpoint(course)
                    told = self._step(settling, course)
                    if settling:
                        self._round(told, course).tell(work)
                        work.round = len(course.rounds)
                    else:
                        course.followed = self._rule_metrics(told)
                    if not self.routes.aligned:
                        settling = not settling
            except MemoryLimitError as error:
                raise self.run.growth(error, course.rounds) from None
            for did in course.followed:
                did.new = 0
            return self._collected(course)

    def _checkpoint(self, course: _Course) -> None:
        """Writes a checkpoint if it is due."""
        held = sum(each.held for each in course.told.values())
        if not self.checkpoints.due(held):
            return
        out = {each for pieces in course.inbox.values() for each in pieces if isinstance(each, int)}
        if self.checkpoints.make(course.kept, out, self.workers, held):
            self.saved = course.again({}, self.run.record.mark())

    def _back(self, derived: Mapping[str, Sequence[Derived]]) -> _Course:
        """The state to continue from, after an owner was lost."""
        until = perf_counter() + min(SOON, perf_counter() - self.began)
        while len(there := self.pool.workers) < len(set(self.workers)) and perf_counter() < until:
            self.context.limits.poll()
            sleep(LOOK)
        self.workers = seated(self.workers, there)
        course = None
        if self.checkpoints.last is not None:
            with suppress(Lost):
                kept = self.checkpoints.restored(self.owners, self.workers)
                course = self.saved.again(kept, self.saved.mark)
        if course is None:  # there is no checkpoint, or a part of it is lost
            self.checkpoints.drop()
            course = self._first(derived)
        self.run.record.back_to(course.mark)
        self.checkpoints.wait()
        return course

    def _first(self, derived: Mapping[str, Sequence[Derived]]) -> _Course:
        """The first rows, in transit to their home owners."""
        inbox: defaultdict[int, list[object]] = defaultdict(list)
        parcels: defaultdict[int, Parcel] = defaultdict(dict)
        for name, parts in derived.items():
            ops, home = self.run.ops, self.routes.homes[name]
            near = [in_order(part, ops) for part in parts if remote_rows_of(part) is None]
            for rows in filter(None, map(remote_rows_of, parts)):
                values = [part.value for part in rows.parts]
                pieces = self._shuffle(name).partition(values, parcels_of, name, home)
                for owner, mine in enumerate(pieces):
                    inbox[owner] += mine
            columns, count = union_rows(near, ops)
            here = tuple(map(brought, columns)), count
            for owner, own in rows_by_partition(here, home, len(self.workers)).items():
                parcels[owner][name] = own
        for owner, parcel in parcels.items():
            size = sum(column.nbytes for rows, _ in parcel.values() for column in rows)
            inbox[owner].append(parcel if size <= SMALL else self.pool.broadcast(None, parcel))
        return _Course(self.begin, inbox=inbox, followed=list(self.begun))

    def _place(self) -> None:
        """Places what the rules read of relations that do not grow."""
        pool, owners = self.pool, len(self.workers)
        made = {ref: self.run.trie_of(ref, CPU) for ref in self.routes.whole}
        tries: Any = {ref: pool.broadcast(id(trie), trie) for ref, trie in made.items()}
        symbols: Any = texts_for(pool, self.plans, self.context.scope)
        fragments: list[dict[str, Any]] = [{} for _ in range(owners)]
        for name, place in self.routes.fragments.items():
            assert isinstance(place.by, int)
            relation = self.inputs.relation(place.relation)
            schema = relation.columns, relation.types
            if isinstance(relation.store, RemoteRows) and relation.store.unfetched:
                values = [part.value for part in relation.store.parts]
                shuffle = self._shuffle(place.relation)
                pieces = shuffle.partition(values, parcels_of, name, (place.by,))
                merged = shuffle.merge(pieces, fragment_of, name, *schema)
                for mine, kept in zip(fragments, merged, strict=True):
                    mine[name] = kept
                continue
            dealt_out = rows_by_partition((relation.rows, relation.length), (place.by,), owners)
            for owner, mine in enumerate(fragments):
                columns, count = dealt_out.get(owner, ((), 0))
                blocks = [columns] if count else []
                part = Relation.of_blocks(*schema, blocks, count, True)
                mine[name] = pool.broadcast(None, part)
        stratum = self.run.stratum
        schemas = {name: self.inputs.schemas[name] for name in stratum.relations}
        places = {**self.routes.places, **self.routes.fragments}
        schemas |= {name: self.inputs.schemas[p.relation] for name, p in places.items()}
        memory = memory_of(self.pool, self.context, self.threads)
        context = CallContext.of(self.context, memory, self.threads)
        rules, passing = tuple(self.rules), frozenset(self.passing)
        task = PartitionTask(stratum, schemas, self.routes, rules, passing, owners, context)
        self.owners = [
            OwnerInputs(task, owner, tries, mine, symbols) for owner, mine in enumerate(fragments)
        ]

    def _shuffle(self, told: str) -> Shuffle:
        return Shuffle(self.pool, told, self.context.limits, self.workers)

    def _step(self, settling: bool, course: _Course) -> dict[int, StepSummary]:
        """Runs a step of each owner that has input; returns the summaries."""
        stage = self._stage(course)
        for owner, pieces in course.inbox.items():
            before = course.kept.get(owner)
            inbox = [  # None stands for this owner's own output
                (None if each == owner else course.kept[each].part(owner))
                if isinstance(each, int)
                else each
                for each in pieces
            ]
            args = self.owners[owner], settling, before, inbox
            stage.add(Call(step, args, True, self.workers[owner], owner, itemgetter("summary")))
        told: dict[int, StepSummary] = {}
        with self.context.limits.watch.work("joining"):
            for call, kept in stage:
                course.kept[call.tag] = kept
                told[call.tag] = kept.summary
        course.inbox = defaultdict(list)
        for owner, each in sorted(told.items()):
            course.moved += each.moved
            for caution in each.cautions:
                self.context.scope.cautions.setdefault(caution.message, caution)
            for to in each.out:
                course.inbox[to].append(owner if each.small is None else each.small[to])
        course.told |= told
        return told

    def _stage(self, course: _Course) -> TaskStage:
        stage = self.pool.stage(self.run.name, self.context.limits)
        stage.unrecoverable = list(course.kept.values())
        return stage

    def _round(self, told: Mapping[int, StepSummary], course: _Course) -> Round:
        """Summarises a round, after all derived rows have settled."""
        names = [name for name in self.run.tables if name not in self.passing]
        new = {n: sum(each.new.get(n, 0) for each in told.values()) for n in self.run.tables}
        total = {name: course.rows(name) for name in names}
        followed, aligned = course.followed, self.routes.aligned
        for name, count in new.items():
            _share_out([did for did in followed if did.relation == name], count)
        course.followed = self._rule_metrics(told) if aligned else []
        ran = course.followed if aligned else course.rounds and followed
        if ran:
            self.run.record.end_round()
        course.rounds.append(Round(len(course.rounds), new, total))
        self._check_improving(told, total, len(course.rounds) - 1)
        return course.rounds[-1]

    def _check_improving(
        self, told: Mapping[int, StepSummary], total: Mapping[str, int], number: int
    ) -> None:
        """Like in `Rounds`: raises if best values improve for ever."""
        run = self.run
        if number <= sum(total.values()) + 1 or any(map(is_clamped, run.stratum.rules)):
            return
        for each in told.values():
            for name, group in each.sample.items():
                rule = next(r for r in run.rules[name] if run.recursive(r))
                raise improves_for_ever(name, group, self.context.scope.symbols, rule)

    def _collected(self, course: _Course) -> dict[str, Relation]:
        """The relations: fetched, or if they are large left with their owners."""
        names = [name for name in self.run.tables if name not in self.passing]
        rows = {name: course.rows(name) for name in names}
        tables = self.run.tables
        stays = {
            name
            for name in names
            if tables[name].types
            and stays_remote(rows[name] * 8 * len(tables[name].types), self.context)
        }
        stage = self._stage(course)
        for owner, kept in course.kept.items():
            worker = self.workers[owner]
            stage.add(Call(seen_of, (kept,), worker=worker))
            for name in names:
                args = kept, name
                stage.add(Call(rows_at_home, args, name in stays, worker, name, size_of))
        given: dict[str, list[Any]] = {name: [] for name in names}
        for call, some in stage:
            if call.tag is None:
                self._saw(some)
            else:
                given[call.tag].append(some)
        found: dict[str, Relation] = {}
        for name in names:
            columns, types = tables[name].columns, tables[name].types
            if name in stays:
                parts = parts_of(given[name])
                found[name] = Relation.of_parts(columns, types, parts, self.keeper, True)
            else:
                found[name] = Relation.of_blocks(columns, types, given[name], rows[name], True)
        return found

    # --------------------------------------------------------------------------------- telling

    def _rule_metrics(self, told: Mapping[int, StepSummary]) -> list[RuleRound]:
        """Records what rules did in a round, on all workers together."""
        done: dict[int, RuleRound] = {}
        record = self.run.record
        for each in told.values():
            seconds: defaultdict[int, float] = defaultdict(float)
            for mine in each.rules:
                rule = self.run.stratum.rules[mine.rule]
                did = done.get(mine.rule)
                if did is None:
                    did = done[mine.rule] = record.running(rule.head.name, rule)
                did.tried += mine.tried
                did.new = (did.new or 0) + mine.new
                seconds[mine.rule] += mine.seconds
                did.seconds = max(did.seconds, seconds[mine.rule])
                did.executors |= mine.executors
        for did in done.values():
            record.ran(did)
        return list(done.values())

    def _saw(self, seen: Sequence[Mapping[int, StepCounts]]) -> None:
        """Adds the row counts of an owner's plans to the profile."""
        for plan, whole, places in zip(self.plans, self.wholes, seen, strict=False):
            report = self.context.metrics.run_of(whole)
            if report is not None:
                steps = list(all_steps(plan.joins[0].steps))
                report.saw({id(steps[at]): told for at, told in places.items()})

    def _record(self, found: Mapping[str, Relation]) -> None:
        """Records the fixpoint in the profile."""
        run, workers = self.run, len(self.workers)
        moved = f"{format_bytes(self.course.moved)} of rows moved between them"
        run.record.how = (*self.how, f"rounds on {workers} worker{'s' * (workers > 1)}: {moved}")
        made, lost = self.checkpoints.made, self.deaths.total()
        if made or lost:
            back = f", {lost} time{'s' * (lost > 1)} gone back for a lost worker" if lost else ""
            run.record.how += (f"{made} checkpoint{'s' * (made != 1)}{back}",)
        run.record.end({name: relation.length for name, relation in found.items()})
        for whole in {id(plan): plan for plan in self.wholes}.values():
            report = self.context.metrics.run_of(whole)
            if report is not None:
                rule = run.prepared_rules.rule_of(whole)
                rounds = [did for did in run.record.rules if did.rule is rule]
                report.rows = sum(did.tried for did in rounds if did.round)
                report.seconds = sum(did.seconds for did in rounds if did.round)
                report.executors = {
                    number: ExecutorChoice(kind == "breadth-first", "in rounds on workers")
                    for did in rounds
                    for number, kind in did.executors.items()
                }


def remote_rows_of(derived: Derived) -> RemoteRows | None:
    """Derived rows that are on workers; None if they are in the driver."""
    rows = far_rows(derived)
    return rows if rows is not None and rows.unfetched else None


def _share_out(rules: Sequence[RuleRound], new: int) -> None:
    """Distributes the number of new rows among rules, in proportion to the rows that each owner
    derived for the first time."""
    before = sum(did.new or 0 for did in rules)
    left = new
    for did in rules:
        did.new = min(left, round(new * (did.new or 0) / before)) if before else 0
        left -= did.new
    if rules:
        rules[-1].new = (rules[-1].new or 0) + left


def refusal_of(limited: bool, plans: Sequence[RulePlan]) -> str | None:
    """Why workers cannot own the rows of a recursive stratum; None if they can. `limited`: whether
    it has a `.limitsize`."""
    if limited:
        return "only one process can stop it at a limit size"
    if any(map(asks_for_ranks, plans)):
        return "it uses ord() of symbols"
    if any(makes_texts((*expressions_of(plan), *plan.head)) for plan in plans):
        return "it makes new texts"
    return None
