"""Cells: parts of a join that run one by one; and the slices of tries that each cell reads.

A cell restricts the keys of some variables to ranges. Cells that are disjoint and cover all keys
return each row of the join once, wherever each cell runs. A join within a cell is an ordinary join.

A cell reads only a *slice* of a trie whose first column is such a variable: the rows whose first
value lies in the range. So tries need not fit a device as a whole. This module computes sizes, and
reads no trie.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from gdatalog.plan import join_plan as p
from gdatalog.plan.effects import all_steps, binds, may_fail, participants
from gdatalog.plan.nest import Paths, recoded
from gdatalog.records import dataclass, field, replace

LEAST, GREATEST = -(1 << 63), (1 << 63) - 1  # keys

# Comparisons of a variable's key with constants and parameters.
Tests = Sequence[p.Comparison]


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The keys from `low` up to, without, `high`; None: unbounded."""

    low: int | None = None
    high: int | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """The key ranges of some variables; other variables are unrestricted."""

    stretches: Mapping[str, KeyRange] = field(default_factory=lambda: MappingProxyType({}))

    def __reduce__(self) -> tuple[object, ...]:
        return Cell, (dict(self.stretches),)


EVERYTHING = Cell()
UNBOUNDED = KeyRange()


def cuttable(join: p.JoinPlan) -> tuple[p.Slot, ...]:
    """The variables that cells can cut, in the order in which they are bound: each binding has one
    value of each, so that it lies in one cell."""
    given = () if join.given is None else join.given.slots
    joined = [p.Slot(step.variable, step.type) for step in join.steps if isinstance(step, p.Join)]
    return (*given, *joined)


def roles(join: p.JoinPlan) -> tuple[tuple[str | None, ...], ...]:
    """For each trie of a join, the variables bound to its levels; None for a constant."""
    found: list[tuple[str | None, ...]] = []
    for ref, terms in zip(join.tries, Paths.of(join).terms, strict=True):
        names = [term.name if isinstance(term, p.Slot) else None for term in terms]
        found.append((*names, *[None] * (len(ref.columns) - len(terms))))
    return tuple(found)


def reached(join: p.JoinPlan) -> list[p.Step]:
    """The steps whose matches can be split over cells: those outside branches, and those inside
    branches that count or test existence. A count is the sum of the counts of cells; under set
    semantics, any cell may find the match."""
    mode = "count" if join.bag else "exists"
    found: list[p.Step] = []
    waiting = list(reversed(join.steps))
    while waiting:
        step = waiting.pop()
        found.append(step)
        if isinstance(step, p.Branch) and step.mode == mode and len(step.alternatives) == 1:
            waiting += reversed(step.alternatives[0])
    return found


def sliceable(join: p.JoinPlan) -> dict[str, bool]:
    """The variables by which tries can be sliced, and for each, whether a row of the join comes
    from one cell only; an existence test may succeed in several cells."""
    top = {slot.name for slot in cuttable(join)}
    bound = Counter(name for step in all_steps(join.steps) for name in binds(step))
    inner = [] if may_fail(join.steps) else reached(join)
    within_branches = {
        step.variable
        for step in inner
        if isinstance(step, p.Join)
        and bound[step.variable] == 1
        and any(part.depth == 0 for part in step.participants)
    }
    return {name: name in top or join.bag for name in (*top, *sorted(within_branches - top))}


def roots(join: p.JoinPlan) -> tuple[p.Expr | None, ...]:
    """The term bound to each trie's first column, if it determines the rows that are read: a
    variable that cells can cut, a constant or a parameter."""
    names = sliceable(join)

    def sure(term: p.Expr) -> bool:
        return term.name in names if isinstance(term, p.Slot) else not isinstance(term, p.Apply)

    firsts = (terms[0] if terms else None for terms in Paths.of(join).terms)
    return tuple([term if term is not None and sure(term) else None for term in firsts])


def needed(join: p.JoinPlan) -> frozenset[int]:
    """The tries of which every binding has a row."""
    return frozenset([part.trie for step in reached(join) for part in participants(step)])


def orders(join: p.JoinPlan) -> frozenset[tuple[str, str, bool]]:
    """(u, v, strict) where u < v, or u <= v, holds for the keys of every binding."""
    names = sliceable(join)
    found: set[tuple[str, str, bool]] = set()

    def add(left: str | None, op: str, right: str | None) -> None:
        if left in names and right in names and op in ("<", "<=", ">", ">="):
            low, high = (left, right) if op[0] == "<" else (right, left)
            found.add((str(low), str(high), len(op) == 1))

    for step in reached(join):
        for op, bound in step.cuts if isinstance(step, p.Join) else ():
            if isinstance(step, p.Join) and isinstance(bound, p.Slot):
                add(step.variable, op, bound.name)
    bound_by = roles(join)
    for number in sorted(needed(join)):
        ref = join.tries[number]
        of = dict(zip(ref.columns, bound_by[number], strict=True))
        for left, op, right in ref.tests:
            add(of.get(left), op, of.get(right))
    return frozenset(found)


def sliced(join: p.JoinPlan, labels: Sequence[str], variables: Collection[str]) -> p.JoinPlan:
    """The join over slices of its tries: `labels` say which term selects the rows of each. Cut
    `variables` that no slice restricts become bounds."""
    tries = tuple(replace(ref, sliced=label) for ref, label in zip(join.tries, labels, strict=True))
    parts = (part for step in reached(join) for part in participants(step))
    free = {labels[part.trie] for part in parts if part.depth == 0}
    found = replace(join, tries=tries)
    found = replace(found, steps=_without_reuse(found.steps, Paths.of(found), {}))
    # Lists of other tries extend beyond the slice, and most lookups of their values would fail.
    joins = [step for step in found.steps if isinstance(step, p.Join)]
    beyond = {step.variable for step in joins if any(part.depth for part in step.participants)}
    return bounded(found, [name for name in variables if name in beyond or name not in free])


