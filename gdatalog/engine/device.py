"""Where joins run: the operations that executors are handed, and the tries that they read.

A device is a value of a database. The one here is the CPU; `gpu_ops` has the other.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from gdatalog import cpu_ops
from gdatalog.cancellation import watching
from gdatalog.engine.budget import LARGEST_CHUNK
from gdatalog.engine.knobs import Knobs
from gdatalog.executors.lftj import Block, GiveUp, run_nest
from gdatalog.executors.limits import Limits
from gdatalog.executors.loop_run import LoopRun
from gdatalog.executors.ops import Ops
from gdatalog.executors.worklist import ListRoom, run_partitioned
from gdatalog.plan.nodes import RulePlan, TrieRef
from gdatalog.plan.placement import Shared
from gdatalog.plan.tuning import Tuning
from gdatalog.planner.adornments import as_called
from gdatalog.storage.relation import Relation
from gdatalog.storage.trie import Trie

if TYPE_CHECKING:
    from gdatalog.gpu_ops.paged import Paged
    from gdatalog.gpu_ops.slices import Slices
    from gdatalog.plan.slicing import Sizes
    from gdatalog.printer.module import PrintedPlan


# Compiling a join's loops takes some 40 ms: it pays from so many expected rows on.
WORTH = 50_000.0


class Device(Protocol):
    """`ops` are the verbs of `executors`; `xp` among them makes and holds arrays."""

    @property
    def name(self) -> str:
        """As users write it: "cpu", "cuda:0"."""
        ...

    @property
    def members(self) -> tuple[str, ...]:
        """The names of the devices that work together as this one: "cuda:0" and "cuda:1"."""
        ...

    @property
    def ops(self) -> Ops: ...

    def trie(self, relation: Relation, ref: TrieRef) -> Trie:
        """The trie of a relation that a plan asks for, where the device's executors can read it."""
        ...

    def made(self, relation: Relation, ref: TrieRef) -> Trie | None:
        """The same, if it is there by now."""
        ...

    def charge(self, limits: Limits, what: str, relation: Relation) -> None:
        """Says what the tries of a relation take there."""
        ...

    def hold(self, relation: Relation) -> None:
        """Knows of a relation whose rows may lie there, and has them there if they are many."""
        ...

    def lanes(self, tries: Sequence[Trie], knobs: Knobs) -> int:
        """How many lanes are to walk a subtree together; 0 where there are none, on a CPU."""
        ...

    def tile(self, knobs: Knobs) -> int:
        """The same for a fixpoint of its own, whose lanes share what they come to."""
        ...

    @property
    def worth(self) -> float:
        """Compiling a join's loops pays from so many expected rows on."""
        ...

    def walk(self, run: LoopRun, wanted: int | None) -> list[Block]:
        """Compiles printed loops, if need be, and runs them; `wanted`: how many rows are enough."""
        ...

    def follow(
        self, run: LoopRun, rooms: Sequence[ListRoom], first: int | None
    ) -> list[list[Block]]:
        """The same for a fixpoint that splits: gives each relation's rows.

        `first`: how many rows a block has at first, for tests.
        """
        ...

    def together(
        self,
        piece: Callable[[Ops, Sequence[Trie], Limits, int], list[list[Block]]],
        shared: Shared,
        tries: Sequence[Trie],
        limits: Limits,
    ) -> list[list[Block]]:
        """What all pieces of some work give, by number, each run on one of the members: with its
        operations, and tries that it can read. The blocks come on the first member."""
        ...

    def refuses(self, plan: RulePlan) -> str | None:
        """Why a rule is run on the CPU instead, in words for a user; None if it is not."""
        ...

    def room(self, spare: int) -> tuple[int, int]:
        """The bytes that a query may take here, of which `spare` are left of the memory limit;
        and the most rows that are of use at once."""
        ...

    def index_room(self, limits: Limits) -> int | None:
        """The bytes that indexes may take here; None where there is nowhere else to keep them."""
        ...

    def make_room(self, limits: Limits) -> None:
        """Lets go of the indexes that nobody uses, for a rule whose own do not fit."""
        ...

    def slices(
        self,
        room: int,
        tries: Mapping[Hashable, Trie],
        sizes: Mapping[Hashable, Sizes],
        poll: Callable[[], None],
    ) -> Slices:
        """Where slices of the host's tries lie here, of so many bytes at the most."""
        ...

    def paged(self) -> Paged:
        """Where the host's tries lie that are read in place."""
        ...

    def close(self) -> None:
        """Lets go of all that is kept."""
        ...


