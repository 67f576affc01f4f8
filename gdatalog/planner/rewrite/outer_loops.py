"""The cheapest join of one count: an outer loop, and tables of counts below it.

An outer loop binds some variables, after which the rest of a body falls into paths. Tables are
filled along these from their ends: for each x, the number of y that lead to each z (`tallied`).
Such a table has an entry for each value of one variable, and is filled again for each outer
binding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import combinations
from math import inf, prod

from gdatalog.plan.join_plan import (
    Branch,
    Constant,
    Filter,
    Join,
    JoinPlan,
    Seek,
    Slot,
    Step,
    Tally,
    Version,
)
from gdatalog.planner.build import ConjunctionBuilder, PlanBuilder
from gdatalog.planner.comparisons import Comparisons
from gdatalog.planner.components import components
from gdatalog.planner.items import AtomItem, Conjunction, Item, TestItem, places_of, variables_of
from gdatalog.planner.order.edges import ends, operator, types_of
from gdatalog.planner.order.loop_work import work_of
from gdatalog.planner.order.plan_inputs import PlanInputs
from gdatalog.planner.order.search_space import Order
from gdatalog.planner.order.symmetry import one_of_each
from gdatalog.planner.rewrite import parts
from gdatalog.planner.rewrite.isomorphic import Isomorphic
from gdatalog.planner.statistics import Assumed, RelationStatistics
from gdatalog.records import dataclass, field, replace

Names = frozenset[str]
NONE: Names = frozenset()
MOST_TALLIED = 2  # most variables that one table eliminates
MOST_CORE = 8  # variables of a core; larger cores get no outer loop


@dataclass(slots=True)
class CountJoins:
    """Finds the joins of one signed sum. `tally`: loops may keep tables. `live`: the variables that
    all terms bind: group keys, and variables to sum."""

    inputs: PlanInputs
    tally: bool
    live: tuple[str, ...] = ()
    entries: float = inf  # most entries of a table by edge or by vertex
    word: float = 1.0  # cost of a word of a bitset
    whole_lists: bool = False  # all atoms of a relation read one trie
    tables: dict[str, RelationStatistics] = field(default_factory=dict)
    shapes: dict[Hashable, int] = field(default_factory=dict)
    _fresh: int = 0

    def sizes(self, name: str, version: Version) -> RelationStatistics:
        return self.tables[name] if name in self.tables else self.inputs.sizes(name, version)

    @property
    def isomorphic(self) -> Isomorphic:
        return Isomorphic(replace(self.inputs, sizes=self.sizes), self.shapes)

    def _name(self) -> str:
        self._fresh += 1
        return f"~{self._fresh}"

    def _read(self, table: str, names: Sequence[str], types: Mapping[str, object]) -> AtomItem:
        """The table as an atom; the column after the keys stands for the weight."""
        self._fresh += 1
        slots = [Slot(name, types[name]) for name in names]  # type: ignore[arg-type]  # each variable has a type by now
        return AtomItem(table, (*slots, Slot(f"~n{self._fresh}", "int")))

    def _values(self, name: str, items: Sequence[Item]) -> float:
        """The greatest number of values of a variable."""
        places = places_of(name, items)
        counts = (self.sizes(a.relation, a.version).distinct(frozenset((at,))) for a, at in places)
        return float(max(1, min(counts, default=1)))

    def _share(self, name: str, items: Sequence[Item]) -> float:
        """The share of a variable's values that comparisons with constants leave."""
        limits = Comparisons(items).limits.get(name, ())
        known = [(op, bound.value) for op, bound in limits if isinstance(bound, Constant)]
        bounds = [(op, value) for op, value in known if value is not None]
        shares = (
            self.sizes(atom.relation, atom.version).within(at, bounds, atom.ranked)[0]
            for atom, at in places_of(name, items)
        )
        return min(shares, default=1.0) if bounds else 1.0

    # ------------------------------------------------------------------------------- one join

    def _builder(self) -> PlanBuilder:
        builder = PlanBuilder(replace(self.inputs, sizes=self.sizes))
        builder.whole_lists = self.whole_lists
        return builder

    def _plan(
        self,
        items: Sequence[Item],
        first: Sequence[str],
        live: Names,
        rows: float,
        tallies: Sequence[_Message] = (),
    ) -> JoinPlan:
        """A join that binds the variables `first` in an outer loop, and then fills tables."""
        builder = self._builder()
        probe = self._trial(tuple(items), frozenset(first), live, rows)
        order = probe.search()
        ranks = {name: at for at, name in enumerate(first)}
        ranks |= {name: len(first) + rank for name, rank in order.rank.items()}
        estimates = {**dict.fromkeys(first, rows), **order.estimates}
        builder.cost = rows + probe.plan.cost
        whole = Order(ranks, estimates, order.work)
        steps = ConjunctionBuilder(builder, items, NONE, live, True, 1.0, whole).build()
        made: list[Step] = []
        for each in tallies:
            inner = self._filling(builder, each, rows)
            made.append(Tally(each.table, each.key, tuple(sorted(each.reads)), inner))
        at = behind(steps, first)
        steps = (*steps[:at], *made, *steps[at:])
        return JoinPlan(builder.tries(), steps, (), True, cost=builder.cost)

    def _filling(self, builder: PlanBuilder, table: _Message, rows: float) -> tuple[Step, ...]:
        """The steps that fill a table below `rows` outer bindings."""
        items, keys = table.items, frozenset((table.key,))
        if not table.given:
            return builder.steps(items, table.reads, keys, True, rows)
        order = self._trial((*items, *table.given), table.reads, keys, rows).search()
        builder.cost += order.work
        return ConjunctionBuilder(builder, items, table.reads, keys, True, rows, order).build()

    def _trial(
        self, items: Conjunction, outer: Names, live: Names, rows: float
    ) -> ConjunctionBuilder:
        """A conjunction with open atoms, whose order is to be searched."""
        found = ConjunctionBuilder(self._builder().apart(), items, outer, live, True, rows)
        found.open_atoms()
        return found

    def _cheapest(self, items: Conjunction) -> JoinPlan:
        """The cheapest join of a body without hanging parts."""
        if self.live:
            return self._by_value(items)
        restricted, orbit = one_of_each(items, self.sizes, self.inputs.thresholds)
        best = self._builder().counting(restricted, orbit=orbit)
        core = sorted(parts.shared_variables(items))
        if not self.tally or not 4 <= len(core) <= MOST_CORE or len(components(items, ())) > 1:
            return best
        least = enumerated = work_of(best, self.sizes)
        bodies = [(items, 1)] if orbit == 1 else [(items, 1), (restricted, orbit)]
        for body, times in bodies:
            seen = set[Hashable]()
            # With ranks by degree, most paths below the greatest rank are short.
            less = Counter(
                ends(item)[operator(item) in (">", ">=")] for item in body if operator(item)
            )
            for first in parts.outer_loops(
                sorted(parts.shared_variables(body), key=lambda n: (less[n], n)), body
            ):
                beside = enumerated >= self.inputs.thresholds.algebra_beside
                for found in self._tallied(body, first, seen, beside=beside):
                    work = work_of(found, self.sizes)
                    if work < least:
                        best, least = replace(found, orbit=times), work
        return best

    def _by_value(self, items: Conjunction) -> JoinPlan:
        """The same grouped by live variables, which can be the outer loop."""
        restricted, orbit = one_of_each(items, self.sizes, self.inputs.thresholds, self.live)
        bodies = [(items, 1)] if orbit == 1 else [(items, 1), (restricted, orbit)]
        best, least = None, inf
        for joins in self._joins_by_value, self._joins_by_others:
            for body, times in bodies:
                for join in joins(body):
                    work = work_of(join, self.sizes, self.live)
                    if work < least:
                        best, least = replace(join, orbit=times), work
            if least < self.inputs.thresholds.algebra_loops:
                break
        assert best is not None
        return best

    def _joins_by_value(self, items: Conjunction) -> Iterator[JoinPlan]:
        yield self._builder().counting(items, frozenset(self.live))
        connected = self.tally and len(components(items, ())) == 1
        seen, tallied = set[Hashable](), set[Hashable]()
        for first in self._first(items):
            if self._is_new(items, first, seen):
                values = self._outer_rows(first, items)
                yield self._plan(items, first, frozenset(self.live), values)
                if connected:
                    yield from self._tallied(items, first, tallied, MOST_TALLIED)

    def _is_new(self, items: Conjunction, first: Sequence[str], seen: set[Hashable]) -> bool:
        """Whether no automorphism maps an outer loop to one that was `seen`."""
        others = (name for name in self.live if name not in first)
        key = len(first), self.isomorphic.key(items, (*first, *others))
        new = key not in seen
        seen.add(key)
        return new

    def _joins_by_others(self, items: Conjunction) -> Iterator[JoinPlan]:
        """Joins with tables below a variable that is not live."""
        core = parts.shared_variables(items)
        if not self.tally or len(core) > MOST_CORE or len(components(items, ())) > 1:
            return
        seen = set[Hashable]()
        for name in sorted(core.difference(self.live)):
            yield from self._tallied(items, (name,), seen)

    def _first(self, items: Conjunction) -> Iterator[tuple[str, ...]]:
        """Live variables for the outer loop: each alone, and pairs that share an atom."""
        live = [name for name in self.live if name in types_of(items)]
        yield from ((name,) for name in live)
        near = parts.neighbours([item for item in items if isinstance(item, AtomItem)], set(live))
        yield from (pair for pair in combinations(live, 2) if pair[1] in near[pair[0]])

    def _tallied(
        self,
        items: Conjunction,
        first: tuple[str, ...],
        seen: set[Hashable],
        most: int = 1,
        beside: bool = True,
    ) -> Iterator[JoinPlan]:
        """The joins below an outer loop over the variables `first`, with tables that eliminate one
        variable each, and then up to `most`; none if no table helps, or if the loop was `seen`.

        `beside`: also fill tables for neighbours of a loop with two variables.
        """
        messages, rest = list[_Message](), list(items)
        outer = frozenset(first)
        rows = self._outer_rows(first, items)
        types = types_of(items)
        keys: dict[Hashable, str] = {}
        held: set[str] = set()
        for size in range(1, most + 1):
            before = len(messages)
            while (found := self._message(rest, outer, keys, held, size, beside)) is not None:
                if not messages and not self._is_new(items, first, seen):
                    return
                key, part, shape = found
                reads = variables_of(part) & outer
                columns = (*(n for n in first if n in reads), key)
                if shape not in keys:
                    keys[shape] = table = self._name()
                    values = self._values(key, part)
                    given = parts.within_bounds(items, reads)
                    matches = self._matches((*part, *given), reads, key, rows)
                    entries = max(1, int(min(rows * values, matches)))
                    each = (*(int(self._values(n, part)) for n in columns), 1)
                    self.tables[table] = Assumed(entries, int(values), len(each), each=each)
                    messages.append(_Message(table, key, reads, tuple(part), given))
                whole = {item for item in part if not item.variables <= outer | {key}}
                rest = [item for item in rest if item not in whole]
                rest.append(self._read(keys[shape], columns, types))
                held.add(key)
            if len(messages) > before:
                plan = self._reading(items, rest, first, messages, rows)
                if fills_first(plan, first):
                    yield plan

    def _reading(
        self,
        items: Conjunction,
        rest: Sequence[Item],
        first: Sequence[str],
        messages: Sequence[_Message],
        rows: float,
    ) -> JoinPlan:
        """A join that fills tables below its outer loop, and reads them."""
        rest = list(rest)
        for name in first:
            domain = next(item for item in items if binds(item, name, {}))
            if not any(binds(item, name, self.tables) for item in rest):
                assert isinstance(domain, AtomItem)
                rest.append(self._domain(domain, name))
        met = types_of([i for i in rest if getattr(i, "relation", "") not in self.tables])
        for made in messages:
            if made.key in met:  # the key is also bound by a list, and then looked up
                size = self.tables[made.table]
                assert isinstance(size, Assumed)
                self.tables[made.table] = replace(size, rows=prod(size.each or ()))
        return self._plan(rest, first, frozenset(self.live), rows, messages)

    def _matches(self, part: Sequence[Item], reads: Names, key: str, rows: float) -> float:
        """The expected number of matches that a table counts."""
        order = self._trial(tuple(part), reads, frozenset((key,)), rows).search()
        return max(order.estimates.values(), default=rows)

    def _domain(self, atom: AtomItem, name: str) -> AtomItem:
        """The distinct values of a variable in an atom."""
        args = []
        for arg in atom.args:
            if isinstance(arg, Slot) and arg.name != name:
                self._fresh += 1
                arg = Slot(f"~n{self._fresh}", arg.type)
            args.append(arg)
        return replace(atom, args=tuple(args), once=True, counted=0)

    def _outer_rows(self, first: Sequence[str], items: Sequence[Item]) -> float:
        within = parts.within_bounds(items, frozenset(first))
        if within:
            order = self._trial(within, NONE, frozenset(first), 1.0).search()
            return max(1.0, *order.estimates.values())
        if len(first) == 1:
            return self._values(first[0], items) * self._share(first[0], items)
        counts = [
            float(self.sizes(item.relation, item.version).rows)
            for item in items
            if isinstance(item, AtomItem) and item.variables.issuperset(first)
        ]
        return max(1.0, min(counts))

    def _message(
        self,
        rest: Sequence[Item],
        outer: Names,
        keys: Mapping[Hashable, str],
        held: set[str],
        most: int,
        beside: bool,
    ) -> tuple[str, list[Item], Hashable] | None:
        """A part that hangs at one variable below the outer loop: the variable, the items, and
        their shape. Prefers parts that have a table already, then small parts.

        The neighbours of a single loop variable are bound by the loop, so nothing hangs at them.
        """
        shared = parts.shared_variables(rest)
        atoms = [i for i in rest if isinstance(i, AtomItem) and is_relation(i, self.tables)]
        around = variables_of(atom for atom in atoms if not atom.variables.isdisjoint(outer))
        found: list[tuple[bool, int, str, tuple[str, list[Item], Hashable]]] = []
        for key in sorted(shared - outer):
            if key in around and (len(outer) == 1 or not beside):
                continue
            both = outer | {key}
            filters = [i for i in rest if key in i.variables and i.variables <= both]
            filters = [
                i for i in filters if isinstance(i, TestItem) or (i in atoms and not i.counted)
            ]
            for part in components(rest, both):
                within = variables_of(part) - both
                inside = within & shared
                if (
                    key not in types_of(part)
                    or not 1 <= len(inside) <= most
                    or inside.isdisjoint(around | held)
                    or not within.isdisjoint(self.live)
                    or not all(isinstance(i, AtomItem | TestItem) for i in part)
                ):
                    continue
                plain = all(operator(i) or i in atoms for i in part)
                part = [*part, *filters]
                reads = sorted(variables_of(part) & outer)
                shape = self.isomorphic.key(part, (key, *reads)), tuple(reads)
                new = shape not in keys
                if new and key in held and not (self.live and plain):
                    continue  # its values are in its table: a plain join suffices
                found.append((new, len(inside), min(inside), (key, part, shape)))
        return min(found, key=lambda each: each[:3])[3] if found else None


