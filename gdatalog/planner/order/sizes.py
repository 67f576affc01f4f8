"""What the planner asks of a relation's statistics, and what it assumes where there are none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import Any, Protocol

from gdatalog.plan.nodes import Constant, Expr, Parameter, Version
from gdatalog.records import dataclass, field
from gdatalog.values import Value

# A test between two columns of a row, as (left column, operator, right column).
ColumnTest = tuple[int, str, int]
# An operator, and what a column is compared with.
Bound = tuple[str, Value]
# How much of the rows a test lets through, by its operator, where nothing else is known.
PASSES = {"=": 0.1, "<": 0.4, "<=": 0.4, ">": 0.4, ">=": 0.4, "!=": 0.95}
MOMENTS = 8  # powers of degrees that are asked for


class DegreeMoments(Protocol):
    """In how many rows a column's values stand: the most, and sums of powers of the degrees."""

    @property
    def most(self) -> int: ...

    @property
    def powers(self) -> tuple[float, ...]: ...


class ListSizes(Protocol):
    """A binary relation as one list of `children` for each of some ascending `values`."""

    @property
    def values(self) -> Any: ...

    @property
    def starts(self) -> Any: ...

    @property
    def ends(self) -> Any: ...

    @property
    def children(self) -> Any: ...

    @property
    def picked(self) -> dict[Any, Any]:
        """What samplers have picked of the values, which others pick as well."""


class GraphStatistics(Protocol):
    """What can be asked of a finished binary relation over one type; the answers take a while.

    `symmetric`: it holds every row turned round. `loops`: it holds some (x, x). `skew`: how many
    more pairs of higher neighbours its vertices have by their keys than by their degrees.
    """

    @property
    def symmetric(self) -> bool: ...
    @property
    def loops(self) -> bool: ...
    @property
    def skew(self) -> float: ...

    def paths(self, ways: tuple[tuple[int, tuple[ColumnTest, ...]], ...]) -> float | None:
        """In how many ways rows of ranks meet in a value, one for each column and its tests; None
        if that is unknown."""


class RelationStatistics(Protocol):
    """The statistics of one relation."""

    @property
    def rows(self) -> int: ...

    @property
    def assumed(self) -> bool:
        """Whether the relation is not there yet, and all this is a guess."""

    @property
    def rises(self) -> frozenset[tuple[int, int]]:
        """Pairs of columns of which the first is less than the second in every row."""

    @property
    def graph(self) -> GraphStatistics | None:
        """The relation as a graph, if it can be one and is finished: what grows is never
        symmetric for long."""

    @property
    def symmetric(self) -> bool: ...

    @property
    def loopless(self) -> bool: ...

    @property
    def balanced(self) -> bool:
        """Whether it seems to be a symmetric binary relation."""

    def size(self, tests: tuple[ColumnTest, ...] = (), ranked: bool = False) -> int:
        """How many rows pass some tests."""

    def distinct(self, columns: frozenset[int]) -> int:
        """How many combinations of values some columns have."""

    def degrees(
        self, column: int, tests: tuple[ColumnTest, ...] = (), ranked: bool = False
    ) -> DegreeMoments:
        """In how many rows each value of a column stands."""

    def sorting(self, column: int, tests: tuple[ColumnTest, ...] = (), ranked: bool = False) -> int:
        """How many rows have to be sorted for an index that begins with a column."""

    def lists(
        self, column: int, tests: tuple[ColumnTest, ...] = (), ranked: bool = False
    ) -> ListSizes | None:
        """The lists of the other column by this one, where they are at hand."""

    def set(self) -> Any:
        """The values of a relation of one column, ascending; None for others."""

    def within(self, column: int, bounds: Sequence[Bound]) -> tuple[float, float]:
        """Which share of a column's values, and of the rows, these bounds leave."""


Statistics = Callable[[str, Version], RelationStatistics]


@dataclass(frozen=True, slots=True)
class Looked:
    """What was found of a relation's column where it is compared with parameters: which share of
    its values is left, and of the rows."""

    relation: str
    column: int
    bounds: tuple[tuple[str, Constant | Parameter], ...]
    shares: tuple[float, float]


