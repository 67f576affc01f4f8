"""Breadth-first counts that are asked again: the kernels of all levels as one graph.

The first run over some indexes notes how many rows its levels have (`level_notes.py`). The second
is recorded: its arrays have just that size, and stay. From then on, a run is one launch and one
wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gdatalog.calls import Block
from gdatalog.errors import DeviceError
from gdatalog.gpu_ops.control_words import CONTROL_WORDS
from gdatalog.gpu_ops.fused_level import AT_ONCE
from gdatalog.gpu_ops.launch import WHOLE, Part, Steps
from gdatalog.gpu_ops.level_notes import LevelNotes, NotRecorded
from gdatalog.gpu_ops.rows import Arrays
from gdatalog.limits import Limits
from gdatalog.storage.trie import Trie

if TYPE_CHECKING:
    from gdatalog.gpu_ops.walk import Walks

LEVELS = "rows of levels"
MOST_TRIED = 4 * AT_ONCE  # candidates of a graph


class PreparedLevels:
    """A breadth-first join that only counts, and runs again over the same tries. `ops`: for the run
    that is noted; `made_for`: what the engine knows it by; `nbytes`: of what it keeps."""

    def __init__(self, walks: Walks, ops: Arrays, tries: Sequence[Trie]) -> None:
        self._driver, self._indexes = walks.driver, walks.indexes
        self.ops: Any = ops.noting(LevelNotes())
        self.made_for: Any = None
        # Of the noted run: its roots, whose intersections wait, and the most rows of a piece.
        self.roots: dict[int, Any] = {}
        self.chunk = 0
        self.nbytes = 0
        self._used = walks.indexes.uses(tries)
        self._levels = [trie.levels for trie in tries]  # kept alive; not the tries, which may go
        self._launch: Callable[[], None] | None = None

    @property
    def notes(self) -> LevelNotes:
        found: LevelNotes = self.ops.notes
        return found

    @property
    def ready(self) -> bool:
        """Whether it has been recorded."""
        return self._launch is not None

    @property
    def suits(self) -> bool:
        """Whether it can be recorded: a launch cannot be stopped, so it must not take long."""
        return self.notes.complete and self.notes.tried <= MOST_TRIED

    def record(self, run: Callable[[], None]) -> bool:
        """Records a run with its `ops`; returns whether that was possible."""
        driver, notes = self._driver, self.notes
        reader: Any = None

        def launch() -> None:
            nonlocal reader
            notes.replay(self.ops.zeros, self.ops.state_words)
            run()
            if not notes.counts:
                raise NotRecorded
            reader = driver.reader(notes.counts)
            reader.copy()

        try:
            self._launch, self.nbytes = driver.recorded_apart(launch)
        except (NotRecorded, DeviceError, MemoryError):
            return False
        self._reader = reader
        self._control = self.ops.xp.zeros(CONTROL_WORDS, dtype=self.ops.xp.int64)
        return True

    def steps(
        self, limits: Limits, wanted: int | None, brief: bool = False, part: Part = WHOLE
    ) -> Steps[list[Block]]:
        """The counts of bindings, as those of a launch of loops."""
        assert self._launch is not None
        limits.charge(LEVELS, self.nbytes)
        self._launch()
        counts = yield self._control, self._reader.begin()
        limits.charge(LEVELS, 0)
        return [(np.array([found[0] for found in counts]),)]

    def take(self, limits: Limits) -> bool:
        """Whether there is room for it; then its tries count as used."""
        if self.nbytes > limits.spare():
            return False
        for used, name in self._used:
            used[name] = next(self._indexes.clock)
        return True

    def leave(self) -> None:
        """Nobody reads its buffers."""


class KeptLevels:
    """The prepared levels of a key, which the device keeps as long as there is room."""

    def __init__(self, walks: Walks, key: object) -> None:
        self._walks, self._key = walks, key

    def taken(self, scope: Any, limits: Limits) -> PreparedLevels | None:
        """The levels, for a run, after which they are kept again."""
        found: PreparedLevels | None = self._walks.levels.take(self._key)
        if found is None or not found.ready or not found.take(limits):
            return None
        return found

    def keep(self, levels: PreparedLevels) -> None:
        self._walks.levels.keep(self._key, levels)

    def blocks(self, scope: Any, limits: Limits) -> list[Block] | None:
        """As of `PreparedLoops`."""
        found = self._walks.again([self], scope, limits)
        return None if found is None else found[0]
