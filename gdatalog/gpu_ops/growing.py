"""What grows on a device during a fixpoint: sets of row numbers, and hash tries of new rows.

Kernels of rules add the numbers of rows to a set while they run. Hash tries get the new rows behind
each round, in three launches for all tries (`kernels/growing.cuh`). When the host gives them more
room, tables are filled anew, in the same memory if that grows in place (`arena.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from gdatalog.errors import MemoryLimitError
from gdatalog.gpu_ops.arena import GrowingArray
from gdatalog.gpu_ops.cupy_kernel import CupyKernel
from gdatalog.gpu_ops.kernels import Kernels, type_of
from gdatalog.gpu_ops.rows import Array, Columns
from gdatalog.storage.loop_tables import HashTrie
from gdatalog.storage.trie import RowTest

PHASES = 3
THREADS = 256  # of a block
LEAST_SLOTS = 1 << 10
SLOTS_EACH, LIST_EACH = 2, 4  # slots, and places in lists, for each entry; at most
MOST_ENTRIES = 1 << 28  # of a trie, whose positions have 32 bits
OPERATORS = {"=": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_SOURCE, _SETS = '#include "growing.cuh"\n', '#include "key_sets.cuh"\n'
# The most arguments of a kernel, whose words take 4 KiB.
MOST_ARGUMENTS = 500


def slots_for(count: int) -> int:
    """The number of slots for so many keys."""
    return max(LEAST_SLOTS, 1 << (SLOTS_EACH * count - 1).bit_length()) if count else LEAST_SLOTS


class RowNumbers:
    """A set of row numbers, which kernels add to, with room for `capacity` of them. `parts`: how
    many numbers a row has, one or two."""

    def __init__(self, kernels: Kernels, parts: int, capacity: int) -> None:
        self.kernels, self.parts, driver = kernels, parts, kernels.driver
        self._memory = GrowingArray(driver, driver.xp.empty(0, dtype=np.int64))
        self._make(parts * slots_for(capacity))

    def _make(self, size: int) -> None:
        """Makes a table of free slots."""
        self._memory.lengthen(size)
        self.slots = self._memory.array[:size]
        self.kernels.driver.clear(self.slots)

    @property
    def nbytes(self) -> int:
        return self._memory.nbytes

    def add(self, numbers: Sequence[Array]) -> None:
        """Adds numbers for which there is room; `numbers` has an array for each part."""
        if len(numbers[0]):
            self._launch(("enter_keys", "enter_pairs")[self.parts - 1], numbers)

    def make_room(self, capacity: int) -> bool:
        """Makes room for so many numbers; whether the table is another one now."""
        size = self.parts * slots_for(capacity)
        if size <= len(self.slots):
            return False
        known = self.kernels.driver.xp.copy(self.slots)
        self._make(size)
        self._launch(("move_keys", "move_pairs")[self.parts - 1], [known])
        return True

    def _launch(self, name: str, given: Sequence[Array]) -> None:
        kernel, count = self.kernels.kernel(_SETS, name), len(given[0])
        blocks = min(kernel.resident(THREADS), -(-count // THREADS))
        arguments = [given[0], count, *given[1:], self.slots, len(self.slots)]
        kernel.launch(blocks, THREADS, arguments)


class GrowingLevel:
    """A level of a hash trie on a device. `listed`: whether loops walk its lists; `keyed`: whether
    it has a table. `nodes`, `ranks`, `children`: for each row that is being added, its node, its
    rank in the list of the node, and its child."""

    dense = False  # a root has a table too
    listed = keyed = False
    keys: Array
    spans: Array
    lengths: Array
    ids: Array  # never read: the number of a child is that of its slot

    def __init__(self, last: bool, driver: Any) -> None:
        self.last, self._driver = last, driver
        self._memory = dict[str, GrowingArray]()
        for name in self.lengths_for(0, 0, 0):
            dtype = np.int64 if name == "keys" else np.int32
            self._memory[name] = GrowingArray(driver, driver.xp.empty(0, dtype=dtype))
        self.make(0, 0, 0)

    @property
    def nbytes(self) -> int:
        return sum(memory.nbytes for memory in self._memory.values())

    def lengths_for(self, nodes: int, entries: int, rows: int) -> dict[str, int]:
        """The lengths of its arrays, for so many nodes above and entries, and rows to add at once.
        The slots are the nodes of the next level."""
        inner = self.listed and not self.last
        places = LIST_EACH * entries * self.listed
        found = {
            "keys": slots_for(entries) if self.keyed else 1, "ids": 1,
            "spans": 2 * nodes * self.listed, "lengths": nodes * self.listed,
            "values": places, "below": places * inner,
            "nodes": rows * self.listed, "ranks": rows * self.listed, "children": rows * inner,
        }  # fmt: skip
        return {name: max(1, length) for name, length in found.items()}

    def make(self, nodes: int, entries: int, rows: int) -> int:
        """Makes it anew; returns the number of slots."""
        lengths = self.lengths_for(nodes, entries, rows)
        for name, length in lengths.items():
            self._memory[name].lengthen(length)
            setattr(self, name, self._memory[name].array[:length])
        self.clear()
        return lengths["keys"]

    def clear(self) -> None:
        for array in (self.keys, self.spans, self.lengths):
            self._driver.clear(array)


class GrowingTrie(HashTrie):
    """A hash trie of a relation that grows on a device. `old`: it lacks the rows that the rules of
    the round read as new. `tests`: it has only rows that pass these. `spans`: how many values each
    of the relation's columns may have."""

    def __init__(
        self,
        columns: Sequence[int],
        tests: Sequence[RowTest],
        spans: Sequence[int],
        old: bool,
        driver: Any,
    ) -> None:
        self.columns, self.tests, self.old, self._driver = tuple(columns), tests, old, driver
        tested = [at for left, _, right in tests for at in (left, right)]
        self.read = tuple(dict.fromkeys((*columns, *tested)))  # columns
        self.whole = len(columns) == len(spans)
        self.most = [
            prod(spans[at] for at in columns[: depth + 1]) for depth in range(len(columns))
        ]
        self.levels: list[Any] = [
            GrowingLevel(depth + 1 == len(columns), driver) for depth in range(len(columns))
        ]
        self.layouts = {}
        for level in self.levels:
            level.keyed = not level.last or not self.whole
        self.taken = driver.xp.zeros(len(self.levels), dtype=np.int64)

    @property
    def nbytes(self) -> int:
        return sum(level.nbytes for level in self.levels)

    def table(self, depth: int) -> Array:
        return self.levels[depth].keys

    @property
    def listed(self) -> list[int]:
        """The levels with lists."""
        return [depth for depth, level in enumerate(self.levels) if level.listed]

    def reads(self, depth: int, kind: str) -> None:
        """Loops read an array of a level."""
        level = self.levels[depth]
        level.keyed |= kind == "keys"
        level.listed |= kind in ("values", "spans", "below")

    def bytes_for(self, capacity: int) -> int:
        nodes, found = 1, 0
        for level, most in zip(self.levels, self.most, strict=True):
            lengths = level.lengths_for(nodes, min(capacity, most), capacity)
            nodes = lengths["keys"]
            found += 4 * sum(lengths.values()) + 4 * nodes
        return found

    def make(self, capacity: int) -> None:
        """Makes it anew, without rows, for so many."""
        if capacity > MOST_ENTRIES:
            raise MemoryLimitError("the index of a growing relation has too many rows for a device")
        nodes = 1
        for level, most in zip(self.levels, self.most, strict=True):
            nodes = level.make(nodes, min(capacity, most), capacity)
        self._driver.clear(self.taken)

    def clear(self) -> None:
        """Forgets its rows."""
        for level in self.levels:
            level.clear()
        self._driver.clear(self.taken)


