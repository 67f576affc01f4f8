"""Parts of a conjunction that hang at one variable: found by one walk, as their definition says."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from random import Random

import pytest

from gdatalog.plan.join_plan import Apply, Slot
from gdatalog.planner import items as n
from gdatalog.planner.components import components
from gdatalog.planner.items import AtomItem, Conjunction, Item, variables_of
from gdatalog.planner.order.edges import types_of
from gdatalog.planner.rewrite.parts import hanging, has_cycle, is_cyclic, shared_variables

Names = frozenset[str]


def by_definition(items: Conjunction, keys: Names, cycles: bool) -> tuple[str, list[Item]] | None:
    shared = shared_variables(items) | keys
    found: list[tuple[int, str, list[Item]]] = []
    for whole in components(items, ()):
        for name in sorted(variables_of(whole) & shared):
            for part in components(whole, (name,)):
                inside = variables_of(part) & shared - {name}
                rest = variables_of(item for item in whole if item not in part) & shared - {name}
                some = len(part) < len(whole)
                kept = rest or (some and (name in keys or (cycles and is_cyclic(part))))
                if inside and inside.isdisjoint(keys) and kept and name in types_of(part):
                    found.append((len(inside), name, part))
    return min(found, key=lambda each: each[:2])[1:] if found else None


def drawn(random: Random) -> tuple[Conjunction, Names]:
    names = [f"v{at}" for at in range(random.randint(1, 9))]
    random.shuffle(names)

    def slots(count: int) -> tuple[Slot, ...]:
        return tuple(Slot(random.choice(names), "int") for _ in range(count))

    items: list[Item] = []
    for at in range(random.randint(1, 10)):
        if random.random() < 0.85:
            items.append(AtomItem(f"R{at}", slots(random.choice((1, 2, 2, 2, 3)))))
        else:
            items.append(n.TestItem(Apply("<", slots(2), "bool")))
    few = random.choice((0, 0, 1, 2))
    return tuple(dict.fromkeys(items)), frozenset(names[:few])


@pytest.mark.parametrize("seed", range(5))
def test_what_hangs_at_a_variable(seed: int) -> None:
    random, hang = Random(seed), 0
    for _ in range(100):
        items, keys = drawn(random)
        for cycles in (False, True):
            found = hanging(items, keys, cycles)
            assert found == by_definition(items, keys, cycles), (items, keys)
            hang += found is not None
    assert hang > 20


def edges(*pairs: Sequence[str]) -> Sequence[Item]:
    return [AtomItem("E", tuple(Slot(name, "int") for name in pair)) for pair in pairs]


def test_edges_have_a_cycle_or_are_trees() -> None:
    assert not has_cycle(edges("ab", "bc", "de", "ba"))
    assert has_cycle(edges("ab", "bc", "ca", "de", "fg"))


def calls_for(atoms: int) -> int:
    """The calls, of functions in C too, that take a chain's smallest part."""
    items = tuple(edges(*((f"x{at}", f"x{at + 1}") for at in range(atoms))))
    count = 0

    def note(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        found = hanging(items)
    finally:
        sys.setprofile(None)
    assert found is not None and len(found[1]) == 2
    return count


def test_twice_the_atoms_take_twice_the_calls() -> None:
    assert calls_for(80) < 2.5 * calls_for(40)