@dataclass(slots=True)
class Params:
    """The values of parameters for which a plan is made, and what was found by them."""

    values: Mapping[str, Value] = field(default_factory=dict)
    looked: list[Looked] = field(default_factory=list)

    def value(self, bound: Expr) -> Value | None:
        """The value of a constant or a parameter, if it is known."""
        if isinstance(bound, Constant):
            return bound.value
        return self.values.get(bound.name) if isinstance(bound, Parameter) else None


@dataclass(frozen=True, slots=True)
class AssumedDegrees:
    most: int
    powers: tuple[float, ...]


@lru_cache(maxsize=1 << 8)
def _even(rows: int, values: int) -> AssumedDegrees:
    """Each of so many values stands in as many of the rows."""
    mean = max(1.0, rows / values)
    powers = tuple(values * mean**k for k in range(MOMENTS + 1))
    return AssumedDegrees(int(mean), powers)


@dataclass(frozen=True, slots=True)
class Assumed:
    """A relation that is not there yet, as one that a fixpoint is about to make."""

    rows: int
    values: int  # distinct ones in each column
    arity: int
    rises: frozenset[tuple[int, int]] = field(default=frozenset())
    balanced: bool = False
    assumed: bool = True
    graph: GraphStatistics | None = None
    symmetric: bool = False
    loopless: bool = False
    each: tuple[int, ...] | None = None  # distinct values of each column, where they are known

    def size(self, tests: tuple[ColumnTest, ...] = (), ranked: bool = False) -> int:
        return max(1, self.rows >> len(tests))

    def distinct(self, columns: frozenset[int]) -> int:
        if len(columns) == self.arity:
            return self.rows
        if self.each is not None:
            return min(self.rows, prod(self.each[column] for column in columns))
        return min(self.rows, self.values if len(columns) == 1 else self.values * self.values)

    def degrees(
        self, column: int, tests: tuple[ColumnTest, ...] = (), ranked: bool = False
    ) -> AssumedDegrees:
        return _even(self.size(tests), self.distinct(frozenset((column,))))

    def sorting(self, column: int, tests: tuple[ColumnTest, ...] = (), ranked: bool = False) -> int:
        return 0

    def lists(self, column: int, tests: tuple[ColumnTest, ...] = (), ranked: bool = False) -> None:
        return None

    def set(self) -> None:
        return None

    def within(self, column: int, bounds: Sequence[Bound]) -> tuple[float, float]:
        share = prod(PASSES[op] for op, _ in bounds)
        return share, share


@dataclass(frozen=True, slots=True)
class OfEdges:
    """A table of counts by the ends of edges of a symmetric relation: what is known of these.
    `ranked`: by their ranks."""

    relation: str
    edges: RelationStatistics
    ranked: bool
    rises: frozenset[tuple[int, int]] = frozenset()
    assumed: bool = False
    graph: GraphStatistics | None = None
    symmetric: bool = True

    @property
    def rows(self) -> int:
        return self.edges.rows

    @property
    def loopless(self) -> bool:
        return self.edges.loopless

    @property
    def balanced(self) -> bool:
        return self.edges.balanced

    def size(self, tests: tuple[ColumnTest, ...] = (), ranked: bool = False) -> int:
        return self.edges.size(tests, self.ranked)

    def distinct(self, columns: frozenset[int]) -> int:
        return self.edges.distinct(columns)

    def degrees(
        self, column: int, tests: tuple[ColumnTest, ...] = (), ranked: bool = False
    ) -> DegreeMoments:
        return self.edges.degrees(column, tests, self.ranked)

    def sorting(self, column: int, tests: tuple[ColumnTest, ...] = (), ranked: bool = False) -> int:
        return self.edges.rows

    def lists(
        self, column: int, tests: tuple[ColumnTest, ...] = (), ranked: bool = False
    ) -> ListSizes | None:
        return self.edges.lists(column, tests, self.ranked)

    def set(self) -> Any:
        return None

    def within(self, column: int, bounds: Sequence[Bound]) -> tuple[float, float]:
        return self.edges.within(column, bounds)
