"""Matches a file's or frame's columns with a relation's; finds whether a text file has a header.

With a declaration, the first line is a header if it has all declared names, or if it cannot be a
row and a line below can. Without one, it is a header if all its cells are names and some column
below holds other values than texts. If all columns hold texts, the line is a row if one of its
cells occurs again below; otherwise gdatalog guesses that it is a header, and warns.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from gdatalog.errors import Caution, DataError, Note, Span, meant
from gdatalog.records import dataclass
from gdatalog.storage import Declared, LoadOptions, pa, pc
from gdatalog.storage.cells import cell_value, kind_of
from gdatalog.storage.delimited import Delimited, Record
from gdatalog.storage.raw import count_of_columns, default_name, listed
from gdatalog.storage.table import TextColumn
from gdatalog.values import TypeName

_NAME = re.compile(r"[^\W\d][\w .:/()%-]*|_\w*")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the first line is a header, and why. `guessed`: it may also be a row."""

    header: bool
    why: str
    guessed: bool = False


def kinds_of(columns: Sequence[TextColumn | pa.ChunkedArray]) -> Iterator[TypeName]:
    """The types of columns of cells."""
    for column in columns:
        texts = isinstance(column, TextColumn) or kind_of(column[:100]) == "symbol"
        yield "symbol" if texts else kind_of(column)


def verdict(
    first: Record,
    below: Sequence[Sequence[str]],
    options: LoadOptions,
    kinds: Iterable[TypeName],
    again: Callable[[Sequence[str]], bool],
) -> Verdict:
    """Decides whether the first line is a header. `below`: some rows after it; `kinds`: the types
    of all cells after it, by column; `again`: whether one of some texts occurs in a column of
    texts."""
    declared = options.declared
    if options.header is not None:
        return Verdict(options.header, f"header={str(options.header).lower()}")
    fields = [field.strip() for field in first.fields]
    wanted = declared.columns if declared is not None else options.columns or ()
    there = set(respelled(fields, wanted)) & set(wanted)
    if wanted and there == set(wanted):
        return Verdict(True, "it has all names of the relation's columns")
    if not all_names(fields):
        return Verdict(False, "it holds values")
    if declared is not None:
        return _as_declared(fields, below, declared, bool(there))
    if any(map(_typed, fields)):
        return Verdict(False, "it holds values")
    for field, kind in zip(fields, kinds, strict=True):
        if field and kind != "symbol":
            return Verdict(True, f"`{field}` is a name, and below it stand values of type {kind}")
    if not all(fields) or len(set(fields)) < len(fields) or again(fields):
        return Verdict(False, "all columns hold texts, and one of its own comes up again")
    return Verdict(True, "all columns hold texts, and none of its own comes up again", True)


def all_names(fields: Sequence[str]) -> bool:
    """Whether all cells are names. Some columns, such as an index, may have none."""
    return any(fields) and all(not field or _NAME.fullmatch(field) for field in fields)


def _as_declared(
    fields: Sequence[str], below: Sequence[Sequence[str]], declared: Declared, some: bool
) -> Verdict:
    as_wide = len(fields) == len(declared.types)
    typed = [at for at, kind in enumerate(declared.types) if kind != "symbol"]

    def fits(row: Sequence[str], at: int) -> bool:
        return cell_value(row[at], declared.types[at]) is not None

    if some and not (as_wide and any(fits(fields, at) for at in typed)):
        return Verdict(True, "it has names of the relation's columns")
    rows = [row for row in below if len(row) == len(fields)]
    odd = as_wide and bool(typed) and not any(fits(fields, at) for at in typed)
    if odd and any(all(fits(row, at) for at in typed) for row in rows):
        return Verdict(True, "it is no row of the declared types")
    return Verdict(False, "it has no name of the relation's columns")


def _typed(cell: str) -> bool:
    """Whether a cell can be read as another type than symbol."""
    return any(cell_value(cell, kind) is not None for kind in ("int", "float", "bool", "timestamp"))


def come_again(cells: Sequence[TextColumn | pa.ChunkedArray], fields: Sequence[str]) -> bool:
    """Whether one of these texts occurs in some columns."""
    for column in cells:
        if isinstance(column, TextColumn):
            assert column.spelled is not None
            if np.isin(column.numbers, column.spelled.add(fields)).any():
                return True
            continue

        if pc.any(pc.is_in(column, pa.array(fields, pa.string()))).as_py():
            return True
    return False


def tell(found: Verdict, first: Record, options: LoadOptions) -> None:
    """Reports the decision to the log and the prompt, and as a warning if it is a guess."""
    what = "is the header" if found.header else "is a row"
    log = logging.getLogger("gdatalog")
    log.info("%s: the first line %s: %s", options.what, what, found.why)
    if options.findings is None:
        return
    options.findings.header = found.header
    if found.guessed:
        line = first.text if len(first.text) <= 60 else first.text[:57] + "..."
        options.findings.guess = Caution(
            f"{options.what}: the first line, `{line}`, is taken for the header, for all columns "
            "hold texts and none of its own comes up again",
            hint="header=false takes it for a row, header=true for the header",
        )


def header_names(first: Record, text: Delimited, options: LoadOptions) -> tuple[str, ...]:
    """The names of a header, spelled as in the declaration. No name may occur twice."""
    fields = [field.strip() for field in first.fields]
    declared = options.declared
    names = respelled(fields, declared.columns) if declared is not None else fields
    filled = tuple(name or default_name(at) for at, name in enumerate(names))
    if options.columns is None:
        places: dict[str, int] = {}
        for at, name in enumerate(filled):
            before = places.setdefault(name, at)
            if before != at:
                raise DataError(
                    f"two columns are named {name!r}",
                    text.span(first, at),
                    notes=[Note("the other one is here", text.span(first, before))],
                    hint="rename one; or name all columns, columns=[...]; header=false takes this "
                    "line for a row",
                )
    return filled


# Matching the columns of data with those of a relation.
#
# If the data has all names of the relation, in any order, columns match by name, and the others are
# left out. If it has none of the names and as many columns, they match by position. Anything else
# is an error. Case is ignored if that is unambiguous.

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
    given, names = names, names or [default_name(at) for at in range(arity)]
    if set(columns) <= set(names):
        _check_repeated([name for name in names if name in columns], of, header)
        return tuple(columns), [names.index(name) for name in columns]
    if len(columns) != arity:
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
