"""Scans: an alternative of one atom reads the rows of its relation, and tests each."""

from __future__ import annotations

from collections.abc import Callable, Collection

from gdatalog.plan import join_plan as p
from gdatalog.plan.effects import all_steps, reads
from gdatalog.planner import items as n
from gdatalog.planner.statistics import Statistics
from gdatalog.records import replace


def given_of(atom: n.AtomItem) -> tuple[p.GivenRows, list[n.TestItem]]:
    """An atom as given rows, and tests for its constants and repeated variables."""
    found: list[p.Slot] = []
    names: set[str] = set()
    tests: list[n.TestItem] = []
    for at, arg in enumerate(atom.args):
        if isinstance(arg, p.Slot) and arg.name not in names:
            found.append(arg)
            names.add(arg.name)
            continue
        slot = p.Slot(f"~given{at}", arg.type)
        found.append(slot)
        tests.append(n.TestItem(p.Apply("=", (slot, arg), "bool")))
    return p.GivenRows(atom.relation, tuple(found)), tests


WIDE = 12  # columns; a wider relation is always scanned, since an index costs more than it saves


def scan_of(
    items: n.Conjunction, sizes: Statistics, least: int, read: Callable[[], frozenset[str]]
) -> tuple[n.Conjunction, p.GivenRows] | None:
    """The remaining items and the given rows of a scan, if the body is one atom over a relation of
    at least `least` rows, or a wide one. `read`: the variables of the head; a body that binds none
    of them and tests nothing only asks how many rows there are."""
    atoms = [item for item in items if isinstance(item, n.AtomItem)]
    rest = [item for item in items if not isinstance(item, n.AtomItem)]
    if len(atoms) != 1 or not atoms[0].args:
        return None
    (atom,) = atoms
    if not all(isinstance(item, (n.TestItem, n.Equation, n.GenerateItem)) for item in rest):
        return None
    size = sizes(atom.relation, atom.version)
    few = size.rows < least and len(atom.args) < WIDE
    if few or atom.version != "full" or size.assumed:
        return None
    given, tests = given_of(atom)
    if not tests and not rest and read().isdisjoint(slot.name for slot in given.slots):
        return None
    return (*tests, *rest), replace(given, columns=tuple(range(len(atom.args))))


def scanning(join: p.JoinPlan, asked: Collection[str]) -> p.JoinPlan:
    """A plan with given rows as a scan that reads only the columns that the plan uses, or that are
    `asked` for."""
    assert join.given is not None
    given_slots = join.given.slots
    used = set(asked).union(n.variables_of_exprs(join.outputs), *map(reads, all_steps(join.steps)))
    columns = tuple([at for at, slot in enumerate(given_slots) if slot.name in used]) or (0,)
    given = replace(join.given, slots=tuple([given_slots[at] for at in columns]), columns=columns)
    return replace(join, given=given)
