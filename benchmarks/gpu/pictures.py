"""The pictures: throughput and memory against edges, where the time goes, what the knobs do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu import breakdown, random_graphs, sweeps
from benchmarks.gpu.cliques import BREADTH, CPU
from benchmarks.gpu.race import clock, ms
from benchmarks.graphs import short
from benchmarks.pictures import FAINT, INK, canvas, name_ends, save
from benchmarks.records import Case, Figure

# Colours that the colour-blind can tell apart; a side has the same one in all pictures.
SERIES = {
    CPU: ("LFTJ-CPU", "#0072B2", "o"),
    "tile 1": ("LFTJ-GPU: tile 1", "#56B4E9", "s"),
    "tile 32": ("tile 32", INK, "D"),
    BREADTH: ("breadth-first", "#009E73", "v"),
    random_graphs.PAIRWISE: ("sort-merge, pairwise", "#D55E00", "^"),
}
_PARTS = (
    "#332288", "#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#0072B2", "#F0E442", "#D55E00",
)  # fmt: skip
_REST = "#BBBBBB"
PATTERNS = (("triangles", "triangles"), ("K4", "4-cliques"))
Value = Callable[[Case, Figure], float | None]


def draw(cases: Sequence[Case], folder: Path) -> list[tuple[str, str]]:
    """Draws what there are figures for; gives the files' names, with what they show."""
    drawn = []
    for pattern, named in PATTERNS:
        found = [
            case
            for case in cases
            if case.suite == random_graphs.SUITE and case.what.startswith(f"{pattern}, ")
        ]
        found.sort(key=lambda case: case.edges)
        for what, label, value in (
            ("throughput", "edges per second", _throughput),
            ("memory", "MB beyond the data, in CuPy's pool", _memory),
        ):
            name = f"gpu-{what}-{named}.png"
            title = f"{what.capitalize()}, {named}"
            if _curves(found, title, label, value, folder / name):
                drawn.append((name, f"{title}, in the random graphs of Wu et al."))
    parts = [case for case in cases if case.suite == breakdown.SUITE]
    if parts:
        _stacked(parts, folder / "gpu-breakdown.png")
        drawn.append(("gpu-breakdown.png", "Where the time of each executor goes"))
    for suite in (sweeps.TILE, sweeps.LIMIT, sweeps.CHUNK):
        swept = [case for case in cases if case.suite == suite]
        name = f"gpu-{suite.replace(' ', '-')}.png"
        if swept and _swept(swept, suite, folder / name):
            drawn.append((name, suite.capitalize()))
    return drawn


def _throughput(case: Case, figure: Figure) -> float | None:
    return case.edges / figure.warm if figure.warm and not figure.trouble else None


def _memory(case: Case, figure: Figure) -> float | None:
    if figure.peak is None or figure.trouble or figure.side == CPU:
        return None
    return max((figure.peak - (figure.resident or 0)) / 1e6, 1.0)


def _curves(cases: Sequence[Case], title: str, label: str, value: Value, path: Path) -> bool:
    lines = []
    for side, (name, colour, marker) in SERIES.items():
        points = [
            (case.edges, seen)
            for case in cases
            if (figure := case.figure(side)) is not None
            and (seen := value(case, figure)) is not None
        ]
        if points:
            lines.append((name, colour, marker, points))
    if not lines:
        return False
    figure, axes = canvas(6.4, 4.2)
    ends = []
    for name, colour, marker, points in lines:
        x, y = zip(*points, strict=True)
        axes.plot(x, y, marker=marker, color=colour, linewidth=1.8, markersize=6, zorder=3)
        ends.append((x[-1], y[-1], name, colour))
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("edges")
    axes.set_title(f"{title}\n", loc="left", fontsize=12, fontweight="bold", color=INK)
    axes.text(0, 1.02, label, transform=axes.transAxes, color=INK, fontsize=9.5)
    axes.xaxis.set_major_formatter(lambda x, _: short(round(x)))
    axes.yaxis.set_major_formatter(lambda y, _: short(round(y)) if y >= 1 else f"{y:g}")
    axes.grid(True, which="major", color=FAINT, linewidth=0.8, zorder=0)
    axes.minorticks_off()
    low, high = axes.get_ylim()
    axes.set_ylim(low / 1.5, high * 1.5)
    name_ends(axes, ends)
    save(figure, "random graphs of Wu et al. (2014); wall time, the data resident", path)
    return True


def _stacked(cases: Sequence[Case], path: Path) -> None:
    """A bar for each executor: shares of its time, which stands at the end."""

    names = list(dict.fromkeys(f.side for case in cases for f in case.figures))
    named = [name for name in names if name != breakdown.REST]
    colours = {name: _PARTS[at % len(_PARTS)] for at, name in enumerate(named)}
    colours[breakdown.REST] = _REST
    figure, axes = canvas(8.6, 1.3 + 0.42 * len(cases))
    for row, case in enumerate(cases):
        whole = sum(f.warm or 0.0 for f in case.figures) or 1.0
        begun = 0.0
        for part in case.figures:
            share = 100 * (part.warm or 0.0) / whole
            axes.barh(row, share, 0.65, begun, color=colours[part.side], label=part.side)
            begun += share
        axes.annotate(
            f"{ms(whole)} ms", (begun, row), xytext=(4, 0), textcoords="offset points",
            va="center", fontsize=8, color=INK,
        )  # fmt: skip
    axes.set_yticks(range(len(cases)), [case.what for case in cases], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("share of the time, %")
    handles, labels = axes.get_legend_handles_labels()
    legend = dict(zip(labels, handles, strict=True))
    figure.legend(
        legend.values(), legend, loc="upper left", bbox_to_anchor=(0.02, 0.0), ncols=3,
        frameon=False, fontsize=8,
    )  # fmt: skip
    save(figure, "", path)


def _swept(cases: Sequence[Case], suite: str, path: Path) -> bool:
    """A line for each work, as a multiple of its best setting."""
    lines: list[tuple[str, list[str], list[float]]] = []
    for case in cases:
        usable = [f for f in case.figures if f.warm and not f.trouble]
        if usable:
            best = min(clock(f) for f in usable)
            where, values = [f.side for f in usable], [clock(f) / best for f in usable]
            lines.append((f"{case.what}: {ms(best)} ms at best", where, values))
    if not lines:
        return False
    figure, axes = canvas(6.4, 3.8)
    order = list(dict.fromkeys(f.side for case in cases for f in case.figures))
    for at, (label, where, values) in enumerate(lines):
        places: list[Any] = [order.index(side) for side in where]
        axes.plot(places, values, marker="o", color=_PARTS[at % len(_PARTS)], label=label)
    axes.set_xticks(range(len(order)), order)
    axes.set_yscale("log", base=2)
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:g}x")
    axes.set_ylim(0.9, max(2.1, 1.1 * axes.get_ylim()[1]))
    axes.grid(True, which="major", color=FAINT, linewidth=0.8, zorder=0)
    axes.set_title(
        f"{suite.capitalize()}: times the best", loc="left", fontsize=11, fontweight="bold",
        color=INK,
    )  # fmt: skip
    axes.legend(frameon=False, fontsize=7.5, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    save(figure, "", path)
    return True
