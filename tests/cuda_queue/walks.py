"""Launches of tasks.cuh, one after the other, as a host makes them, on fibers."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gdatalog.gpu_ops.control_words import CONTROL_WORDS, SLOT_WORDS, Reason, Word, capacity
from gdatalog.gpu_ops.sources import whole
from tests.cuda_host import HostDriver, HostFault

HERE: Final = Path(__file__).parent
KERNELS: Final = ["walk", "leave_when_nothing", "reasons", "lateness"]


def text_of(*names: str) -> str:
    """Files of this folder, one after the other, with the kernels that they include."""
    texts = [(HERE / name).read_text(encoding="utf-8") for name in names]
    return whole("\n".join(texts).replace("#pragma once\n", ""))


FIBERS: Final = text_of("tasks.cuh", "published.cuh", "answers.cuh")


def _mixed(x: int) -> int:
    """`mixed` of tasks.cuh."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) % 2**64
    return x ^ (x >> 31)


class Wrong(Exception):
    """What a walk did and may not do."""


@dataclass
class Seen:
    """What happened in walks, so that a test can say that it did."""

    splits: int = 0
    launches: int = 0
    full: int = 0
    blocks_undone: int = 0


@dataclass
class Walk:
    """A made-up work, and how it is to be done; all of it follows from the seed."""

    lanes: int
    seed: int
    rows: Counter[tuple[int, int]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        dice = random.Random(self.seed)
        self.total = dice.choice([1, 5, 14])
        longest = dice.choice([3, 30, 150])
        self.lengths = [dice.randint(0, longest) for _ in range(self.total)]
        self.capacity = 2 ** dice.randint(1, 6)
        self.blocks, self.threads = dice.choice([(1, 32), (2, 64), (3, 32), (1, 96)])
        self.pool = dice.randint(1, 12)
        self.grain = dice.randint(1, 4)
        self.pieces = dice.randint(1, 9)
        self.sharing = dice.choice([0, 1, 2, 9])  # once in so many steps; 0: never
        self.marking = dice.choice([0, 1, 5])
        self.failing = dice.choice([0, 0, 6, 40])

    def grow(self) -> None:
        """Makes it a work for many tiles."""
        dice = random.Random(-self.seed)
        self.total = 500
        self.lengths = [dice.randint(0, 300) for _ in range(self.total)]
        self.blocks, self.threads = 16, 128
        self.capacity = capacity(self.blocks * self.threads // self.lanes)
        self.pool = 3000
        self.sharing = self.marking = 9

    def expected(self) -> Counter[tuple[int, int]]:
        return Counter(
            (unit, entry)
            for unit, length in enumerate(self.lengths)
            for entry in range(length)
            for _ in range(_mixed(unit * 1000003 + entry) % 3)
        )

    def run(self, driver: HostDriver, kernels: dict[str, Any], seen: Seen) -> None:
        """Launches until nothing is left, and says what is wrong."""
        xp = driver.xp
        driver.seed = 1 + 1000 * self.seed
        control = xp.zeros(CONTROL_WORDS, dtype=xp.int64)
        ring = xp.zeros(self.capacity * SLOT_WORDS, dtype=xp.int64)
        lengths = xp.asarray(self.lengths, dtype=xp.int64)
        block_rows = 32
        while True:
            rows = self.pool * block_rows
            units, entries = (xp.full(rows, -1, dtype=xp.int64) for _ in range(2))
            counts, previous = (xp.full(self.pool, -7, dtype=xp.int32) for _ in range(2))
            for word in (Word.STOP, Word.STATUS, Word.POOL):
                control[int(word)] = 0
            arrays = [control, ring, lengths, units, entries, counts, previous]
            numbers = [self.lanes, self.capacity, self.total, self.grain, self.pool, block_rows]
            dice = [self.pieces, self.sharing, self.marking, self.failing, self.seed]
            kernels["walk"].launch(self.blocks, self.threads, [*arrays, *numbers, *dice])
            words = xp.asnumpy(control)
            word = {name: int(words[int(name)]) for name in Word}
            taken = min(word[Word.POOL], self.pool)
            held = xp.asnumpy(counts)[:taken].tolist()
            self._keep(held, block_rows, xp.asnumpy(units).tolist(), xp.asnumpy(entries).tolist())
            seen.launches += 1
            seen.splits += word[Word.SPLITS] if self._ended(word) else 0
            seen.full += word[Word.STATUS] == Reason.FULL
            seen.blocks_undone += held.count(0)
            if self._ended(word):
                break
            self.failing = 0
            self.pool += 1  # so that a task comes through that is never marked
        if self.rows != self.expected():
            lost, more = self.expected() - self.rows, self.rows - self.expected()
            raise Wrong(f"lost {lost}, done twice {more}")

    def _ended(self, word: dict[Word, int]) -> bool:
        if word[Word.BUSY] != word[Word.TAIL] - word[Word.HEAD]:
            raise Wrong(f"{word[Word.BUSY]} tasks are outstanding, not those in the queue: {word}")
        if word[Word.BUSY] > self.capacity:
            raise Wrong(f"more is outstanding than the ring has room for: {word}")
        ended = word[Word.NEXT] >= self.total and word[Word.BUSY] == 0
        if word[Word.STATUS] == Reason.DONE and not ended:
            raise Wrong(f"tiles left, and there was work: {word}")
        return ended

    def _keep(self, held: list[int], block_rows: int, units: list[int], entries: list[int]) -> None:
        for block, count in enumerate(held):
            if not 0 <= count <= block_rows:
                raise Wrong(f"block {block} has {count} rows")
            start = block * block_rows
            rows = slice(start, start + count)
            self.rows.update(zip(units[rows], entries[rows], strict=True))


def walk_all(driver: HostDriver, kernels: dict[str, Any], lanes: int, seeds: range) -> Seen:
    seen = Seen()
    for seed in seeds:
        try:
            Walk(lanes, seed).run(driver, kernels, seen)
        except Wrong as wrong:
            raise Wrong(f"seed {seed}: {wrong}") from None
    return seen


def lost_by(driver: HostDriver, kernels: dict[str, Any], published: bool, seeds: range) -> int:
    """In how many of so many runs of published.cuh a task was not done, or waited for in vain."""
    xp, lost = driver.xp, 0
    for seed in seeds:
        driver.seed = seed
        control = xp.zeros(CONTROL_WORDS, dtype=xp.int64)
        ring, done = xp.zeros(2 * SLOT_WORDS, dtype=xp.int64), xp.zeros(8, dtype=xp.int64)
        arguments = [control, ring, done, 2, int(published)]
        try:
            kernels["leave_when_nothing"].launch(3, 1, arguments)
        except HostFault:  # a get that counted a put which was about to be undone
            lost += 1
            continue
        counts = [int(done[task]) for task in (1, 2, 3, 5, 6, 7)]
        assert max(counts) == 1
        lost += min(counts) == 0
    return lost
