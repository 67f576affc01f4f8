"""The dictionaries that have all keys of a relation's columns, and its rows in their codes.

Both are kept with the rows, for other rules. A relation that grows keeps its codes: only the new
rows are encoded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gdatalog.storage.dictionary import Dictionary
from gdatalog.storage.kept import Kept
from gdatalog.storage.on_device import KnownRows
from gdatalog.storage.relation import Relation
from gdatalog.storage.table import Array

KEPT = 4  # dictionaries of a column, and encodings of a relation

Dictionaries = tuple[Dictionary | None, ...]  # one for each column, None for columns of keys

_DICTIONARIES = Kept[Mapping[int, Sequence[Dictionary]]]()  # by column
_CODES = Kept[Mapping[Dictionaries, Relation]]()


def dictionaries(relation: Relation, at: int) -> Sequence[Dictionary]:
    """The dictionaries that have all keys of a column, oldest first."""
    return (_DICTIONARIES.of(relation.store) or {}).get(at, ())


def note_covers(dictionary: Dictionary, relation: Relation, at: int) -> None:
    """Records that a dictionary has all keys of a column."""
    known = _DICTIONARIES.of(relation.store) or {}
    kept = (*known.get(at, ())[1 - KEPT :], dictionary)
    _DICTIONARIES.put(relation.store, {**known, at: kept})


def note_codes(relation: Relation, own: Dictionaries, codes: Relation) -> None:
    """Records the rows in the codes of some dictionaries."""
    known = list((_CODES.of(relation.store) or {}).items())
    _CODES.put(relation.store, dict([*known[1 - KEPT :], (own, codes)]))


def in_codes(plain: Relation, own: Dictionaries) -> Relation:
    """The rows in the codes of some dictionaries, which have all keys."""
    if not any(own):
        return plain
    codes = (_CODES.of(plain.store) or {}).get(own)
    if codes is None:
        known, types = plain.store.known, plain.types  # before another thread sorts the rows
        keys = _encoded(plain, own)
        if known == KnownRows.SORTED and not any(each is not None and each.more for each in own):
            codes = Relation(plain.columns, types, keys, len(keys[0]))
        else:
            distinct = known >= KnownRows.DISTINCT
            codes = Relation.of_blocks(plain.columns, types, [keys], len(keys[0]), distinct)
        note_codes(plain, own, codes)
    return codes


def grown(before: Relation, new: Relation) -> Relation:
    """A relation with new rows, which it must not have, and with its codes."""
    after = before.grown(new)
    columns = _DICTIONARIES.of(before.store)
    if columns is None or after.store is before.store:
        return after
    kept = {at: [d for d in every if d.add(new.column(at))] for at, every in columns.items()}
    _DICTIONARIES.put(after.store, kept)
    for own, codes in (_CODES.of(before.store) or {}).items():
        if all(d is None or d in kept.get(at, ()) for at, d in enumerate(own)):
            rows = [_encoded(new, own)]
            more = Relation.of_blocks(codes.columns, codes.types, rows, new.length, True)
            note_codes(after, own, codes.grown(more))
    return after


def _encoded(relation: Relation, own: Dictionaries) -> tuple[Array, ...]:
    pairs = zip(relation.rows, own, strict=True)
    return tuple(column if each is None else each.encode(column) for column, each in pairs)
