"""Devices: the operations and tries that executors use.

A database has one device as a value: a `Device`. This module has the CPU; `gpu_ops` has the GPU,
and several GPUs that work together as one device.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from gdatalog import cpu_ops
from gdatalog.calls import Block, GiveUp, LoopRun
from gdatalog.cancellation import current_watch
from gdatalog.chunks import LARGEST_CHUNK
from gdatalog.executors.lftj import run_nest
from gdatalog.executors.ops import Ops
from gdatalog.executors.partitioned import ListRoom, run_partitioned
from gdatalog.limits import Limits
from gdatalog.plan.join_plan import RulePlan, TrieRef
from gdatalog.plan.placement import Shared
from gdatalog.plan.slices import Sizes
from gdatalog.planner.rewrite.adornments import as_called
from gdatalog.settings import Settings, Thresholds
from gdatalog.storage.relation import Relation
from gdatalog.storage.trie import Trie

if TYPE_CHECKING:
    from gdatalog.gpu_ops.growing_rows import GrowingRows
    from gdatalog.gpu_ops.level_graph import PreparedLevels
    from gdatalog.gpu_ops.paged_tries import Paged
    from gdatalog.gpu_ops.rounds import DeviceRounds
    from gdatalog.gpu_ops.transfers import Slices
    from gdatalog.gpu_ops.walk import KeptByKey, PreparedLoops
    from gdatalog.printer.module import PrintedPlan


class Device(Protocol):
    """What executors need of a device: the CPU, a GPU, or several GPUs together.

    `name`: what users write: "cpu", "cuda:0". `members`: the names of the devices that work
    together as this one. `ops`: the operations of `executors`; their `xp` creates and holds arrays.
    `accelerator`: the device with what only an accelerator has, if it is one.
    """

    @property
    def name(self) -> str: ...

    @property
    def members(self) -> tuple[str, ...]: ...

    @property
    def ops(self) -> Ops: ...

    @property
    def accelerator(self) -> Accelerator | None: ...

    def trie(self, relation: Relation, ref: TrieRef) -> Trie:
        """The trie that a plan reads, in memory that the device's executors can read."""

    def made(self, relation: Relation, ref: TrieRef) -> Trie | None:
        """The trie that `trie` would return, if it is built already."""

    def charge(self, limits: Limits, what: str, relation: Relation) -> None:
        """Charges the memory of a relation's tries on the device."""

    def hold(self, relation: Relation) -> None:
        """Registers a relation; a GPU copies its rows if they are many."""

    def lanes(self, tries: Sequence[Trie], settings: Settings) -> int:
        """How many lanes of a GPU's warp share a subtree; 0 on the CPU."""

    def tile(self, settings: Settings) -> int:
        """How many lanes of a GPU's warp share a worklist of a partitioned fixpoint."""

    def walk(self, run: LoopRun, wanted: int | None) -> list[Block]:
        """Compiles printed loops if necessary and runs them; `wanted`: how many rows are enough."""

    def follow(
        self, run: LoopRun, rooms: Sequence[ListRoom], first: int | None
    ) -> list[list[Block]]:
        """Compiles and runs the loops of a partitioned fixpoint; returns each relation's rows.
        `first`: the initial number of rows of a block, for tests."""

    def refuses(self, plan: RulePlan) -> str | None:
        """Why the CPU runs a rule instead, for a user; None if the device runs it."""

    def room(self, spare: int) -> tuple[int, int]:
        """The bytes that a query may use here, when `spare` bytes of the memory limit are left; and
        the useful maximum of rows at once."""

    def index_room(self, limits: Limits) -> int | None:
        """The bytes that indexes may use here; None if they have no other place."""

    def close(self) -> None:
        """Frees everything that the device keeps; relations keep the host's tries themselves."""


class Reusable(Protocol):
    """A fixpoint that is prepared on a device, with its buffers."""

    @property
    def nbytes(self) -> int:
        """The bytes of its buffers."""

    def leave(self) -> None:
        """Gives its rows to those that may still read them, because it is not kept any more."""


class Accelerator(Device, Protocol):
    """A device with a memory of its own."""

    def make_room(self, limits: Limits) -> None:
        """Evicts indexes that are not in use, for a rule whose own do not fit."""

    def slices(
        self,
        room: int,
        tries: Mapping[Hashable, Trie],
        sizes: Mapping[Hashable, Sizes],
        poll: Callable[[], None],
    ) -> Slices:
        """The place of slices of the host's tries on this device, of at most `room` bytes."""

    def paged(self) -> Paged:
        """The place of the host's tries that are read page by page."""

    def rounds(self, relations: Sequence[GrowingRows], limits: Limits) -> DeviceRounds:
        """The rounds of a fixpoint with these relations, without rules yet."""

    def keep(self, key: object, kept: Reusable) -> None:
        """Keeps a fixpoint for later runs, unless it takes too much memory."""

    def kept_of(self, key: object) -> Any | None:
        """Takes a fixpoint that was kept; None if there is none."""

    def loops_soon(self, printed: PrintedPlan, label: str) -> bool:
        """Whether compiled loops are at hand; otherwise they are compiled meanwhile."""

    def waits_for(self, printed: PrintedPlan, label: str) -> bool:
        """Whether loops are being compiled on another thread, which begins with it now."""

    def prepared(self, run: LoopRun, has_run: bool) -> PreparedLoops | None:
        """Loops prepared for runs over these tries; None if they take too much memory for that.
        `has_run`: they have run over them, and are prepared if that is possible."""

    def levels(self, tries: Sequence[Trie]) -> PreparedLevels:
        """A breadth-first join that counts, whose first run over these tries is to be noted."""

    @property
    def kept_levels(self) -> KeptByKey:
        """Such joins, by a key."""

    def counts_again(self, key: object) -> PreparedLoops:
        """The counts of levels that are prepared, and kept under this key."""

    def again(
        self, loops: Sequence[PreparedLoops], scope: Any, limits: Limits
    ) -> list[list[Block]] | None:
        """The rows of prepared loops for the values of parameters in this scope, on the host if
        they are few. None: some are at hand no more, or there is no room for them. What they take
        stays charged."""


