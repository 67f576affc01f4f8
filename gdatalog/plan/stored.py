"""The format of stored plans: JSON, in which a record is its class's number and its fields.

`packed` turns plans into lists for `json`, `unpacked` turns them back. A tuple begins with -1, a
place in a source with -2, a set with -3. A place is stored relative to its rule, so that a plan
stays valid when the text before the rule changes. What this format does not know is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from types import NoneType
from typing import Any

from gdatalog.errors import NOWHERE, SourceText, Span
from gdatalog.plan import join_plan as p
from gdatalog.records import fields

FORMAT = 1

# Their numbers are stored: another order is another format.
CLASSES: tuple[type[Any], ...] = (
    p.Slot,
    p.Constant,
    p.Parameter,
    p.Apply,
    p.TrieRef,
    p.Participant,
    p.Reuse,
    p.Guard,
    p.Seek,
    p.Join,
    p.Assign,
    p.Generate,
    p.Filter,
    p.Compact,
    p.Restore,
    p.Reduction,
    p.Branch,
    p.Tally,
    p.GivenRows,
    p.JoinPlan,
    p.Gather,
    p.Term,
    p.RulePlan,
)


def _values_of(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Returns the values of some attributes."""
    return attrgetter(*names) if len(names) > 1 else lambda of: (getattr(of, names[0]),)


_NAMES = {cls: tuple([field.name for field in fields(cls)]) for cls in CLASSES}
_VALUES = {cls: _values_of(names) for cls, names in _NAMES.items()}
_NUMBERS = {cls: number for number, cls in enumerate(CLASSES)}
_PLAIN = frozenset({str, int, float, bool, NoneType})
_TUPLE, _SPAN, _SET = -1, -2, -3
_NO_SOURCE = -1


class Places:
    """The places of a rule: its sources, each with the offset at which the rule begins there, and
    the spans of its parts by source, start and end."""

    __slots__ = ("firsts", "known", "sources")

    def __init__(self, spans: Iterable[Span]) -> None:
        """`spans`: those of the rule and its parts. Of equal ones the first is used."""
        found: dict[int, tuple[SourceText, int]] = {}
        spans = tuple(spans)
        for span in spans:
            source, first = found.get(id(span.source), (span.source, span.start))
            found[id(span.source)] = source, min(first, span.start)
        self.sources = [source for source, _ in found.values()]
        self.firsts = [first for _, first in found.values()]
        self.known: dict[tuple[int, ...], Span] = {}
        numbers = {key: number for number, key in enumerate(found)}
        for span in spans:
            number = numbers[id(span.source)]
            first = self.firsts[number]
            self.known.setdefault((number, span.start - first, span.end - first), span)

    def of(self, span: Span) -> tuple[int, ...]:
        """The number of a span's source, its start and its end, relative to the rule."""
        for number, source in enumerate(self.sources):
            if source is span.source:
                first = self.firsts[number]
                return number, span.start - first, span.end - first
        if span != NOWHERE:
            raise UnknownFormat("a place in another text")
        return _NO_SOURCE, 0, 0

    def span(self, place: Sequence[Any]) -> Span:
        """The span at a place."""
        if [type(number) for number in place] != [int, int, int]:
            raise UnknownFormat("a place")
        number, start, end = place
        if number == _NO_SOURCE:
            return NOWHERE
        if not 0 <= number < len(self.sources):
            raise UnknownFormat("a place in another text")
        found = self.known.get((number, start, end))
        first = self.firsts[number]
        return found or Span(self.sources[number], start + first, end + first)


class UnknownFormat(Exception):
    """A value that the format does not have."""


def packed(value: Any, places: Places) -> Any:
    """A plan, or a part of one, as lists."""
    whole: list[Any] = []
    todo: list[tuple[Any, list[Any]]] = [((value,), whole)]  # items, and the list that gets them
    for items, found in todo:
        for item in items:
            kind = type(item)
            if kind in _PLAIN:
                found.append(item)
                continue
            number = _NUMBERS.get(kind)
            if number is not None or kind is tuple:
                inner = [_TUPLE if number is None else number]
                found.append(inner)
                todo.append((item if number is None else _VALUES[kind](item), inner))
            elif kind is Span:
                found.append([_SPAN, *places.of(item)])
            elif kind is frozenset:
                found.append([_SET, *sorted(item)])
            elif isinstance(item, float):  # of NumPy
                found.append(float(item))
            else:
                raise UnknownFormat(kind.__name__)
    return whole[0]


def unpacked(stored: Any, places: Places) -> Any:
    """What `packed` made these lists of."""
    kind = type(stored)
    if kind in _PLAIN:
        return stored
    if kind is not list or not stored or type(stored[0]) is not int:
        raise UnknownFormat(kind.__name__)
    number, *items = stored
    if number == _SPAN:
        return places.span(items)
    values = []
    for item in items:
        values.append(item if type(item) in _PLAIN else unpacked(item, places))
    if number == _TUPLE:
        return tuple(values)
    if number == _SET:
        return frozenset(values)
    if not 0 <= number < len(CLASSES) or len(values) != len(_NAMES[CLASSES[number]]):
        raise UnknownFormat(f"record {number} with {len(values)} fields")
    return CLASSES[number](*values)
