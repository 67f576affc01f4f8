"""The results of strata, which are kept across calls.

A result has only the versions of the relations that its stratum read, so it keeps no other rows
alive.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain

from gdatalog.engine.catalog.fact_list import FactList
from gdatalog.planner.check import CheckedRule, Schema
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
    """A stratum's relations and their inputs."""

    made_of: MadeOf
    below: Mapping[Read, Version]
    relations: Mapping[str, Relation]

    def fresh(self, made_of: MadeOf, below: Mapping[Read, Relation]) -> bool:
        """Whether the inputs are unchanged."""
        return (
            self.below.keys() == below.keys()
            and all(below[read].version is version for read, version in self.below.items())
            and self.made_of == made_of
        )


# By the relations of the stratum.
Results = dict[tuple[str, ...], StratumResult]
