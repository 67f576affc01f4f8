"""Sides of one piece of work: their answers are compared, then they are timed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Timer
from time import perf_counter
from typing import Any, Protocol

from benchmarks.gpu.clocks import empty_pool, medians, pool_bytes, under_half
from benchmarks.gpu.forced import Forced
from benchmarks.gpu.forced import Ours as Database
from benchmarks.gpu.hand import Hand
from benchmarks.gpu.made import Edges
from benchmarks.gpu.setting import Setting
from benchmarks.gpu.sort_merge import SortMerge
from benchmarks.patterns import Pattern
from benchmarks.records import Ask, Case, Figure
from gdatalog.errors import Interrupted

LONG = 4.0  # seconds: what took longer is not run again


class Runner(Protocol):
    """A side over a graph that it has loaded."""

    def count(self) -> int: ...

    def ends(self) -> Any: ...


class Side(Protocol):
    @property
    def name(self) -> str: ...

    def start(self, setting: Setting, edges: Edges) -> Runner: ...


@dataclass(frozen=True, slots=True)
class Ours:
    """A rule of ours. It may count each occurrence as often as it has automorphisms."""

    name: str
    text: str
    forced: Forced
    times: int = 1
    gpu: bool = True

    def start(self, setting: Setting, edges: Edges) -> Runner:
        return Rule(setting.ours(edges, self.gpu), self)


@dataclass(slots=True)
class Rule:
    db: Database
    side: Ours

    @property
    def all_kernels(self) -> bool:
        """Whether its work is done by kernels that have clocks; else by a CPU, or sorts too."""
        return self.side.gpu

    def count(self) -> int:
        return self.db.count(self.side.text, self.side.forced) // self.side.times

    def ends(self) -> Any:
        return self.db.ends()

    def watch(self, on: bool) -> None:
        self.db.watch(on)

    def stop(self) -> None:
        self.db.stop()


@dataclass(frozen=True, slots=True)
class ByHand:
    kernel: str
    lanes: int = 32

    @property
    def name(self) -> str:
        return f"by hand: {self.kernel}, {self.lanes} lanes"

    def start(self, setting: Setting, edges: Edges) -> Runner:
        return Hand(self.kernel, setting.oriented(edges), setting.driver, self.lanes)


@dataclass(frozen=True, slots=True)
class Pairwise:
    size: int
    name: str = "sort-merge"

    def start(self, setting: Setting, edges: Edges) -> Runner:
        chunk = 100 if setting.small else 1 << 26
        return SortMerge(setting.driver, edges, self.size, chunk)


def ours(pattern: Pattern, name: str, forced: Forced, gpu: bool = True) -> Ours:
    """Cliques are asked for in order, other patterns as injective maps."""
    whole = len(pattern.edges.split()) == len(pattern.vertices) * (len(pattern.vertices) - 1) // 2
    if whole:
        return Ours(name, pattern.rule(), forced, gpu=gpu)
    return Ours(name, pattern.distinct_rule(), forced, pattern.automorphisms, gpu)


def race(
    setting: Setting,
    suite: str,
    what: str,
    edges: Edges,
    sides: Sequence[Side],
    expected: int | None = None,
) -> Case:
    """All answers first, then the clocks, of those whose answer is right."""
    case = Case(suite, what, [], edges=len(edges))
    runners: dict[int, Runner] = {}  # by the place of the figure
    for place, side in enumerate(sides):
        case.figures.append(Figure(side.name))
        runner = _first(setting, side, edges, case.figures[place])
        if runner is not None:
            runners[place] = runner
    _compare(case, expected)
    for place, figure in enumerate(case.figures):
        if place in runners and figure.usable and figure.warm is None:
            _timed(setting, figure, runners[place])
        tell(case, figure)
    return case


def _first(setting: Setting, side: Side, edges: Edges, figure: Figure) -> Runner | None:
    """The first answer: with compilation, tries and whatever is made once."""
    began, compiled = perf_counter(), len(setting.driver.compiled)
    try:
        runner = side.start(setting, edges)
        figure.resident, loaded = empty_pool(setting.xp), perf_counter()
        # What is loaded and made once takes its time too.
        figure.answer = _capped(setting, runner, 3 * setting.cap)
        figure.cold = perf_counter() - began
        figure.peak = pool_bytes(setting.xp)
        if isinstance(runner, SortMerge) and perf_counter() - loaded > LONG:
            figure.warm, figure.runs = perf_counter() - loaded, 1
    except Interrupted:
        _stopped(figure, 3 * setting.cap)
        return None
    except Exception as error:  # one side's failure is a figure, and the others go on
        figure.trouble = f"{type(error).__name__}: {str(error).strip()[:300]}"
        return None
    figure.compiling = sum(one.seconds for one in setting.driver.compiled[compiled:]) or None
    return runner


def _stopped(figure: Figure, seconds: float) -> None:
    figure.warm, figure.stopped, figure.trouble = seconds, True, f"not done in {seconds:g} s"


def _capped(setting: Setting, runner: Runner, seconds: float) -> int:
    stop: Callable[[], None] | None = getattr(runner, "stop", None)
    if stop is None:
        return runner.count()
    timer = Timer(seconds, stop)
    timer.start()
    try:
        return runner.count()
    finally:
        timer.cancel()


def _compare(case: Case, expected: int | None) -> None:
    """Without an answer that is known, that of most sides is taken for the right one."""
    answers = [figure.answer for figure in case.figures if figure.answer is not None]
    if expected is None and answers:
        expected = max(answers, key=answers.count)
    for figure in case.figures:
        if figure.answer is not None and figure.answer != expected:
            figure.trouble = f"WRONG: {figure.answer}, not {expected}"


def _timed(setting: Setting, figure: Figure, runner: Runner) -> None:
    driver, xp = setting.driver, setting.xp
    try:
        held = empty_pool(xp)
        driver.take()
        began = perf_counter()
        again = _capped(setting, runner, setting.cap)
        driver.synchronize()
        wall = perf_counter() - began
        if again != figure.answer:
            figure.trouble = f"WRONG: {again} the second time, not {figure.answer}"
            return
        most = pool_bytes(xp)
        if held is not None and most is not None:
            figure.resident, figure.peak = held, most
        if wall > LONG:
            launches, kernels = driver.take()
            figure.warm, figure.runs = wall, 1
            figure.kernels = kernels if launches else None
        else:
            seen = medians(driver, runner.count, setting.budget, 30)
            figure.warm, figure.kernels, figure.runs = seen.wall, seen.kernels, seen.runs
        if not getattr(runner, "all_kernels", True):
            figure.kernels = None
        _watched(setting, figure, runner)
    except Interrupted:
        _stopped(figure, setting.cap)
    except Exception as error:
        figure.trouble = f"{type(error).__name__}: {str(error).strip()[:300]}"


def _watched(setting: Setting, figure: Figure, runner: Runner) -> None:
    """How much of the time few blocks worked, in a run of its own if that has to be asked for."""
    if figure.kernels is None or (figure.warm or 0.0) > LONG:
        return
    watch: Callable[[bool], None] | None = getattr(runner, "watch", None)
    if watch is not None:
        watch(True)
    try:
        setting.driver.take()
        runner.count()
        _, seconds = setting.driver.take()
        ends = runner.ends()
    finally:
        if watch is not None:
            watch(False)
    if ends is not None:
        with suppress(ValueError):
            figure.idle = under_half(setting.xp.asnumpy(ends).tolist(), seconds)


def best(case: Case, names: Sequence[str]) -> Figure | None:
    """The quickest of some sides, by the GPU's clocks where there are any."""
    found = [
        figure
        for name in names
        if (figure := case.figure(name)) is not None and not figure.trouble and figure.warm
    ]
    return min(found, key=clock, default=None)


