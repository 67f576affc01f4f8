"""Counts variables that only `!=` connects by the lengths of lists, with inclusion and exclusion.

Suppose that the last variables of a body share no atom, so that only tests `x != y` connect them.
For each binding of the other variables, each last variable has a list of values. The number of
bindings of the last variables that differ is a signed sum over partitions of products of the sizes
of intersections of lists (GraphPi, GraphSet). So the values of the last variables are never
enumerated.

The other variables are enumerated, one solution of each orbit. Equal lists are measured once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence, Set

from gdatalog.plan.join_plan import Branch, Join, JoinPlan, Seek, Slot, Step
from gdatalog.plan.nest import measurable
from gdatalog.planner.aggregate_items import renamed
from gdatalog.planner.build import ConjunctionBuilder, PlanBuilder
from gdatalog.planner.comparisons import without_looser
from gdatalog.planner.components import components
from gdatalog.planner.items import AtomItem, Conjunction, Item, places_of, variables_of
from gdatalog.planner.order import automorphisms
from gdatalog.planner.order import edges as e
from gdatalog.planner.order.loop_work import work_of
from gdatalog.planner.order.plan_inputs import PlanInputs
from gdatalog.planner.order.symmetry import without_implied
from gdatalog.planner.rewrite.isomorphic import Isomorphic
from gdatalog.planner.rewrite.orbits import has_ranks
from gdatalog.planner.rewrite.parts import neighbours, steps_of
from gdatalog.planner.rewrite.quotients import interchangeable, partitions, unequal
from gdatalog.planner.statistics import Statistics
from gdatalog.records import dataclass, replace

MOST_LAST = 5  # most last variables
MOST_TRIED = 24  # choices that are planned
MOST_LOOKED = 3000  # choices that are examined, in bodies with many variables

Names = frozenset[str]


@dataclass(slots=True)
class Suffixes:
    """Plans of one body that count its last variables by inclusion and exclusion."""

    items: Conjunction
    inputs: PlanInputs
    bits: bool  # whether branches read bitsets
    live: tuple[str, ...] = ()  # group keys and summed variables, which are enumerated

    def best(self) -> tuple[float, JoinPlan] | None:
        """The cheapest plan and its cost, if there is a plan."""
        self.items = without_implied(tuple(dict.fromkeys(self.items)), self.inputs.sizes)
        found: tuple[float, JoinPlan] | None = None
        for last in self._choices():
            plan = self._plan(last)
            if plan is not None:
                work = self._work(plan)
                if found is None or work < found[0]:
                    found = work, plan
        return found

    def _work(self, plan: JoinPlan) -> float:
        return work_of(plan, self.inputs.sizes, self.live, self.bits)

    # ------------------------------------------------------------------- which variables are last

    def _choices(self) -> Iterator[Names]:
        """Sets of last variables, the largest first; one of each orbit under automorphisms."""
        if automorphisms.literals_of(self.items, self.inputs.sizes) is None:
            return
        isomorphic = Isomorphic(self.inputs)
        alike = interchangeable(self.items, e.in_order(self.items), self.inputs.sizes, self.live)
        seen: set[object] = set()
        counts: set[tuple[int, ...]] = set()
        for sets in reversed(self._candidates()):
            for chosen in sets:
                shares = tuple([len({*chosen}.intersection(each)) for each in alike])
                if shares in counts:
                    continue
                counts.add(shares)
                marks = [AtomItem("~last", (Slot(name, "int"),)) for name in chosen]
                key = isomorphic.key((*self.items, *marks), self.live)
                if key not in seen:
                    seen.add(key)
                    yield frozenset(chosen)
                if len(seen) == MOST_TRIED:
                    return

    def _candidates(self) -> list[list[tuple[str, ...]]]:
        """The possible sets of two last variables, of three, and so on. If a set leaves the rest
        connected, so does each of its subsets: so sets grow variable by variable."""
        names = [name for name in e.in_order(self.items) if name not in self.live]
        eligible = [name for name in names if self._eligible(name)]
        bound = [item for item in self.items if not unequal(item)]
        near, looked = neighbours(bound, set(variables_of(self.items))), 0
        grown: list[list[tuple[str, ...]]] = [[()]]
        while grown[-1] and len(grown) <= MOST_LAST:
            sets: list[tuple[str, ...]] = []
            for chosen in grown[-1]:
                start = eligible.index(chosen[-1]) + 1 if chosen else 0
                for name in eligible[start:]:
                    looked += 1
                    self.inputs.steps.take(len(self.items))
                    if near[name].isdisjoint(chosen) and self._leaves_connected({*chosen, name}):
                        sets.append((*chosen, name))
                    if looked == MOST_LOOKED:
                        return [*grown, sets][2:]
            grown.append(sets)
        return grown[2:]

    def _eligible(self, name: str) -> bool:
        """Whether the values of a variable are an intersection of lists once all others are
        bound."""
        own = [item for item in self.items if name in item.variables]
        atoms = [item for item in own if isinstance(item, AtomItem)]
        for item in own:
            if isinstance(item, AtomItem):
                if item.once or len(list(places_of(name, [item]))) != 1:
                    return False
                # A variable of this atom alone would give the list's values weights.
                others = item.variables - {name}
                if any(sum([o in i.variables for i in self.items]) < 2 for o in others):
                    return False
            elif e.operator(item) is None:
                return False
        return len(own) > 1 and any(len(atom.variables) > 1 for atom in atoms)

    def _leaves_connected(self, last: Set[str]) -> bool:
        rest = [item for item in self.items if item.variables.isdisjoint(last)]
        atoms = [item for item in rest if isinstance(item, AtomItem)]
        return (
            len(components(atoms, ())) == 1
            and variables_of(atoms) == variables_of(self.items) - last
        )

    # ---------------------------------------------------------------------------------- the plan

    def _plan(self, last: Names) -> JoinPlan | None:
        self.inputs.steps.take(steps_of(self.items))
        items, last, orbit = self._restricted(last)
        between = [item for item in items if unequal(item) and item.variables <= last]
        before = [item for item in items if item.variables.isdisjoint(last)]
        own = [item for item in items if item not in set(between) and item not in set(before)]
        parts, terms = _blocks(own, between, last, self.inputs.sizes)
        plans = [self._joined(before, parts, terms, last, whole) for whole in (False, True)]
        found = [replace(plan, orbit=orbit) for plan in plans if plan is not None]
        return min(found, key=self._work, default=None)

    def _joined(
        self,
        before: Sequence[Item],
        parts: Sequence[Conjunction],
        terms: tuple[tuple[int, tuple[int, ...]], ...],
        last: Names,
        whole: bool,
    ) -> JoinPlan | None:
        """The plan; `whole`: comparisons cut lists of all edges instead of filtering tries, so that
        more lists are intersected within one recoded list."""
        reads = [variables_of(part) - last for part in parts]
        read = frozenset().union(*reads)
        builder = PlanBuilder(self.inputs)
        builder.whole_lists = whole
        items = without_implied(without_looser(tuple(before)), self.inputs.sizes)
        live = read.union(self.live)
        steps = ConjunctionBuilder(builder, items, frozenset(), live, True, 1.0).build()
        rows = next((s.estimate for s in reversed(steps) if isinstance(s, Join)), 1.0)
        counts = []
        for part, outer in zip(parts, reads, strict=True):
            inside = builder.steps(part, outer, frozenset(), True, rows)
            if not _measured(inside):
                return None
            counts.append(inside)
        branch = Branch("count", tuple(sorted(read)), tuple(counts), terms=terms)
        return JoinPlan(builder.tries(), (*steps, branch), (), True, cost=builder.cost)

    def _restricted(self, last: Names) -> tuple[Conjunction, Names, int]:
        """The items with symmetry breaking outside the last variables; the last variables, by rank
        if all are ranked; and the number of solutions that each one stands for."""
        items = self.items
        by_degree = not self.live and has_ranks(items, self.inputs.sizes)
        found = automorphisms.restrictions_of(
            items, self.inputs.sizes, by_degree, sorted(last), self.live
        )
        if found is None or not found.pairs:
            return items, last, 1
        types = e.types_of(items)
        kinds = dict.fromkeys(types, "int") if by_degree else types
        less = [e.comparison("<", a, b, kinds[a]) for a, b in found.pairs]
        whole = (*items, *less)
        if not by_degree:
            return whole, last, found.orbit
        return tuple(map(e.ranked, whole)), frozenset(map(e.rank, last)), found.orbit


def _measured(steps: Sequence[Step]) -> bool:
    """Whether a branch has at most one level, whose values are only counted."""
    at = next((at for at, step in enumerate(steps) if not isinstance(step, Seek)), len(steps))
    return at == len(steps) or measurable(steps, at)


def _blocks(
    own: Sequence[Item], between: Iterable[Item], last: Names, sizes: Statistics
) -> tuple[list[Conjunction], tuple[tuple[int, tuple[int, ...]], ...]]:
    """The distinct items of the blocks of all partitions; and the signed sum: the coefficient of
    each partition, and the numbers of its blocks."""
    tests = {frozenset(e.ends(item)) for item in between}
    names = sorted(last)
    numbers: dict[Collection[Item], int] = {}
    parts: list[Conjunction] = []
    sums: dict[tuple[int, ...], int] = {}
    ways = sorted(partitions(names, tests, set()), key=lambda way: len(way[1]))
    for coefficient, replaced in ways:  # the finest partition comes first
        blocks: dict[str, list[str]] = {}
        for name in names:
            blocks.setdefault(replaced.get(name, name), []).append(name)
        found = []
        for members in blocks.values():
            same = dict.fromkeys(members, names[0])
            items = [renamed(item, same) for item in own if not item.variables.isdisjoint(members)]
            part = tuple(dict.fromkeys(_normal(item, names[0], sizes) for item in items))
            found.append(numbers.setdefault(frozenset(part), len(parts)))
            if found[-1] == len(parts):
                parts.append(part)
        key = tuple(sorted(found))
        sums[key] = sums.get(key, 0) + coefficient
    return parts, tuple([(times, key) for key, times in sums.items() if times])


def _normal(item: Item, name: str, sizes: Statistics) -> Item:
    """An item with a normalised direction: an edge of a symmetric relation leads to the
    variable."""
    pair = e.edge_of(item)
    if not isinstance(item, AtomItem) or pair is None or pair[1] == name:
        return item
    symmetric = sizes(item.relation, item.version).symmetric
    return replace(item, args=item.args[::-1]) if symmetric else item
