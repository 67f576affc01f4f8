"""What was seen on a GPU, as Markdown, and as a short table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.gpu import cliques, published
from benchmarks.gpu.machine import Facts
from benchmarks.gpu.race import best, clock, ms
from benchmarks.records import Ask, Case, Figure, asks

HEAD = """# Benchmarks on a GPU

Made by `make bench-gpu`. All sides of a case gave the same answer before any was timed; times are
medians, in milliseconds, of runs after that first one, with the data resident.

*wall*: from asking to the answer in Python, all waited for: parsing, planning, launches. *kernels*:
the GPU's own clocks around each kernel (empty where array functions did part of the work).
*first*: the very first answer: loading, tries, compilation. *compiling*: what compilation took of
that. *peak MB*: what CuPy's pool held at the most in a run, and *over*: how much of it was not
there before.
*few blocks*: the share of the kernels' time in which fewer than half of the blocks worked, which is
at least the share in which fewer than half of the SMs did. *of best*: the best side's time as a
share of this one's, by the GPU's clocks where there are some. `*`: stopped, and counts as that.
"""
SHORTEST = 1e-3  # seconds: what takes less has hardly begun when it ends
_WATCHED = (cliques.AUTO, "tile 32")
_NAMES = (
    "side", "wall", "kernels", "of best", "first", "compiling", "peak MB", "over", "few blocks"
)  # fmt: skip


def markdown(
    cases: Sequence[Case],
    facts: Facts,
    left_out: Sequence[str],
    pictures: Sequence[tuple[str, str]],
    reasons: Sequence[str],
) -> str:
    told = ", ".join(f"{key}: {value}" for key, value in facts.items())
    parts = [HEAD, f"{told}.\n", "## What is asked for\n", *asked(cases), ""]
    parts += speeds(cases)
    parts += [f"![{what}]({name})\n" for name, what in pictures]
    for suite in dict.fromkeys(case.suite for case in cases):
        shown = [case for case in cases if case.suite == suite and case.figures]
        if shown:
            parts += [f"## {suite[0].upper()}{suite[1:]}\n", *_table(shown), ""]
    parts += ["## Published by others\n", published.NOTE, "", *published.table(), ""]
    notes = dict.fromkeys(note for case in cases for note in case.notes)
    told_notes = [f"- {note}." for note in notes]
    told_notes += [f"- {reason}" for reason in reasons]
    if left_out:
        told_notes.append(f"- No time was left for: {'; '.join(left_out)}.")
    if told_notes:
        parts += ["## What the figures do not say\n", *told_notes]
    return "\n".join(parts).rstrip() + "\n"


def asked(cases: Sequence[Case]) -> list[str]:
    """The short table: what is asked for, and what was seen."""
    found = [*asks(cases), *_stragglers(cases)]
    if not found:
        return ["Nothing that was run is asked for."]
    lines = ["| work | asked | seen | |", "| --- | ---: | --- | --- |"]
    for ask in found:
        met = {None: "", True: "met", False: "**not met**"}[ask.met]
        lines.append(f"| {ask.work} | {ask.wanted} | {ask.seen} | {met} |")
    return lines


def _stragglers(cases: Sequence[Case]) -> Iterator[Ask]:
    """The work in which few blocks were busy for the longest share of its time."""
    seen = [
        (figure.idle, figure, case)
        for case in cases
        for figure in case.figures
        if case.suite == cliques.SUITE and figure.idle is not None and figure.side in _WATCHED
        if (figure.kernels or 0.0) >= SHORTEST
    ]
    if seen:
        share, figure, case = max(seen, key=lambda one: one[0])
        told = f"{100 * share:.0f} % of {ms(figure.kernels)} ms: {case.what}, {figure.side}"
        yield Ask("time with fewer than half of the blocks at work, at most", "", "", told, None)


def speeds(cases: Sequence[Case]) -> list[str]:
    """The table of cliques, short: milliseconds of kernels, or of all where there are none."""
    lines = []
    for case in cases:
        hand = [f.side for f in case.figures if f.side.startswith("by hand")]
        if case.suite != cliques.SUITE:
            continue
        columns = ([cliques.AUTO], ["tile 32"], ["tile 1"], hand, [cliques.BREADTH], [cliques.CPU])
        cells = [_best(case, sides) for sides in columns]
        lines.append(f"| {case.what} | {' | '.join(cells)} |")
    if not lines:
        return []
    names = ("ms", cliques.AUTO, "tile 32", "tile 1", "by hand", cliques.BREADTH, cliques.CPU)
    return [f"| {' | '.join(names)} |", f"| --- |{' ---: |' * (len(names) - 1)}", *lines, ""]


def _best(case: Case, sides: Sequence[str]) -> str:
    figure = best(case, sides)
    if figure is not None:
        return ms(clock(figure))
    own = [figure for side in sides if (figure := case.figure(side)) is not None]
    return "stopped" if any(f.stopped for f in own) else "failed" if own else ""


def _table(cases: Sequence[Case]) -> Iterator[str]:
    rows = [(case, figure, _cells(case, figure)) for case in cases for figure in case.figures]
    shown = [any(cells[at] for _, _, cells in rows) for at in range(len(_NAMES))]
    names = ["work", *(name for name, show in zip(_NAMES, shown, strict=True) if show)]
    yield f"| {' | '.join(names)} |"
    yield f"| --- | --- |{' ---: |' * (len(names) - 2)}"
    told: Case | None = None
    for case, _, cells in rows:
        answer = next((f.answer for f in case.figures if f.answer is not None), None)
        what = case.what if answer is None else f"{case.what}: {answer:,}"
        kept = [cell for cell, show in zip(cells, shown, strict=True) if show]
        yield f"| {' | '.join([what if case is not told else '', *kept])} |"
        told = case


def _cells(case: Case, figure: Figure) -> list[str]:
    name = figure.side
    if figure.trouble and not figure.stopped:
        name = f"{name}: {figure.trouble}".replace("|", "/").replace("\n", " ")
    usable = [clock(f) for f in case.figures if f.answer is not None and not f.trouble and f.warm]
    share = ""
    if figure.answer is not None and not figure.trouble and figure.warm:
        share = f"{min(usable) / clock(figure):.2f}"
    peak = over = ""
    if figure.peak is not None:
        peak = f"{figure.peak / 1e6:,.0f}"
        over = f"{(figure.peak - (figure.resident or 0)) / 1e6:,.0f}"
    return [
        name,
        ms(figure.warm) + ("\\*" if figure.stopped else ""),
        ms(figure.kernels),
        share,
        ms(figure.cold),
        ms(figure.compiling),
        peak,
        over,
        "" if figure.idle is None else f"{100 * figure.idle:.0f} %",
    ]
