"""Signatures: conjunctions that are equal up to the names of variables share a relation."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from gdatalog.parser import format_node
from gdatalog.parser import syntax as s
from gdatalog.planner.check import walk as w
from gdatalog.records import dataclass, replace

ORDERS = 5  # most literals whose orders are compared; more are sorted by their texts
# Texts of literals with numbered variables, and the numbers of the live ones.
Signature = tuple[tuple[str, ...], tuple[int, ...]]


def signature_of(
    part: Sequence[s.Literal], live: Collection[str]
) -> tuple[Signature, Mapping[str, int]]:
    """The signature of a part, independent of names, and the number of each variable."""
    blank = sorted(map(LiteralText.of, part), key=lambda literal: literal.format({}))
    orders = _least_texts(blank, {}) if len(blank) <= ORDERS else [_in_turn(blank)]
    signatures = (
        ((texts, tuple(sorted([numbers[name] for name in live]))), numbers)
        for texts, numbers in orders
    )
    return min(signatures, key=lambda found: found[0])


@dataclass(frozen=True, slots=True)
class LiteralText:
    """The text of a literal, cut at its variables. `order`: each of these once."""

    pieces: tuple[str, ...]  # in turns with the variables
    names: tuple[str, ...]
    order: tuple[str, ...]

    @staticmethod
    def of(literal: s.Literal) -> LiteralText:
        order = tuple(w.variables(literal))
        marks = {name: f"\0{number}\0" for number, name in enumerate(order)}
        pieces = format_node(_renamed(literal, marks)).split("\0")
        names = tuple([order[int(number)] for number in pieces[1::2]])
        return LiteralText(tuple(pieces[::2]), names, order)

    def numbered(self, numbers: Mapping[str, int]) -> dict[str, int]:
        """The numbers of variables, with those of this literal."""
        more = dict(numbers)
        for name in self.order:
            more.setdefault(name, len(more))
        return more

    def format(self, numbers: Mapping[str, int]) -> str:
        """The text with numbers for names; "v" for a variable without one."""
        first, *others = self.pieces
        texts = [first]
        for name, piece in zip(self.names, others, strict=True):
            texts += (f"v{numbers[name]}" if name in numbers else "v", piece)
        return "".join(texts)


def _in_turn(literals: Sequence[LiteralText]) -> tuple[tuple[str, ...], dict[str, int]]:
    """The texts of literals in this order, and the number of each variable."""
    numbers: dict[str, int] = {}
    for literal in literals:
        numbers = literal.numbered(numbers)
    return tuple([literal.format(numbers) for literal in literals]), numbers


def _least_texts(
    left: Sequence[LiteralText], numbers: Mapping[str, int], before: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Mapping[str, int]]]:
    """The same for the orders of literals whose texts come first, beginning with `before`."""
    if not left:
        yield before, numbers
        return
    numbered = [literal.numbered(numbers) for literal in left]
    texts = [literal.format(more) for literal, more in zip(left, numbered, strict=True)]
    least = min(texts)
    for at, text in enumerate(texts):
        if text == least:
            yield from _least_texts((*left[:at], *left[at + 1 :]), numbered[at], (*before, text))


def _renamed(node: w.N, names: Mapping[str, str]) -> w.N:
    """The node with renamed variables."""
    if isinstance(node, s.Var):
        return replace(node, name=names[node.name])
    return w.rebuild(node, lambda part: _renamed(part, names))
