"""The launches of a rule in the rounds of a fixpoint: its loops, then a kernel that appends the new
rows to those of earlier rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import numpy as np

from gdatalog.calls import SHARED, LoopRun
from gdatalog.gpu_ops.control_words import CONTROL_WORDS, SLOT_WORDS, THREADS
from gdatalog.gpu_ops.cupy_kernel import CupyKernel
from gdatalog.gpu_ops.growing import GrowingTrie
from gdatalog.gpu_ops.growing_rows import GrowingRows
from gdatalog.gpu_ops.kernels import type_of
from gdatalog.gpu_ops.launch import Launch
from gdatalog.gpu_ops.rows import Array, Columns
from gdatalog.gpu_ops.walk import Walks
from gdatalog.printer.nest_state import ARRAY
from gdatalog.records import dataclass

POOL_SHARE = 16  # a pool takes at most this part of the free memory
APPENDING: Final = 256  # threads of a block
# The first pools of rules whose rows go to a hash set: rows of a block, and blocks.
FEW_ROWS, FEW_BLOCKS = 32, 1 << 10


@dataclass(frozen=True, slots=True)
class RoundLoops:
    """Loops that add rows to relation `into`: in each round those that they find from the new rows
    of relation `follows`; without it, once before the rounds."""

    run: LoopRun
    follows: int | None
    into: int


def grown_of(run: LoopRun) -> list[tuple[str, str, GrowingTrie, int]]:
    """Where loops read arrays of indexes that grow, which are told of it."""
    found = [
        (argument.name, argument.kind, trie, argument.levels[0].depth)
        for argument in run.printed.arguments
        if argument.levels
        for trie in [cast(Any, run.tries[run.printed.which[argument.levels[0].trie]])]
        if isinstance(trie, GrowingTrie)
    ]
    for _, kind, trie, depth in found:
        trie.reads(depth, kind)
    return found


class RoundLaunch(Launch):
    """The launch of a rule in every round; `at` is where its words are on the board."""

    def __init__(self, walks: Walks, loops: RoundLoops, at: int) -> None:
        run = loops.run
        with run.limits.watch.work("compiling", run.label):
            known, kernel = walks.kernel(run)
        self.grown = grown_of(run)
        super().__init__(walks.buffers, known, kernel, run, {})
        self.follows, self.into, self.at = loops.follows, loops.into, at
        # The kernel that appends its rows, its blocks and arguments.
        self.appending: tuple[CupyKernel, int, Any] | None = None
        # Its tickets go on from round to round, so that it is empty after each.
        self.ring = self.xp.zeros(self.slots * SLOT_WORDS, dtype=np.int64)
        for array in (*self.cleared, self.pool.counts):
            array.fill(0)

    @property
    def held(self) -> int:
        held: int = self.scratch_bytes + self.ring.nbytes + self.pool.nbytes
        return held

    @property
    def most(self) -> int:
        """The most rows of a round."""
        return self.pool.count * self.pool.block_rows

    @property
    def counters(self) -> Array | None:
        """The counts of bindings so far, on the device."""
        return None if self.tally is None else self.given[ARRAY]

    def use(self, words: Array, sizes: int, control: int) -> None:
        """Takes words of the board for its own."""
        self.given["sizes"] = words[sizes : sizes + len(self.sizes)]
        self.control = words[control : control + CONTROL_WORDS]

    def follow(self, columns: Columns) -> None:
        for name in self.loops.given:
            self.given[name] = columns[int(name.removeprefix("new"))]
        self._listed = None

    def reread(self, rows: GrowingRows) -> None:
        """Takes the arrays of its relation and its indexes, which may be others."""
        if rows.numbers is not None:
            self.given["known"] = rows.numbers.slots
        for name, kind, trie, depth in self.grown:
            self.given[name] = SHARED[kind](trie, depth)
        self._listed = None

    def queue(self) -> None:
        self.kernel.launch(self.grid, THREADS, self._arguments(self.pool))

    def _pool(self) -> tuple[int, int]:
        """The host makes room for as many rows as fit into pools, so that these grow with need
        where each row takes more room."""
        rows, blocks = super()._pool()
        if "known" in self.given:
            return min(rows, FEW_ROWS), min(blocks, FEW_BLOCKS)
        return rows, blocks

    def grow(self) -> None:
        """Enlarges the pool after it was full."""
        count = min(2 * self.pool.count, max(self.pool.count, self._affordable()))
        if count > self.pool.count:
            self._listed = self.appending = None
            self.pool.outputs.clear()  # before others are made
            self.pool = self._new_pool(count)
            self.pool.counts.fill(0)
        for array in self.cleared:  # a launch that ended early leaves marks
            array.fill(0)

    def _affordable_bytes(self) -> int:
        return min(self.shared.driver.free_memory(), self.limits.spare()) // POOL_SHARE


def appending(outputs: Sequence[Array], columns: Columns) -> str:
    """The source of the kernel that appends rows of `outputs` to columns of these types."""
    kinds = [*enumerate(zip(map(type_of, outputs), map(type_of, columns), strict=True))]
    pairs = [f"ARRAY(const {a}) out{at}, ARRAY({b}) rows{at}" for at, (a, b) in kinds]
    copies = [f"rows{at}[to + i] = ({b})out{at}[from + i];" for at, (_, b) in kinds]
    return f"""#include "rounds.cuh"
KERNEL(append_rows)(ARRAY(i64) board, ARRAY(i32) counts, {", ".join(pairs)}, i64 relation,
                    i64 follower, i64 blocks, i64 block_rows) {{
    const i64 used = used_blocks(board, follower, blocks);
    for (i64 block = thread_of_grid() / 32; block < used; block += threads_of_grid() / 32) {{
        const i64 count = taken_from(counts, block), from = block * block_rows;
        const i64 to = place_of(board, relation, follower, count);
        for (i64 i = thread_of_block() & 31; i < count; i += 32) {{ {" ".join(copies)} }}
    }}
}}
"""