def clock(figure: Figure) -> float:
    return figure.kernels if figure.kernels is not None else figure.warm or float("inf")


def at_least(
    case: Case, mine: Sequence[str], theirs: Sequence[str], wanted: float, wall: bool = False
) -> Ask:
    """That the best of ours is so many times as fast as the best of theirs."""
    own, other = best(case, mine), best(case, theirs)
    against = other.side if other is not None else ", ".join(theirs[:2])
    if own is None or other is None:
        return Ask(case.what, against, f"{wanted:g}x", "not measured", None)
    a, b = (own.warm, other.warm) if wall else (clock(own), clock(other))
    ratio = float(b or 0.0) / float(a or float("inf"))
    seen = f"{ratio:.3g}x ({own.side} {ms(a)}, {other.side} {ms(b)} ms)"
    return Ask(case.what, against, f"{wanted:g}x", seen, ratio >= wanted)


def ms(seconds: float | None) -> str:
    """Milliseconds, three digits."""
    if seconds is None:
        return ""
    value = 1e3 * seconds
    places = 3 if value < 1 else 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:,.{places}f}"


def tell(case: Case, figure: Figure) -> None:
    told = f"{case.what}: {figure.side}: {ms(figure.warm)} ms"
    if figure.kernels is not None:
        told += f", kernels {ms(figure.kernels)} ms"
    if figure.trouble:
        told += f", {figure.trouble}"
    print(told, file=sys.stderr, flush=True)
