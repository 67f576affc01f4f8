"""The facts of a relation, in the order of the texts: atoms, and columns of many facts."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from itertools import repeat

from gdatalog.parser.syntax import Atom, Const, FactColumns, Facts, Rule, Statement

Piece = Atom | FactColumns  # one fact, or many


class FactList(Collection[Piece]):
    """A prefix of a list of facts that may grow. Two prefixes of one list compare in constant
    time."""

    __slots__ = ("_end", "_pieces", "params")

    def __init__(
        self, pieces: Sequence[Piece], params: Collection[str] = (), end: int | None = None
    ) -> None:
        """`params`: the names of all parameters in the facts, and perhaps of others."""
        self._pieces = pieces
        self._end = len(pieces) if end is None else end
        self.params = params

    def __len__(self) -> int:
        """The number of pieces."""
        return self._end

    def __iter__(self) -> Iterator[Piece]:
        return iter(self._pieces[: self._end])

    def __contains__(self, piece: object) -> bool:
        return piece in self._pieces[: self._end]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FactList):
            return NotImplemented
        return self._end == other._end and (
            self._pieces is other._pieces or all(map(_same, self, other))
        )

    __hash__ = None  # type: ignore[assignment]  # it is not hashable

    def since(self, before: FactList) -> Sequence[Piece] | None:
        """The facts added after `before`; None if that is no prefix."""
        if self._end < before._end:
            return None
        if self._pieces is not before._pieces and not all(map(_same, before, self)):
            return None
        return self._pieces[before._end : self._end]


NO_FACTS = FactList(())


def _same(one: Piece, other: Piece) -> bool:
    return one is other or one == other


def pieces_of(fact: Statement) -> Sequence[Piece]:
    """The facts of a statement that is a fact, or many."""
    if isinstance(fact, Facts):
        return fact.relations
    return fact.heads if isinstance(fact, Rule) else ()


def number_of(pieces: Iterable[Piece]) -> int:
    """The number of facts."""
    return sum(len(piece) if isinstance(piece, FactColumns) else 1 for piece in pieces)


def keys_of(piece: Piece) -> Iterable[Hashable]:
    """A key for each fact, the same for equal facts: its relation, its types and its values."""
    if isinstance(piece, FactColumns):
        return zip(repeat(piece.name), piece.types(), *piece.columns)
    args = [arg for arg in piece.args if isinstance(arg, Const)]
    if piece.columns or len(args) < len(piece.args):
        return (piece,)
    return ((piece.name, tuple(arg.type for arg in args), *(arg.value for arg in args)),)
