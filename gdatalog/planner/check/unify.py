"""Unification: nodes that stand for types, the types each may still be, and why.

A node whose type is settled is never merged with another: it narrows the other and keeps its
own reason, so that an error can show both sides, each with its own place.
"""

from __future__ import annotations

from typing import NamedTuple

from gdatalog.errors import Span
from gdatalog.plan.functions import TYPES
from gdatalog.planner.check.checked import either
from gdatalog.records import dataclass, field
from gdatalog.values import TYPE_NAMES, TypeName

BIT = {name: 1 << at for at, name in enumerate(TYPES)}
ALL = (1 << len(TYPES)) - 1
INT, FLOAT, BOOL = BIT["int"], BIT["float"], BIT["bool"]
NUMBER = INT | FLOAT


def mask_of(types: frozenset[str]) -> int:
    return sum(BIT[name] for name in types)


class Why(NamedTuple):
    """Where a type was settled, and by what: "as column `src` of `E`"."""

    span: Span | None
    text: str


@dataclass(slots=True)
class Unifier:
    parents: list[int] = field(default_factory=list)
    masks: list[int] = field(default_factory=list)
    reasons: list[Why | None] = field(default_factory=list)
    literal: list[bool] = field(default_factory=list)  # holds an int literal: may be a float

    def node(self, mask: int = ALL, why: Why | None = None, literal: bool = False) -> int:
        self.parents.append(len(self.parents))
        self.masks.append(mask)
        self.reasons.append(why)
        self.literal.append(literal)
        return len(self.parents) - 1

    def find(self, node: int) -> int:
        root = node
        while self.parents[root] != root:
            root = self.parents[root]
        while self.parents[node] != root:
            self.parents[node], node = root, self.parents[node]
        return root

    def narrow(self, node: int, mask: int, why: Why | None) -> bool:
        """Only the types of `mask` remain; False, and nothing changed, if none would."""
        root = self.find(node)
        common = self.masks[root] & mask
        if not common:
            return False
        if common != self.masks[root]:
            self.masks[root] = common
            self.reasons[root] = why
        return True

    def unify(self, one: int, other: int, why_one: Why, why_other: Why) -> bool:
        """One type for both; False, and nothing changed, if there is none.

        `why_one` is the reason that `one` gets if `other` settles it.
        """
        one, other = self.find(one), self.find(other)
        common = self.masks[one] & self.masks[other]
        if not common:
            return False
        if one == other:
            return True
        if _single(self.masks[one]):
            return self.narrow(other, common, why_other)
        if _single(self.masks[other]):
            return self.narrow(one, common, why_one)
        self.parents[other] = one
        if self.masks[one] != common or self.reasons[one] is None:
            self.reasons[one] = self.reasons[other] or self.reasons[one]
        self.masks[one] = common
        self.literal[one] = self.literal[one] or self.literal[other]
        return True

    def why(self, node: int) -> Why | None:
        return self.reasons[self.find(node)]

    def types(self, node: int) -> tuple[TypeName, ...]:
        """What the node may be; an int, as long as it is a literal that may be one."""
        root = self.find(node)
        mask = self.masks[root]
        if self.literal[root] and mask & INT:
            return ("int",)
        return tuple(name for name in TYPE_NAMES if mask & BIT[name])

    def words(self, node: int) -> str:
        return either(self.types(node))

    def settled(self, node: int) -> TypeName | None:
        types = self.types(node)
        return types[0] if len(types) == 1 else None


def _single(mask: int) -> bool:
    return mask & (mask - 1) == 0
