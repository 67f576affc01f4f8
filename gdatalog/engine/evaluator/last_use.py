"""The last reader of each relation.

If a program's outputs are known before it starts, the evaluation frees other relations after the
last stratum that reads them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence

from gdatalog.planner.check import Stratum


class LastUse:
    """Counts, for each relation, the strata that will still read it."""

    def __init__(
        self,
        strata: Sequence[Stratum],
        reads: Callable[[Stratum], Sequence[str]],
        asked: Collection[str],
    ) -> None:
        """`strata`: all that will be evaluated. `asked`: relations that are kept."""
        self._reads = {stratum.relations: reads(stratum) for stratum in strata}
        self._readers = Counter(name for names in self._reads.values() for name in names)
        self._asked = asked

    def after(self, stratum: Stratum) -> list[str]:
        """The relations that are not read again after this stratum."""
        read = self._reads.pop(stratum.relations, None)
        if read is None:  # evaluated again after an error
            return []
        self._readers.subtract(read)
        names = (*read, *stratum.relations)
        return [n for n in names if not self._readers[n] and n not in self._asked]
