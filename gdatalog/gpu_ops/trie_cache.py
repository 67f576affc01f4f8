"""Caches relations' rows and tries on a device between queries, within a memory budget.

A relation's columns are copied to the device once, and its tries are built there. The cache keeps
both, and what kernels derive from tries, as long as the relation's rows live. If the cache exceeds
the budget, it drops the least recently used entries, except those in use. Before it drops rows that
are nowhere else, it copies them to the host. If an allocation fails, it drops everything unused,
and the allocation is retried once.

Tries are built as in `storage/trie_builder.py`: rows are packed into integers and radix-sorted. A
node begins where a value differs from the one before. Each level waits for the device once, for its
number of nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, ref

from gdatalog.errors import MemoryLimitError
from gdatalog.gpu_ops.cupy_driver import CupyDriver
from gdatalog.gpu_ops.graph import DeviceGraph
from gdatalog.gpu_ops.trie_building import build, of_sorted
from gdatalog.storage.on_device import DeviceStore
from gdatalog.storage.relation import Relation
from gdatalog.storage.row_ops import DeviceOps
from gdatalog.storage.row_store import RowStore
from gdatalog.storage.threads import LONG
from gdatalog.storage.trie import RowTest, Trie, TrieName, first_levels, trie_name

HELD = 4  # copying and counting rows takes this many times their bytes
SHARE = 0.75  # the share of the free memory that the cache may take; the rest is for queries

Made = TypeVar("Made")
Names = tuple[TrieName, ...]


def make_derived(tries: Sequence[Trie], make: Callable[[], Trie]) -> Trie:
    return make()


class _Indexes:
    """The cache entries of one relation, and when each was last used: its rows under None, tries by
    name, and what is derived from several tries by their names."""

    __slots__ = ("derived", "symmetric", "tries", "used")

    def __init__(self) -> None:
        self.symmetric: bool | None = None  # not known
        self.tries: dict[TrieName, Trie] = {}
        self.derived: dict[Names, Trie] = {}
        self.used: dict[TrieName | Names | None, int] = {}

    def cached(self) -> list[Trie]:
        return [*self.tries.values(), *self.derived.values()]


class DeviceTries:
    """The tries on one device, and the rows that they are built from."""

    def __init__(self, driver: CupyDriver, ops: DeviceOps, limit: int | None = None) -> None:
        """`limit`: the user's limit for the whole cache, in bytes."""
        self.driver = driver
        self.ops = ops
        self.limit = limit
        self._held: WeakKeyDictionary[RowStore, _Indexes] = WeakKeyDictionary()
        self.clock = count()  # what is used later is dropped later
        self._size: tuple[int, int] | None = None  # of how many relations, and their bytes
        self._relieving = False
        # Called before something is dropped: others may have parts of tries.
        self.dropping: Callable[[], None] = lambda: None
        # Makes what is derived from tries that are not cached here, or gives what it has kept.
        self.derived_apart = make_derived
        driver.relief = self.relieve

    # ------------------------------------------------------------------------------- what is

    @property
    def nbytes(self) -> int:
        """The bytes of tries, and of the copies of rows that they are built from."""
        known, now = self._size, len(self._held)
        if known is None or known[0] != now:
            size = sum(self._bytes_of(store, held) for store, held in self._held.items())
            known = self._size = now, size
        return known[1]

    def changed(self) -> None:
        """What is cached takes other memory than before."""
        self._size = None

    def nbytes_of(self, relation: Relation) -> int:
        """The bytes that are cached of one relation."""
        held = self._held.get(relation.store)
        return 0 if held is None else self._bytes_of(relation.store, held)

    def _bytes_of(self, store: RowStore, held: _Indexes) -> int:
        levels = {id(level): level for trie in held.cached() for level in trie.levels}
        size = sum(int(level.nbytes) for level in levels.values())
        for trie in held.tries.values():
            size += 0 if trie.weights is None else int(trie.weights.nbytes)
            size += sum(v.nbytes + int(at.nbytes) for v, at in trie.with_long_lists.values())
        rows = self._rows_there(store)
        return size + (rows.nbytes if rows is not None and store.on_host else 0)

    def _rows_there(self, store: RowStore) -> DeviceStore | None:
        rows = store.on_device
        return rows if rows is not None and rows.ops is self.ops else None

    def budget(self) -> int:
        """How many bytes may be cached."""
        share = int(SHARE * (self.driver.free_memory() + self.nbytes))
        return share if self.limit is None else min(share, self.limit)

    # ---------------------------------------------------------------------------------- tries

    def hold(self, relation: Relation) -> None:
        """Registers a relation whose rows may be on the device. If there are many rows, copies them
        to the device if it has memory for them and for counting them, since it counts them for the
        planner sooner than the CPU.
        """
        if relation.remote is not None and relation.remote.unfetched:
            return
        if not relation.types:
            return
        store = relation.store
        there = self._rows_there(store) is not None
        if there or (relation.at_most >= LONG and HELD * store.nbytes <= self.budget()):
            self._rows(store)

    def _of(self, store: RowStore) -> _Indexes:
        held = self._held.get(store)
        if held is None:
            held = self._held[store] = _Indexes()
            self.changed()
            store.tries_there = held.tries
        return held

    def graph(self, relation: Relation) -> DeviceGraph:
        """A relation of two columns as a graph."""
        found: DeviceGraph = self._rows(relation.store).graph
        return found

    def trie(
        self,
        relation: Relation,
        order: tuple[int, ...],
        tests: tuple[RowTest, ...] = (),
        weighted: bool = False,
        ranked: bool = False,
    ) -> Trie:
        """The trie that `relation.trie` would return, on the device."""
        store, two = relation.store, len(relation.types) == 2
        if not relation.types:
            return Trie((), relation.length, None)
        held = self._of(store)
        turned = order[:1] == (1,) and two and (ranked or self._symmetric(relation, held))
        name = trie_name(order, tests, weighted, ranked, turned)
        trie = held.tries.get(name)
        if trie is None:
            trie = first_levels(held.tries, name)
            if trie is None:
                budget = self.budget()
                self.shrink(budget - self._expected(relation, order))
                trie = self._tried(lambda: self._build(relation, name))
                self.changed()
                self.shrink(budget - sum(int(level.nbytes) for level in trie.levels))
            if not order:
                return trie  # which has only a count
            held.tries[name] = trie
            self.changed()
        held.used[name] = next(self.clock)
        return trie

    def derived(self, tries: Sequence[Trie], make: Callable[[], Trie]) -> Trie:
        """What `make` computes from these tries alone. If the tries are cached, and are of one
        relation, so is the result."""
        for held in self._held.values():
            names = {id(trie): name for name, trie in held.tries.items()}
            if all(id(trie) in names for trie in tries):
                key = tuple(names[id(trie)] for trie in tries)
                found = held.derived.get(key)
                if found is None:
                    found = held.derived[key] = make()
                    self.changed()
                    self.shrink(self.budget())
                held.used[key] = next(self.clock)
                return found
        return self.derived_apart(tries, make)

    def uses(self, tries: Sequence[Trie]) -> list[tuple[dict[Any, int], Any]]:
        """Where the cache notes that these tries are used, for who reads them without asking."""
        known = {id(trie) for trie in tries}
        return [
            (held.used, name)
            for held in self._held.values()
            for names in (held.tries, held.derived)
            for name, trie in names.items()
            if id(trie) in known
        ]

    def made(
        self,
        relation: Relation,
        order: tuple[int, ...],
        tests: tuple[RowTest, ...] = (),
        weighted: bool = False,
        ranked: bool = False,
    ) -> Trie | None:
        """The same trie if it is cached; computes nothing."""
        held = self._held.get(relation.store)
        if held is None:
            return None
        name = trie_name(order, tests, weighted, ranked, order[:1] == (1,) and ranked)
        if order[:1] == (1,) and held.symmetric:
            name = trie_name(order, tests, weighted, ranked, True)
        return held.tries.get(name) or first_levels(held.tries, name)

    def _symmetric(self, relation: Relation, held: _Indexes) -> bool:
        if held.symmetric is None:
            alike = relation.types[0] == relation.types[1]
            held.symmetric = alike and self.graph(relation).symmetric
        return held.symmetric

    def _build(self, relation: Relation, name: TrieName) -> Trie:
        order, tests, weighted, ranked = name
        if not ranked:
            return build(self.ops, self._rows(relation.store), order, tests, weighted)
        graph = self.graph(relation)
        rows = graph.ranked(tests)
        trie = of_sorted(self.ops, rows[: len(order)], len(rows[0]), weighted)
        trie.labels = graph.ranking().labels
        return trie

    def _rows(self, store: RowStore) -> DeviceStore:
        """A relation's rows on the device, copied there on first use."""
        there = self._rows_there(store) is not None
        rows = self._tried(lambda: store.lay(self.ops))
        if not there:
            self.changed()
        self._of(store).used[None] = next(self.clock)
        return rows

    def _expected(self, relation: Relation, order: Sequence[int]) -> int:
        """About how many bytes a trie takes, with its rows if they have to be copied first."""
        copied = 0 if self._rows_there(relation.store) is not None else len(relation.types)
        return 8 * relation.at_most * (len(order) + copied)

    # ---------------------------------------------------------------------------- letting go

    def shrink(self, most: int, everything: bool = False) -> None:
        """Drops the least recently used entries until no more than `most` bytes are cached.

        `everything`: also rows that are nowhere else, after copying them to the host.
        """
        if self.nbytes <= most and not everything:
            return
        self.dropping()
        ages = sorted(
            ((tick, ref(store), name) for store, held in self._held.items()
             for name, tick in held.used.items()),
            key=lambda known: known[0],
        )  # fmt: skip
        for _, known, name in ages:
            store = known()
            if store is None or (name is None and not (store.on_host or everything)):
                continue
            if self._let_go(store, name) and not everything and self.nbytes <= most:
                return

    def _let_go(self, store: RowStore, name: TrieName | Names | None) -> bool:
        """Drops a trie, what is derived from tries, or rows. Returns whether it was cached and is
        freed."""
        held = self._held[store]
        self.changed()
        if name is None:
            if self._rows_there(store) is None:
                return False
            store.let_go()
        else:
            there: dict[Any, Trie] = held.derived if name in held.derived else held.tries
            trie = there.pop(name, None)
            if trie is None:
                return False
            known = ref(trie)
            del trie
            trie = known()
            if trie is not None:  # it is in use
                there[name] = trie
                return False
        del held.used[name]
        return True

    def relieve(self) -> None:
        """Drops everything unused, because memory is short."""
        if self._relieving:
            return  # copying rows to the host may allocate memory
        self._relieving = True
        try:
            self.shrink(0, everything=True)
        finally:
            self._relieving = False

    def _tried(self, make: Callable[[], Made]) -> Made:
        """Calls `make`; once more, after dropping everything unused, if memory is short."""
        try:
            return make()
        except MemoryLimitError:
            raise
        except MemoryError:
            self.relieve()
        return make()

    def close(self) -> None:
        """Drops everything; rows that are nowhere else are copied to the host."""
        self.changed()
        for store, held in list(self._held.items()):
            held.tries.clear()
            held.derived.clear()
            if self._rows_there(store) is not None:
                store.let_go()
        self._held.clear()
