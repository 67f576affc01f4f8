"""Runs a rule's joins depth-first: prints, compiles and runs their loops, and collects the rows."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from gdatalog.calls import COUNTS, Block, GiveUp, LoopRun, NoRoomForLists
from gdatalog.engine.context import Sources
from gdatalog.engine.device import CPU, function_soon, shared_by
from gdatalog.engine.group_dedup import GroupDedup, grouped_of
from gdatalog.errors import EvaluationError, MemoryLimitError
from gdatalog.executors.gather import Gathering
from gdatalog.executors.sinks import StepCounts
from gdatalog.plan.effects import all_steps, longest_first
from gdatalog.plan.functions import ACCUMULATED
from gdatalog.plan.join_plan import Gather, Join, JoinPlan, Slot, Tally
from gdatalog.plan.placement import Shared
from gdatalog.records import cached_property, dataclass, field, replace
from gdatalog.settings import Settings
from gdatalog.storage.rows import Columns
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie

if TYPE_CHECKING:
    from gdatalog.engine.context import ExecutionContext
    from gdatalog.printer.layouts import TrieLayout
    from gdatalog.printer.module import PrintedPlan
    from gdatalog.printer.nest import Leaf


READ = 1 << 18  # rows of a block that are grouped at once
# How many times more rows breadth-first may look at while another thread compiles the kernel; a
# larger join waits for it.
AHEAD = 50
MOST_PRINTED = 512  # printed texts in the cache

# For the choice of an executor, and for a run that may count.
Texts = tuple["PrintedPlan | str", "PrintedPlan"]

_printed: OrderedDict[object, PrintedPlan | str] = OrderedDict()
# The same by the identity of the plan, because hashing a plan is slow.
_runs: dict[object, tuple[JoinPlan, int]] = {}  # how often small joins have run on a GPU
_by_plan: dict[object, tuple[JoinPlan, PrintedPlan | str]] = {}
_lock = Lock()


@dataclass(frozen=True, slots=True)
class Form:
    """What the loops of a join output.

    With `gathers`: aggregates by `keys`. With `images`: counts by vertex or by edge (`Term`).
    Otherwise rows of `outputs`: with `fresh` only those that are not in a bitmap yet or, if
    `hashed`, in a hash set; a device's has a number of each of its `parts`, so many columns. If
    `unwritten`, the loops only mark these rows in the bitmap.
    `grouped`: how they find duplicates within each group. `modular`: counts are modulo a number.
    `keeps`: the loops may cache lists; `keeps_rows`: rows of bits.
    """

    outputs: tuple[Any, ...] = ()
    keys: tuple[Slot, ...] = ()
    gathers: tuple[Gather, ...] = ()
    weighted: bool = False
    fresh: bool = False
    hashed: bool = False
    parts: tuple[int, ...] = ()
    unwritten: bool = False
    grouped: GroupDedup | None = None
    images: tuple[tuple[str, ...], ...] = ()
    modular: bool = False
    keeps: bool = False
    keeps_rows: bool = False

    def leaf(self, join: JoinPlan) -> Leaf:
        from gdatalog.printer.distinct import NewRows
        from gdatalog.printer.distinct_groups import GroupedRows
        from gdatalog.printer.leaves import GroupLeaf, RowLeaf
        from gdatalog.printer.tallies import LocalCountLeaf

        if self.images:
            return LocalCountLeaf(self.images)
        if self.gathers:
            return GroupLeaf(self.keys, self.gathers)
        if self.grouped is not None:
            return GroupedRows(join, self.grouped.hashed, dict(self.grouped.compacts))
        if self.fresh:
            return NewRows(self.outputs, self.hashed, self.unwritten, self.parts)
        return RowLeaf(self.outputs, self.weighted)


def form_of_bag(keys: Sequence[Slot], gathers: Sequence[Gather]) -> Form:
    """Aggregates accumulate in loops where possible; else loops output rows with weights."""
    if all(gather.kind in ACCUMULATED for gather in gathers):
        return Form(keys=tuple(keys), gathers=tuple(gathers))
    targets = [target for gather in gathers for target in gather.targets]
    slots = dict.fromkeys((*keys, *(t for t in targets if isinstance(t, Slot))))
    return Form(tuple(slots), tuple(keys), weighted=True)


@dataclass(eq=False)
class JoinNest:
    """A join as a nest of loops, printed on first use.

    `marks`: the bitmap and `space` of known rows, if only new rows are wanted. After a run that
    ended early, the bitmap also has rows that were not output. `counted`: the loops count bindings.
    `growing`: the numbers of the tries that have later versions. `seen`: the last run's counters,
    by id of the step.
    """

    join: JoinPlan
    form: Form
    sources: Sources
    context: ExecutionContext
    marks: Mapping[str, Array] = field(default_factory=dict)
    counted: bool = False
    growing: Collection[int] = ()
    seen: dict[int, StepCounts] = field(default_factory=dict)
    rows_fit: bool = True  # whether cached rows of bits fit into the device's memory

    @property
    def settings(self) -> Settings:
        return self.context.settings

    @cached_property
    def tries(self) -> list[Trie]:
        made = {ref: self.sources.trie_of(ref) for ref in longest_first(self.join.tries)}
        return [made[ref] for ref in self.join.tries]

    @cached_property
    def given(self) -> Columns:
        """The columns of the rows that the plan starts from."""
        if self.join.given is None:
            return ()
        rows, _ = self.sources.rows_of(self.join)
        xp = self.context.device.ops.xp
        return tuple(xp.ascontiguousarray(column) for column in rows)

    @cached_property
    def _text(self) -> PrintedPlan | str:
        return self._printed(False)

    def change(self, form: Form) -> None:
        """Changes the form; the loops are printed again."""
        self.form = form
        for text in ("_text", "printed"):
            self.__dict__.pop(text, None)

    def keep_nothing(self) -> None:
        """There is no memory for what the loops would cache."""
        self.rows_fit = False
        self.change(replace(self.form, keeps=False))

    @cached_property
    def grouped(self) -> GroupDedup | None:
        """How duplicates within each group are found; None if they are not."""
        form = self.form
        plain = form == Form(self.join.outputs) and not self.growing
        if not plain or self.context.device.lanes(self.tries, self.settings):
            return None
        return grouped_of(self.join, self.tries, self.context.thresholds)

    def _printed(self, counted: bool) -> PrintedPlan | str:
        device, settings = self.context.device, self.context.settings
        # Lanes that each begin a given row share its lists, however short they are; and each tile
        # has tables of its own.
        levels = (step for step in all_steps(self.join.steps) if isinstance(step, Join))
        intersects = any(sum(p.depth > 0 for p in step.participants) > 1 for step in levels)
        shared = self.join.given is not None and not intersects
        shared = shared or any(isinstance(step, Tally) for step in self.join.steps)
        lanes = device.tile(settings) if shared else device.lanes(self.tries, settings)
        given = tuple(column.dtype.name for column in self.given)
        from gdatalog.printer.layouts import layouts_of

        layouts = layouts_of(self.tries)
        if self.growing:
            grown = layouts_of(self.tries, growing=True)
            layouts = tuple(
                grown[at] if at in self.growing else layout for at, layout in enumerate(layouts)
            )
        form = self.form if self.grouped is None else replace(self.form, grouped=self.grouped)
        if lanes and self.rows_fit and self._stays:
            form = replace(form, keeps_rows=True)
        weighted = self._weighted(lanes)
        key = (id(self.join), weighted, form, layouts, settings.intersect, lanes, given, counted)
        known = _by_plan.get(key)
        if known is None:
            join = self.join
            if weighted != tuple(ref.weighted for ref in join.tries):
                refs = zip(join.tries, weighted, strict=True)
                join = replace(join, tries=tuple(replace(ref, weighted=own) for ref, own in refs))
            found = _print(join, form, layouts, settings.intersect, lanes, given, counted)
            if len(_by_plan) >= MOST_PRINTED:
                _by_plan.clear()
            known = _by_plan[key] = self.join, found
        return known[1]

    @property
    def _stays(self) -> bool:
        """Whether this device reads the same tries from run to run, so that what is computed from
        them alone may be cached."""
        whole = all(isinstance(trie, Trie) and trie.whole is None for trie in self.tries)
        return whole and not self.growing and self.join.given is None and self.shared is None

    def _weighted(self, lanes: int) -> tuple[bool, ...]:
        """Which indexes have weights other than 1: columns that the others omit, and those that
        determine them, need not be counted."""
        if lanes or self.growing:
            return tuple([ref.weighted for ref in self.join.tries])
        refs = zip(self.join.tries, self.tries, strict=True)
        return tuple(
            [ref.weighted and not (isinstance(trie, Trie) and trie.once) for ref, trie in refs]
        )

    @property
    def reason(self) -> str | None:
        """Why the join cannot be printed; None if it can."""
        return self._text if isinstance(self._text, str) else None

    @property
    def plain(self) -> PrintedPlan:
        """The loops without a profile's counters. A profile chooses by them, as queries do."""
        assert not isinstance(self._text, str), self._text
        return self._text

    @cached_property
    def printed(self) -> PrintedPlan:
        """The printed loops of this form."""
        text = self._printed(True) if self.counted else self._text
        assert not isinstance(text, str), text
        return text

    @property
    def texts(self) -> Texts:
        """The printed loops, for joins of the same form over slices of the same tries."""
        return self._text, self.printed

    def take(self, texts: Texts) -> None:
        self.__dict__["_text"], self.__dict__["printed"] = texts

    @property
    def worth(self) -> float:
        """Compiling pays from this many expected rows."""
        thresholds, here = self.context.thresholds, self.context.device is CPU
        return thresholds.loops_worth if here else thresholds.kernels_worth

    def at_hand(self, label: str) -> bool:
        """Whether a GPU has the compiled loops of a small join. They are compiled meanwhile if it
        has run often enough."""
        device, enough = self.context.device.accelerator, self.context.thresholds.kernel_runs
        if device is None or self.counted:
            return False
        key = id(self.join), self.form
        known = _runs.get(key)
        runs = known[1] + 1 if known is not None else 1
        if len(_runs) >= MOST_PRINTED:
            _runs.clear()
        _runs[key] = self.join, runs
        return runs > enough and self.reason is None and device.loops_soon(self.plain, label)

    def waits(self, label: str) -> bool:
        """Whether the join runs breadth-first while another thread compiles its kernel for a GPU:
        it is not too large for that."""
        device = self.context.device.accelerator
        large = self.join.cost > AHEAD * self.worth * self.settings.thresholds.overrun
        if device is None or self.counted or large or self.reason is not None:
            return False
        return device.waits_for(self.plain, label)

    def compile_soon(self, label: str) -> None:
        """Compiles the loops on another thread."""
        device = self.context.device.accelerator
        if device is None:
            function_soon(self.printed, self.join.cost)
        else:
            device.loops_soon(self.printed, label)

    @cached_property
    def shared(self) -> Shared | None:
        """The devices that run the loops together, if that pays. They do not for given rows, nor
        for loops that mark the rows they find. One value: it also has what each device did."""
        context = self.context
        if self.join.given is not None or self.marks:
            return None
        members, cost = context.device.members, self.join.cost
        return shared_by(members, cost, context.thresholds, self._index_bytes)

    def _index_bytes(self) -> int:
        tries = {id(trie): trie for trie in self.tries if isinstance(trie, Trie)}
        return sum(trie.nbytes for trie in tries.values())

    def loop_run(
        self, label: str, counts: Mapping[str, Array], shared: Shared | None = None
    ) -> LoopRun:
        """The run of the loops; `counts`: their counters."""
        given = {f"new{at}": column for at, column in enumerate(self.given)}
        beside = {**given, **self.marks, **counts}
        context, cost = self.context, self.join.cost
        scope, limits, settings = context.scope, context.limits, context.settings
        return LoopRun(
            self.printed, self.tries, scope, limits, label, settings, beside, cost, shared
        )

    def run(self, label: str, wanted: int | None = None) -> list[Block]:
        """Returns blocks of rows; `label`: what is compiled; `wanted`: how many rows are enough."""
        context = self.context
        try:
            counts = counts_of(self.printed)
            shared = None if wanted is not None else self.shared
            try:
                found = context.device.walk(self.loop_run(label, counts, shared), wanted)
            except NoRoomForLists:
                self.keep_nothing()
                found = context.device.walk(self.loop_run(label, counts, shared), wanted)
            self.seen = counted(self.printed, [self.join], counts)
            return found
        except MemoryLimitError:
            if context.settings.strategy != "auto" or context.device is not CPU:
                raise  # cells or the CPU run it instead
            # The other executor drops duplicates as it goes.
            context.limits.charge("blocks", 0)
            raise GiveUp("rows of compiled loops did not fit into the memory limit") from None


