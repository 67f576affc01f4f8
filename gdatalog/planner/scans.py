"""Alternatives of one atom as scans: the rows of its relation, each tested by itself."""

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
from gdatalog.planner.sizes import Statistics
from gdatalog.records import replace


def given_of(atom: AtomItem) -> tuple[GivenRows, list[TestItem]]:
    """The rows of an atom as given ones, and what they must pass: its constants, and columns that
    are to be equal."""
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


WIDE = 12  # columns, from which on an index costs more than it saves, however few rows there are


def scan_of(
    items: Conjunction, sizes: Statistics, least: int
) -> tuple[GivenRows, Conjunction] | None:
    """The rows that a scan is given and the items that are left, if a body of one atom is a scan:
    that takes a relation of at least so many rows, or a wide one."""
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
    """A plan that is given rows as a scan, which reads only columns that are used: by the plan
    itself, or because they are `asked` for."""
    assert join.given is not None
    slots = join.given.slots
    used = set(asked).union(variables_of_exprs(join.outputs), *map(reads, all_steps(join.steps)))
    columns = tuple(at for at, slot in enumerate(slots) if slot.name in used) or (0,)
    given = replace(join.given, slots=tuple(slots[at] for at in columns), columns=columns)
    return replace(join, given=given)