class Cpu:
    """NumPy's arrays in the machine's memory, compiled loops on its cores."""

    name = "cpu"
    members = ("cpu",)
    worth = WORTH
    ops: Ops = cpu_ops

    def trie(self, relation: Relation, ref: TrieRef) -> Trie:
        asked = (ref.columns, row_tests(ref), ref.weighted, ref.ranked)
        found = relation.asked.get(asked)
        if found is not None:
            return found
        with watching().work("sorting", as_called(ref.relation)):
            return relation.trie(*asked)

    def made(self, relation: Relation, ref: TrieRef) -> Trie | None:
        return relation.made(ref.columns, row_tests(ref), ref.weighted, ref.ranked)

    def charge(self, limits: Limits, what: str, relation: Relation) -> None:
        limits.charge(f"index of {what}", relation.trie_nbytes)

    def hold(self, relation: Relation) -> None:
        """Its rows are here."""

    def lanes(self, tries: Sequence[Trie], knobs: Knobs) -> int:
        return 0

    def tile(self, knobs: Knobs) -> int:
        return 0

    def walk(self, run: LoopRun, wanted: int | None) -> list[Block]:
        return run_nest(
            compiled_function(run.printed, run.limits, run.label, run.rows),
            run.printed,
            run.tries,
            run.scope,
            run.limits,
            run.knobs.workers,
            wanted,
            run.beside,
        )

    def follow(
        self, run: LoopRun, rooms: Sequence[ListRoom], first: int | None
    ) -> list[list[Block]]:
        return run_partitioned(
            compiled_function(run.printed, run.limits, run.label, run.rows),
            run.printed,
            run.tries,
            run.scope,
            run.limits,
            run.knobs.workers,
            run.beside,
            rooms,
            first,
        )

    def together(
        self,
        piece: Callable[[Ops, Sequence[Trie], Limits, int], list[list[Block]]],
        shared: Shared,
        tries: Sequence[Trie],
        limits: Limits,
    ) -> list[list[Block]]:
        raise AssertionError("it is alone")

    def refuses(self, plan: RulePlan) -> str | None:
        return None

    def room(self, spare: int) -> tuple[int, int]:
        return spare, LARGEST_CHUNK

    def index_room(self, limits: Limits) -> int | None:
        return None

    def make_room(self, limits: Limits) -> None:
        """Nothing is kept here that could go."""

    def slices(
        self,
        room: int,
        tries: Mapping[Hashable, Trie],
        sizes: Mapping[Hashable, Sizes],
        poll: Callable[[], None],
    ) -> Slices:
        raise AssertionError("the host's tries are here")

    def paged(self) -> Paged:
        raise AssertionError("the host's tries are here")

    def close(self) -> None:
        """A relation keeps its tries itself."""


def shared_by(members: tuple[str, ...], rows: float, tuning: Tuning) -> Shared | None:
    """How the members of a device run a join or fixpoint together that is expected to look at so
    many rows; None if the first of them runs it alone."""
    if len(members) < 2 or rows < tuning.shared_from:
        return None
    pieces = int(rows / tuning.shared_piece / len(members))
    return Shared(members, max(1, min(pieces, tuning.shared_pieces)))


class Host(Cpu):
    """The host of a GPU: what it keeps for it is no part of the GPU's memory limit."""

    def charge(self, limits: Limits, what: str, relation: Relation) -> None:
        """It is the machine's memory that it has to fit."""


def row_tests(ref: TrieRef) -> tuple[tuple[int, str, int], ...]:
    """The tests of an index's rows, as `storage` has them."""
    return tuple((test.left, test.op, test.right) for test in ref.tests) if ref.tests else ()


def compiled_function(printed: PrintedPlan, limits: Limits, label: str, rows: float = 0.0) -> Any:
    """A printed function, compiled if it is not yet; `label`: what of, for messages; `rows`: how
    many it is expected to look at."""
    from gdatalog.codegen import native
    from gdatalog.codegen.language import LoopError

    name = native.named(printed.shape, printed.source)
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
    """The same, if it is there by now; else None, and it is compiled meanwhile."""
    from gdatalog.codegen import native

    return native.load_soon(native.named(printed.shape, printed.source), printed.source, rows)


CPU: Device = Cpu()
HOST: Device = Host()
