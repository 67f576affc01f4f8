"""A run of a partitioned fixpoint: its first rows, its loops, and what later runs share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from time import perf_counter
from typing import TYPE_CHECKING, Any
from weakref import ref as weak

import numpy as np

from gdatalog.calls import GiveUp, LoopRun
from gdatalog.engine.context import ExecutionContext, StratumInputs
from gdatalog.engine.depth import counted, counts_of, printed_once
from gdatalog.engine.derived import DistinctBlocks, count_of
from gdatalog.engine.device import CPU
from gdatalog.engine.draft import StratumDraft
from gdatalog.engine.fixpoint.spans import Spans, limits_of, narrow, spans_of, stamps_for
from gdatalog.engine.fixpoint.start_groups import RowsByColumn, copied, grouped, order_by
from gdatalog.engine.kept_runs import RunFor, key_of, run_for
from gdatalog.engine.metrics import Way
from gdatalog.engine.prepared_rules import PreparedRules
from gdatalog.engine.stratum_run import StratumRun
from gdatalog.errors import MemoryLimitError
from gdatalog.executors.partitioned import ListRoom
from gdatalog.overhead import Costs, time_spent
from gdatalog.plan.effects import longest_first
from gdatalog.plan.join_plan import JoinPlan, Parameter, RulePlan, TrieRef
from gdatalog.plan.placement import Shared
from gdatalog.records import cached_property, dataclass, field, replace
from gdatalog.storage.on_device import brought, is_on_host
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import Span
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie

if TYPE_CHECKING:
    from gdatalog.printer.module import PrintedPlan
    from gdatalog.printer.worklist import Listed, Recursive

LIST_BYTES = 5  # of a GPU's tile: its list and stamps, for each possible row
HERE = 1 << 20  # visits of rows that cannot take long
OFTEN = 2_000.0  # visits of a row by a fixpoint, for the choice of compiler passes


@dataclass(frozen=True, slots=True)
class Key:
    """A relation's column, by number and name."""

    relation: str
    column: int
    name: str

    def __str__(self) -> str:
        return f"{self.name} of {self.relation}"


def is_forced(context: ExecutionContext) -> bool:
    """Whether settings ask for compiled fixpoints."""
    return context.settings.split == "always" or context.settings.strategy == "lftj"


@dataclass(frozen=True, slots=True)
class PartitionedFixpoint:
    """A partitioned fixpoint that is ready to run: its loops, its values and the function's
    arguments."""

    run: PrintedPlan
    tries: Sequence[Trie]
    values: Array
    beside: Mapping[str, Array]
    rooms: Sequence[ListRoom]
    kept: list[Any] | None = None


@dataclass(eq=False)
class KeptFixpoint:
    """A partitioned fixpoint that a device keeps. `task`: without the tries; `launch`: its launch,
    with all buffers."""

    task: PartitionedFixpoint
    made_for: RunFor
    launch: Any = None

    @property
    def nbytes(self) -> int:
        found: int = self.launch.nbytes
        return found

    def leave(self) -> None:
        """Nobody reads its buffers."""

    @cached_property
    def values_here(self) -> Array:
        """Its values, on the host."""
        return brought(self.task.values)


@dataclass(eq=False)
class PreparedFixpoint:
    """What runs of a partitioned fixpoint share. The `task` of the last one serves another run over
    the same tries if its first rows are within `spans`, and have the same `dtypes`. `kept`: what
    the device's executor keeps."""

    rules: PreparedRules
    task: PartitionedFixpoint | None = None
    tries: Sequence[weak[Trie]] = ()
    spans: Spans = field(default_factory=dict)
    dtypes: object = None
    kept: list[Any] = field(default_factory=list)

    @cached_property
    def later(self) -> list[RulePlan]:
        return [plan for _, plan in self.rules.of.later]

    @cached_property
    def recursions(self) -> list[Recursive]:
        from gdatalog.printer.worklist import Recursive

        return [Recursive(join, plan.relation) for plan in self.later for join in plan.joins]

    @cached_property
    def refs(self) -> tuple[TrieRef, ...]:
        """The indexes that the recursive rules read."""
        return tuple(ref for rule in self.recursions for ref in rule.join.tries)

    @cached_property
    def reads_parameters(self) -> bool:
        """Whether parameters decide the range of what rules derive."""
        outputs = (output for rule in self.recursions for output in rule.join.outputs)
        return any(isinstance(output, Parameter) for output in outputs)


