"""What was seen, as Markdown: how many times as fast, every figure, what the figures do not say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from benchmarks.machine import Facts, named, rough
from benchmarks.records import CAP, Case, Figure, seconds

Clock = Literal["warm", "cold"]
Pictures = Sequence[tuple[str, str]]  # files, and what they show
_COLUMNS = ("side", "warm s", "x gdatalog", "cold s", "compiling s", "peak MB", "over idle MB")


def markdown(
    cases: Sequence[Case],
    facts: Facts,
    left_out: Sequence[str],
    pictures: Pictures,
    command: str = "make bench",
) -> str:
    """The whole report."""
    shown = [f"![{what}]({name})\n" for name, what in pictures]
    parts = [_head(cases, facts, command), _ratios(cases), rough(facts), *shown]
    parts += [_notes(cases, left_out), _how(facts), *_suites(cases)]
    return "\n".join(part.rstrip() + "\n" for part in parts if part)


def _head(cases: Sequence[Case], facts: Facts, command: str) -> str:
    suites = {case.suite for case in cases if case.figures}
    what = suites.pop().capitalize() if len(suites) == 1 else "gdatalog"
    return f"""# {what} beside other engines

The same work by gdatalog and by others, with the same answers, on
{named(facts)}.
`{command}` repeats it on your machine.
"""


def _ratios(cases: Sequence[Case]) -> str:
    lines = [
        "## How many times as fast",
        "",
        "2x: gdatalog takes half the time of the other engine. *warm*: the data is loaded and",
        "indexed; *cold*: from data in memory to the answer.",
        "",
        "| work | beside | warm | cold | gdatalog, warm s | theirs, warm s |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for case in cases:
        what = case.what
        for name, sides in _others(case).items():
            ours, theirs = case.figures[0], _least(sides, "warm")
            cells = [
                name,
                _times(ours, theirs, "warm"),
                _times(ours, _least(sides, "cold"), "cold"),
            ]
            cells += [seconds(ours.warm), _warm(ours, theirs) if theirs is not None else ""]
            lines.append(f"| {what} | {' | '.join(cells)} |")
            what = ""
    return "\n".join(lines) + "\n" if len(lines) > 7 else ""


def _others(case: Case) -> dict[str, list[Figure]]:
    """The figures of each other engine, however it was used."""
    found: dict[str, list[Figure]] = {}
    if case.figures and _ours(case.figures[0]) and case.figures[0].usable:
        for figure in case.figures[1:]:
            if figure.usable and not _ours(figure):
                found.setdefault(figure.side.partition(",")[0], []).append(figure)
    return found


def _ours(figure: Figure) -> bool:
    return figure.side.startswith("ours")


def _least(sides: Sequence[Figure], clock: Clock) -> Figure | None:
    timed = [figure for figure in sides if getattr(figure, clock) is not None]
    return min(timed, key=lambda figure: float(getattr(figure, clock)), default=None)


def _times(ours: Figure, theirs: Figure | None, clock: Clock) -> str:
    own = getattr(ours, clock)
    if theirs is None or not own:
        return ""
    return f"{'more than ' if theirs.stopped else ''}{getattr(theirs, clock) / own:.3g}x"


def _how(facts: Facts) -> str:
    told = ", ".join(f"{key}: {value}" for key, value in facts.items())
    return f"""## How it was measured

All sides of a case gave the same answer, ran in turns, each in a process of its own, on as many
threads; seconds are medians. The table above has the fastest way of each other engine.

*warm*: the data is loaded and indexed. *cold*: from data in memory to the answer, with tables and
indexes, without compilation. *compiling*: what the very first call took longer than later
cold ones, its code cache empty. *peak*: the most resident memory during a warm run, in MB of
10^6 bytes, and *over idle*: how much of it was not there before that run. *x gdatalog*: how many
times gdatalog's time a side needs. `*`: stopped after {CAP:g} s, and counts as that. `°`: not run
anew; seen on such a machine earlier (slow peers are run once: `make bench-again` runs them all).

{told}.
"""


def _suites(cases: Sequence[Case]) -> Iterator[str]:
    for suite in dict.fromkeys(case.suite for case in cases):
        of_suite = [case for case in cases if case.suite == suite]
        if not any(case.figures for case in of_suite):
            continue
        yield f"## {suite[0].upper()}{suite[1:]}\n"
        yield "\n".join(_table([case for case in of_suite if case.figures]))


def _table(cases: Sequence[Case]) -> Iterator[str]:
    shown = [
        any(cell(case.figures[0], f) for case in cases for f in case.figures) for cell in _CELLS
    ]
    names = ["work", *(name for name, show in zip(_COLUMNS, shown, strict=True) if show)]
    yield f"| {' | '.join(names)} |"
    yield f"| --- | --- |{' ---: |' * (len(names) - 2)}"
    for case in cases:
        answer = next((f.answer for f in case.figures if f.answer is not None), None)
        what = case.what if answer is None else f"{case.what}: {_answer(answer)}"
        for figure in case.figures:
            cells = [
                cell(case.figures[0], figure)
                for cell, show in zip(_CELLS, shown, strict=True)
                if show
            ]
            yield f"| {' | '.join([what, *cells])} |"
            what = ""


def _answer(answer: object) -> str:
    return f"{answer:,}" if isinstance(answer, int) else str(answer).partition(",  ")[0]


def _side(first: Figure, figure: Figure) -> str:
    side = f"gdatalog{figure.side.removeprefix('ours')}" if _ours(figure) else figure.side
    return f"{side}: {figure.trouble}" if figure.trouble and not figure.stopped else side


def _warm(first: Figure, figure: Figure) -> str:
    marks = ("\\*" if figure.stopped else "") + ("°" if figure.remembered else "")
    return seconds(figure.warm) + marks


def _times_ours(first: Figure, figure: Figure) -> str:
    if figure is first or not figure.warm or not first.warm or not _ours(first):
        return ""
    return f"{figure.warm / first.warm:.3g}"


def _cold(first: Figure, figure: Figure) -> str:
    return "" if figure.stopped else seconds(figure.cold)


def _compiling(first: Figure, figure: Figure) -> str:
    return seconds(figure.compiling)


def _peak(first: Figure, figure: Figure) -> str:
    return "" if figure.peak is None else f"{figure.peak / 1e6:,.0f}"


def _over(first: Figure, figure: Figure) -> str:
    if figure.peak is None or figure.resident is None:
        return ""
    return f"{max(figure.peak - figure.resident, 0) / 1e6:,.0f}"


_CELLS = (_side, _warm, _times_ours, _cold, _compiling, _peak, _over)


def _notes(cases: Sequence[Case], left_out: Sequence[str]) -> str:
    told: dict[str, list[str]] = {}
    for case in cases:
        for note in case.notes:
            told.setdefault(note, []).append(case.what)
    lines = [f"- {note} ({_few(works)})." for note, works in told.items()]
    if left_out:
        lines.append(f"- No time was left for {_few(left_out)}: `make bench-full` runs all.")
    return "\n".join(["## What the figures do not say", "", *lines]) if lines else ""


def _few(names: Sequence[str]) -> str:
    return "; ".join(names) if len(names) <= 4 else f"{'; '.join(names[:3])}; and others"
