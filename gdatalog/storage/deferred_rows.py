"""Rows that are in other stores until they are needed."""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.storage.row_store import RowStore


class DeferredRows(RowStore):
    """Rows that are in other stores until they are needed in this one."""

    @property
    def _sources(self) -> Sequence[RowStore]:
        """The other stores; none once the rows are here."""
        raise NotImplementedError

    @property
    def at_most(self) -> int:
        sources = self._sources
        return sum(store.at_most for store in sources) if sources else super().at_most

    @property
    def count(self) -> int:
        sources = self._sources
        return sum(store.count for store in sources) if sources else super().count

    @property
    def nbytes(self) -> int:
        sources = self._sources
        return sum([store.nbytes for store in sources]) if sources else super().nbytes
