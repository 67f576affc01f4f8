"""Matches the columns of data with those of a relation.

If the data has all names of the relation, in any order, columns match by name, and the others are
left out. If it has none of the names and as many columns, they match by position. Anything else
is an error. Case is ignored if that is unambiguous.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.errors import DataError, Span, meant
from gdatalog.storage.load_options import Declared, LoadOptions
from gdatalog.storage.raw import count_of_columns, default_name, listed

Matched = tuple[Sequence[str], Sequence[int]]  # the relation's columns, and where each one is


def match_columns(
    names: Sequence[str] | None, arity: int, options: LoadOptions, header: Span | None = None
) -> Matched:
    """Matches the wanted columns with the `arity` columns of the data, which may have names.
    `header`: the place of the names, for errors."""
    columns, declared = options.columns, options.declared
    if columns is not None:
        names, picked = _asked_for(names, arity, columns, _of(options, header), header)
    else:
        _check_repeated(names, _of(options, header), header)
        picked = range(arity)
    if declared is None:
        return (names if names is not None else [default_name(at) for at in picked]), picked
    expected = declared.columns
    spelled = None if names is None else respelled(names, expected)
    if spelled is not None:
        if set(expected) <= set(spelled):
            return expected, [picked[spelled.index(name)] for name in expected]
        some = [name for name in expected if name in spelled]
        # A list of columns gives their order, unless it contradicts their names.
        in_order = columns is not None and all(
            name not in spelled or spelled[at : at + 1] == [name]
            for at, name in enumerate(expected)
        )
        if some and not in_order:
            raise _mismatch(spelled, 0, declared, _of(options, header), header)
    if len(picked) != len(expected):
        raise _mismatch(spelled, len(picked), declared, _of(options, header), header)
    return expected, picked


def respelled(names: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """The names; a name that differs from a wanted one only in case is replaced by it."""
    there = set(names)
    folded = [name.lower() for name in names]
    spelled = {
        name.lower(): name
        for name in wanted
        if name not in there
        and folded.count(name.lower()) == 1
        and sum(other.lower() == name.lower() for other in wanted) == 1
    }
    return [spelled.get(low, name) for low, name in zip(folded, names, strict=True)]


def _asked_for(
    names: Sequence[str] | None, arity: int, columns: Sequence[str], of: str, header: Span | None
) -> Matched:
    """The columns that the user lists: a selection by name, or names for all columns."""
    if len(set(columns)) < len(columns):
        raise DataError(f"{of}columns names a column twice: {listed(columns)}")
    given = names
    names = respelled(names or [default_name(at) for at in range(arity)], columns)
    if set(columns) <= set(names):
        _check_repeated([name for name in names if name in columns], of, header)
        return tuple(columns), [names.index(name) for name in columns]
    named = given is not None and header is not None  # by the first line of a text
    contradicts = named and any(
        name in names and names[at : at + 1] != [name] for at, name in enumerate(columns)
    )
    if len(columns) != arity or contradicts:
        raise DataError(
            f"{of}columns asks for {listed(columns)}, the data has "
            + (count_of_columns(arity) if given is None else listed(given)),
            header,
            hint=_misspelt(columns, names),
        )
    return tuple(columns), range(arity)


def _of(options: LoadOptions, header: Span | None) -> str:
    """The name of the data, for an error without a place."""
    return f"{options.what}: " if header is None else ""


def _check_repeated(names: Sequence[str] | None, of: str, header: Span | None) -> None:
    repeated = sorted({name for name in names or () if (names or ()).count(name) > 1})
    if repeated:
        raise DataError(
            f"{of}several columns are named {repeated[0]!r}",
            header,
            hint="rename them, or give all columns names: columns=[...]"
            + ("; a named index of a pandas frame is a column, too" if header is None else ""),
        )


def _mismatch(
    names: Sequence[str] | None, arity: int, declared: Declared, of: str, header: Span | None
) -> DataError:
    pairs = [f"{n}: {t}" for n, t in zip(declared.columns, declared.types, strict=True)]
    has = count_of_columns(arity) if names is None else listed(names)
    some = names is not None and not set(declared.columns).isdisjoint(names)
    message = f"{of}the relation has {listed(pairs)}, the data has {has}"
    message += "; only some names are the same" if some else ""
    hint = None
    if names is not None:
        hint = _misspelt(declared.columns, names)
        hint = hint or "columns=[...] says which columns of the data are meant, in their order"
    if header is not None:
        hint = f"{hint}; header=false takes this line for a row" if hint else None
    return DataError(message, header, hint=hint)


def _misspelt(columns: Sequence[str], names: Sequence[str]) -> str | None:
    """A hint: the column that a misspelt name probably means."""
    for name in columns:
        if name not in names:
            near = meant(name, [other for other in names if other not in columns])
            if near is not None:
                return f"there is no column {name!r}: did you mean {near!r}?"
    return None
