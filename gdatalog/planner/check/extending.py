"""Checks a text over statements that are checked already: only the text, and only what it reaches.

This is possible if the text adds relations, and changes no others. Then the types of the kept
relations stay: types that the text could still narrow, such as those of int literals, are the same
with a text that agrees with them. A text that does not is checked together with all statements, so
that its errors are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from gdatalog.parser import syntax as s
from gdatalog.planner.check import Checked, Schema
from gdatalog.planner.check.cautions import is_souffle
from gdatalog.planner.check.program import examine
from gdatalog.planner.check.walk import Node, walk
from gdatalog.records import dataclass
from gdatalog.values import ParamType


@dataclass(frozen=True, slots=True)
class KeptProgram:
    """The statements that a database keeps, checked by themselves. `homes`: the number of the
    stratum of each derived relation; `below`: for each stratum the relations that it reads.
    `params`: their parameters. `shared`: other nodes whose meaning in a text depends on these
    statements: named types, and aggregates that Soufflé would understand in another way."""

    checked: Checked
    homes: Mapping[str, int]
    below: Sequence[frozenset[str]]
    params: frozenset[str]
    shared: tuple[type, ...]

    @staticmethod
    def of(checked: Checked, statements: Sequence[s.Statement]) -> KeptProgram:
        parts = chain.from_iterable(map(_parts, statements))
        params = frozenset([part.name for part in parts if isinstance(part, s.Param | s.ListParam)])
        shared: list[type] = [s.Cast]
        if is_souffle(s.Program(tuple(statements))):
            shared.append(s.Aggregate)
        homes = {name: at for at, each in enumerate(checked.strata) for name in each.relations}
        below = tuple(
            frozenset([atom.name for rule in each.rules for atom in rule.atoms])
            for each in checked.strata
        )
        return KeptProgram(checked, homes, below, params, tuple(shared))

    def reached(self, names: Iterator[str]) -> tuple[list[int], set[str]]:
        """The strata that these relations need, in order, and all relations that they read."""
        found: set[int] = set()
        seen: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            at = self.homes.get(name)
            if at is not None and at not in found:
                found.add(at)
                waiting += self.below[at]
        return sorted(found), seen


def extended(
    kept: KeptProgram,
    said: Sequence[s.Statement],
    known: Mapping[str, Schema],
    params: Mapping[str, ParamType],
    whole: bool,
) -> Checked | None:
    """The checked program of a text, with the kept strata that it reaches; None if it has to be
    checked with all statements.

    `known`: the relations that have data. `whole`: the text is complete.
    """
    before = kept.checked
    own: set[str] = set()
    read: set[str] = set()
    for statement in said:
        if isinstance(statement, s.Rule) and statement.body is not None:
            own.update(head.name for head in statement.heads)
        elif not isinstance(statement, s.Query):
            return None
        for part in _parts(statement):
            if isinstance(part, kept.shared):
                return None
            if isinstance(part, s.Param | s.ListParam) and part.name in kept.params:
                return None
            if isinstance(part, s.Atom | s.FunctionCall | s.Var):  # `?- e.` asks for e by its name
                read.add(part.name)
    below = read & before.schemas.keys()
    if not own.isdisjoint(before.schemas) or not below.isdisjoint(before.inline):
        return None
    if whole and any(_may_be_empty(kept, known, name) for name in below):
        return None  # that may be worth a warning
    program = s.Program(tuple(said))
    there = {name: before.schemas[name] for name in below}
    found, errors = examine(program, there, params, whole=whole)
    if found is None or errors:
        return None
    places, names = kept.reached(iter(below))
    lists = {name: before.lists[name] for name in names & before.lists.keys()}
    return Checked(
        schemas={**before.schemas, **found.schemas},
        strata=(*(before.strata[at] for at in places), *found.strata),
        facts=before.facts,
        queries=found.queries,
        directives=before.directives,
        pragmas=before.pragmas,
        param_types={**before.param_types, **found.param_types},
        cautions=found.cautions,
        last=found.last or before.last,
        inline=before.inline,
        unbound=before.unbound,
        lists={**lists, **found.lists},
    )


def _parts(statement: s.Statement) -> list[Node]:
    """The nodes of a rule, or of a query with its limits."""
    heads = statement.heads if isinstance(statement, s.Rule) else ()
    body = statement.body if isinstance(statement, s.Rule | s.Query) else None
    bounds = statement.bounds if isinstance(statement, s.Query) else ()
    return [part for node in (*heads, body, *bounds) for part in walk(node)]


def _may_be_empty(kept: KeptProgram, known: Mapping[str, Schema], name: str) -> bool:
    filled = name in kept.homes or name in kept.checked.facts or name in known
    return not filled and kept.checked.schemas[name].declared
