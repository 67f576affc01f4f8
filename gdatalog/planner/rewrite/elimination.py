"""Variable elimination for one count: tables of counts, and the join that reads them.

A part of a body that shares one variable with the rest is a function of that variable. Its counts
become a table, computed once, which the rest joins as a weighted relation (`hanging`). Paths and
trees then take one pass over each atom.

The remaining core has cycles. Its joins have outer loops, and may fill tables below these
(`outer_loops.py`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from gdatalog.plan.join_plan import Join, JoinPlan, Slot, Term
from gdatalog.planner.items import AtomItem, Conjunction, Item, variables_of
from gdatalog.planner.order.edges import types_of
from gdatalog.planner.order.loop_work import PUSH, work_of
from gdatalog.planner.rewrite import local_counts
from gdatalog.planner.rewrite.outer_loops import CountJoins
from gdatalog.planner.rewrite.parts import (
    hanging,
    hanging_at_edges,
    has_cycle,
    is_cyclic,
    label_of,
    steps_of,
)
from gdatalog.planner.rewrite.suffix import Suffixes
from gdatalog.planner.statistics import Assumed, OfEdges
from gdatalog.records import dataclass, field, replace


@dataclass(slots=True)
class Elimination(CountJoins):
    """The joins of one signed sum, and what each is for."""

    joins: list[JoinPlan] = field(default_factory=list)
    terms: list[Term] = field(default_factory=list)
    cost: float = 0.0
    peaked: bool = False  # parts whose variables may be equal may have tables by edge
    _known: dict[Hashable, str] = field(default_factory=dict)

    def term(self, coefficient: int, items: Conjunction, label: str) -> None:
        """Adds a term of the sum, after the tables that it reads."""
        self._count(items, Term(label, coefficient))

    def _count(self, items: Conjunction, term: Term) -> None:
        """Adds the cheapest join that counts the items, after the tables that it reads."""
        self.inputs.steps.take(steps_of(items))
        best = self.copied()
        rests = [best._without_hanging(items)]
        best._add(best._cheapest(rests[0]), term)
        alike = (
            items if self.live else local_counts.in_ranks(items, self.sizes, self.inputs.thresholds)
        )
        for cycles, peaked in ((False, False), (True, False), (True, True)) if self.tally else ():
            if peaked and best.cost - self.cost < self.inputs.thresholds.algebra_peaks:
                break
            way = replace(self.copied(), peaked=peaked)
            left = way._without_parts_of_edges(alike)
            if left == items and not (cycles and has_cycle(left)):
                continue  # it is the first way
            rest = way._without_hanging(left, cycles)
            if rest not in (alike, *rests):
                rests.append(rest)
                way._add(way._cheapest(rest), term)
                best = min(best, way, key=lambda each: each.cost)
        self._take(best)

    def _take(self, other: Elimination) -> None:
        """Takes what a copy has added."""
        for name in ("tables", "joins", "terms", "cost", "_known", "_fresh"):
            setattr(self, name, getattr(other, name))

    def copied(self) -> Elimination:
        """A copy, to which terms can be added."""
        tables, known = dict(self.tables), dict(self._known)
        joins, terms = list(self.joins), list(self.terms)
        return replace(self, tables=tables, _known=known, joins=joins, terms=terms)

    def whole(self, coefficient: int, items: Conjunction, label: str) -> bool:
        """Adds a body with its `!=`, whose last variables are counted by list lengths; False if
        that is impossible."""
        found = Suffixes(items, self.inputs, self.tally, self.live).best()
        if found is not None:
            self._add(found[1], Term(label, coefficient))
        return found is not None

    def _add(self, join: JoinPlan, term: Term) -> None:
        self.cost += self._work(join, term)
        self.joins.append(join)
        self.terms.append(term)

    def _work(self, join: JoinPlan, term: Term) -> float:
        live = {*self.live, *(name for image in term.images for name in image)}
        work = work_of(join, self.sizes, live, self.tally, self.word)
        if term.images:
            matches = [step.estimate for step in join.steps if isinstance(step, Join)]
            work += PUSH * len(term.images) * max(matches, default=1.0)
        return work

    # --------------------------------------------------------------------------- hanging parts

    def _without_hanging(self, items: Conjunction, cycles: bool = False) -> Conjunction:
        """The items with a table in place of each part that hangs at one variable; with `cycles`,
        also of parts with a cycle beside single atoms."""
        while True:
            found = hanging(items, frozenset(self.live), cycles)
            if found is None:
                return items
            name, part = found
            table = self._table(name, part)
            if table is None:
                return items
            rest = tuple([item for item in items if item not in set(part)])
            items = (*rest, self._read(table, (name,), types_of(items)))

    def _table(self, name: str, part: Sequence[Item]) -> str | None:
        """The table of a part's number of matches for each value of a variable."""
        key = self.isomorphic.key(part, (name,))
        if key not in self._known:
            values = self._values(name, part)
            slot = Slot(name, types_of(part)[name])
            table = self._known[key] = self._name()
            term = Term(label_of(part), 0, table, (slot,))
            ways = [self.copied()]
            if is_cyclic(part):
                inner = replace(ways[0], live=(name,))
                inner._count(tuple(part), term)
                ways[0]._take(inner)
            else:
                ways[0]._add(self._plan(part, (name,), frozenset((name,)), values), term)
            found = self._local_counts(part, (name,)) if self.tally else None
            if found is not None:
                ways.append(self.copied())
                ways[1]._add(found.join, replace(term, images=found.images))
            elif self.tally and self._is_local(part, (name,)):
                ways += self._by_peaks(tuple(part), (name,), term)
            self._take(min(ways, key=lambda way: way.cost))
            self.tables[table] = Assumed(int(values), int(values), 2, each=(int(values),) * 2)
        return self._known[key]

    def _is_local(self, part: Sequence[Item], key: tuple[str, ...]) -> bool:
        """Whether an array of counts by key may have as many entries as this one needs."""
        rows = (self.sizes(i.relation, i.version).rows for i in part if isinstance(i, AtomItem))
        entries = max(rows) if len(key) == 2 else self._values(key[0], part)
        return is_cyclic(part) and entries <= self.entries

    def _local_counts(
        self, part: Sequence[Item], key: tuple[str, ...]
    ) -> local_counts.LocalCounts | None:
        if not self._is_local(part, key):
            return None
        return local_counts.local_counts(tuple(part), key, self.sizes, self._builder())

    def _by_peaks(
        self, part: Conjunction, key: tuple[str, ...], term: Term
    ) -> Iterator[Elimination]:
        """Ways to add a table as a sum over the variables that have the greatest value."""
        for cases in local_counts.peaks(part, key, self.sizes):
            way = self.copied()
            if all(way._add_peak(case, term) for case in cases):
                yield way

    def _add_peak(self, case: local_counts.Peak, term: Term) -> bool:
        """Adds what one case contributes to a table; False if its images are in no single trie."""
        live = tuple(sorted({name for image in case.images for name in image}))
        inner = replace(self.copied(), live=live, whole_lists=True)
        join = inner._by_value(case.items)
        images = local_counts.turned_images(join, case.images)
        if images is None:
            return False
        self._take(inner)
        self._add(join, replace(term, label=label_of(case.items), images=tuple(images)))
        return True

    def _without_parts_of_edges(self, items: Conjunction) -> Conjunction:
        """The items with a table in place of each part that hangs at both ends of an edge; the
        table includes the edges."""
        for atom, parts in hanging_at_edges(items, self.sizes, frozenset(self.live)):
            gone: list[Item] = []
            within = [i for i in items if i.variables <= atom.variables and i != atom]
            beside = any(isinstance(i, AtomItem) and not i.counted for i in within)
            reads: list[Item] = []
            for part in parts:
                others = variables_of(set(items) - {atom, *within, *part})
                new = beside or others.issuperset(atom.variables)
                table = self._table_of_edges(atom, part, new)
                if table is not None:
                    reads.append(AtomItem(table, atom.args, counted=len(reads) + 1))
                    gone += part
            if reads:
                rest = [item for item in items if item not in {*gone, atom}]
                return self._without_parts_of_edges((*rest, *reads))
        return items

    def _table_of_edges(self, atom: AtomItem, part: Conjunction, new: bool) -> str | None:
        """The table of a part by the ends of an edge; `new`: it may be computed here."""
        body, (a, b) = (atom, *part), sorted(atom.variables)
        key = self.isomorphic.key(body, (a, b))
        if key not in self._known:
            types = types_of(body)
            keys = Slot(a, types[a]), Slot(b, types[b])
            ways = self._ways_by_edge(body, keys) if new else []
            if not ways:
                return None
            self._take(min(ways, key=lambda way: way.cost))
            table = self.terms[-1].table
            size = self.inputs.sizes(atom.relation, atom.version)
            self.tables[table] = OfEdges(
                size,
                size.rows,
                atom.ranked,
                symmetric=True,
                loopless=size.loopless,
                relation=atom.relation,
            )
            self._known[key] = table
        return self._known[key]

    def _ways_by_edge(self, body: Conjunction, keys: tuple[Slot, Slot]) -> list[Elimination]:
        """Ways to add a table of a body by two variables that share an edge."""
        key = keys[0].name, keys[1].name
        found, way = self._local_counts(body, key), self.copied()
        term = Term(label_of(body), 0, way._name(), keys)
        if found is not None:
            way._add(found.join, replace(term, images=found.images))
            return [way]
        local = self.peaked and self._is_local(body, key)
        return list(way._by_peaks(body, key, term)) if local else []
