"""The pictures: throughput and memory against edges, and where the time goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, floor, log10
from pathlib import Path
from typing import Any

from benchmarks.breakdown import KINDS, PARTS
from benchmarks.graphs import short
from benchmarks.records import CAP, Case, Figure, seconds
from benchmarks.sides import BREADTH, DEPTH

# Colours that the colour-blind can tell apart; a side has the same one in all pictures.
SERIES = {
    DEPTH: ("LFTJ-CPU: depth-first", "#0072B2", "o"),
    BREADTH: ("breadth-first", "#009E73", "s"),
    "DuckDB": ("pairwise joins: DuckDB", "#D55E00", "^"),
}
INK, FAINT = "#222222", "#DDDDDD"
_SIX = ("#332288", "#0072B2", "#56B4E9", "#E69F00", "#009E73", "#BBBBBB")
PART_COLOURS = dict(zip(PARTS, _SIX, strict=True))
KIND_COLOURS = dict(zip(KINDS, ("#0072B2", "#56B4E9", "#009E73", "#E69F00", INK), strict=True))
_TITLE: dict[str, Any] = {"loc": "left", "fontsize": 11, "fontweight": "bold", "color": INK}
PATTERNS = (("triangles", "triangles"), ("K4", "4-cliques"))

Value = Callable[[Case, Figure], float | None]


def draw(cases: Sequence[Case], folder: Path) -> list[tuple[str, str]]:
    """Draws what there are figures for; gives the files' names, with what they show."""
    drawn = []
    for pattern, named in PATTERNS:
        of_pattern = [c for c in cases if c.edges and c.what.startswith(f"{pattern}, ")]
        if len(of_pattern) < 2:
            continue
        of_pattern.sort(key=lambda case: case.edges)
        for what, label, value in (
            ("throughput", "edges per second", _throughput),
            ("memory", "MB beyond the data and an idle process", _memory),
        ):
            name, title = f"{what}-{named}.png", f"{what.capitalize()}, {named}"
            _curves(of_pattern, title, label, value, folder / name)
            drawn.append((name, f"{title}, in random graphs"))
    if _breakdown(cases, folder / "breakdown.png"):
        drawn.append(("breakdown.png", "Where the time goes"))
    return drawn


def _throughput(case: Case, figure: Figure) -> float | None:
    return case.edges / figure.warm if figure.warm else None


def _memory(case: Case, figure: Figure) -> float | None:
    return max(figure.grown / 1e6, 1.0) if figure.grown is not None else None


def _curves(cases: Sequence[Case], title: str, label: str, value: Value, path: Path) -> None:
    figure, axes = canvas(6.4, 4.2)
    ends: list[tuple[float, float, str, str]] = []
    hollow = False
    for side, (name, colour, marker) in SERIES.items():
        points = [
            (case.edges, seen, case.figure(side).stopped)
            for case in cases
            if (own := case.figure(side)) is not None
            and own.usable
            and (seen := value(case, own)) is not None
        ]
        if not points:
            continue
        x, y, stops = zip(*points, strict=True)
        finished = len(points) - sum(stops)  # who is stopped once is not asked again
        axes.plot(x[:finished], y[:finished], color=colour, linewidth=1.8, zorder=3)
        last = max(finished - 1, 0)
        axes.plot(x[last:], y[last:], ":", color=colour, linewidth=1.4, zorder=3)
        for at, seen, stopped in points:
            face = "white" if stopped else colour
            axes.plot(at, seen, marker, color=colour, mfc=face, markersize=6, zorder=4)
        hollow = hollow or any(stops)
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
    while floor(log10(high)) - ceil(log10(low)) < 1:  # a log axis needs two labels
        low, high = low / 1.1, high * 1.1
    axes.set_ylim(low, high)
    name_ends(axes, ends)
    ran = "warm" if value is _throughput else "loading, indexing and counting"
    note = f"random graphs of Wu et al. (2014); {ran}, two threads"
    if hollow:
        note += f"; hollow: stopped after {CAP:g} s, so at most that"
    save(figure, note, path)