def groups_of(tries: Sequence[GrowingTrie]) -> list[list[int]]:
    """The numbers of tries that one kernel can add rows to."""
    groups, room = list[list[int]](), 0
    for number, trie in enumerate(tries):
        size = 2 + len(trie.read) + 9 * len(trie.levels)
        if size > room:
            groups, room = [*groups, []], MOST_ARGUMENTS - 2
        groups[-1].append(number)
        room -= size
    return groups


class Indexing:
    """The launches that add rows to some tries. `places`: where the words of each trie are on the
    board."""

    def __init__(
        self, kernels: Kernels, tries: Sequence[GrowingTrie], rows: Sequence[Columns],
        places: Sequence[int],
    ) -> None:  # fmt: skip
        self.tries, self.places = tries, places
        self.kernel: CupyKernel = kernels.kernel(indexing(tries, rows), "index_rows")
        self.blocks = self.kernel.resident(THREADS)

    def packed(self, board: Array, rows: Sequence[Columns]) -> list[Any]:
        """The arguments of each phase."""
        arrays: list[Any] = []
        for trie, columns, place in zip(self.tries, rows, self.places, strict=True):
            arrays += [place, trie.taken, *(columns[at] for at in trie.read)]
            for level in trie.levels:
                arrays += [level.keys, len(level.keys), level.spans, level.lengths, level.values]
                arrays += [level.below, level.nodes, level.ranks, level.children]
        return [self.kernel.packed([board, phase, *arrays]) for phase in range(PHASES)]

    def launch(self, packed: Sequence[Any]) -> None:
        for phase in packed:
            self.kernel.launch(self.blocks, THREADS, phase)


