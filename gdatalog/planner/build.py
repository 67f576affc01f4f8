"""Builds the steps of a join plan from a conjunction of items.

Variables are bound one at a time, in the cheapest order (`order/search.py`), which also places
aggregates. Tests and computations follow as soon as their variables are bound; those that can fail
come when nothing else is left. When a part of the body no longer shares unbound variables with the
rest, and binds no variable of the answer, it becomes a branch: an existence test, or a count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from math import inf

from gdatalog.plan import join_plan as p
from gdatalog.planner import aggregate_items
from gdatalog.planner import items as n
from gdatalog.planner.atoms import AtomState, all_cuts, open_atom, within_atom
from gdatalog.planner.candidates import with_candidates
from gdatalog.planner.comparisons import Comparisons, rising
from gdatalog.planner.components import Rest, check_depth, components, too_deep
from gdatalog.planner.conjunction import ConjunctionDraft
from gdatalog.planner.items import body_text
from gdatalog.planner.list_reuse import reuse_lists
from gdatalog.planner.order.pattern_maker import add_atom, add_item, empty_pattern, finish
from gdatalog.planner.order.plan_inputs import PlanInputs
from gdatalog.planner.order.search_space import RESTORED, Order
from gdatalog.planner.passes import PassNotes
from gdatalog.records import replace
from gdatalog.values import TypeName

Names = frozenset[str]
NONE: Names = frozenset()


class PlanBuilder:
    """The tries of one join plan, which its conjunction and all its branches share."""

    def __init__(
        self, inputs: PlanInputs, outputs: Sequence[str] = (), restores: bool = False
    ) -> None:
        """`outputs`: the variables of the answer, in order. `restores`: values may be replaced by
        ranks, and restored."""
        self.inputs = inputs
        self.sizes = inputs.sizes
        self.restores = restores
        self.outputs = tuple(outputs)
        self.atoms: list[AtomState] = []
        self.untouched: dict[n.AtomItem, int] = {}  # atoms that move to a branch, and their tries
        self.fresh = 0
        self.cost = 0.0  # expected number of values tried
        self.whole_lists = False  # cut lists by comparisons, rather than filter tries
        self.notes: PassNotes | None = None  # of the whole conjunction
        self.ascending = False  # bind the lesser of two neighbours that are compared first

    def whole(
        self,
        items: Sequence[n.Item],
        live: Names,
        bag: bool,
        given: Names = NONE,
        rows: float = 1.0,
    ) -> ConjunctionBuilder:
        """What builds the steps of the plan's own conjunction, run for `rows` rows that bind the
        variables `given`."""
        if self.inputs.notes is not None:
            self.notes = self.inputs.notes.apart((body_text(items),))
        draft = ConjunctionDraft(
            self.inputs, items, given, live, bag, False, self.restores and not given
        )
        items = draft.rewritten(self.notes)
        return ConjunctionBuilder(self, items, given, live, bag, rows, compacts=not bag)

    def counting(self, items: Sequence[n.Item], live: Names = NONE, orbit: int = 1) -> p.JoinPlan:
        """The plan of a whole body of which all bindings count, each for `orbit` bindings."""
        steps = self.whole(items, live, True).build()
        return p.JoinPlan(self.tries(), steps, (), True, orbit, self.cost)

    def steps(
        self, items: Sequence[n.Item], outer: Names, live: Names, bag: bool, rows: float
    ) -> tuple[p.Step, ...]:
        """The steps of a nested conjunction, run for `rows` rows."""
        items = ConjunctionDraft(self.inputs, items, outer, live, bag, True, False).rewritten()
        return ConjunctionBuilder(self, items, outer, live, bag, rows).build()

    def aggregate(self, item: n.AggregateItem, result: p.Slot, rows: float) -> p.Branch:
        """The branch that computes an aggregate for `rows` rows."""
        nested = aggregate_items.nested_parts(item)
        inner = []
        for part, live in zip(nested.parts, nested.live, strict=True):
            inner.append(self.steps(part, item.reads, live, nested.bag, rows))
        return aggregate_items.aggregate_branch(item, result, nested, tuple(inner))

    def apart(self) -> PlanBuilder:
        """A builder for a trial plan, to estimate its cost."""
        return PlanBuilder(replace(self.inputs, looked=[]))

    def tries(self) -> tuple[p.TrieRef, ...]:
        return tuple([atom.trie() for atom in self.atoms])

    def variable(self, kind: TypeName) -> p.Slot:
        self.fresh += 1
        return p.Slot(f"~~{self.fresh}", kind)


class ConjunctionBuilder:
    """The steps of one conjunction: the whole body, or a branch.

    `order`: for a branch, the order of the conjunction around it. `depth`: the number of branches
    around it."""

    def __init__(
        self,
        plan: PlanBuilder,
        items: Sequence[n.Item],
        outer: Names,
        live: Names,
        bag: bool,
        rows: float = 1.0,
        order: Order | None = None,
        compacts: bool = False,
        depth: int = 0,
    ) -> None:
        self.plan, self.items, self.outer, self.live, self.bag = plan, items, outer, live, bag
        self.rows = rows  # expected number of rows at this point
        self.order, self.compacts, self.depth = order, compacts, depth
        self.steps: list[p.Step] = []
        self.atoms: list[AtomState] = []
        self.waiting: list[n.Item] = []  # at the start: items other than atoms
        self.within: list[n.TestItem] = []  # tests that filter an atom's trie
        self.bound = set(outer)
        uses = Counter([*live, *outer])
        for each in items:
            uses.update(each.variables)
        self.comparisons = Comparisons(items, rising(items, plan.sizes, uses))

    def build(self) -> tuple[p.Step, ...]:
        for item in self.items:
            test = item.test if type(item) is n.TestItem else None
            if type(test) is p.Apply and test.function == "!=":
                self._test_null(item, test)
        self._unrelated()
        self.open_atoms()
        if self.order is None:
            self.order = self.search()
        self.rest = Rest(self.waiting, self.atoms, self.live, self.order.rank)
        self.rest.split_off(self.bound)
        while self._advance():
            pass
        assert not self.rest.items, f"nothing binds what {self.rest.items} need"
        steps = reuse_lists(self.steps, self.plan.atoms, self.comparisons)
        if self.depth or self.outer or self.plan.cost < self.plan.inputs.thresholds.degrees_from:
            return steps
        return with_candidates(steps, self.atoms, self.comparisons)

    def search(self) -> Order:
        """The cheapest order of variables."""
        if not any(any(map(atom.open, atom.columns)) for atom in self.atoms):
            return Order()
        plan = self.plan
        inputs = plan.inputs
        pattern = empty_pattern(self.items, self.bound, self.live, plan.outputs)
        for atom in self.atoms:
            add_atom(pattern, atom)
        given_out = aggregate_items.given_out(self.items)
        for item in self.waiting:
            cost = None
            if isinstance(item, n.AggregateItem) and aggregate_items.may_be_early(item):
                trial = plan.apart()
                trial.aggregate(item, item.slot, 1.0)
                cost = aggregate_items.ASKED + trial.cost
            add_item(pattern, item, given_out, cost)
        pattern.bag, pattern.compacts = self.bag, self.compacts
        finish(pattern, self.comparisons, inputs)
        pattern.find_lower(of_values=plan.ascending)
        order = inputs.orders.best(pattern, self.rows, inputs.thresholds, inputs.observed)
        plan.cost += order.work
        return order

    # ------------------------------------------------------------------------------ start

    def _test_null(self, item: n.Item, test: p.Apply) -> None:
        """Leaves nulls out before a function reads them: other steps may not find values there."""
        if n.tests_null(test) and item.variables <= self.bound:
            self.steps.append(p.Filter(test))
            self.items = [other for other in self.items if other is not item]

    def _unrelated(self) -> None:
        """Parts that bind no variable of the answer come first, each as a branch."""
        parts = components(self.items, self.bound)
        if len(parts) < 2:
            return
        items: list[n.Item] = []
        for part in parts:
            if (
                n.variables_of(part) & self.live
                or not n.variables_of(part) - self.bound
                or not aggregate_items.widens(part)
                or any(map(n.item_may_fail, part))
                or _is_guard(part)
            ):
                items += part
            else:
                self._branch(part)
        self.items = items

    def _branch(self, part: Sequence[n.Item]) -> None:
        reads = n.variables_of(part) & self.bound
        depth = self.depth + 1
        check_depth(part, depth)
        to_inside = frozenset(reads), frozenset[str](), self.bag, self.rows, self.order
        inner = ConjunctionBuilder(self.plan, part, *to_inside, depth=depth).build()
        mode = "count" if self.bag else "exists"
        self.steps.append(p.Branch(mode, tuple(sorted(reads)), (inner,)))  # type: ignore[arg-type]  # it is one of the two modes

    def open_atoms(self) -> None:
        """Moves tests within an atom into its trie, and drops columns that are not needed."""
        atoms = [item for item in self.items if isinstance(item, n.AtomItem)]
        tests = [item for item in self.items if isinstance(item, n.TestItem)]
        whole = self.plan.whole_lists
        self.within = [item for item in tests if not whole and within_atom(item.test, atoms)]
        seen_to = set(map(id, self.within))
        others = [i for i in self.items if not isinstance(i, n.AtomItem) and id(i) not in seen_to]
        self.waiting = list(dict.fromkeys(others))
        uses = Counter([*self.live, *self.outer])
        for each in (*self.waiting, *atoms):
            uses.update(each.variables)
        opened = [self._open_atom(item, uses) for item in atoms]
        for atom, known in opened:
            for column, term in known:
                self.steps.append(p.Seek(term, (atom.take(column),)))
            if not atom.order and not atom.columns:
                self.steps.append(p.Guard(atom.number, atom.weighted))
                if atom.weighted:
                    atom.weighted = False  # the guard applies the weight

    def _open_atom(
        self, item: n.AtomItem, uses: Counter[str]
    ) -> tuple[AtomState, list[tuple[int, p.Expr]]]:
        size = self.plan.sizes(item.relation, item.version)
        number = self.plan.untouched.pop(item, len(self.plan.atoms))
        tests = Comparisons(()) if self.plan.whole_lists else self.comparisons
        atom, known = open_atom(item, number, size, tests, self.bound, uses, self.bag)
        self.plan.atoms[number : number + 1] = [atom]
        self.atoms.append(atom)
        return atom, known

    # --------------------------------------------------------------------------- one step on

    def _advance(self) -> bool:
        """Adds the next step; False if none is left."""
        assert self.order is not None
        rest, rank = self.rest, self.order.rank
        while (ready := rest.to_ask()) is not None:
            if self._ready(ready):
                return True
        generators = []
        for item in rest.others.values():
            if isinstance(item, n.GenerateItem) and item.sources <= self.bound:
                generators.append(item)
        name = rest.first()
        before = inf if name is None else rank.get(name, inf)
        for item in generators:
            before = min(before, rank.get(item.slot.name, inf))
        due = aggregate_items.next_due(rest.others.values(), self.bound, rank, before)
        if due is not None:
            self._compute(due)
            return True
        if self._split():
            return True
        joined = rest.first(joined=True)
        if joined is None:
            generators.sort(key=lambda item: self._rank(item.slot.name))
        for item in generators if joined is None else ():
            # If an atom has fewer values of the variable, it binds, and the generator tests.
            fewest = map(self._values, rest.binding(item.slot.name))
            if item.size() <= min(fewest, default=inf):
                self._generate(item)
                return True
        if name is not None and not self._begun():
            joined = name  # constants connect nothing
        if joined is not None:
            self._join(joined)
            return True
        # Before a cross product: computations that can fail and aggregates may connect the rest.
        for other in rest.others.values():
            if isinstance(other, n.Equation) and self._assign(other, may_fail=True):
                return True
            if isinstance(other, n.GenerateItem) and other.variables <= self.bound:
                slot = self.plan.variable("bool")
                self._done(other, p.Assign(slot.name, "bool", other.as_test(), (), True))
                self.steps.append(p.Filter(slot))
                return True
        for other in rest.others.values():
            if self._computable(other):
                self._compute(other)
                return True
        if name is not None:
            self._join(name)
            return True
        return False

    def _begun(self) -> bool:
        """Whether a step binds a variable, other than aggregates and restored values."""
        return not {p.Join, p.Assign, p.Generate}.isdisjoint(map(type, self.steps))

    def _ready(self, item: n.Item) -> bool:
        """Adds the step of an item if its variables are bound and it cannot fail."""
        known = item.variables <= self.bound and not n.item_may_fail(item)
        match item:
            case n.TestItem() if known:
                self._done(item, p.Filter(item.test))
            case n.GenerateItem() if known:
                self._done(item, p.Filter(item.as_test()))
            case n.Equation() if known:
                self._done(item, p.Filter(p.Apply("=", (item.left, item.right), "bool")))
            case n.Equation() if not item.may_fail:
                return self._assign(item, may_fail=False)
            case n.NotItem() | n.EitherItem() if known:
                self._compute(item)
            case n.RestoreItem() if self.bound.issuperset(item.ranks):
                self._restore(item)
            case _:
                return False
        return True

    def _restore(self, item: n.RestoreItem) -> None:
        """Restores values from ranks, and looks them up at once in atoms that contain them."""
        trie = next(
            atom.number
            for atom in self.plan.atoms
            if atom.item.ranked and atom.item.relation == item.relation
        )
        names = tuple([value.name for value in item.values])
        self._done(item, p.Restore(trie, item.ranks, names, item.values[0].type))
        self.plan.cost += RESTORED * self.rows
        for value in item.values:
            participants = self._participants(value.name)
            if participants:
                self.steps.append(p.Seek(value, participants))
        self._bind(names)

    def _done(self, item: n.Item, step: p.Step) -> None:
        self.rest.remove(item)
        self.steps.append(step)

    def _assign(self, item: n.Equation, may_fail: bool) -> bool:
        given = aggregate_items.given_out(self.rest.others.values())
        for slot, value in item.ways():
            if slot.name not in (self.bound | given) and p.slots(value) <= self.bound:
                step = p.Assign(
                    slot.name, slot.type, value, self._participants(slot.name), may_fail
                )
                self._done(item, step)
                self._bind((slot.name,))
                return True
        if item.may_fail and item.variables <= self.bound:
            # The variable is bound already: compute the value, then compare.
            assert isinstance(item.left, p.Slot)
            slot = self.plan.variable(item.left.type)
            self._done(item, p.Assign(slot.name, slot.type, item.right, (), True))
            self.steps.append(p.Filter(p.Apply("=", (item.left, slot), "bool")))
            return True
        return False

    def _participants(self, name: str) -> tuple[p.Participant, ...]:
        found = []
        for atom in self.rest.holding(name):
            begun = bool(atom.order)
            found.append(atom.take(atom.columns[name]))
            if not begun:
                self.rest.begun(atom)
        return tuple(found)

    def _bind(self, names: Collection[str]) -> None:
        self.bound.update(names)
        self.rest.bound(names)

    def _rank(self, name: str) -> float:
        assert self.order is not None
        return self.order.rank.get(name, inf)

    def _values(self, atom: AtomState) -> float:
        """The number of values of the first column of an atom that has no bound column."""
        distinct = (atom.size.distinct(frozenset((at,))) for at in atom.columns.values())
        return max(distinct, default=0.0)

    def _join(self, name: str) -> None:
        assert self.order is not None
        atoms = self.rest.binding(name)
        mine = self.rest.mentioning(name)
        cuts = all_cuts(name, mine, self.bound, self.comparisons, self.items)
        for item, _ in cuts:
            if item is not None:
                self.rest.remove(item)
        kind = atoms[0].item.args[atoms[0].columns[name]].type
        implied = []
        for place, atom in enumerate(atoms):
            for at, (_, (op, bound)) in enumerate(cuts):
                if isinstance(bound, p.Slot) and atom.ensures(name, op, bound.name):
                    implied.append((place, at))
        limits = tuple([cut for _, cut in cuts])
        participants = self._participants(name)
        self.rows = self.order.estimates.get(name, self.rows)
        step = p.Join(name, kind, participants, limits, tuple(implied), None, self.rows)
        self.steps.append(step)
        self._bind((name,))

    def _generate(self, item: n.GenerateItem) -> None:
        name = item.slot.name
        participants = self._participants(name)
        step = p.Generate(name, item.slot.type, item.values, item.span, participants, item.place)
        self._done(item, step)
        self._bind((name,))

    # ------------------------------------------------------------------------------ the end

    def _split(self) -> bool:
        """Turns parts of the rest that bind no variable of the answer into branches.

        Under set semantics a branch is an existence test, best run early. Under bag semantics a
        branch needs another part beside it: a single part is counted in place.
        """
        # A very long body has no branches: compaction removes duplicate rows as well.
        if not self.rest.may_split(self.bag) or (self.compacts and too_deep(len(self.items))):
            return False
        opened = [atom for atom in self.atoms if any(map(atom.open, atom.columns))]
        if not opened or not (self.bag or self._begun()):
            return False
        rest: list[n.Item] = [*(atom.item for atom in opened), *self.rest.items]
        rest += [
            item
            for item in self.within
            if not item.variables <= self.bound
            and any(item.variables <= atom.item.variables for atom in opened)
        ]
        parts = list(filter(aggregate_items.widens, components(rest, self.bound)))
        if self.bag and len(parts) < 2:
            return False
        asked = self.live - self.bound
        apart = [
            part
            for part in parts
            if not n.variables_of(part) <= self.bound
            and not n.variables_of(part) & asked
            and not any(map(n.item_may_fail, part))
        ]
        apart.sort(key=lambda part: min(map(self._rank, n.variables_of(part) - self.bound)))
        for part in apart:
            for atom in opened:
                if atom.item in part:
                    # Its bound levels remain as a semi-join; the branch looks them up again.
                    walked = {name: at for name, at in atom.columns.items() if at in atom.order}
                    atom.columns = walked
                    if not atom.order:
                        self.plan.untouched[atom.item] = atom.number
                    atom.weighted = False
            for item in part:
                if not isinstance(item, n.AtomItem) and item not in self.within:
                    self.rest.remove(item)
            self.rest.split_off(n.variables_of(part))
            self._branch(part)
        return bool(apart)

    def _computable(self, item: n.Item) -> bool:
        """Whether an item that can fail, and so runs as late as possible, can run now."""
        if isinstance(item, n.AggregateItem):
            return item.reads <= self.bound and not aggregate_items.may_be_early(item)
        return item.variables <= self.bound

    def _compute(self, item: n.Item) -> None:
        if isinstance(item, n.NotItem | n.EitherItem):
            bag = isinstance(item, n.EitherItem)
            parts, reads = item.alternatives, item.variables
            inner = tuple(
                self.plan.steps(each, reads, frozenset(), bag, self.rows) for each in parts
            )
            self._done(
                item, p.Branch("count" if bag else "not exists", tuple(sorted(reads)), inner)
            )
            return
        assert isinstance(item, n.AggregateItem)
        name = item.slot.name
        taken = any(atom.open(name) for atom in self.atoms)
        result = self.plan.variable(item.slot.type) if taken else item.slot
        self._done(item, self.plan.aggregate(item, result, self.rows))
        self._bind((result.name, *(export.name for export in item.exports)))
        if taken:
            self.steps.append(p.Assign(name, item.slot.type, result, self._participants(name)))
            self._bind((name,))
        assert self.order is not None
        self.rows = self.order.estimates.get(name, self.rows)


def _is_guard(part: Sequence[n.Item]) -> bool:
    """Whether a part is an atom whose variables occur once, so that its number of rows is
    enough."""
    (item, *others) = part
    return not others and isinstance(item, n.AtomItem) and len(item.variables) == len(item.args)