def name_ends(axes: Any, ends: list[tuple[float, float, str, str]]) -> None:
    """Each line's name at the right, as high as its last point, or so that none overlap."""
    low, high = (log10(limit) for limit in axes.get_ylim())
    apart = 0.07 * (high - low)
    right = max(x for x, *_ in ends)
    below: float | None = None
    for x, y, name, colour in sorted(ends, key=lambda end: end[1]):
        place = log10(y) if below is None else max(log10(y), below + apart)
        below = place
        if x < right:
            axes.plot([x, right], [y, 10**place], color=colour, linewidth=0.6, alpha=0.7, zorder=2)
        axes.annotate(
            name,
            (right, 10**place),
            xytext=(9, 0),
            textcoords="offset points",
            va="center",
            color=colour,
            fontsize=10,
            fontweight="bold",
            annotation_clip=False,
        )


def _breakdown(cases: Sequence[Case], path: Path) -> bool:
    parts = [case for case in cases if case.suite == "breadth-first by part"]
    kinds = [case for case in cases if case.suite == "depth-first by intersection"]
    if not parts and not kinds:
        return False
    import matplotlib.pyplot as plt

    works = list(dict.fromkeys(case.what for case in (*parts, *kinds)))
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 1.4 + 0.8 * len(works)), sharey=True)
    for case in parts:
        _stacked(left, works.index(case.what), case)
    for case in kinds:
        _beside(right, works.index(case.what), case)
    left.set_title("Breadth-first: share of the time, %", **_TITLE)
    right.set_title("Depth-first: seconds, by kind of intersection", **_TITLE)
    handles, labels = left.get_legend_handles_labels()
    named = dict(zip(labels, handles, strict=True))
    figure.legend(
        named.values(), named, loc="upper left", bbox_to_anchor=(0.1, 0.04), ncols=3, frameon=False
    )
    left.set_yticks(range(len(works)), [work.replace(", ", "\n", 1) for work in works])
    left.invert_yaxis()
    right.set_xticks([])
    right.margins(x=0.2)
    for axes in (left, right):
        axes.tick_params(axis="y", length=0, labelsize=9)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
    right.spines["bottom"].set_visible(False)
    figure.tight_layout(w_pad=2)
    save(figure, "", path)
    return True


def _stacked(axes: Any, row: int, case: Case) -> None:
    whole = sum(figure.warm or 0.0 for figure in case.figures) or 1.0
    begun = 0.0
    for part, colour in PART_COLOURS.items():
        own = case.figure(part)
        share = 100 * (own.warm or 0.0) / whole if own is not None else 0.0
        axes.barh(row, share, 0.6, begun, color=colour, label=part)
        begun += share


def _beside(axes: Any, row: int, case: Case) -> None:
    """Bars as long as their share of the slowest one: works differ by orders of magnitude."""
    slowest = max((f.warm or 0.0 for f in case.figures if f.usable), default=0.0) or 1.0
    height = 0.8 / len(KIND_COLOURS)
    for number, (kind, colour) in enumerate(KIND_COLOURS.items()):
        own = case.figure(kind)
        warm = own.warm if own is not None and own.usable and own.warm else 0.0
        at = row + (number - (len(KIND_COLOURS) - 1) / 2) * height
        axes.barh(at, warm / slowest, height * 0.9, color=colour)
        axes.annotate(
            f"{kind} {seconds(warm)}" if warm else f"{kind}: none",
            (warm / slowest, at),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color=INK,
        )


def canvas(width: float, height: float) -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(width, height))
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("bottom", "left"):
        axes.spines[side].set_color("#888888")
    axes.tick_params(colors=INK, length=3)
    return figure, axes


def save(figure: Any, note: str, path: Path) -> None:
    import matplotlib.pyplot as plt

    if note:
        figure.text(0.01, -0.02, note, fontsize=8, color="#666666")
    figure.savefig(path, dpi=150, bbox_inches="tight", facecolor="white")
    plt.close(figure)
