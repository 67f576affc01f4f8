"""Measures the last two levels of a count together if neither's lists depend on the other."""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.plan.nest import unequal
from gdatalog.plan.nodes import Join, Slot, Step
from gdatalog.printer.lists import LevelLists
from gdatalog.printer.measure import first_of, measured, unmeasured
from gdatalog.printer.nest import NestPrinter
from gdatalog.printer.scope import KnownPositions
from gdatalog.records import dataclass


@dataclass(frozen=True, slots=True)
class Pair:
    """The last two levels of a count, whose lists do not depend on each other: only their values
    must differ."""

    first: Join
    last: Join
    others: tuple[tuple[Slot, ...], tuple[Slot, ...]]  # other variables that each must differ from


def last_pair(nest: NestPrinter, steps: Sequence[Step], at: int) -> Pair | None:
    """The pair that starts at a level, if there is one."""
    joins = [step for step in steps[at:] if isinstance(step, Join)]
    if len(joins) != 2 or joins[0] is not steps[at]:
        return None
    first, last = joins
    others: tuple[list[Slot], list[Slot]] = ([], [])
    apart = False
    for step in steps[at + 1 :]:
        if step is last:
            continue
        a, b = unequal(step, first.variable), unequal(step, last.variable)
        apart = apart or (a is not None and b is not None)
        if a is None and b is None:
            return None
        if b is None and a is not None:
            others[0].append(a)
        if a is None and b is not None:
            others[1].append(b)
    nodes = [nest.paths.node(part) for join in joins for part in join.participants]
    if not apart or first.cuts or last.cuts:
        return None
    if any(
        not node.terms
        or not node.last
        or node.trie.weighted
        or first.variable in node.variables
        or nest.hashed(node)
        for node in nodes
    ):
        return None
    return Pair(first, last, (tuple(dict.fromkeys(others[0])), tuple(dict.fromkeys(others[1]))))


def both(nest: NestPrinter, pair: Pair) -> LevelLists:
    """The lists of both levels of a pair."""
    lists = (*LevelLists.of(nest, pair.first).lists, *LevelLists.of(nest, pair.last).lists)
    return LevelLists({node: set() for node in lists}, {})


def measure_pair(
    nest: NestPrinter, pair: Pair, steps: Sequence[Step], known: KnownPositions
) -> str:
    """The number of pairs of different values: all pairs minus those with a common value.

    `steps`: the steps from the first level on.
    """
    either = tuple(dict.fromkeys((*pair.others[0], *pair.others[1])))
    both_levels = _Pairs(nest, pair, steps, known)
    one, other, common = (
        nest.whole(*measured(nest, step, others, met, known, tell))
        for step, others, met, tell in (
            (pair.first, pair.others[0], LevelLists.of(nest, pair.first), both_levels.first),
            (pair.last, pair.others[1], LevelLists.of(nest, pair.last), both_levels.last),
            (pair.first, either, both(nest, pair), unmeasured),
        )
    )
    count = nest.text.name("m")
    nest.text.line(f"{count} = {one} * {other} - {common}")
    nest.bound(steps[-1], known, count)
    return count


@dataclass(slots=True)
class _Pairs:
    """Profile counts of a pair as if its bindings were enumerated, where these can be computed."""

    nest: NestPrinter
    pair: Pair
    steps: Sequence[Step]
    known: KnownPositions
    one: str = ""  # the number of values of the first level

    def first(self, count: str, other: Slot | None, share: bool) -> None:
        self.one = count
        step = first_of(self.steps, self.pair.first, other)
        if self._place(step) < self._place(self.pair.last):
            self.nest.bound(step, self.known, count, share)

    def last(self, count: str, other: Slot | None, share: bool) -> None:
        step = first_of(self.steps, self.pair.last, other)
        firsts = [first_of(self.steps, self.pair.first, slot) for slot in self.pair.others[0]]
        apart = next(
            place
            for place, each in enumerate(self.steps)
            if unequal(each, self.pair.first.variable) is not None
            and unequal(each, self.pair.last.variable) is not None
        )
        before = all(self._place(each) < self._place(self.pair.last) for each in firsts)
        if before and self._place(step) < apart:
            self.nest.bound(step, self.known, f"{self.one} * {count}", share)

    def _place(self, step: Step) -> int:
        return next(place for place, each in enumerate(self.steps) if each is step)
