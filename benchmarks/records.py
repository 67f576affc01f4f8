"""What is seen: a figure for each side, a case for each piece of work, and what is asked of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

CAP = 120.0  # seconds after which a peer is stopped; it counts as so many


@dataclass(slots=True)
class Figure:
    """One side of a case. Seconds and bytes; None: not measured."""

    side: str
    warm: float | None = None  # the data loaded and indexed; the median of `runs`
    cold: float | None = None  # from data in memory to the answer
    compiling: float | None = None  # what the very first call took longer than later cold ones
    resident: int | None = None  # bytes of the process, its indexes made
    peak: int | None = None  # the most bytes during one warm run
    grown: int | None = None  # the most bytes over a whole cold run, beyond what held the data
    runs: int = 0
    answer: Any = None
    trouble: str = ""  # why it did not finish
    stopped: bool = False  # at the cap: `warm` and `cold` are the cap, which flatters it
    remembered: bool = False  # seen in an earlier run on such a machine
    kernels: float | None = None  # seconds on a GPU, by its own clocks
    idle: float | None = None  # share of these in which fewer than half of the blocks worked

    @property
    def usable(self) -> bool:
        """It may be compared: it finished with the right answer, or was stopped at the cap."""
        return self.stopped or not self.trouble


@dataclass(frozen=True, slots=True)
class Ask:
    """Something that has to hold, and whether it does. `met` is None where it cannot be told."""

    work: str
    against: str
    wanted: str
    seen: str
    met: bool | None


@dataclass(slots=True)
class Case:
    """A piece of work, done by several sides with the same answer."""

    suite: str
    what: str
    figures: list[Figure]
    asks: list[Ask] = field(default_factory=list)
    notes: tuple[str, ...] = ()
    edges: int = 0  # of a graph that stands in a picture

    def figure(self, side: str) -> Figure | None:
        return next((figure for figure in self.figures if figure.side == side), None)

    def to_dict(self) -> dict[str, Any]:
        """The figures, without what is asked of them."""
        return {key: value for key, value in asdict(self).items() if key != "asks"}

    @staticmethod
    def from_dict(data: dict[str, Any]) -> Case:
        figures = [Figure(**figure) for figure in data["figures"]]
        return Case(**{**data, "figures": figures, "notes": tuple(data["notes"])})


def faster(
    case: Case,
    ours: str,
    peers: Iterable[str],
    at_least: float,
    *,
    cold: bool = False,
    only_told: bool = False,
) -> Ask:
    """That one side is so many times as fast as the best of its peers.

    `only_told`: it is an aim, and neither met nor not met.
    """
    names = list(peers)
    clock = "cold" if cold else "warm"
    wanted = f"{'aim: ' if only_told else ''}{at_least:g}x{' cold' if cold else ''}"
    own = case.figure(ours)
    rivals = [
        figure
        for figure in map(case.figure, names)
        if figure is not None and figure.usable and getattr(figure, clock) is not None
    ]
    if own is None or getattr(own, clock) is None or not rivals:
        # Ours without a figure has failed; a peer without one may not be installed.
        failed = own is not None and own.trouble != ""
        return Ask(case.what, ", ".join(names), wanted, "not measured", False if failed else None)
    best = min(rivals, key=lambda figure: float(getattr(figure, clock)))
    mine, theirs = getattr(own, clock), getattr(best, clock)
    more = "more than " if best.stopped else ""
    seen = f"{more}{theirs / mine:.3g}x ({seconds(mine)} to {seconds(theirs)} s)"
    # That ours is stopped or wrong says nothing good of it.
    met = not own.trouble and theirs / mine >= at_least
    return Ask(case.what, best.side, wanted, seen, None if only_told else met)


def at_most(work: str, against: str, value: float, limit: float, unit: str = "s") -> Ask:
    """That a value stays under a limit."""
    seen = f"{seconds(value) if unit == 's' else format(value, '.0f')} {unit}"
    return Ask(work, against, f"under {limit:g} {unit}", seen, value <= limit)


def seconds(value: float | None) -> str:
    """Three digits that mean something."""
    if value is None:
        return ""
    for limit, places in ((0.001, 6), (0.1, 4), (10, 3), (100, 1)):
        if value < limit:
            return f"{value:.{places}f}"
    return f"{value:.0f}"


def judged(cases: Iterable[Case]) -> Iterator[str]:
    """Whether each thing that is asked for holds: a line for each."""
    for case in cases:
        for ask in case.asks:
            told = {None: "untold", True: "met", False: "missed"}[ask.met]
            yield f"{told}: {ask.work}: {ask.wanted}; seen: {ask.seen}"


def missed(cases: Iterable[Case]) -> Iterator[str]:
    """What does not hold, for those who work on gdatalog: a line for each."""
    for case in cases:
        for ask in case.asks:
            if ask.met is False:
                against = f" of {ask.against}" if ask.against else ""
                yield f"missed: {ask.work}: {ask.wanted}{against}; seen: {ask.seen}"
