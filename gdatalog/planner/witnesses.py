"""Early tests for witnesses.

A body may need only a witness. Suppose that some of its variables occur in one atom each, and that
only `x != y` tests connect them. If the list of one contains only values that it must differ from,
the loops over the others fail for each of their combinations. So each variable is tested alone, as
soon as its list and the values it must differ from are known.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.planner.aggregate_items import renamed
from gdatalog.planner.items import AtomItem, Item, NotItem, variables_of
from gdatalog.planner.order.edges import ends, operator

Names = frozenset[str]
MANY = 3  # variables; with two, an early test saves nothing


def with_lone_witnesses(items: Sequence[Item], outer: Names) -> Sequence[Item]:
    """The items, and an implied existence test for each variable that only `!=` connects."""
    last = {name for name in variables_of(items) - outer if _is_last(name, items)}
    tests = [item for item in items if operator(item) == "!="]
    coupled = {name for test in tests if set(ends(test)) <= last for name in ends(test)}
    if len(coupled) < MANY:
        return items
    return (*items, *(_alone(name, items, last) for name in sorted(coupled)))


def _is_last(name: str, items: Sequence[Item]) -> bool:
    """Whether a variable occurs in one atom, together with others, and otherwise only in `!=`
    tests."""
    own = [item for item in items if name in item.variables]
    atoms = [item for item in own if isinstance(item, AtomItem)]
    return (
        len(atoms) == 1
        and len(atoms[0].variables) > 1
        and all(operator(item) == "!=" for item in own if item is not atoms[0])
    )


def _alone(name: str, items: Sequence[Item], last: set[str]) -> Item:
    """The test that a variable has a value, whatever values the other last variables have."""
    own = [item for item in items if name in item.variables]
    held = [item for item in own if item.variables.isdisjoint(last - {name})]
    part = tuple([renamed(item, {name: f"{name}~"}) for item in held])
    reads = variables_of(held) - {name}
    return NotItem(((NotItem((part,), reads),),), reads)
