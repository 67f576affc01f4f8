"""Which executor runs a join.

Breadth-first needs no compilation, so small work is done before a compiler would have started.
How small the work is is a guess; so the breadth-first executor is given a moment, and then as
long as a compilation would take. Where that is not enough the depth-first one does it all; and so
it does where a join has come so often that the compilation would have paid.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

from gdatalog.engine.depth import Form, form_of_bag, form_of_rows
from gdatalog.engine.knobs import Knobs
from gdatalog.executors.limits import Limits
from gdatalog.plan.effects import all_steps, expressions, widens
from gdatalog.plan.nodes import JoinPlan, RulePlan
from gdatalog.printer.expressions import printable

# Expected work (in rows looked at) from which on the breadth-first executor is not even tried:
# where the code is at hand, and where it has to be compiled first.
AT_HAND, TO_COMPILE = 50_000.0, 50_000_000.0
# Seconds that it is given otherwise: before anything is printed, and before it is compiled.
FIRST, SECOND = 0.05, 0.7
# A join that comes again and again pays for its compilation once it has taken so many seconds
# breadth-first, in runs that one notices.
ENOUGH, NOTICED = 0.3, 0.02
MOST_REMEMBERED = 1000

ASKED_FOR = "asked for"

_taken: dict[object, float] = {}  # seconds, by join and what becomes of its rows


@dataclass(frozen=True, slots=True)
class Choice:
    """`patience`: seconds after which it is chosen again; None: there is no other choice. `scans`:
    the rows of a relation as they lie, chunk by chunk."""

    breadth_first: bool
    reason: str
    patience: float | None = None
    scans: bool = False

    @property
    def kind(self) -> str:
        if self.scans:
            return "scan"
        return "breadth-first" if self.breadth_first else "depth-first"

    def __str__(self) -> str:
        return f"{self.kind}: {self.reason}"


class Candidate(Protocol):
    """A join that is to be run, as far as the choice asks: a `Nest`, or what is foreseen of one.

    `reason`: why it cannot be printed; `compiled`: whether its loops are at hand.
    """

    @property
    def join(self) -> JoinPlan: ...
    @property
    def form(self) -> Form: ...
    @property
    def knobs(self) -> Knobs: ...
    @property
    def reason(self) -> str | None: ...
    @property
    def compiled(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Foreseen:
    """A join before the indexes are there that its loops would be printed for."""

    join: JoinPlan
    form: Form
    knobs: Knobs
    reason: str | None
    compiled: bool = False


class Impatient(Exception):
    """The time that was given is over."""


class TooSlow(Exception):
    """The same for the rounds of a fixpoint, of whose rules each may have its own time."""


def took(nest: Candidate, seconds: float) -> None:
    """Remembers what a join has taken breadth-first."""
    spend((nest.join, nest.form), seconds)


def spend(key: object, seconds: float) -> None:
    """Remembers how long something took that comes again, perhaps."""
    if seconds >= NOTICED:
        if len(_taken) >= MOST_REMEMBERED:
            _taken.clear()
        _taken[key] = _taken.get(key, 0.0) + seconds


def spent_on(key: object) -> float:
    return _taken.get(key, 0.0)


def choose(nest: Candidate, spent: float = 0.0) -> Choice:
    """Which executor runs a join, of which `spent` seconds of patience did not see the end."""
    if nest.knobs.strategy == "levelwise":
        return Choice(True, ASKED_FOR)
    small = looked_at(nest.join.cost)
    narrow = not widens(nest.join) or nest.knobs.scans == "always"
    if nest.join.scan is not None and nest.knobs.strategy == "auto" and narrow:
        return Choice(True, small, scans=True)
    again = spent_on((nest.join, nest.form)) >= ENOUGH
    if nest.knobs.strategy == "auto" and not again and not spent and nest.join.cost < AT_HAND:
        return Choice(True, small, FIRST)
    if nest.reason is not None:
        return Choice(True, nest.reason)
    if nest.knobs.strategy == "lftj":
        return Choice(False, ASKED_FOR)
    if spent >= SECOND:
        return Choice(False, "breadth-first took longer than a compilation")
    if again:
        return Choice(
            False, "it comes again, and breadth-first has taken longer than a compilation"
        )
    if nest.compiled or nest.join.cost >= TO_COMPILE:
        return Choice(False, small)
    return Choice(True, f"{small}, before a compilation", SECOND)


def looked_at(cost: float) -> str:
    """
    >>> looked_at(0.3), looked_at(123456.0)
    ('about 1 row to look at', 'about 120,000 rows to look at')
    """
    rows = float(f"{cost:.2g}")
    return "about 1 row to look at" if rows < 1.5 else f"about {rows:,.0f} rows to look at"


def foreseen(plan: RulePlan, number: int, knobs: Knobs) -> Choice:
    """What will be chosen for a join, as far as that is known before its indexes are there: not
    whether its loops have been compiled by now."""
    join = plan.joins[number]
    form = form_of_bag(plan.keys, plan.gathers) if plan.gathers else form_of_rows(join)
    return choose(Foreseen(join, form, knobs, unprintable(join)))


def unprintable(join: JoinPlan) -> str | None:
    """Why a join cannot run depth-first, by what it computes."""
    computed = (expr for step in all_steps(join.steps) for expr in expressions(step))
    return printable(*computed, *join.outputs)


@contextmanager
def impatience(
    limits: Limits, seconds: float | None, error: type[Exception] = Impatient
) -> Iterator[None]:
    """Within, the limits' poll raises an error when the time is over."""
    if seconds is None:
        yield
        return
    poll, end = limits.poll, perf_counter() + seconds

    def watched() -> None:
        poll()
        if perf_counter() > end:
            raise error

    limits.poll = watched
    try:
        yield
    finally:
        limits.poll = poll
