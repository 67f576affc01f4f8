"""The strata that an evaluation still needs: which of them read a relation, which is the last one,
and which can be planned already.

Long programs have thousands of strata, so what becomes known is followed instead of searched for.
If a program's outputs are known before it starts, the evaluation frees other relations after the
last stratum that reads them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Sequence, Set

from gdatalog.engine.counting import Readers
from gdatalog.planner.check import Stratum


class Upcoming:
    """Strata in the order of their evaluation. `known` relations exist already; those that were
    `asked` for are needed with all rows. `counting`: strata that were rewritten to read counts."""

    def __init__(
        self,
        strata: Sequence[Stratum],
        reads: Callable[[Stratum], Iterable[str]],
        known: Container[str],
        asked: Set[str],
    ) -> None:
        self.strata, self._known, self.asked = strata, known, asked
        self.counting: Readers = {}
        self._readers: dict[str, list[int]] = {}
        self._left: list[int] = []  # how many relations each stratum lacks
        self._open: list[int] = []  # strata that lack none, and were not given out
        for place, stratum in enumerate(strata):
            lacks = 0
            for name in reads(stratum):
                self._readers.setdefault(name, []).append(place)
                lacks += name not in known
            self._left.append(lacks)
            self._opened(place)

    def readers(self, stratum: Stratum) -> list[Stratum]:
        """The other strata that read a stratum's relations, in order."""
        places = {at for name in stratum.relations for at in self._readers.get(name, ())}
        return [self.strata[at] for at in sorted(places) if self.strata[at] is not stratum]

    def evaluated(self, names: Iterable[str]) -> None:
        """Notes that relations, which were not known before, are known from now on."""
        for name in names:
            for place in self._readers.get(name, ()):
                self._left[place] -= 1
                self._opened(place)

    def plannable(self, *done: Container[tuple[str, ...]]) -> list[Stratum]:
        """The strata that have a single rule, read only known relations and are not `done` or
        known, if there are several. Each is given out once."""
        left = []
        for place in self._open:
            names = self.strata[place].relations
            if names[0] not in self._known and not any(names in each for each in done):
                left.append(place)
        self._open = left if len(left) < 2 else []
        return [] if len(left) < 2 else [self.strata[place] for place in sorted(left)]

    def _opened(self, place: int) -> None:
        stratum = self.strata[place]
        if not self._left[place] and not stratum.recursive and len(stratum.rules) == 1:
            self._open.append(place)


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
