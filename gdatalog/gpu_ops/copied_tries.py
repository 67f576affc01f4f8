"""Copies of the first GPU's tries on the other GPUs of a group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from weakref import WeakKeyDictionary, ref

from gdatalog.gpu_ops.device import Gpu
from gdatalog.gpu_ops.trie_cache import SHARE
from gdatalog.storage.count_tables import Tallied
from gdatalog.storage.trie import Trie, TrieLevel

Derived = tuple[list[ref[Trie]], Trie]


class CopiedTries:
    """Copies of the first GPU's tries on another GPU, kept as long as the originals."""

    def __init__(self, gpu: Gpu, dropping: Callable[[], None]) -> None:
        """`dropping`: called before copies are dropped, because launches read them."""
        self.driver, self._dropping = gpu.driver, dropping
        self._made: WeakKeyDictionary[Trie, Trie] = WeakKeyDictionary()
        # What is derived from copies, by one of them: the others, and the result.
        self._derived: WeakKeyDictionary[Trie, list[Derived]] = WeakKeyDictionary()
        gpu.driver.relief = self.let_go
        gpu.kept.derived_apart = self.derived

    def let_go(self) -> None:
        """Drops all copies, and the launches that read them; those in use are freed later."""
        self._dropping()
        self._made.clear()
        self._derived.clear()

    def trie(self, trie: Trie) -> Trie:
        """The copy of a trie, made on first use. A `Tallied` needs none."""
        if isinstance(trie, Tallied):
            return trie
        found = self._made.get(trie)
        if found is None:
            parts = (trie.weights, trie.labels)
            copies = [None if part is None else self.driver.copied(part) for part in parts]
            levels = [self._level(level) for level in trie.levels]
            found = self._made[trie] = Trie(levels, trie.total, *copies)
        return found

    def fits(self, tries: Sequence[Trie]) -> bool:
        """Whether there is room for the tries that are not copied yet."""
        copied = [trie for trie in tries if not isinstance(trie, Tallied)]
        missing = {id(trie): trie.nbytes for trie in copied if trie not in self._made}
        if not missing:
            return True
        with self.driver.use():
            return sum(missing.values()) <= SHARE * self.driver.free_memory()

    def derived(self, tries: Sequence[Trie], make: Callable[[], Trie]) -> Trie:
        """What `make` computes from these copies alone; kept as long as they are."""
        known = self._derived.setdefault(tries[0], [])
        for others, found in known:
            if [other() for other in others] == list(tries[1:]):
                return found
        found = make()
        known.append(([ref(trie) for trie in tries[1:]], found))
        return found

    def _level(self, level: TrieLevel) -> TrieLevel:
        """The copy of a level, which several tries may share."""
        for trie, copy in self._made.items():
            for mine, its in zip(trie.levels, copy.levels, strict=True):
                if mine is level:
                    return its
        values, offsets = self.driver.copied(level.values), self.driver.copied(level.offsets)
        return TrieLevel(values, offsets, self.driver.xp)
