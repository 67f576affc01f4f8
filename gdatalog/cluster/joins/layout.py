"""The layout of a join: which variables are restricted to key ranges, and which rows these select.

Variables that are joined through the same columns share a domain. The rows that a join reads of a
relation are a source; each of its tries uses rows of a source in a role.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from gdatalog.plan.cells import cuttable, roles
from gdatalog.plan.effects import participants
from gdatalog.plan.join_plan import Apply, Filter, Join, JoinPlan, RowTest, Slot, TrieRef, Version
from gdatalog.records import dataclass, replace
from gdatalog.storage.trie import trie_name

T = TypeVar("T")
NamesOf = Sequence[Mapping[int, str | None]]  # for each trie, the variable of each column


class Source(NamedTuple):
    """Rows that a join reads: some columns of a relation.

    `ranked`: of a graph, both directions of each edge, as ranks. `tests`: tests that all tries of
    the source share; rows that fail them need not move. `weighted`: duplicate rows count.
    """

    relation: str
    version: Version
    ranked: bool
    columns: tuple[int, ...]
    tests: tuple[RowTest, ...]
    weighted: bool


@dataclass(frozen=True, slots=True)
class Dim:
    """A column (of the relation) by which a source's rows are divided, and its domain."""

    column: int
    domain: int


@dataclass(frozen=True, slots=True)
class Role:
    """How a trie uses its source: for each dim, the number of the restricted variable that is bound
    to it, or None if the trie needs rows of all classes.

    `sure`: each binding needs a row of the trie. `below`: pairs of dims of which the first is at
    most the second in every row.
    """

    source: int
    variables: tuple[int | None, ...]
    sure: bool
    below: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """`variables`: those that can be restricted, in binding order.

    `domain_of`: the number of each variable's domain, out of `domains`. `dims`: of each source.
    `roles`: of each trie; None if it has no columns: such a trie only counts the rows of its
    relation, and is built from all of them. `below`: pairs of variables of one domain of which the
    first is at most the second in every binding.
    """

    variables: tuple[str, ...]
    domain_of: tuple[int, ...]
    domains: int
    sources: tuple[Source, ...]
    dims: tuple[tuple[Dim, ...], ...]
    roles: tuple[Role | None, ...]
    below: tuple[tuple[int, int], ...]

    @staticmethod
    def of(join: JoinPlan) -> Layout:
        """The layout of a join in which all cuttable variables are restricted."""
        names_of: NamesOf = [
            dict(zip(ref.columns, told, strict=True))
            for ref, told in zip(join.tries, roles(join), strict=True)
        ]
        known = [slot.name for slot in cuttable(join)]
        sources, source_of = _sources(join.tries)
        domain_of = _domains(names_of, source_of, known)
        names = [name for name in known if name in domain_of]
        number = {name: at for at, name in enumerate(names)}
        dims = tuple(
            tuple(Dim(c, domain_of[at, c]) for c in source.columns if (at, c) in domain_of)
            for at, source in enumerate(sources)
        )
        sure = {part.trie for step in join.steps for part in participants(step)}
        found: list[Role | None] = []
        for at, source in enumerate(source_of):
            if source is None:
                found.append(None)
                continue
            asked = tuple(number.get(names_of[at].get(dim.column) or "") for dim in dims[source])
            below = _ascending(join.tries[at].tests, dims[source])
            found.append(Role(source, asked, at in sure, below))
        pairs = {
            (number[low], number[high])
            for low, high in _order(join, names_of)
            if low in number and high in number and domain_of[low] == domain_of[high]
        }
        return Layout(
            tuple(names),
            tuple(domain_of[name] for name in names),
            1 + max(domain_of.values(), default=-1),
            sources,
            dims,
            tuple(found),
            tuple(sorted(pairs)),
        )

    @property
    def chains(self) -> list[list[int]]:
        """Variables that have the same order in every binding; each is in one chain."""
        found: list[list[int]] = []
        for at in range(len(self.variables)):
            for chain in found:
                if all((other, at) in self.below or (at, other) in self.below for other in chain):
                    chain.append(at)
                    break
            else:
                found.append([at])
        return found

    def whole(self, sources: Collection[int]) -> Layout:
        """The layout in which each cell gets all rows of these sources, which are small."""
        return replace(
            self,
            dims=tuple(() if at in sources else dims for at, dims in enumerate(self.dims)),
            roles=tuple(
                replace(role, variables=(), below=())
                if role is not None and role.source in sources
                else role
                for role in self.roles
            ),
        )

    def restricted(self, names: Collection[str]) -> Layout:
        """The layout with only these variables."""
        kept = [at for at, name in enumerate(self.variables) if name in names]
        number = {at: place for place, at in enumerate(kept)}

        def told(role: Role) -> Role:
            asked = (None if at is None else number.get(at) for at in role.variables)
            return replace(role, variables=tuple(asked))

        return replace(
            self,
            variables=tuple(self.variables[at] for at in kept),
            domain_of=tuple(self.domain_of[at] for at in kept),
            roles=tuple(None if role is None else told(role) for role in self.roles),
            below=tuple((number[a], number[b]) for a, b in self.below if {a, b} <= number.keys()),
        )