class AcceleratorGroup(Accelerator, Protocol):
    """Several accelerators as one."""

    def together(
        self,
        piece: Callable[[Ops, Sequence[Trie], Limits, int], list[list[Block]]],
        shared: Shared,
        tries: Sequence[Trie],
        limits: Limits,
    ) -> list[list[Block]]:
        """Runs all pieces of some work, each on one of the members with its operations and tries.
        Returns their blocks on the first member, by relation."""


def group_of(device: Device) -> AcceleratorGroup | None:
    """The device, if it has several members."""
    return cast(AcceleratorGroup, device) if len(device.members) > 1 else None


class Cpu:
    """NumPy arrays in main memory, and compiled loops on all cores."""

    name = "cpu"
    members = ("cpu",)
    ops: Ops = cpu_ops
    accelerator: Accelerator | None = None

    def trie(self, relation: Relation, ref: TrieRef) -> Trie:
        asked = (ref.columns, ref.tests, ref.weighted, ref.ranked)
        found = relation.asked(asked)
        if found is not None:
            return found
        with current_watch().work("sorting", as_called(ref.relation)):
            return relation.trie(*asked)

    def made(self, relation: Relation, ref: TrieRef) -> Trie | None:
        return relation.made(ref.columns, ref.tests, ref.weighted, ref.ranked)

    def charge(self, limits: Limits, what: str, relation: Relation) -> None:
        limits.charge(f"index of {what}", relation.trie_nbytes)

    def hold(self, relation: Relation) -> None:
        """Registers a relation; a GPU copies its rows if they are many."""

    def lanes(self, tries: Sequence[Trie], settings: Settings) -> int:
        return 0

    def tile(self, settings: Settings) -> int:
        return 0

    def walk(self, run: LoopRun, wanted: int | None) -> list[Block]:
        function = compiled_function(run.printed, run.limits, run.label, run.rows)
        return run_nest(function, run, wanted)

    def follow(
        self, run: LoopRun, rooms: Sequence[ListRoom], first: int | None
    ) -> list[list[Block]]:
        function = compiled_function(run.printed, run.limits, run.label, run.rows)
        return run_partitioned(function, run, rooms, first)

    def refuses(self, plan: RulePlan) -> str | None:
        return None

    def room(self, spare: int) -> tuple[int, int]:
        return spare, LARGEST_CHUNK

    def index_room(self, limits: Limits) -> int | None:
        return None

    def close(self) -> None:
        """Frees everything that the device keeps; relations keep the host's tries themselves."""


def shared_by(
    members: tuple[str, ...],
    rows: float,
    thresholds: Thresholds,
    copied: Callable[[], float] = float,
) -> Shared | None:
    """How a device's members share a join or fixpoint that expects to look at this many rows; None
    if the first member runs it alone. `copied`: the bytes of the indexes that the others copy."""
    if len(members) < 2 or rows < thresholds.shared_from:
        return None
    if rows < thresholds.shared_from * (1 + copied() / thresholds.shared_bytes):
        return None
    pieces = int(rows / thresholds.shared_piece / len(members))
    return Shared(members, max(1, min(pieces, thresholds.shared_pieces)))


class Host(Cpu):
    """A GPU's host: data kept there does not count toward the GPU's memory limit."""

    def charge(self, limits: Limits, what: str, relation: Relation) -> None:
        """The machine's own memory is the limit."""


def compiled_function(printed: PrintedPlan, limits: Limits, label: str, rows: float = 0.0) -> Any:
    """Returns a compiled function, compiling it if necessary; `label`: what is compiled; `rows`:
    how many rows it is expected to look at."""
    from gdatalog.codegen import native
    from gdatalog.codegen.function_names import named
    from gdatalog.codegen.loop_language import LoopError

    name = named(printed.shape, printed.source)
    try:
        if native.loaded(name):
            return native.load(name, printed.source, rows)
        with limits.watch.work("compiling", label):
            found = native.load(name, printed.source, rows)
    except LoopError as problem:
        warnings.warn(RuntimeWarning(str(problem)), stacklevel=2)
        raise GiveUp(f"its loops do not compile: {problem}") from problem
    limits.poll()
    return found


def function_soon(printed: PrintedPlan, rows: float) -> Any:
    """Returns a function if it is compiled; otherwise starts to compile it, and returns None."""
    from gdatalog.codegen import native
    from gdatalog.codegen.function_names import named

    return native.load_soon(named(printed.shape, printed.source), printed.source, rows)


CPU: Device = Cpu()
HOST: Device = Host()