def indexing(tries: Sequence[GrowingTrie], rows: Sequence[Columns]) -> str:
    """The source of the kernel that adds rows to these tries, whose relations have columns of these
    types."""
    parameters, bodies = ["ARRAY(i64) board", "i64 phase"], list[str]()
    for at, (trie, columns) in enumerate(zip(tries, rows, strict=True)):
        parameters += [f"i64 place{at}", f"ARRAY(i64) taken{at}"]
        for column in trie.read:
            parameters.append(f"ARRAY(const {type_of(columns[column])}) rows{at}_{column}")
        for depth in range(len(trie.levels)):
            own = f"{at}_{depth}"
            parameters += [f"ARRAY(i64) keys{own}", f"i64 keys{own}_n"]
            names = ("spans", "lengths", "values", "below", "nodes", "ranks", "children")
            parameters += [f"ARRAY(i32) {name}{own}" for name in names]
        bodies += _body(at, trie)
    return (
        _SOURCE + f"KERNEL(index_rows)({', '.join(parameters)}) {{\n"
        "    const i64 first = thread_of_grid(), step = threads_of_grid();\n"
        + "".join(f"    {line}\n" for line in bodies)
        + "}\n"
    )


def _body(at: int, trie: GrowingTrie) -> list[str]:
    """The statements that add rows to a trie."""
    enters, moves, writes = list[str](), list[str](), list[str]()
    for depth, level in enumerate(trie.levels):
        own, below = f"{at}_{depth}", "false" if level.last else "true"
        value = f"rows{at}_{trie.columns[depth]}[from + i]"
        enters.append(f"const i64 value{depth} = {value};")
        if level.keyed:
            pair = f"pair_of(node, value{depth})"
            enters.append(
                f"const i64 child{depth} = enter_key(keys{own}, keys{own}_n, {pair}, fresh);"
            )
        else:
            enters.append("fresh = true;")
        if level.listed:
            lists = f"nodes{own}, ranks{own}, spans{own}, lengths{own}"
            enters.append(f"ranks{own}[i] = rank_of(lengths{own}, nodes{own}, i, node, fresh);")
            if not level.last:
                enters.append(f"children{own}[i] = (i32)child{depth};")
            moves.append(
                f"move_lists<{below}>(count, {lists}, taken{at}, {depth}, values{own}, below{own});"
            )
            writes.append(
                f"write_child<{below}>(i, {value}, {lists}, values{own}, below{own}, "
                f"children{own});"
            )
        if not level.last:
            enters.append(f"node = child{depth};")
    for left, op, right in trie.tests:
        sides = f"rows{at}_{left}[from + i] {OPERATORS[op]} rows{at}_{right}[from + i]"
        passed = " ".join(f"ranks{at}_{depth}[i] = -1;" for depth in trie.listed)
        enters.insert(0, f"if (!({sides})) {{ {passed} continue; }}")
    loop = "for (i64 i = first; i < count; i += step)"
    return [
        "{",
        f"    const i64 from = board[place{at} + FROM], count = board[place{at} + TO] - from;",
        f"    if (phase == ENTERS) {loop} {{",
        "        i64 node = 0;",
        "        bool fresh = true;",
        *(f"        {line}" for line in enters),
        "    }",
        "    if (phase == MOVES) {",
        *(f"        {line}" for line in moves),
        "    }",
        f"    if (phase == WRITES) {loop} {{",
        *(f"        {line}" for line in writes),
        "    }",
        "}",
    ]