@dataclass(frozen=True, slots=True)
class _Message:
    """A table below an outer loop: the number of matches of `items` for each value of `key`.
    `given`: what the outer loop's bindings satisfy, for estimates."""

    table: str
    key: str
    reads: Names
    items: Conjunction
    given: Conjunction


def binds(item: Item, name: str, tables: Mapping[str, object]) -> bool:
    """Whether an item is an atom that contains the variable and reads a relation."""
    return isinstance(item, AtomItem) and name in item.variables and is_relation(item, tables)


def is_relation(atom: AtomItem, tables: Mapping[str, object]) -> bool:
    """Whether an atom reads a relation, or a table by edges, which is indexed like one."""
    return atom.relation not in tables or atom.counted > 0


def fills_first(plan: JoinPlan, first: Sequence[str]) -> bool:
    """Whether a plan has the outer loop first, reads each table by its keys alone, and binds each
    key from a list, which bounds its values."""
    bound = [step.variable for step in plan.steps if isinstance(step, Join)]
    filled = [step for step in plan.steps if isinstance(step, Tally)]
    columns = {step.table: tuple(range(len(step.reads) + 1)) for step in filled}
    before = plan.steps[: plan.steps.index(filled[0])]
    in_order = all(
        ref.columns == columns[ref.relation] for ref in plan.tries if ref.relation in columns
    )
    return (
        tuple(bound[: len(first)]) == tuple(first)
        and in_order
        and not any(isinstance(step, Branch) for step in before)
        and all(
            step.key in [inner.variable for inner in step.steps if isinstance(inner, Join)]
            for step in filled
        )
    )


def behind(steps: Sequence[Step], first: Sequence[str]) -> int:
    """The index after the steps that bind the first variables and test them."""
    left, at = set(first), 0
    while at < len(steps) and (left or isinstance(steps[at], Seek | Filter)):
        step = steps[at]
        if isinstance(step, Join):
            left.discard(step.variable)
        at += 1
    return at
