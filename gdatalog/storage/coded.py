"""Relations whose rows are dictionary codes, decoded when the keys are needed.

A rule that runs on codes returns codes. Counting, comparing and sorting use the codes; a rule with
the same dictionaries reads them directly; an answer decodes only what it shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gdatalog.cancellation import cancellable
from gdatalog.storage.deferred_rows import DeferredRows
from gdatalog.storage.dictionary import CodedColumn, Dictionary
from gdatalog.storage.on_device import DeviceStore, KnownRows
from gdatalog.storage.row_store import RowStore
from gdatalog.storage.rows import INT32_MAX, INT32_MIN, Columns, Span
from gdatalog.storage.statistics import Statistics
from gdatalog.storage.table import Array
from gdatalog.storage.threads import in_ranges


class Coded(DeferredRows):
    """A set of rows with some columns in codes."""

    def __init__(
        self, codes: RowStore, statistics: Statistics, dictionaries: Sequence[Dictionary | None]
    ) -> None:
        """`statistics`: of the codes. `dictionaries`: one for each column, None for columns of
        keys."""
        super().__init__([], 0, KnownRows.NOTHING)
        self.codes: RowStore | None = codes  # None once they are decoded
        self.statistics = statistics
        self.dictionaries = tuple(dictionaries)
        self._ordered = not any(d is not None and d.more for d in dictionaries)

    @property
    def _sources(self) -> Sequence[RowStore]:
        codes = self.codes
        return () if codes is None else (codes,)

    @property
    def known(self) -> KnownRows:
        codes = self.codes
        if codes is None:
            return super().known
        return codes.known if self._ordered else min(codes.known, KnownRows.DISTINCT)

    @property
    def spans(self) -> list[Span]:
        ends = self._ends(self.codes)
        return super().spans if ends is None else ends

    def _ends(self, codes: RowStore | None) -> list[Span] | None:
        """The least and the greatest key of each column, if they are known without decoding."""
        if codes is None or not self._ordered:
            return None
        return [
            span if own is None else (int(own.keys[span[0]]), int(own.keys[span[1]]))
            for span, own in zip(codes.spans, self.dictionaries, strict=True)
        ]

    def distinct(self) -> list[Columns]:
        codes = self.codes
        if codes is not None:
            codes.distinct()
        return super().distinct()

    def sorted(self) -> Columns:
        codes = self.codes
        if codes is not None and self._ordered:
            codes.sorted()
        return super().sorted()

    def mirrored(self) -> bool:
        codes = self.codes
        if codes is not None and self.dictionaries[0] is self.dictionaries[1]:
            return codes.mirrored()
        return super().mirrored()

    def where_they_lie(self) -> tuple[list[Columns], DeviceStore | None]:
        codes = self.codes
        if codes is None:
            return super().where_they_lie()
        return [tuple(map(_column, block, self.dictionaries)) for block in codes.distinct()], None

    def _bring(self) -> None:
        if self.codes is None:
            return
        with self._lock:
            codes = self.codes
            if codes is None:
                return
            known, spans, blocks = self.known, self._ends(codes), codes.blocks
            count = sum(len(block[0]) for block in blocks)
            rows = cancellable(
                count,
                lambda: tuple(
                    _decoded(parts, own, None if spans is None else spans[at])
                    for at, (parts, own) in enumerate(
                        zip(zip(*blocks, strict=True), self.dictionaries, strict=True)
                    )
                ),
            )
            self._blocks, self._count, self._known = [rows], count, known
            self._plain, self._spans = spans is not None, spans
            self.codes = None


def _column(codes: Array, dictionary: Dictionary | None) -> Any:
    return codes if dictionary is None else CodedColumn(codes, dictionary)


def _decoded(parts: Sequence[Array], dictionary: Dictionary | None, span: Span | None) -> Array:
    """The parts of a column, decoded and concatenated; in 32 bits if all its keys fit."""
    if dictionary is None and len(parts) == 1:
        return parts[0]
    count = sum(map(len, parts))
    fits = span is not None and span[0] >= INT32_MIN and span[1] <= INT32_MAX
    keys = np.empty(count, dtype=np.int32 if fits else np.int64)
    start = 0
    for part in parts:
        into = keys[start : start + len(part)]

        def fill(rows: slice, part: Array = part, into: Array = into) -> None:
            into[rows] = part[rows] if dictionary is None else dictionary.decode(part[rows])

        in_ranges(fill, len(part))
        start += len(part)
    return keys
