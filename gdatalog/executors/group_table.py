"""Aggregates of groups in a table with a place for each possible key, which one compiled pass over
the rows fills.

The groups of a place are words of 64 bits, one after the other: the number of rows, then sums,
least and greatest keys. Floats are added in the order of the rows. A sum of ints of 64 bits has two
words, which cannot overflow.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gdatalog.codegen import native
from gdatalog.codegen.function_names import named
from gdatalog.codegen.loop_language import LoopError
from gdatalog.plan.join_plan import Expr, Gather, Reduction
from gdatalog.storage.rows import Columns, RowPacking, spans_of
from gdatalog.storage.table import Array
from gdatalog.values import INT_MAX, INT_MIN

# Tables have at most so many places for each row, and in all.
PLACES, MOST_PLACES = 2, 1 << 21
BYTES = 24  # for each word of a place, with what is made of it

_ELEMENTS = {"int32": "i32", "int64": "i64"}
_START = {"add": 0, "float": 0, "min": INT_MAX, "max": INT_MIN}
# How a word changes with a key `x`.
_CHANGE = {
    "add": "at(words, place + {word}) + {read}",
    "float": "(np.int64(at(words, place + {word})).view(np.float64) + {read}).view(np.int64)",
    "min": "min(at(words, place + {word}), {read})",
    "max": "max(at(words, place + {word}), {read})",
}

_JOINED = {"add": np.add, "float": np.add, "min": np.minimum, "max": np.maximum}


class Total(NamedTuple):
    """An aggregate: `count`, or `sum`, `float` (a sum of floats), `min` or `max` of the keys of a
    column, by number."""

    kind: str
    column: int = 0


class TableWord(NamedTuple):
    """A word of each group: how it changes, and by what."""

    change: str
    read: str


class GroupTable:
    """`least` and `bits` of the packing say which rows have a place."""

    def __init__(
        self, totals: Sequence[Total], packing: RowPacking, keys: Columns, columns: Columns
    ) -> None:
        self.totals, self.packing = totals, packing
        self.dtypes = [column.dtype for column in (*keys, *columns)]
        self.width = len(keys)
        self._words = [TableWord("add", "1")]
        self._of = [self._places(total) for total in totals]
        self.groups = np.empty((1 << sum(packing.bits), len(self._words)), dtype=np.int64)
        self.groups[:] = [_START[word.change] for word in self._words]
        source = self._source()
        self._fold = native.load(named("fold", source), source, native.MUCH)

    @property
    def nbytes(self) -> int:
        return int(self.groups.nbytes)

    def _places(self, total: Total) -> list[int]:
        """The words of an aggregate."""
        x, wide = f"x{total.column}", self.dtypes[self.width + total.column :][:1] == [np.int64]
        if total.kind == "count":
            return [0]
        if total.kind == "float":
            words = [TableWord("float", f"float_of_key({x})")]
        elif total.kind != "sum":
            words = [TableWord(total.kind, x)]
        elif wide:
            words = [TableWord("add", f"({x} >> 32)"), TableWord("add", f"({x} & 0xFFFF_FFFF)")]
        else:
            words = [TableWord("add", x)]
        self._words += [word for word in words if word not in self._words]
        return [self._words.index(word) for word in words]

    def _source(self) -> str:
        """The pass over the rows, as a text of the loop language."""
        kinds = [f"{_ELEMENTS[dtype.name]}[]" for dtype in self.dtypes]
        inner, columns = range(self.width), range(len(kinds) - self.width)
        changes = [_CHANGE[word.change].format(word=at, read=word.read)
                   for at, word in enumerate(self._words)]  # fmt: skip
        place = " | ".join(f"((at(k{at}, i) - least{at}) << shift{at})" for at in inner)
        return "\n".join([
            "import numpy as np",
            "from gdatalog.codegen.helpers import at, put",
            "from gdatalog.codegen.helpers.values import float_of_key",
            "",
            "",
            "def fold(",
            '    words: "i64[]",',
            *(f'    k{at}: "{kinds[at]}",' for at in inner),
            *(f'    c{at}: "{kinds[self.width + at]}",' for at in columns),
            *(f'    least{at}: "i64", shift{at}: "i64",' for at in inner),
            ") -> None:",
            f"    for i in range(len({'k0' if inner else 'c0'})):",
            f"        place = ({place or 0}) * {len(self._words)}",
            *(f"        x{at} = at(c{at}, i)" for at in columns),
            *(f"        put(words, place + {at}, {changed})" for at, changed in enumerate(changes)),
            "",
        ])  # fmt: skip

    def add(self, keys: Columns, columns: Columns) -> bool:
        """Adds rows; returns False, and changes nothing, if they do not fit."""
        arrays = [np.ascontiguousarray(column) for column in (*keys, *columns)]
        if [array.dtype for array in arrays] != self.dtypes or not self.packing.holds(keys):
            return False
        bits = self.packing.bits
        shifts = [sum(bits[at + 1 :]) for at in range(len(bits))]
        ends = [end for pair in zip(self.packing.least, shifts, strict=True) for end in pair]
        self._fold(self.groups.reshape(-1), *arrays, *ends)
        return True

    def copy(self) -> GroupTable:
        found = object.__new__(GroupTable)
        found.__dict__.update(self.__dict__, groups=self.groups.copy())
        return found

    def join(self, other: GroupTable) -> bool:
        """Adds the groups of another table, of other rows; False if it has other places."""
        if (self.packing, self.dtypes) != (other.packing, other.dtypes):
            return False
        with np.errstate(over="ignore", invalid="ignore"):  # inf, or a NaN that the caller reports
            for at, word in enumerate(self._words):
                mine, its = self.groups[:, at], other.groups[:, at]
                if word.change == "float":
                    mine, its = mine.view(np.float64), its.view(np.float64)
                _JOINED[word.change](mine, its, out=mine)
        return True

    def partials(self) -> tuple[Columns, Columns]:
        """The keys of all groups, ascending, and their partial aggregates, as a `Gathering` has
        them."""
        places = np.flatnonzero(self.groups[:, 0])
        words = np.ascontiguousarray(self.groups[places].T)
        found: list[Array] = []
        for total, of in zip(self.totals, self._of, strict=True):
            if total.kind == "float":
                found += words[of[0]].view(np.float64), words[0]
            elif total.kind != "sum":
                found.append(words[of[0]])
            elif len(of) == 1:
                found += words[of[0]] >> 32, words[of[0]] & 0xFFFF_FFFF, words[0]
            else:
                found += *(words[at] for at in of), words[0]
        return self.packing.unpack(places, self.dtypes[: self.width]), tuple(found)


def totals_of(specs: Sequence[Gather | Reduction]) -> tuple[list[Total], list[Expr]] | None:
    """Aggregates as those of a table, and the targets that it reads; None if a table does not have
    them."""
    totals, targets = list[Total](), list[Expr]()
    for spec in specs:
        if spec.kind == "count":
            totals.append(Total("count"))
            continue
        kind, target = spec.kind, spec.targets[0]
        if kind == "count_distinct" or target.type == "symbol":  # whose ranks may change
            return None
        if kind in ("sum", "mean"):
            kind = "float" if target.type == "float" else "sum"
        elif kind == "any_value":
            kind = "min"
        if target not in targets:
            targets.append(target)
        totals.append(Total(kind, targets.index(target)))
    return totals, targets


def with_rows(
    before: GroupTable | None, totals: Sequence[Total], keys: Columns, columns: Columns,
    rows: int, spare: int,
) -> GroupTable | None:  # fmt: skip
    """A table with these rows: that `before`, if they fit, or another one, with room for the keys
    of both. None if they need too many places for so many `rows` or so many `spare` bytes, if there
    is nothing to read, or if the compiler does not work."""
    if before is not None and before.add(keys, columns):
        return before
    if not (keys or columns):
        return None
    if not all(column.dtype.name in _ELEMENTS for column in (*keys, *columns)):
        return None
    spans = spans_of([keys])
    if before is not None:
        ends = zip(before.packing.least, before.packing.bits, spans, strict=True)
        spans = [
            (min(low, least), max(high, least + (1 << bits) - 1))
            for least, bits, (low, high) in ends
        ]
    # The least is rounded down, so that tables of other rows have the same places.
    sizes = [max(0, (high - low).bit_length() - 3) for low, high in spans]
    spans = [(low >> size << size, high) for (low, high), size in zip(spans, sizes, strict=True)]
    packing = RowPacking.within(spans)
    words = 1 + 2 * len(totals)  # at most
    most = min(PLACES * rows, MOST_PLACES, spare // (BYTES * words))
    if packing is None or 1 << sum(packing.bits) > most:
        return None
    try:
        table = GroupTable(totals, packing, keys, columns)
    except LoopError as problem:
        warnings.warn(RuntimeWarning(str(problem)), stacklevel=2)
        return None
    table.add(keys, columns)
    return table
