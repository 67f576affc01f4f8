"""Several sides do the same work, in turns, each in a process of its own.

First every side does it cold. Then those that are quick go on: again cold, from fresh tables and
indexes, and then warm, one after the other in turning order, so that noise hits all of them. A
side that was slow is not run again: its one run counts. So does the cap for one that was
stopped. Both are remembered, so that the next run on such a machine need not wait for them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.records import Case, Figure, seconds
from benchmarks.remembered import Remembered
from benchmarks.worker import Broken, Side, Stopped, Worker

ROUNDS, COLD_ROUNDS = 9, 3
LONG = 10.0  # seconds: what takes longer than this is run once
BUDGET = 4.0  # seconds of warm runs for each side, and of cold ones


class Race:
    """One case, while it is run."""

    def __init__(self, suite: str, what: str, data: Path, known: Remembered, cap: float) -> None:
        self.case = Case(suite, what, [])
        self.data, self.known, self.cap = data, known, cap
        self._workers: dict[int, Worker] = {}  # by the place of the figure

    def run(self, sides: Sequence[Side], expected: Any = None, *, rounds: int = ROUNDS) -> Case:
        """All figures; an answer that differs from another's, or the expected, is an error."""
        with ExitStack() as stack:
            for side in sides:
                self._first(side, stack)
            quick = [place for place in self._workers if self._is_quick(place)]
            for place in quick:
                self._again_cold(place)
            self._in_turns(quick, rounds)
            for place, worker in self._workers.items():
                figure = self.case.figures[place]
                if figure.runs > 1 or not self._is_slow(figure):
                    held = worker.held()
                    figure.resident, figure.peak = held.resident, held.peak
        self._compare(expected)
        for side, figure in zip(sides, self.case.figures, strict=True):
            self.known.keep(self.case.what, side, figure)
            self._tell(figure)
        return self.case

    def _first(self, side: Side, stack: ExitStack) -> None:
        figure = self.known.of(self.case.what, side)
        if figure is not None:
            self.case.figures.append(figure)
            return
        figure = Figure(side.name)
        self.case.figures.append(figure)
        try:
            worker = Worker(side, self.data, self.cap)
        except (Broken, Stopped) as error:
            figure.trouble = str(error)
            return
        stack.callback(worker.close)
        try:
            cold = worker.cold()
        except Stopped as error:
            figure.trouble, figure.stopped = str(error), True
            figure.warm = figure.cold = self.cap
            worker.close()
            return
        except Broken as error:
            figure.trouble = str(error)
            worker.close()
            return
        figure.cold, figure.warm = cold.building + cold.answering, cold.answering
        figure.answer, figure.grown, figure.runs = cold.answer, cold.grown, 1
        self._workers[len(self.case.figures) - 1] = worker

    def _is_slow(self, figure: Figure) -> bool:
        return figure.warm is not None and figure.warm > LONG

    def _is_quick(self, place: int) -> bool:
        return not self._is_slow(self.case.figures[place])

    def _again_cold(self, place: int) -> None:
        """The first call may have compiled, so what counts as cold are the later ones."""
        figure, worker = self.case.figures[place], self._workers[place]
        first = figure.cold
        assert first is not None
        taken: list[float] = []
        while not taken or (len(taken) < COLD_ROUNDS and sum(taken) < BUDGET):
            cold = worker.cold()
            taken.append(cold.building + cold.answering)
            figure.grown = cold.grown
        figure.cold = median(taken)
        figure.compiling = max(first - figure.cold, 0.0)

    def _in_turns(self, places: list[int], rounds: int) -> None:
        taken: dict[int, list[float]] = {place: [] for place in places}
        for turn in range(rounds):
            for step in range(len(places)):
                place = places[(turn + step) % len(places)]
                if taken[place] and sum(taken[place]) > BUDGET:
                    continue
                one, answer = self._workers[place].warm()
                figure = self.case.figures[place]
                if answer != figure.answer:
                    self._differ(figure, "itself, earlier", answer)
                taken[place].append(one)
        for place, times in taken.items():
            figure = self.case.figures[place]
            figure.warm, figure.runs = median(times), len(times)

    def _compare(self, expected: Any) -> None:
        for figure in self.case.figures:
            if figure.answer is None:
                continue
            if expected is None:
                expected = figure.answer
            if figure.answer != expected:
                self._differ(figure, "what is right", expected)

    def _differ(self, figure: Figure, other: str, value: Any) -> None:
        what = f"{self.case.suite}: {self.case.what}"
        raise SystemExit(f"{what}: {figure.side} says {figure.answer}, {other}: {value}")

    def _tell(self, figure: Figure) -> None:
        parts = [f"{self.case.what}: {figure.side}: warm {seconds(figure.warm)} s"]
        parts.append(f"cold {seconds(figure.cold)} s")
        if figure.compiling is not None and figure.side.startswith(("ours", "Numba")):
            parts.append(f"compiling {seconds(figure.compiling)} s")
        if figure.trouble:
            parts.append(figure.trouble)
        if figure.remembered:
            parts.append("remembered")
        print(", ".join(parts), file=sys.stderr, flush=True)
