"""What a body that only needs a witness can be tested for before all of it is looked for.

Let some variables of a body stand in one atom each, and only tests `x != y` couple them. If the
list of one of them holds nothing but values that it must differ from, the loops over the others
would end without a witness for each of their combinations. So each is looked for alone as soon as
what leads to it, and what it must differ from, is bound.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.planner.items import AtomItem, Item, NotItem, variables_of
from gdatalog.planner.order.edges import ends, operator
from gdatalog.planner.rewrite.quotients import renamed

Names = frozenset[str]
MANY = 3  # variables: of two, the loop over one ends as soon as a look at its list would


def with_lone_witnesses(items: Sequence[Item], outer: Names) -> Sequence[Item]:
    """The items, and what follows from them for each of the variables that only `!=` couples."""
    last = {name for name in variables_of(items) - outer if _is_last(name, items)}
    tests = [item for item in items if operator(item) == "!="]
    coupled = {name for test in tests if set(ends(test)) <= last for name in ends(test)}
    if len(coupled) < MANY:
        return items
    return (*items, *(_alone(name, items, last) for name in sorted(coupled)))


def _is_last(name: str, items: Sequence[Item]) -> bool:
    """Whether a variable stands in one atom, beside others, and else only in tests `!=`."""
    own = [item for item in items if name in item.variables]
    atoms = [item for item in own if isinstance(item, AtomItem)]
    return (
        len(atoms) == 1
        and len(atoms[0].variables) > 1
        and all(operator(item) == "!=" for item in own if item is not atoms[0])
    )


def _alone(name: str, items: Sequence[Item], last: set[str]) -> Item:
    """That a variable has a value, whatever the others that are last have."""
    own = [item for item in items if name in item.variables]
    held = [item for item in own if item.variables.isdisjoint(last - {name})]
    part = tuple(renamed(item, {name: f"{name}~"}) for item in held)
    reads = variables_of(held) - {name}
    return NotItem(((NotItem((part,), reads),),), reads)