Groups = Mapping[str, RowsByColumn | None]  # of each relation; None: no rows


class PartitionedStratum(StratumRun):
    """One evaluation by a separate fixpoint for each value of a column."""

    def __init__(
        self,
        prepared: PreparedFixpoint,
        keys: Sequence[Key],
        inputs: StratumInputs,
        shared: Shared | None = None,
    ) -> None:
        super().__init__(prepared.rules, inputs)
        self.prepared = prepared
        self.kept: KeptFixpoint | None = None  # what serves later runs on a device
        self.keys = keys
        self.columns = {key.relation: key.column for key in keys}
        self.shared = shared

    @cached_property
    def read_rows(self) -> int:
        return StratumDraft(self.stratum, self.inputs).read_rows

    @property
    def recursions(self) -> list[Recursive]:
        return self.prepared.recursions

    def arity(self, name: str) -> int:
        return self.inputs.schemas[name].arity

    # ---------------------------------------------------------------------------------- seeds

    @cached_property
    def groups(self) -> Groups:
        """The rows that each relation has without recursion."""
        return {name: self._group(name) for name in self.stratum.relations}

    @cached_property
    def copies(self) -> Mapping[str, Trie]:
        """By relation, the trie that has its rows without recursion, where a rule only copies it;
        no rule derives rows of other relations without recursion, nor are they given."""
        found = {}
        for name, split in self.columns.items():
            plans = [plan for _, plan in self.prepared_rules.first(name) if plan.joins]
            if len(plans) == 1 and not any(map(count_of, self.inputs.seeds.get(name, ()))):
                ref = copied(plans[0], split)
                if ref is not None:
                    found[name] = self.trie_of(ref)
        return found

    def _group(self, name: str) -> RowsByColumn | None:
        trie = self.copies.get(name)
        if trie is not None:
            order = order_by(self.columns[name], self.arity(name))
            return grouped(trie, order) if trie.total else None
        relation = self.relation(name, self.first(name))
        return self._grouped(name, relation) if relation.length else None

    def _grouped(self, name: str, relation: Relation) -> RowsByColumn:
        order = order_by(self.columns[name], self.arity(name))
        return grouped(self.context.device.trie(relation, TrieRef(name, "full", order)), order)

    # ------------------------------------------------------------------------------- the task

    def task(self, seeds: Groups, counts: bool = False) -> PartitionedFixpoint | None:
        """The fixpoint to run; None if its rules cannot be printed."""
        from gdatalog.printer.worklist import Listed

        xp = self.ops.xp
        found = [group for group in seeds.values() if group is not None]
        if len(found) == 1:
            values = xp.ascontiguousarray(found[0].values)
        else:
            values = xp.unique(xp.concatenate([group.values for group in found]))
        refs = self.prepared.refs
        made = {ref: self.trie_of(ref) for ref in longest_first(refs)}
        tries = [made[ref] for ref in refs]
        beside = {"splits": values}
        for at, name in enumerate(self.stratum.relations):
            beside |= self._rows_beside(f"seeds_{at}", seeds[name], values, self._others(name))
            if counts:
                beside[f"counts_{at}"] = xp.zeros(len(values), dtype=xp.int64)
        again = self._again(seeds, tries, beside)
        if again is not None:
            return again
        held = {name: [group] if group else [] for name, group in seeds.items()}
        context = self.context
        arities = {name: self.arity(name) for name in seeds}
        spans = spans_of(self.recursions, held, arities, self.columns, made, context.scope)
        lists, rooms = [], []
        for at, name in enumerate(self.stratum.relations):
            own, others = spans[name], self._others(name)
            stamps = stamps_for([own[column] for column in others], context.thresholds.stamps_most)
            rows = {column: np.int32 if narrow(span) else np.int64 for column, span in own.items()}
            bytes_ = "uint8" if stamps <= context.thresholds.byte_stamps_most else "int32"
            written = tuple(np.dtype(rows[column]).name for column in sorted(rows))
            read = _dtypes(seeds[name], len(rows))
            stamp = bytes_ if stamps else None
            lists.append(Listed(name, self.columns[name], written, read, stamp))
            kept = [column for column in rows if not counts or column in others]
            room = {column: rows[column] for column in kept}
            rooms.append(ListRoom(room, stamps, not counts, bytes_))
            if stamps:
                beside[f"spans_{at}"] = xp.asarray(limits_of(own))
        if not self._enough(len(values), rooms):
            return None
        run = self._printed(lists, tries, values, counts)
        if run is None:
            return None
        task = PartitionedFixpoint(run, tries, values, {**beside, **counts_of(run)}, rooms)
        prepared = self.prepared
        if context.device is not CPU:
            return self._lasting(task)
        prepared.spans, prepared.dtypes = spans, self._dtypes_of(beside)
        lasting = {name: array for name, array in beside.items() if name.startswith("spans_")}
        prepared.tries = [weak(trie) for trie in tries]
        # Without rows and tries, which may be those of a single call.
        prepared.task = replace(task, tries=(), values=values[:0], beside=lasting)
        return replace(task, kept=prepared.kept)

    # ------------------------------------------------------------------- what a device keeps

    @cached_property
    def _joins(self) -> Sequence[JoinPlan]:
        """The joins that make up the fixpoint."""
        first = [plan for name in self.columns for _, plan in self.prepared_rules.first(name)]
        return [join for plan in (*self.prepared.later, *first) for join in plan.joins]

    def _lasting(self, task: PartitionedFixpoint) -> PartitionedFixpoint:
        """The task, which the device keeps if all its rows come from indexes."""
        if len(self.copies) < len(self.columns):
            return task
        made_for = run_for(self.context, self._joins, [*task.tries, *self.copies.values()])
        if made_for is None:
            return task
        task = replace(task, kept=[])
        self.kept = KeptFixpoint(replace(task, tries=()), made_for)
        return task

    def _kept(self, counts: bool) -> PartitionedFixpoint | None:
        """The fixpoint that the device has kept of a run over the same tries."""
        device = self.context.device.accelerator
        if device is None or self.context.metrics.lasting:
            return None
        if len(self.copies) < len(self.columns):
            return None
        kept: KeptFixpoint | None = device.kept_of(key_of(self._joins, [str(counts)]))
        tries = [self.trie_of(ref) for ref in self.prepared.refs]
        if kept is None or not kept.made_for.serves(self.context, [*tries, *self.copies.values()]):
            return None
        for at in range(len(self.columns) if counts else 0):
            kept.task.beside[f"counts_{at}"].fill(0)
        self.kept = kept
        return replace(kept.task, tries=tries)

    def _others(self, name: str) -> list[int]:
        """A relation's columns, except for the one that it is partitioned by."""
        return [at for at in range(self.arity(name)) if at != self.columns[name]]

    def _rows_beside(
        self, name: str, group: RowsByColumn | None, values: Array, others: Sequence[int]
    ) -> dict[str, Array]:
        """The arguments that hold rows, by value."""
        xp = self.ops.xp
        none, empty = xp.zeros(len(values) + 1, dtype=xp.int64), xp.empty(0, dtype=xp.int32)
        found = {f"{name}_starts": none if group is None else group.among(values)}
        for column in others:
            found[f"{name}_{column}"] = empty if group is None else group.columns[column]
        return found

    def _dtypes_of(self, beside: Mapping[str, Array]) -> object:
        """What the printed loops depend on, beside the tries."""
        kinds = tuple([(name, array.dtype.char) for name, array in beside.items()])
        return kinds, self.context.metrics.lasting

    def _again(
        self, seeds: Groups, tries: Sequence[Trie], beside: Mapping[str, Array]
    ) -> PartitionedFixpoint | None:
        """The fixpoint of the last run, for other first rows; None if it does not suit them."""
        prepared = self.prepared
        task = prepared.task
        if task is None or prepared.reads_parameters:
            return None
        if not all(before() is now for before, now in zip(prepared.tries, tries, strict=True)):
            return None
        beside = {**beside, **task.beside}
        if self._dtypes_of(beside) != prepared.dtypes:
            return None
        for name, group in seeds.items():
            own, split = prepared.spans[name], self.columns[name]
            columns = {} if group is None else {split: group.values, **group.columns}
            if not all(_within(column, own[at]) for at, column in columns.items()):
                return None
        values = beside["splits"]
        beside = {**beside, **counts_of(task.run)}
        return PartitionedFixpoint(task.run, tries, values, beside, task.rooms, prepared.kept)

    def _enough(self, values: int, rooms: Sequence[ListRoom]) -> bool:
        """Whether the values keep a GPU's tiles busy; long runs of few values would be slow."""
        context, thresholds = self.context, self.context.thresholds
        if context.device is CPU:
            return True
        free, _ = context.device.room(context.memory)
        most = free // (2 * max(1, sum(LIST_BYTES * room.stamps for room in rooms)))
        small = is_forced(self.context) or self.read_rows <= thresholds.tiles_from
        return most > 0 and (small or min(values, most) >= thresholds.tiles_busy)

    def _printed(
        self, lists: Sequence[Listed], tries: Sequence[Trie], values: Array, counts: bool
    ) -> PrintedPlan | None:
        kind = "int32" if values.dtype == np.int32 else "int64"
        from gdatalog.printer.layouts import layouts_of

        settings, rules, counted = (
            self.context.settings,
            self.recursions,
            self.context.metrics.lasting,
        )
        intersect, tile = settings.intersect, self.context.device.tile(settings)
        own = (kind, counts, intersect)
        layouts = layouts_of(tries)
        key = (tuple(rules), tuple(lists), *own, tile, counted, layouts)

        def printed() -> PrintedPlan:
            if tile:
                from gdatalog.printer.worklist_tile import print_tiles

                return print_tiles(rules, layouts, lists, *own, tile, counted)
            from gdatalog.printer.worklist import print_partitioned

            return print_partitioned(rules, layouts, lists, *own, counted)

        found = printed_once(key, printed)
        return None if isinstance(found, str) else found

    # --------------------------------------------------------------------------------- running

    def run(self) -> dict[str, Relation] | None:
        """Returns the relations; None if only rounds can evaluate them correctly."""
        task = self._kept(counts=False)
        if task is None and all(group is None for group in self.groups.values()):
            return {
                name: self._relation(name, DistinctBlocks([], 0)) for name in self.stratum.relations
            }
        started = perf_counter(), time_spent()
        task = task or self.task(self.groups)
        found = None if task is None else self.follow(task)
        if task is None or found is None:
            return None
        relations = {name: self._relation(name, blocks) for name, blocks in found.items()}
        rows = {name: relation.length for name, relation in relations.items()}
        self._tell(rows, task, started)
        return relations

    def counts(self) -> dict[str, tuple[Array, Array]] | None:
        """For each relation the number of rows for each value: values and counts. Few of them go to
        the host, because the strata that read them are small."""
        task = self._kept(counts=True)
        if task is None and all(group is None for group in self.groups.values()):
            none = np.empty(0, dtype=np.int64)
            return dict.fromkeys(self.stratum.relations, (none, none))
        started = perf_counter(), time_spent()
        task = task or self.task(self.groups, counts=True)
        if task is None or self.follow(task, counts=True) is None:
            return None
        found = {}
        few = len(task.values) <= self.context.thresholds.device_from
        values = task.values
        if few and self.kept is not None:
            values = self.kept.values_here
        elif few:
            values = brought(values)
        for at, name in enumerate(self.stratum.relations):
            counts = task.beside[f"counts_{at}"]
            counts = brought(counts) if few else counts
            some = counts > 0
            found[name] = values[some], counts[some]
        rows = {name: int(counts.sum()) for name, (_, counts) in found.items()}
        self._tell(rows, task, started)
        return found

    def follow(
        self, task: PartitionedFixpoint, counts: bool = False
    ) -> dict[str, DistinctBlocks] | None:
        context, device = self.context, self.context.device.accelerator
        limits, names = context.limits, self.stratum.relations
        if context.waits_for([(task.run, self.name)]):
            return None
        self.record.doing = self.description
        try:
            # The progress of a single value is unknown.
            total = len(task.values) if len(task.values) > 1 else None
            with limits.watch.work("joining", self.name, total, "values"):
                cost = OFTEN * sum(trie.total for trie in task.tries)
                name, scope, settings = self.name, context.scope, context.settings
                run = LoopRun(
                    task.run,
                    task.tries,
                    scope,
                    limits,
                    name,
                    settings,
                    task.beside,
                    cost,
                    self.shared,
                    task.kept,
                    self._is_little(task),
                )
                found = context.device.follow(run, task.rooms, context.force_chunk)
        except GiveUp:
            return None
        except MemoryLimitError as error:
            raise self.growth(error) from None
        finally:
            limits.charge("blocks", 0)
        if self.kept is not None and device is not None and task.kept:
            (self.kept.launch,) = task.kept
            device.keep(key_of(self._joins, [str(counts)]), self.kept)
        return {
            name: DistinctBlocks(blocks, sum(len(block[0]) for block in blocks))
            for name, blocks in zip(names, found, strict=True)
        }

    def _is_little(self, task: PartitionedFixpoint) -> bool:
        """Whether so few rows are visited that it cannot take long: by one value as many as the
        tries have, by several as many for each, if rows have one column more than these."""
        rows = [trie.total for trie in task.tries]
        if len(task.values) == 1:
            return sum(rows) <= HERE
        wide = any(self.arity(name) > 2 for name in self.stratum.relations)
        return not wide and len(task.values) * prod(rows) <= HERE

    def _relation(self, name: str, blocks: DistinctBlocks) -> Relation:
        """A relation, on the host if the device had no room for all of it."""
        if any(is_on_host(column) for block in blocks.blocks for column in block):
            here = [tuple(map(brought, block)) for block in blocks.blocks]
            blocks = DistinctBlocks(here, blocks.count)
        relation = self.relation(name, [blocks])
        self.context.limits.charge(name, self._held(relation))
        return relation

    def _tell(
        self, rows: Mapping[str, int], task: PartitionedFixpoint, started: tuple[float, Costs]
    ) -> None:
        """Reports to a profile. `started`: the start time, and the costs up to then."""
        context = self.context
        if not context.metrics.lasting:
            return self.record.end(dict(rows))
        seconds = perf_counter() - started[0]
        name, threads = self.description, min(context.settings.workers, len(task.values))
        if context.device is not CPU:
            name += f", by tiles {self.shared or f'of {context.device.members[0]}'}"
            threads = 0
        seen = counted(task.run, [rule.join for rule in self.recursions], task.beside)
        costs = time_spent() - started[1]
        way = Way(name, len(task.values), "values", threads, None, seconds, costs, seen)
        self.tell_way(way, self.prepared.later, rows, self.description)

    @property
    def description(self) -> str:
        return f"a fixpoint for each {', '.join(map(str, self.keys))}"


def _within(column: Array, span: Span | None) -> bool:
    """Whether a span has all values of a column; None: any value may come."""
    if span is None or not len(column):
        return True
    return span[0] <= int(column.min()) and int(column.max()) <= span[1]


def _dtypes(held: RowsByColumn | None, width: int) -> tuple[str, ...]:
    if held is None:
        return ("int32",) * (width - 1)
    return tuple(held.columns[column].dtype.name for column in sorted(held.columns))
