"""Which columns of some data are those of a relation: by name, or by position.

If the data has all names of the relation, in any order, columns match by name and others are left
out. If it has none of them, and as many columns, they match by position. Anything else is an error.
Names that differ only in case are the same if that is unambiguous.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.errors import DataError, Span, meant
from gdatalog.storage.raw import Declared, count_of_columns, default_name, listed

Matched = tuple[Sequence[str], Sequence[int]]  # the relation's columns, and where each one is


def match_columns(
    names: Sequence[str] | None,
    arity: int,
    columns: Sequence[str] | None,
    declared: Declared | None,
    what: str,
    header: Span | None = None,
) -> Matched:
    """The relation's columns among `arity` columns of the data, which may have names.

    `columns`: what the user asks for. `header`: where the names stand, for errors.
    """
    if columns is not None:
        names, picked = _asked_for(names, arity, columns, what, header)
    else:
        _check_repeated(names, what, header)
        picked = range(arity)
    if declared is None:
        return (names if names is not None else [default_name(at) for at in picked]), picked
    expected = declared.columns
    spelled = None if names is None else respelled(names, expected)
    if spelled is not None:
        if set(expected) <= set(spelled):
            return expected, [picked[spelled.index(name)] for name in expected]
        some = [name for name in expected if name in spelled]
        # Who lists columns says their order, if it does not contradict their names.
        in_order = columns is not None and all(
            name not in spelled or spelled[at : at + 1] == [name]
            for at, name in enumerate(expected)
        )
        if some and not in_order:
            raise _mismatch(spelled, declared, what, header)
    if len(picked) != len(expected):
        raise _mismatch(spelled, declared, what, header, len(picked))
    return expected, picked


def respelled(names: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """The names, those that differ from a wanted one only in case as it is spelled."""
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
    names: Sequence[str] | None,
    arity: int,
    columns: Sequence[str],
    what: str,
    header: Span | None,
) -> tuple[Sequence[str], Sequence[int]]:
    """The columns that a user lists: those of these names, or names for all columns."""
    if isinstance(columns, str):
        raise DataError(f"columns is a list of names, found {columns!r}")
    if len(set(columns)) < len(columns):
        raise DataError(f"{_of(what, header)}columns names a column twice: {listed(columns)}")
    if names is not None and set(columns) <= set(names):
        _check_repeated([name for name in names if name in columns], what, header)
        return tuple(columns), [names.index(name) for name in columns]
    if len(columns) != arity:
        raise DataError(
            f"{_of(what, header)}columns asks for {listed(columns)}, the data has "
            + (listed(names) if names is not None else count_of_columns(arity)),
            header,
            hint=_misspelt(columns, names),
        )
    return tuple(columns), range(arity)


def _of(what: str, header: Span | None) -> str:
    """Of which data an error speaks, if its place does not say it."""
    return f"{what}: " if header is None else ""


def _check_repeated(names: Sequence[str] | None, what: str, header: Span | None) -> None:
    repeated = sorted({name for name in names or () if (names or ()).count(name) > 1})
    if repeated:
        raise DataError(
            f"{_of(what, header)}several columns are named {repeated[0]!r}",
            header,
            hint="rename them, or give all columns names: columns=[...]",
        )


def _mismatch(
    names: Sequence[str] | None,
    declared: Declared,
    what: str,
    header: Span | None,
    arity: int = 0,
) -> DataError:
    pairs = [f"{n}: {t}" for n, t in zip(declared.columns, declared.types, strict=True)]
    has = count_of_columns(arity) if names is None else listed(names)
    some = names is not None and not set(declared.columns).isdisjoint(names)
    message = f"{_of(what, header)}the relation has {listed(pairs)}, the data has {has}"
    message += "; only some names are the same" if some else ""
    hint = None
    if names is not None:
        hint = _misspelt(declared.columns, names)
        hint = hint or "columns=[...] says which columns of the data are meant, in their order"
    if header is not None:
        hint = f"{hint}; header=false takes this line for a row" if hint else None
    return DataError(message, header, hint=hint)


def _misspelt(columns: Sequence[str], names: Sequence[str] | None) -> str | None:
    """Which of the data's columns was meant by one that it has not."""
    for name in columns:
        if names is not None and name not in names:
            near = meant(name, [other for other in names if other not in columns])
            if near is not None:
                return f"there is no column {name!r}: did you mean {near!r}?"
    return None
