"""The columns that rows are sorted by, and the directions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gdatalog.errors import NameResolutionError, UsageError, meant
from gdatalog.storage.rows import Columns
from gdatalog.storage.table import Array

# The positions of all columns, the first sort key first, and whether each is descending.
Order = Sequence[tuple[int, bool]]


def order_of(
    columns: Sequence[str], by: str | Sequence[str] | None, descending: bool | Sequence[bool]
) -> Order:
    """The order by the named columns, by default all from the left; the other columns break ties.

    >>> order_of(("x", "y", "z"), ["z", "x"], [True, False])
    [(2, True), (0, False), (1, False)]
    """
    if by is not None and not isinstance(by, (str, Sequence)):
        raise UsageError(f"rows are sorted by columns' names, not by {by!r}")
    named = [by] if isinstance(by, str) else columns if by is None else by
    places = [place_of(columns, name) for name in named]
    if isinstance(descending, (bool, np.bool_)):
        down = [bool(descending)] * len(places)
    else:
        down = [bool(each) for each in descending]
    if len(down) != len(places):
        raise UsageError(
            f"descending= has {len(down):,} values for {len(places):,} columns to sort by",
            hint="give one for all, or one for each",
        )
    found: dict[int, bool] = {}
    for at, turn in zip(places, down, strict=True):
        found.setdefault(at, turn)
    return completed(tuple(found.items()), len(columns))


def completed(order: Order, columns: int) -> Order:
    """The order, with the other columns to break ties."""
    found = dict(order)
    return [*found.items(), *((at, False) for at in range(columns) if at not in found)]


def place_of(columns: Sequence[str], name: str) -> int:
    """The position of a column; an error if there is none of this name."""
    if name in columns:
        return columns.index(name)
    close = meant(name, columns) if isinstance(name, str) else None
    hint = f"did you mean {close!r}?" if close else f"its columns are {', '.join(columns)}"
    raise NameResolutionError(
        f"the answer has no column {name!r}", hint=hint if columns else "it has no columns"
    )


def plain(order: Order) -> bool:
    """Whether rows sort by all columns from the left, ascending."""
    return all(place == (at, False) for at, place in enumerate(order))


def backward(keys: Array, nullable: bool) -> Array:
    """Sort keys of the reverse order, with nulls last again; twice gives the keys."""
    return -2 - keys if nullable and keys.dtype == np.int64 else ~keys


def turned(columns: Columns, order: Order, nullable: Sequence[bool] = ()) -> Columns:
    """Columns as sort keys: in this order, descending ones reversed."""
    if plain(order):
        return columns
    null = nullable or [False] * len(columns)
    return tuple(backward(columns[at], null[at]) if down else columns[at] for at, down in order)


def turned_back(columns: Columns, order: Order, nullable: Sequence[bool] = ()) -> Columns:
    """Reverses `turned`."""
    if plain(order):
        return columns
    null = nullable or [False] * len(columns)
    found = {
        at: backward(key, null[at]) if down else key
        for key, (at, down) in zip(columns, order, strict=True)
    }
    return tuple(found[at] for at in range(len(found)))
