"""Scans: an alternative reads the rows of a relation, and tests each or looks it up in others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

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


ROW = 5  # columns of a relation whose rows are copied: an index of fewer is cheap, and loops use it
WIDE = 12  # columns; a wider relation is always scanned, since an index costs more than it saves


def scan_of(
    items: n.Conjunction, sizes: Statistics, least: int, read: Callable[[], frozenset[str]]
) -> tuple[n.Conjunction, p.GivenRows] | None:
    """The remaining items and the given rows of a scan of a relation of at least `least` rows, or a
    wide one: that of a body of one atom, or one of which the head has each row whole, beside what
    other relations add to it. `read`: the variables of the head; a body that binds none of them and
    tests nothing only asks how many rows there are."""
    atoms = [item for item in items if isinstance(item, n.AtomItem)]
    rest = [item for item in items if not isinstance(item, n.AtomItem)]
    alone = len(atoms) == 1 and all(map(_computed, rest))
    atom = atoms[0] if alone else _copied(atoms, rest, sizes, read)
    if atom is None or not atom.args:
        return None
    size = sizes(atom.relation, atom.version)
    few = size.rows < least and len(atom.args) < WIDE
    if few or atom.version != "full" or size.assumed:
        return None
    others = [item for item in items if item is not atom]
    given, tests = given_of(atom)
    if not tests and not others and read().isdisjoint(slot.name for slot in given.slots):
        return None
    return (*tests, *others), replace(given, columns=tuple(range(len(atom.args))))


def _computed(item: n.Item) -> bool:
    return isinstance(item, (n.TestItem, n.Equation, n.GenerateItem))


def _copied(
    atoms: Sequence[n.AtomItem],
    rest: Sequence[n.Item],
    sizes: Statistics,
    read: Callable[[], frozenset[str]],
) -> n.AtomItem | None:
    """The atom of the largest relation, if the head has all its columns, so that an index of it
    would cost more than the answer; each other atom, of other relations, shares a variable. No test
    cuts a range of it."""
    for item in rest:
        if not isinstance(item, (n.NotItem, n.Equation)):
            return None
    if not atoms:
        return None
    largest = max(atoms, key=lambda atom: (sizes(atom.relation, atom.version).rows, len(atom.args)))
    names = {arg.name for arg in largest.args if isinstance(arg, p.Slot)}
    others = [atom for atom in atoms if atom is not largest]
    if len(names) < max(ROW, len(largest.args)) or not names <= read():
        return None
    if any(atom.relation == largest.relation or atom.version != "full" for atom in others):
        return None
    if any(names.isdisjoint(n.variables_of_exprs(atom.args)) for atom in others):
        return None
    return largest


def scanning(join: p.JoinPlan, asked: Collection[str]) -> p.JoinPlan:
    """A plan with given rows as a scan that reads only the columns that the plan uses, or that are
    `asked` for."""
    assert join.given is not None
    given_slots = join.given.slots
    used = set(asked).union(n.variables_of_exprs(join.outputs), *map(reads, all_steps(join.steps)))
    columns = tuple([at for at, slot in enumerate(given_slots) if slot.name in used]) or (0,)
    given = replace(join.given, slots=tuple([given_slots[at] for at in columns]), columns=columns)
    return replace(join, given=given)