def _sources(tries: Sequence[TrieRef]) -> tuple[tuple[Source, ...], list[int | None]]:
    """The sources of a join, and the number of each trie's source."""
    groups: dict[tuple[str, Version, bool], list[int]] = {}
    for at, ref in enumerate(tries):
        if ref.columns:
            groups.setdefault((ref.relation, ref.version, ref.ranked), []).append(at)
    sources: list[Source] = []
    own: list[int | None] = [None] * len(tries)
    for (relation, version, ranked), members in groups.items():
        weighted = any(tries[at].weighted for at in members)
        columns = sorted({column for at in members for column in _columns(tries[at])})
        each = [_tests(tries[at]) for at in members]
        common = tuple(test for test in each[0] if all(test in others for others in each))
        for at in members:
            own[at] = len(sources)
        sources.append(Source(relation, version, ranked, tuple(columns), common, weighted))
    return tuple(sources), own


def _columns(ref: TrieRef) -> set[int]:
    """The columns that a trie is built from."""
    return {*ref.columns, *(side for left, _, right in ref.tests for side in (left, right))}


def _tests(ref: TrieRef) -> tuple[RowTest, ...]:
    return trie_name(ref.columns, ref.tests, ref.weighted, ref.ranked, False)[1]


def _domains(
    names_of: NamesOf, source_of: Sequence[int | None], names: Sequence[str]
) -> dict[object, int]:
    """The number of the domain of each variable that is bound to a column, and of each such column
    of a source."""
    leader: dict[object, object] = {}

    def find(each: object) -> object:
        leader.setdefault(each, each)
        while leader[each] != each:
            each = leader[each]
        return each

    for own, source in zip(names_of, source_of, strict=True):
        for column, name in own.items():
            if name in names:
                leader[find(name)] = find((source, column))
    found: dict[object, int] = {}
    for name in names:
        if name in leader:
            found.setdefault(find(name), len(found))
    return {each: found[find(each)] for each in leader}


def _ascending(tests: Sequence[RowTest], dims: Sequence[Dim]) -> tuple[tuple[int, int], ...]:
    at = {dim.column: number for number, dim in enumerate(dims)}
    pairs = [(at[low], at[high]) for low, high in _rising(tests) if low in at and high in at]
    return tuple(sorted(pair for pair in pairs if len({dims[dim].domain for dim in pair}) == 1))


def _rising(tests: Iterable[tuple[T, str, T]]) -> Iterator[tuple[T, T]]:
    """The pairs of operands that comparisons order: the first is at most the second."""
    for left, op, right in tests:
        if op in ("<", "<=", "="):
            yield left, right
        if op in (">", ">=", "="):
            yield right, left


def _order(join: JoinPlan, names_of: NamesOf) -> Iterator[tuple[str, str]]:
    """Pairs of variables of which the first is at most the second in every binding."""
    sure = {part.trie for step in join.steps for part in participants(step)}
    for step in join.steps:
        if isinstance(step, Join):
            told = ((step.variable, *cut) for cut in step.cuts)
            yield from _rising((a, op, b.name) for a, op, b in told if isinstance(b, Slot))
        elif isinstance(step, Filter) and isinstance(step.test, Apply):
            args = step.test.args
            if len(args) == 2 and all(isinstance(a, Slot) and a.type != "symbol" for a in args):
                left, right = args
                assert isinstance(left, Slot) and isinstance(right, Slot)
                yield from _rising([(left.name, step.test.function, right.name)])
    for at, ref in enumerate(join.tries):
        for low, high in _rising(ref.tests):
            a, b = names_of[at].get(low), names_of[at].get(high)
            if at in sure and a is not None and b is not None:
                yield a, b