def counts_of(printed: PrintedPlan) -> dict[str, Array]:
    """The loops' argument for counters, if they count."""
    counters = printed.counters
    return {COUNTS: np.zeros(len(counters), dtype=np.int64)} if counters else {}


def counted(
    printed: PrintedPlan, joins: Sequence[JoinPlan], beside: Mapping[str, Array]
) -> dict[int, StepCounts]:
    """The loops' counters, by id of the step of the joins that they run."""
    if not printed.counters:
        return {}
    steps, counts = [step for join in joins for step in all_steps(join.steps)], beside[COUNTS]
    seen: dict[int, StepCounts] = {}
    for counter, count in zip(printed.counters, counts.tolist(), strict=True):
        entry = seen.setdefault(id(steps[counter.step]), StepCounts())
        if counter.tried:
            entry.tried = count
        else:
            entry.rows_out = count
    for step in steps:
        entry = seen.get(id(step), StepCounts())
        if isinstance(step, Join) and len(step.participants) == 1:
            entry.tried = entry.rows_out  # all values of a list were tried
    return seen


def _print(
    join: JoinPlan,
    form: Form,
    layouts: tuple[TrieLayout, ...],
    intersect: str,
    lanes: int,
    given: tuple[str, ...],
    counted: bool,
) -> PrintedPlan | str:
    """The printed loops for tries of this layout, or the reason why they cannot be printed."""

    def make() -> PrintedPlan | str:
        from gdatalog.printer.module import print_plan

        leaf = form.leaf(join)
        found = print_plan(
            join, layouts, leaf, intersect, lanes, given, counted, form.modular, form.keeps,
            form.keeps_rows,
        )  # fmt: skip
        if lanes and not found.parallel:
            return "there is no list whose values could be shared out"
        return found

    return printed_once((join, form, intersect, layouts, lanes, given, counted), make)


