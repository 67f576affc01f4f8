"""The results of strata, which are kept across calls.

A result has only the versions of the relations that its stratum read, so it keeps no other rows
alive. Evaluations of several versions of the database may run at the same time: a result stays
until there is one of the same version or a later one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from itertools import chain
from threading import Lock

from gdatalog.claims import Claim, Claims
from gdatalog.engine.catalog.fact_list import FactList
from gdatalog.planner.check import CheckedRule, Schema
from gdatalog.planner.rewrite.adornments import plain
from gdatalog.records import dataclass
from gdatalog.storage.history import Version
from gdatalog.storage.relation import Relation

# A relation that a stratum reads: a lower one (False), or the data of one of its own (True).
Read = tuple[str, bool]


@dataclass(frozen=True, slots=True)
class MadeOf:
    """The inputs of a stratum, except for the relations that it reads."""

    schemas: tuple[Schema, ...]
    rules: tuple[CheckedRule, ...]
    facts: tuple[FactList, ...]  # of each relation
    params: tuple[object, ...]  # name, type and value of those that are used
    limits: tuple[int | None, ...] = ()  # .limitsize

    @staticmethod
    def together(strata: Iterable[MadeOf]) -> MadeOf:
        """The inputs of several strata."""
        each = ((s.schemas, s.rules, s.facts, s.params, s.limits) for s in strata)
        return MadeOf(*(tuple(chain.from_iterable(part)) for part in zip(*each, strict=True)))


@dataclass(slots=True)
class StratumResult:
    """A stratum's relations and their inputs. `number`: that of the catalog."""

    made_of: MadeOf
    below: Mapping[Read, Version]
    relations: Mapping[str, Relation]
    number: int = 0

    def fresh(self, made_of: MadeOf, below: Mapping[Read, Relation]) -> bool:
        """Whether the inputs are unchanged."""
        return (
            self.below.keys() == below.keys()
            and all(below[read].version is version for read, version in self.below.items())
            and self.made_of == made_of
        )


@dataclass(frozen=True, slots=True)
class Keeps:
    """Which relations' results are kept for other calls: those of kept rules, `lasting` or not in
    the text's `own` rules. `users`: not those that a rewriting has added."""

    own: frozenset[str] = frozenset()
    lasting: bool = True
    users: bool = False

    def __call__(self, names: Collection[str]) -> bool:
        """Whether the results of these relations are kept."""
        for name in names:
            if name.startswith("?") or (self.users and plain(name) != name):
                return False
        return self.lasting or self.own.isdisjoint(names)


class Results(dict[tuple[str, ...], StratumResult]):
    """Results by the relations of their stratum. `running`: the evaluations whose results will be
    kept."""

    def __init__(self, found: Mapping[tuple[str, ...], StratumResult] | None = None) -> None:
        super().__init__(found or {})
        self.running: Claims[Mapping[str, Relation]] = Claims()
        self._lock = Lock()

    def evaluating(
        self,
        names: tuple[str, ...],
        made_of: MadeOf,
        below: Mapping[Read, Relation],
        poll: Callable[[], None],
    ) -> AbstractContextManager[Claim[Mapping[str, Relation]]]:
        """A context in which this thread evaluates relations, or gets those that another thread has
        evaluated meanwhile."""
        return self.running.on((names, _versions(below), made_of), poll)

    def keep(
        self,
        names: tuple[str, ...],
        made_of: MadeOf,
        below: Mapping[Read, Relation],
        relations: Mapping[str, Relation],
        number: int,
    ) -> None:
        """Keeps a result, unless there is one of a later version of the database."""
        result = StratumResult(made_of, _versions(below), relations, number)
        with self._lock:
            before = self.get(names)
            if before is None or before.number <= number:
                self[names] = result


def _versions(below: Mapping[Read, Relation]) -> dict[Read, Version]:
    return {read: relation.version for read, relation in below.items()}
