"""What was seen on a GPU, as Markdown, and as a short table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.gpu import cliques, published, random_graphs, recursion
from benchmarks.gpu.machine import Facts
from benchmarks.gpu.race import best, clock, ms
from benchmarks.records import Case, Figure

HOW = """## How it was measured

All sides of a case gave the same answer before any was timed; times are medians, in milliseconds,
of runs after that first one, with the data resident. The first table compares with the CPU and with
pairwise joins by the clock on the wall, and with kernels by hand by the GPU's own clocks; it has
the fastest kernel by hand.

*wall*: from asking to the answer in Python, all waited for: parsing, planning, launches. *kernels*:
the GPU's own clocks around each kernel (empty where array functions did part of the work).
*first*: the very first answer: loading, tries, compilation. *compiling*: what compilation took of
that. *peak MB*: what CuPy's pool held at the most in a run, and *over*: how much of it was not
there before. *few blocks*: the share of the kernels' time in which fewer than half of the blocks
worked, which is at least the share in which fewer than half of the SMs did. *of best*: the best
side's time as a share of this one's, by the GPU's clocks where there are some. `*`: stopped, and
counts as that.
"""
_NAMES = (
    "side", "wall", "kernels", "of best", "first", "compiling", "peak MB", "over", "few blocks"
)  # fmt: skip
_CHOSEN = (cliques.AUTO, recursion.GPU)  # our sides, as gdatalog chooses: no other is compared
_CPUS = {cliques.CPU: "", recursion.CORES: " (two threads)"}


def markdown(
    cases: Sequence[Case],
    facts: Facts,
    left_out: Sequence[str],
    pictures: Sequence[tuple[str, str]],
    reasons: Sequence[str],
) -> str:
    told = ", ".join(f"{key}: {value}" for key, value in facts.items())
    parts = [_head(facts), *ratios(cases)]
    parts += [f"![{what}]({name})\n" for name, what in pictures]
    parts += [HOW, f"{told}.\n"]
    short = speeds(cases)
    parts += ["## Cliques, by executor\n", *short] if short else []
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


def _head(facts: Facts) -> str:
    there = f", {facts['GPU memory GiB']} GiB of memory" if "GPU memory GiB" in facts else ""
    cores = f", {facts['cores']} cores" if "cores" in facts else ""
    return f"""# gdatalog on a GPU

The same work on a GPU and beside it, with the same answers, on
{facts.get("GPU", "this machine")}{there}, and its host ({facts.get("processor", "a CPU")}{cores}).
`make bench-gpu` repeats it on your machine.
"""


def ratios(cases: Sequence[Case]) -> list[str]:
    """How many times as fast as others the GPU is; a line for each case that has others."""
    lines: dict[str, str] = {}
    for case in cases:
        hand = [f.side for f in case.figures if f.side.startswith("by hand")]
        own = best(case, _CHOSEN)
        if own is None or case.what in lines:
            continue
        cells = [
            _times(own, best(case, tuple(_CPUS)), wall=True),
            _times(own, best(case, [random_graphs.PAIRWISE]), wall=True),
            _times(own, best(case, hand), wall=False),
        ]
        if any(cells):
            lines[case.what] = f"| {case.what} | {' | '.join(cells)} | {ms(own.warm)} |"
    if not lines:
        return []
    return [
        "## How many times as fast\n",
        "2x: the GPU takes half the time of the CPU (all cores, unless it says how many threads),",
        "of sort-merge joins on the same GPU, or of a CUDA kernel written for that work alone.",
        "",
        "| work | the CPU | pairwise joins | a kernel by hand | GPU, wall ms |",
        "| --- | ---: | ---: | ---: | ---: |",
        *lines.values(),
        "",
    ]


def _times(own: Figure, other: Figure | None, wall: bool) -> str:
    mine, theirs = (f and (f.warm if wall else clock(f)) for f in (own, other))
    if other is None or not mine or not theirs:
        return ""
    return f"{theirs / mine:.3g}x{_CPUS.get(other.side, '')}"


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
