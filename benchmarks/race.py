"""Several sides do the same work, in turns, each in a process of its own.

First every side does it cold. Then those that are quick go on: again cold, from fresh tables and
indexes, and then warm, one after the other in turning order, so that noise hits all of them. A
side that was slow is not run again: its one run counts. So does the cap for one that was
stopped. Both are remembered, so that the next run on such a machine need not wait for them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.peers import is_peer
from benchmarks.records import CAP, Case, Figure, seconds
from benchmarks.remembered import Remembered
from benchmarks.sides import Gdatalog
from benchmarks.worker import Broken, Cold, Side, Stopped, Worker

ROUNDS, COLD_ROUNDS = 9, 3
MOST_EARLY = 5  # cold runs that compile code, at the most
LONG = 10.0  # seconds: what takes longer than this is run once
COMPILING = 30.0  # seconds: more than any compilation takes
BUDGET = 4.0  # seconds of warm runs for each side, and of cold ones


def compiles(side: Side) -> bool:
    """Whether its first call takes longer, by a compilation that can be timed."""
    return isinstance(side, Gdatalog) and side.strategy != "levelwise"


class Race:
    """One case, while it is run."""

    def __init__(self, case: Case, data: Path, known: Remembered, cap: float, code: Path) -> None:
        """`code`: where all races keep compiled code, but for rules whose compilation is timed."""
        self.case, self.data, self.known, self.cap, self.code = case, data, known, cap, code
        self.afresh = False
        self._workers: dict[int, Worker] = {}  # by the place of the figure

    def run(
        self, sides: Sequence[Side], expected: Any, timed_compiling: bool, afresh: bool = False
    ) -> Case:
        """All figures. One whose answer is not the expected one, or the others', says so.

        `afresh`: each answer is asked of data that was loaded anew, so that indexes are part of
        its time, and loading is not; and memory is the most of such a run.
        """
        self.afresh = afresh
        with ExitStack() as stack:
            for side in sides:
                self._first(side, stack, timed_compiling and compiles(side))
            for place in list(self._workers):
                self._try(place, self._again_cold)
            self._in_turns()
            for place in list(self._workers):
                if self._is_quick(place) and not afresh:
                    self._try(place, self._held)
        self._compare(expected)
        for side, figure in zip(sides, self.case.figures, strict=True):
            self.known.keep(self.case.what, side, figure)
            self._tell(figure)
        return self.case

    def _first(self, side: Side, stack: ExitStack, timed_compiling: bool) -> None:
        figure = self.known.of(self.case.what, side)
        if figure is not None:
            self.case.figures.append(figure)
            return
        figure = Figure(side.name)
        self.case.figures.append(figure)
        cap = self.cap if is_peer(side) else CAP
        place = len(self.case.figures) - 1
        try:
            code = None if timed_compiling else self.code
            self._workers[place] = Worker(side, self.data, cap, code)
        except (Broken, Stopped) as error:
            figure.trouble = str(error)
            return
        stack.callback(self._workers[place].close)
        self._try(place, self._once_cold)

    def _try(self, place: int, work: Callable[[int], None]) -> bool:
        """Whether it worked. If not, its side is out of the race, and its figure says why."""
        figure, worker = self.case.figures[place], self._workers[place]
        try:
            work(place)
        except (Broken, Stopped) as error:
            worker.close()
            del self._workers[place]
            figure.trouble, figure.stopped = str(error), isinstance(error, Stopped)
            if figure.stopped:
                figure.warm = figure.cold = worker.cap
            return False
        return True

    def _once_cold(self, place: int) -> None:
        figure, cold = self.case.figures[place], self._workers[place].cold()
        figure.cold, figure.warm = cold.seconds(), cold.answering
        figure.answer, figure.grown, figure.runs = cold.answer, cold.grown, 1
        if self.afresh:
            figure.peak = cold.peak

    def _held(self, place: int) -> None:
        figure, held = self.case.figures[place], self._workers[place].held()
        figure.resident, figure.peak = held.resident, held.peak

    def _is_quick(self, place: int) -> bool:
        warm = self.case.figures[place].warm
        return warm is not None and warm <= LONG

    def _again_cold(self, place: int) -> None:
        """Only later calls of ours count as cold: the first may compile the rule. Nor does one
        count that compiles the rule once more, because it has come often enough."""
        figure, worker = self.case.figures[place], self._workers[place]
        early = [figure.cold or 0.0]
        if not is_peer(worker.side) and early[0] < COMPILING + LONG:
            second = worker.cold()
            early.append(second.seconds())
            figure.cold, figure.warm = second.seconds(), second.answering
        if not self._is_quick(place):
            return
        taken: list[Cold] = []
        while not taken or (len(taken) < COLD_ROUNDS and sum(map(Cold.seconds, taken)) < BUDGET):
            cold = worker.cold()
            if cold.compiled and len(early) < MOST_EARLY:
                early.append(cold.seconds())
            else:
                taken.append(cold)
        figure.cold = median(map(Cold.seconds, taken))
        figure.warm, figure.grown = taken[-1].answering, taken[-1].grown
        if worker.compiles:
            figure.compiling = max(sum(early) - len(early) * figure.cold, 0.0)

    def _in_turns(self) -> None:
        taken: dict[int, list[float]] = {
            place: [] for place in self._workers if self._is_quick(place)
        }

        def one(place: int) -> None:
            if self.afresh:
                cold = self._workers[place].cold()
                seconds, answer = cold.answering, cold.answer
                self.case.figures[place].peak = cold.peak
            else:
                seconds, answer = self._workers[place].warm()
            if answer != self.case.figures[place].answer:
                raise Broken(f"says {answer}, and said {self.case.figures[place].answer}")
            taken[place].append(seconds)

        for place in list(taken):
            if is_peer(self._workers[place].side):
                continue
            # What comes again, or has indexes now, may be compiled now.
            self._try(place, one)
            taken[place].clear()
        for turn in range(ROUNDS):
            for step in range(len(taken)):
                place = list(taken)[(turn + step) % len(taken)]
                if place in self._workers and sum(taken[place]) <= BUDGET:
                    self._try(place, one)
        for place, times in taken.items():
            if times:
                figure = self.case.figures[place]
                figure.warm, figure.runs = median(times), len(times)

    def _compare(self, expected: Any) -> None:
        """Without an answer that is known, that of most sides is taken for the right one."""
        answers = [figure.answer for figure in self.case.figures if figure.answer is not None]
        if expected is None and answers:
            expected = max(answers, key=answers.count)
        for figure in self.case.figures:
            if figure.answer is not None and figure.answer != expected:
                figure.trouble = f"WRONG: {figure.answer}, not {expected}"

    def _tell(self, figure: Figure) -> None:
        parts = [f"{self.case.what}: {figure.side}: warm {seconds(figure.warm)} s"]
        parts.append(f"cold {seconds(figure.cold)} s")
        if figure.compiling is not None:
            parts.append(f"compiling {seconds(figure.compiling)} s")
        if figure.trouble:
            parts.append(figure.trouble)
        if figure.remembered:
            parts.append("remembered")
        print(", ".join(parts), file=sys.stderr, flush=True)
