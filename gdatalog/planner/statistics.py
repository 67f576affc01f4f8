"""The statistics that planning reads, and assumed ones for relations without rows yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import prod

from gdatalog.plan.join_plan import Constant, Expr, Parameter, Version
from gdatalog.records import dataclass, field
from gdatalog.storage.degrees import MOMENTS, AdjacencyLists, Degrees
from gdatalog.storage.statistics import Statistics as RowStatistics
from gdatalog.storage.table import Array
from gdatalog.values import Value

# A test between two columns of a row, as (left column, operator, right column).
ColumnTest = tuple[int, str, int]
# An operator, and its right operand.
Bound = tuple[str, Value]
# Default selectivity of a test, by its operator.
PASSES = {"=": 0.1, "<": 0.4, "<=": 0.4, ">": 0.4, ">=": 0.4, "!=": 0.95}


@dataclass(frozen=True, slots=True)
class Looked:
    """The selectivity of comparisons of a column with parameters: the shares of the column's values
    and of the rows that pass."""

    relation: str
    column: int
    bounds: tuple[tuple[str, Constant | Parameter], ...]
    shares: tuple[float, float]


def known_value(bound: Expr, values: Mapping[str, Value]) -> Value | None:
    """The value of a constant or a parameter, if it is known; `values`: those of parameters."""
    if isinstance(bound, Constant):
        return bound.value
    return values.get(bound.name) if isinstance(bound, Parameter) else None


@lru_cache(maxsize=1 << 8)
def _even(rows: int, values: int) -> Degrees:
    """The degrees of values that have the same number of rows each."""
    mean = max(1.0, rows / values)
    powers = tuple([values * mean**k for k in range(MOMENTS + 1)])
    return Degrees(int(mean), powers)


@dataclass(frozen=True, slots=True)
class Assumed:
    """A relation that does not exist yet, such as one that a fixpoint will derive."""

    rows: int
    values: int  # distinct values of each column
    arity: int
    rises: frozenset[tuple[int, int]] = field(default=frozenset())
    balanced: bool = False
    assumed: bool = True
    codes: bool = False
    graph: None = None
    symmetric: bool = False
    loopless: bool = False
    each: tuple[int, ...] | None = None  # the same by column, if known

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
    ) -> Degrees:
        return _even(self.size(tests), self.distinct(frozenset((column,))))

    def sorting(self, column: int, tests: tuple[ColumnTest, ...] = (), ranked: bool = False) -> int:
        return 0

    def lists(self, column: int, tests: tuple[ColumnTest, ...] = (), ranked: bool = False) -> None:
        return None

    def set(self) -> None:
        return None

    def within(
        self, column: int, bounds: Sequence[Bound], ranked: bool = False
    ) -> tuple[float, float]:
        share = prod(PASSES[op] for op, _ in bounds)
        return share, share


@dataclass(frozen=True, slots=True)
class Alike:
    """Estimates from the statistics of another relation, without properties that only the other's
    rows have. `ranked`: its lists are by rank."""

    other: RelationStatistics
    rows: int
    ranked: bool = False
    rises: frozenset[tuple[int, int]] = frozenset()
    assumed: bool = False
    graph: None = None
    symmetric: bool = False
    loopless: bool = False

    @property
    def codes(self) -> bool:
        return self.other.codes

    @property
    def balanced(self) -> bool:
        return self.other.balanced

    def size(self, tests: tuple[ColumnTest, ...] = (), ranked: bool = False) -> int:
        return self.other.size(tests, ranked or self.ranked)

    def distinct(self, columns: frozenset[int]) -> int:
        return self.other.distinct(columns)

    def degrees(
        self, column: int, tests: tuple[ColumnTest, ...] = (), ranked: bool = False
    ) -> Degrees:
        return self.other.degrees(column, tests, ranked or self.ranked)

    def sorting(self, column: int, tests: tuple[ColumnTest, ...] = (), ranked: bool = False) -> int:
        return self.other.sorting(column, tests, ranked)

    def lists(
        self, column: int, tests: tuple[ColumnTest, ...] = (), ranked: bool = False
    ) -> AdjacencyLists | None:
        return self.other.lists(column, tests, ranked or self.ranked)

    def set(self) -> Array | None:
        return self.other.set()

    def within(
        self, column: int, bounds: Sequence[Bound], ranked: bool = False
    ) -> tuple[float, float]:
        return self.other.within(column, bounds, ranked or self.ranked)


@dataclass(frozen=True, slots=True)
class OfEdges(Alike):
    """A table of counts by the ends of the edges of a symmetric `relation`."""

    relation: str = ""

    def sorting(self, column: int, tests: tuple[ColumnTest, ...] = (), ranked: bool = False) -> int:
        return self.rows

    def set(self) -> Array | None:
        return None


# The statistics of a relation, known or assumed.
RelationStatistics = RowStatistics | Assumed | Alike
Statistics = Callable[[str, Version], RelationStatistics]


class RuleStatistics:
    """The statistics of the relations that a rule reads: of all rows, and of a round's new ones."""

    def __init__(self) -> None:
        self.whole: dict[str, RelationStatistics] = {}
        self.new: dict[str, RelationStatistics] = {}

    def __call__(self, name: str, version: Version) -> RelationStatistics:
        return (self.new if version == "delta" else self.whole)[name]
