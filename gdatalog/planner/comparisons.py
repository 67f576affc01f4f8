"""What a conjunction's comparisons imply: `x < y, y <= z` gives `x < z`; `x < y, y < 9` gives `x <
9`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from gdatalog.plan.join_plan import Apply, Constant, Parameter, Slot
from gdatalog.planner.items import AtomItem, Item, TestItem, item_may_fail, variables_of
from gdatalog.planner.statistics import Statistics
from gdatalog.values import Value

FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}
Limit = tuple[str, Constant | Parameter]  # an operator and its right operand


class Comparisons:
    """The transitive closure of a conjunction's comparisons between variables.

    Symbols are left out: their codes are not in the order of their texts.
    """

    def __init__(self, items: Sequence[Item], rising: Iterable[tuple[str, str]] = ()) -> None:
        """`rising`: pairs of variables that ascend in every row of their atoms."""
        # (a, b): a <= b, and whether a < b
        below: dict[tuple[str, str], bool] = dict.fromkeys(rising, True)
        self.unequal: set[frozenset[str]] = set()
        self.limits: dict[str, list[Limit]] = {}
        for item in items:
            if isinstance(item, AtomItem):
                continue
            match item:
                case TestItem(Apply("!=", (Slot(a), Slot(b)))):
                    self.unequal.add(frozenset((a, b)))
                case TestItem(Apply(op, (Slot(a, kind), Slot(b)))) if kind != "symbol":
                    if op in ("<", "<=", ">", ">="):
                        key = (a, b) if op in ("<", "<=") else (b, a)
                        below[key] = below.get(key, False) or op in ("<", ">")
                case _:
                    if (limit := _limit_of(item)) is not None:
                        self.limits.setdefault(limit[0], []).append(limit[1:])
        for low, high in below:  # x <= y, x != y
            below[low, high] |= frozenset((low, high)) in self.unequal
        self._under: dict[str, set[str]] = {}
        self._over: dict[str, set[str]] = {}
        under, over = self._under, self._over
        for low, high in below:
            under.setdefault(high, set()).add(low)
            over.setdefault(low, set()).add(high)
        # A computation that can fail must fail even if a later test would not hold: so if there is
        # one, implications use only variables that atoms bind.
        sure = under.keys() & over.keys()
        for item in items if sure or self.limits else ():
            if isinstance(item, AtomItem | TestItem) or not item_may_fail(item):
                continue
            held = variables_of(item for item in items if isinstance(item, AtomItem))
            sure &= held
            self.limits = {name: told for name, told in self.limits.items() if name in held}
            break
        for middle in sorted(sure):
            for low in sorted(under[middle]):
                for high in sorted(over[middle]):
                    strict = below[low, middle] or below[middle, high]
                    below[low, high] = below.get((low, high), False) or strict
                    under.setdefault(high, set()).add(low)
                    over.setdefault(low, set()).add(high)
        self.below = below
        # the variables that each is compared with, directly or transitively
        self.compared: dict[str, set[str]] = {}
        for pair in (*below, *self.unequal):
            for name in pair:
                self.compared.setdefault(name, set()).update(pair)

    def implies(self, left: str, op: str, right: str) -> bool:
        """Whether the comparisons imply `left op right`."""
        if op in (">", ">="):
            left, right, op = right, left, FLIPPED[op]
        strict = self.below.get((left, right))
        if op == "!=":
            return (
                frozenset((left, right)) in self.unequal
                or bool(strict)
                or bool(self.below.get((right, left)))
            )
        return strict is not None and (op == "<=" or strict)

    def bounds(self, name: str, bound: Collection[str]) -> list[tuple[str, str]]:
        """The nearest bound variables below and above `name`, each with the operator of `name`."""
        none: set[str] = set()
        found = []
        for ends, op in ((self._under, ">"), (self._over, "<")):
            near = {other for other in ends.get(name, none) if other in bound and other != name}
            back = self._over if op == ">" else self._under
            for other in sorted(near):
                # Skip it if another bound variable lies between the two.
                if near.isdisjoint(back.get(other, none) - {other}):
                    pair = (other, name) if op == ">" else (name, other)
                    found.append((other, op if self.below[pair] else op + "="))
        return found

    def implied_limits(self, name: str, bound: Collection[str]) -> list[Limit]:
        """The constants and parameters that bound a variable through variables that are not bound
        yet."""
        if not self.limits or (name not in self._over and name not in self._under):
            return []
        found: list[Limit] = []
        none: set[str] = set()
        for ends, ops in ((self._over, ("<", "<=")), (self._under, (">", ">="))):
            beyond = ends.get(name, none) - {name}
            if any(other in bound for other in beyond):
                continue  # a bound variable is at least as tight
            for other in sorted(beyond):
                pair = (name, other) if ops[0] == "<" else (other, name)
                for op, value in self.limits.get(other, ()):
                    if op in ops:
                        found.append((ops[0] if self.below[pair] else op, value))
        own = self.limits.get(name, [])
        return [limit for limit in dict.fromkeys(found) if not _implied(limit, own, found)]

    def between(self, left: str, right: str) -> list[str]:
        """The operators implied between two variables, without redundant ones."""
        below, above = self.below.get((left, right)), self.below.get((right, left))
        found = []
        if below is not None:
            found.append("<" if below else "<=")
        if above is not None:
            found.append(">" if above else ">=")
        if not below and not above and frozenset((left, right)) in self.unequal:
            found.append("!=")
        return found


def without_looser(items: Sequence[Item]) -> tuple[Item, ...]:
    """The items without comparisons that a tighter comparison with a constant implies: `x < 5, x <
    9` becomes `x < 5`."""
    narrowest: dict[tuple[str, str], tuple[Value, bool, Item]] = {}
    looser: set[Item] = set()
    for item in items:
        limit = None if isinstance(item, AtomItem) else _limit_of(item)
        if limit is None or not isinstance(limit[2], Constant):
            continue
        name, op, value = *limit[:2], limit[2].value
        if value is None or value != value:
            continue  # a null and NaN compare with nothing
        key = name, op[0]
        known = narrowest.get(key)
        if known is not None:
            # Of equal constants the strict comparison is tighter.
            narrower = value < known[0] if op[0] == "<" else value > known[0]  # type: ignore[operator]  # both have one type
            if not narrower and not (value == known[0] and len(op) == 1 and not known[1]):
                looser.add(item)
                continue
            looser.add(known[2])
        narrowest[key] = value, len(op) == 1, item
    return tuple([item for item in items if item not in looser]) if looser else tuple(items)


def _limit_of(item: Item) -> tuple[str, str, Constant | Parameter] | None:
    """The parts of a comparison of a variable with a constant or a parameter."""
    test = item.test if isinstance(item, TestItem) else None
    if not isinstance(test, Apply) or test.function not in ("<", "<=", ">", ">="):
        return None
    (a, b), op = test.args, test.function
    if isinstance(b, Slot):
        a, b, op = b, a, FLIPPED[op]
    if not isinstance(a, Slot) or a.type == "symbol" or not isinstance(b, Constant | Parameter):
        return None
    return a.name, op, b


def _implied(limit: Limit, own: Sequence[Limit], found: Sequence[Limit]) -> bool:
    """Whether another limit implies this one: one of the variable's own, or a tighter one."""
    op, value = limit
    if not isinstance(value, Constant):
        return limit in own
    for other, near in (*own, *found):
        if not isinstance(near, Constant) or other[0] != op[0] or (other, near) == limit:
            continue
        if near.value == value.value:
            if other == op[0] or (other, near) in own:
                return True
        elif (near.value < value.value) == (op[0] == "<"):  # type: ignore[operator]  # both have one type
            return True
    return limit in own


def shares_two(atom: AtomItem, uses: Mapping[str, int]) -> bool:
    """Whether two variables of an atom are used elsewhere, too; otherwise its rows are not looked
    at for how they compare."""
    return sum([uses[name] > 1 for name in atom.variables]) > 1


def rising(
    items: Iterable[Item], sizes: Statistics, uses: Mapping[str, int] | None = None
) -> list[tuple[str, str]]:
    """Pairs of variables that ascend because an atom's relation contains only such rows. With
    `uses`, of atoms with two variables that are used elsewhere, too."""
    found = []
    for item in items:
        if isinstance(item, AtomItem) and not item.ranked:
            if uses is not None and not shares_two(item, uses):
                continue
            for low, high in sizes(item.relation, item.version).rises:
                a, b = item.args[low], item.args[high]
                if isinstance(a, Slot) and isinstance(b, Slot):
                    found.append((a.name, b.name))
    return found
