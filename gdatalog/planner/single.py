"""Plans for a single atom: its column order without a search, and scans.

Columns compared with constants come first, then columns with the fewest values, until these
identify the rows. Further columns cost the same in every order: columns of the answer follow in its
order, then the others.
"""

from __future__ import annotations

from collections.abc import Collection

from gdatalog.plan.effects import all_steps, reads
from gdatalog.plan.nodes import Apply, GivenRows, JoinPlan, Slot
from gdatalog.planner.items import (
    AtomItem,
    Conjunction,
    Equation,
    GenerateItem,
    TestItem,
    variables_of_exprs,
)
from gdatalog.planner.order.formula import TINY, Formula
from gdatalog.planner.order.pattern import PatternAtom, QueryPattern, bits
from gdatalog.planner.order.search_state import Order
from gdatalog.planner.order.sizes import Statistics
from gdatalog.records import replace

FEW = 5  # most variables for which all orders are compared


def single_order(pattern: QueryPattern, rows: float) -> Order | None:
    """The order of a body with one atom, for `rows` outer rows; None if values are also generated
    or aggregated, or if one row is enough."""
    if pattern.given or pattern.aggregates or not (pattern.bag or pattern.live):
        return None
    (atom,) = pattern.atoms
    formula = Formula(pattern)
    path = pattern.closed(pattern.outer, pattern.everything)
    columns = _in_order(pattern, atom, path)
    order = Order()
    scale = rows / max(formula.rows(pattern.outer), TINY)
    for number, at in enumerate(columns, 1):
        wider = path | 1 << at
        known, mine = atom.mask & path, atom.mask & wider
        before = formula.rows(path) * scale
        lists = formula.paths(atom, mine) / max(TINY, formula.paths(atom, known) if known else 1.0)
        last = number == len(columns) and pattern.bag and not pattern.live >> at & 1
        order.work += (
            before if last and number > 1 else before * min(lists, formula.roots(atom, at))
        )
        order.rank[pattern.names[at]] = number
        order.estimates[pattern.names[at]] = formula.rows(wider, path) * scale
        path = pattern.closed(wider, pattern.everything, 1 << at)
        formula.rows(path, wider)
    return order


def _in_order(pattern: QueryPattern, atom: PatternAtom, path: int) -> list[int]:
    """The variables that the atom binds, in their order."""
    left = [at for at in atom.columns if not (path | pattern.computed) >> at & 1]
    values = {at: atom.degrees(at).powers[0] for at in left}
    ranges = pattern.ranges
    limited = sorted(
        (at for at in left if at in ranges), key=lambda at: (ranges[at].share(0) * values[at], at)
    )
    found = limited
    share, wanted = 1.0, atom.size.rows
    for at in limited:
        share *= values[at]
    for at in sorted((at for at in left if at not in ranges), key=lambda at: (values[at], at)):
        if share >= wanted:
            break
        share *= values[at]
        found.append(at)
    asked = [at for at in pattern.outputs if at in values]
    asked += [at for at in bits(pattern.live) if at in values]
    return list(dict.fromkeys((*found, *asked, *left)))


# Scans: an alternative of one atom reads the rows of its relation, and tests each.


def given_of(atom: AtomItem) -> tuple[GivenRows, list[TestItem]]:
    """An atom as given rows, and tests for its constants and repeated variables."""
    found: list[Slot] = []
    names: set[str] = set()
    tests: list[TestItem] = []
    for at, arg in enumerate(atom.args):
        if isinstance(arg, Slot) and arg.name not in names:
            found.append(arg)
            names.add(arg.name)
            continue
        slot = Slot(f"~given{at}", arg.type)
        found.append(slot)
        tests.append(TestItem(Apply("=", (slot, arg), "bool")))
    return GivenRows(atom.relation, tuple(found)), tests


WIDE = 12  # columns; a wider relation is always scanned, since an index costs more than it saves


def scan_of(
    items: Conjunction, sizes: Statistics, least: int
) -> tuple[GivenRows, Conjunction] | None:
    """The given rows of a scan and the remaining items, if the body is one atom over a relation of
    at least `least` rows, or a wide one."""
    atoms = [item for item in items if isinstance(item, AtomItem)]
    rest = [item for item in items if not isinstance(item, AtomItem)]
    if len(atoms) != 1 or not atoms[0].args:
        return None
    (atom,) = atoms
    if not all(isinstance(item, (TestItem, Equation, GenerateItem)) for item in rest):
        return None
    size = sizes(atom.relation, atom.version)
    if atom.version != "full" or size.assumed:
        return None
    if size.rows < least and len(atom.args) < WIDE:
        return None
    given, tests = given_of(atom)
    return replace(given, columns=tuple(range(len(atom.args)))), (*tests, *rest)


def scanning(join: JoinPlan, asked: Collection[str]) -> JoinPlan:
    """A plan with given rows as a scan that reads only the columns that the plan uses, or that are
    `asked` for."""
    assert join.given is not None
    slots = join.given.slots
    used = set(asked).union(variables_of_exprs(join.outputs), *map(reads, all_steps(join.steps)))
    columns = tuple(at for at, slot in enumerate(slots) if slot.name in used) or (0,)
    given = replace(join.given, slots=tuple(slots[at] for at in columns), columns=columns)
    return replace(join, given=given)
