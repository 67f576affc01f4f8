"""What counting holds beyond its indexes: over all that the other suites counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from benchmarks.records import Ask, Case, Figure
from benchmarks.sides import DEPTH

ALLOWED, SHARE = 64e6, 0.1
WANTED = "what is resident after its indexes + 10% + 64 MB"


def run(cases: Iterable[Case]) -> Iterator[Case]:
    """The counting query that came closest to what is allowed, or is furthest beyond it."""
    counted = [
        (case, figure)
        for case in cases
        for figure in case.figures
        if figure.side == DEPTH and isinstance(figure.answer, int) and figure.peak is not None
    ]
    if not counted:
        return
    case, figure = max(counted, key=lambda pair: _spent(pair[1]))
    resident, peak = figure.resident or 0, figure.peak or 0
    limit = resident * (1 + SHARE) + ALLOWED
    seen = f"{peak / 1e6:.0f} MB of {limit / 1e6:.0f}, {resident / 1e6:.0f} before"
    what = f"peak memory of a counting query; of {len(counted)} the worst: {case.what}"
    ask = Ask(what, "its indexes", WANTED, seen, peak <= limit)
    yield Case("memory", what, [], [ask])


def _spent(figure: Figure) -> float:
    """Which share of the allowance was used up."""
    resident, peak = figure.resident or 0, figure.peak or 0
    return (peak - resident) / (resident * SHARE + ALLOWED)