def printed_once(key: object, make: Callable[[], PrintedPlan | str]) -> PrintedPlan | str:
    """A printed text, or the reason why there is none, cached under this key."""
    with _lock:
        found = _printed.get(key)
        if found is not None:
            _printed.move_to_end(key)
            return found
    from gdatalog.printer.expressions import Unprintable

    try:
        found = make()
    except Unprintable as reason:
        found = str(reason)
    with _lock:
        _printed[key] = found
        while len(_printed) > MOST_PRINTED:
            _printed.popitem(last=False)
    return found


def give_bag(form: Form, orbit: int, gathering: Gathering, blocks: Sequence[Block]) -> None:
    """Passes partial aggregates, or rows with weights, to the sink."""
    keys, width = form.keys, len(form.keys)
    pieces = ((block, at) for block in blocks for at in range(0, len(block[-1]), READ))
    for block, start in pieces:  # a few rows at a time: grouping them takes memory beside the block
        part = tuple(column[start : start + READ] for column in block)
        if form.gathers:
            gathering.add_partials(part[:width], [_times(each, orbit) for each in part[width:]])
            continue
        slots = zip(form.outputs, part, strict=False)
        columns = {slot.name: column for slot, column in slots}
        own, counts = tuple(columns[key.name] for key in keys), _times(part[-1], orbit)
        gathering.add(own, len(part[-1]), columns, counts)


def _times(counts: Array, orbit: int) -> Array:
    if orbit == 1:
        return counts
    if len(counts) and int(counts.max()) * orbit >= 1 << 62:
        raise EvaluationError("a count does not fit into 64 bits")
    return counts * orbit
