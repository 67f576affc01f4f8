"""What was seen, as Markdown: what is asked for, every figure, and what the figures do not say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.machine import BUSY, LOAD
from benchmarks.records import CAP, Case, Figure, asks, seconds

Facts = Mapping[str, str | int | float]
Pictures = Sequence[tuple[str, str]]  # files, and what they show
_COLUMNS = ("side", "warm s", "x ours", "cold s", "compiling s", "peak MB", "over idle MB")


def markdown(
    cases: Sequence[Case], facts: Facts, left_out: Sequence[str], pictures: Pictures
) -> str:
    """The whole report."""
    shown = [f"![{what}]({name})\n" for name, what in pictures]
    parts = [_head(facts), _asked(cases), *shown, *_suites(cases), _notes(cases, left_out)]
    return "\n".join(part.rstrip() + "\n" for part in parts if part)


def _head(facts: Facts) -> str:
    told = ", ".join(f"{key}: {value}" for key, value in facts.items())
    load = float(facts.get(LOAD, 0))
    busy = "\n**Others were at work on the machine: these figures mean little.**\n"
    return f"""# Benchmarks
{busy if load > BUSY else ""}
Made by `make bench`. All sides of a case gave the same answer, ran in turns, each in a process
of its own, on as many threads; seconds are medians.

*warm*: the data is loaded and indexed. *cold*: from data in memory to the answer, with tables
and indexes, without compilation. *compiling*: what the very first call took longer than later
cold ones, its code cache empty. *peak*: the most resident memory during a warm run, in MB of
10^6 bytes, and *over idle*: how much of it was not there before that run. *x ours*: how many
times our time a side needs. `*`: stopped after {CAP:g} s, and counts as that. `°`: not run anew;
seen on such a machine earlier (slow peers are run once: `make bench-again` runs them all).
Nothing here ran on a GPU.

{told}.
"""


def _asked(cases: Sequence[Case]) -> str:
    lines = [
        "## What is asked for",
        "",
        "| work | against | asked | seen | |",
        "| --- | --- | ---: | ---: | --- |",
    ]
    for ask in asks(cases):
        met = {None: "", True: "met", False: "**not met**"}[ask.met]
        lines.append(f"| {ask.work} | {ask.against} | {ask.wanted} | {ask.seen} | {met} |")
    return "\n".join(lines) + "\n" if len(lines) > 4 else ""


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
    if figure.trouble and not figure.stopped:
        return f"{figure.side}: {figure.trouble}"
    return figure.side


def _warm(first: Figure, figure: Figure) -> str:
    marks = ("\\*" if figure.stopped else "") + ("°" if figure.remembered else "")
    return seconds(figure.warm) + marks


def _times_ours(first: Figure, figure: Figure) -> str:
    if figure is first or not figure.warm or not first.warm or not first.side.startswith("ours"):
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