def _without_reuse(
    steps: Sequence[p.Step], paths: Paths, levels: dict[str, p.Join]
) -> tuple[p.Step, ...]:
    """The steps, without reuse of lists that slices have changed, and what told their lengths."""
    kept: list[p.Step] = []
    for step in steps:
        if isinstance(step, p.Branch):
            inner = [_without_reuse(each, paths, dict(levels)) for each in step.alternatives]
            step = replace(step, alternatives=tuple(inner))
        elif isinstance(step, p.Join):
            if step.reuse is not None:
                earlier = levels[step.reuse.variable]
                covers = {paths.node(step.participants[at]) for at in step.reuse.covers}
                if not {paths.node(part) for part in earlier.participants} <= covers:
                    step = replace(step, reuse=None)
            step = replace(step, least=())
            levels[step.variable] = step
        kept.append(step)
    return tuple(kept)


def over_parts(join: p.JoinPlan) -> p.JoinPlan:
    """The join over parts of its relations: parts of lists do not tell how long the lists are."""
    steps = [replace(step, least=()) if isinstance(step, p.Join) else step for step in join.steps]
    return replace(join, steps=tuple(steps))


def places(steps: Sequence[p.Step], cut: Sequence[p.Step]) -> list[tuple[int, p.Step]]:
    """Pairs of a step of the join within a cell and the number of the original step."""
    found: list[tuple[int, p.Step]] = []
    for step in cut:
        at = len(found)
        if at < len(steps) and (step == steps[at] or _cut_from(step, steps[at])):
            found.append((at, step))
    return found


def _cut_from(step: p.Step, whole: p.Step) -> bool:
    if isinstance(step, p.Join) and isinstance(whole, p.Join):
        return step.variable == whole.variable
    return isinstance(step, p.Branch) and isinstance(whole, p.Branch) and step.mode == whole.mode


def within(join: p.JoinPlan, cell: Cell) -> p.JoinPlan:
    """The join of the bindings in a cell."""
    tests: dict[str, Tests] = {}
    for name, stretch in cell.stretches.items():
        ends = ((">=", stretch.low), ("<", stretch.high))
        tests[name] = [(op, p.Constant(end, "int")) for op, end in ends if end is not None]
    return _tested(join, tests)


def bounded(join: p.JoinPlan, variables: Collection[str]) -> p.JoinPlan:
    """The join within any cell that cuts these variables, whose ends are parameters: one plan and
    one function for all cells."""
    tests: dict[str, Tests] = {}
    for name in variables:
        low, high = _parameters(name)
        tests[name] = [(">=", p.Parameter(low, "int")), ("<=", p.Parameter(high, "int"))]
    return _tested(join, tests)


def ends(cell: Cell, variables: Collection[str]) -> dict[str, int]:
    """A cell's ends, as parameters of the join `bounded` by these variables."""
    found: dict[str, int] = {}
    for name in variables:
        stretch = cell.stretches.get(name, UNBOUNDED)
        low, high = _parameters(name)
        found[low] = LEAST if stretch.low is None else stretch.low
        found[high] = GREATEST if stretch.high is None else stretch.high - 1
    return found


def _parameters(variable: str) -> tuple[str, str]:
    return f"{variable}~from", f"{variable}~to"


def _tested(join: p.JoinPlan, tests: Mapping[str, Tests]) -> p.JoinPlan:
    """The join of the bindings whose variables satisfy the tests."""
    if not any(tests.values()):
        return join
    readers: dict[str, list[p.Join]] = {}  # levels that reuse a level's list
    for step in all_steps(join.steps):
        if isinstance(step, p.Join) and step.reuse is not None:
            readers.setdefault(step.reuse.variable, []).append(step)
    last = max([at for at, step in enumerate(join.steps) if isinstance(step, p.Join)], default=-1)
    steps: list[p.Step] = []
    for slot in () if join.given is None else join.given.slots:
        steps += _filters(slot.name, tests.get(slot.name, ()))
    bits = recoded(join.steps, Paths.of(join), readers.keys() & tests.keys())
    for at, step in enumerate(join.steps):
        own = tests.get(step.variable, ()) if isinstance(step, p.Join) else ()
        if not isinstance(step, p.Join) or not own:
            steps.append(step)
        elif step.variable in readers:
            cuts = [cut for cut in own if _unread(step.variable, cut[0], readers)]
            steps.append(replace(step, cuts=(*step.cuts, *cuts)))
            steps += _filters(step.variable, own)
        elif at == last or step.variable not in bits:
            steps.append(replace(step, cuts=(*step.cuts, *own)))
        else:  # bits are numbered by positions in the whole list
            steps += [step, *_filters(step.variable, own)]
    return replace(join, steps=tuple(steps))


def _unread(variable: str, op: str, readers: Mapping[str, Sequence[p.Join]]) -> bool:
    """Whether the levels that reuse a variable's list never read the values that this test removes:
    all of them cut the list on the same side of the variable."""
    return all(
        any(
            way[0] == op[0] and bound == p.Slot(variable, reader.type) for way, bound in reader.cuts
        )
        for reader in readers[variable]
    )


def _filters(variable: str, tests: Tests) -> list[p.Step]:
    """Tests of keys as integers, whatever type they represent."""
    key = p.Slot(variable, "int")
    return [p.Filter(p.Apply(op, (key, end), "bool")) for op, end in tests]
