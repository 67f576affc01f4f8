"""The memory of the indexes that a rule's plan will read, estimated before it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gdatalog.engine.device import Device
from gdatalog.plan.effects import relations_read
from gdatalog.plan.join_plan import (
    RulePlan,
    TrieRef,
)
from gdatalog.records import dataclass
from gdatalog.storage.relation import Relation

# Returns a relation by name; None if it is not evaluated yet.
AtHand = Callable[[str], Relation | None]


OFFSET, WEIGHT = 8, 8  # bytes of a list's start, and of the row count of an entry


@dataclass(frozen=True, slots=True)
class AskedIndex:
    """An index that a plan reads: a trie of a relation with the levels `columns`.

    `there`: it exists, or is a prefix of one that does; otherwise `bytes` is the cost of building
    it. `exact`: the bytes are known, not estimated. `rows` and `bytes` of a relation that is not
    evaluated yet are None.
    """

    relation: str
    columns: tuple[int, ...]
    rows: int | None
    bytes: int | None
    there: bool = False
    exact: bool = False


def memory_asked(plan: RulePlan, at_hand: AtHand, device: Device) -> tuple[AskedIndex, ...]:
    """Estimates the indexes that a plan reads, without building or evaluating anything."""
    refs = relations_read(plan)  # those before an index may be longer ones that it begins
    return tuple(_index(ref, refs[:at], at_hand, device) for at, ref in enumerate(refs))


def _index(ref: TrieRef, made: Sequence[TrieRef], at_hand: AtHand, device: Device) -> AskedIndex:
    relation = at_hand(ref.relation) if ref.version == "full" else None
    if relation is None:
        return AskedIndex(ref.relation, ref.columns, None, None)
    trie = device.made(relation, ref)
    if trie is not None:
        rows = len(trie.levels[-1]) if trie.levels else trie.total
        return AskedIndex(ref.relation, ref.columns, rows, trie.nbytes, True, True)
    lengths = _lengths(ref, relation)
    if not ref.columns or any(_begins(before, ref, relation) for before in made):
        return AskedIndex(ref.relation, ref.columns, lengths[-1], 0, False, True)
    widths = [4 if ref.ranked else relation.width(column) for column in ref.columns]
    values = sum(length * width for length, width in zip(lengths, widths, strict=True))
    offsets = sum(OFFSET * (parents + 1) for parents in (1, *lengths[:-1]))
    weights = WEIGHT * lengths[-1] if ref.weighted else 0
    counted = map(relation.statistics.counted, _prefixes(ref))
    exact = not ref.tests and not ref.ranked and all(counted)
    size = values + offsets + weights
    return AskedIndex(ref.relation, ref.columns, lengths[-1], size, False, exact)


def _begins(whole: TrieRef, ref: TrieRef, relation: Relation) -> bool:
    """Whether an index is a prefix of another, or of a symmetric one with swapped columns."""
    same = (whole.relation, whole.ranked, whole.version) == (ref.relation, ref.ranked, ref.version)
    if not same or ref.weighted or not ref.columns:
        return False
    if whole.tests == ref.tests and whole.columns[: len(ref.columns)] == ref.columns:
        return True
    two = len(relation.types) == len(whole.columns) == 2 and not (whole.tests or ref.tests)
    turned = tuple(1 - column for column in whole.columns) if two else ()
    return two and relation.statistics.balanced and turned[: len(ref.columns)] == ref.columns


def _lengths(ref: TrieRef, relation: Relation) -> list[int]:
    """The number of entries of each level."""
    statistics = relation.statistics
    rows = statistics.size(ref.tests, ref.ranked)
    every = _prefixes(ref)
    if ref.ranked and len(every) > 0:
        first = round(statistics.degrees(ref.columns[0], ref.tests, True).powers[0])
        return [first, rows][: len(every)]
    return [min(rows, statistics.distinct(columns)) for columns in every] or [rows]


def _prefixes(ref: TrieRef) -> list[frozenset[int]]:
    """The columns down to each level."""
    return [frozenset(ref.columns[: depth + 1]) for depth in range(len(ref.columns))]
