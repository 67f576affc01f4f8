"""The join plan, which the planner builds and the executors run.

A rule becomes a `RulePlan`: one `JoinPlan` for each alternative of its body, and what happens to
their bindings (distinct rows, aggregates, head expressions). A join plan is a tree: a sequence of
steps, in which a `Branch` contains sequences of its own that share no variable with later steps.
Plans are plain data: frozen, comparable, printable (`labels.py`), checked
(`tests/plan_check.py`), and the same for each device.

Rows flow from step to step. A step filters them (`Seek`, `Filter`, `Guard`, a branch), extends them
by a variable with several values (`Join`, `Generate`), or with one value (`Assign`, an aggregate
branch).
"""

from __future__ import annotations

from typing import Literal

from gdatalog.errors import NOWHERE, Span
from gdatalog.records import dataclass, field
from gdatalog.values import TypeName, Value

# Types whose `+` and `-`, which wrap, can be undone.
SOLVED: frozenset[TypeName] = frozenset({"int", "timestamp", "duration"})


@dataclass(frozen=True, slots=True)
class Slot:
    """A variable's value in the current row."""

    name: str
    type: TypeName


@dataclass(frozen=True, slots=True)
class Constant:
    """A value of the program; None is a null."""

    value: Value | None
    type: TypeName


@dataclass(frozen=True, slots=True)
class Parameter:
    """`$name`: like a constant, but its value belongs to the run, not to the plan."""

    name: str
    type: TypeName


@dataclass(frozen=True, slots=True)
class Apply:
    """A function, an operator or a comparison, applied to typed arguments."""

    function: str
    args: tuple[Expr, ...]
    type: TypeName
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Expr = Slot | Constant | Parameter | Apply


def slots(expr: Expr) -> frozenset[str]:
    """The variables that an expression reads."""
    if isinstance(expr, Slot):
        return frozenset({expr.name})
    names: set[str] = set()
    todo: list[Expr] = [expr]
    for part in todo:
        if isinstance(part, Slot):
            names.add(part.name)
        elif isinstance(part, Apply):
            todo += part.args
    return frozenset(names)


Version = Literal["full", "old", "delta"]


# A comparison of two columns of one atom, which filters the rows of the trie: (left column,
# operator, right column).
RowTest = tuple[int, str, int]


@dataclass(frozen=True, slots=True)
class TrieRef:
    """One atom's trie: the relation, the version of its rows, and the order of its columns.

    Columns that the rule does not use are left out; `weighted` keeps the number of rows of each
    path, for counts. `ranked`: a binary relation with both directions of every edge, in which ranks
    by degree replace vertices; the tests compare ranks. `sliced`: in cells, the slice's variable
    with its range, or constant, for the first column.
    """

    relation: str
    version: Version
    columns: tuple[int, ...]
    tests: tuple[RowTest, ...] = ()
    weighted: bool = False
    ranked: bool = False
    sliced: str = ""


@dataclass(frozen=True, slots=True)
class Participant:
    """A level of a trie (by its number in the plan) that takes part in a step."""

    trie: int
    depth: int


# A comparison of a join's variable with a bound value: (operator, value).
Comparison = tuple[str, Expr]


@dataclass(frozen=True, slots=True)
class Reuse:
    """Starts from the list of an earlier level, in place of the participants that it covers."""

    variable: str
    covers: tuple[int, ...]  # numbers of this level's participants
    implied: tuple[int, ...] = ()  # numbers of this level's cuts that the list satisfies


@dataclass(frozen=True, slots=True)
class Guard:
    """Continues only if the trie has rows; `weighted`: multiplies by their number."""

    trie: int
    weighted: bool = False


@dataclass(frozen=True, slots=True)
class Seek:
    """Looks a known value up in the participants: a constant, or an outer variable."""

    value: Expr
    participants: tuple[Participant, ...]


@dataclass(frozen=True, slots=True)
class Join:
    """A variable takes the values that all participants contain, within the cuts (`<`, `<=`, `>` or
    `>=`), which are ranges of sorted lists.

    `implied`: pairs (participant, cut) of numbers, where the participant's trie contains no rows
    outside the cut. `least`: pairs (participant, n), where values whose list in that trie has fewer
    than n values lead to no row; executors need not test that.
    """

    variable: str
    type: TypeName
    participants: tuple[Participant, ...]
    cuts: tuple[Comparison, ...] = ()
    implied: tuple[tuple[int, int], ...] = ()
    reuse: Reuse | None = None
    estimate: float = field(default=0.0, compare=False)
    least: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Assign:
    """A variable takes the value of an expression, which participants must contain."""

    variable: str
    type: TypeName
    expr: Expr
    participants: tuple[Participant, ...] = ()
    may_fail: bool = False


@dataclass(frozen=True, slots=True)
class Generate:
    """A variable takes each of some values, or of a range; participants must contain it."""

    variable: str
    type: TypeName
    values: tuple[Expr, ...] = ()
    span: tuple[Expr, Expr, Expr] | None = None  # start, stop (excluded), step
    participants: tuple[Participant, ...] = ()
    place: Span = field(default=NOWHERE, compare=False, repr=False)

    @property
    def may_fail(self) -> bool:
        """A step of 0 is an error."""
        return self.span is not None and not isinstance(self.span[2], Constant)


@dataclass(frozen=True, slots=True)
class Filter:
    """Keeps rows that satisfy the test."""

    test: Expr


@dataclass(frozen=True, slots=True)
class Compact:
    """Later steps read only the variables to `keep`: drops rows with equal values of these.

    `lasting`: later steps read no relation that the fixpoint changes, so that rows of earlier
    rounds are duplicates, too.
    """

    keep: tuple[str, ...]
    lasting: bool = False


@dataclass(frozen=True, slots=True)
class Restore:
    """Restores the values of a ranked trie's ranks, in ascending order.

    `ranks` are bound; `variables`, as many, get the values: the least first.
    """

    trie: int
    ranks: tuple[str, ...]
    variables: tuple[str, ...]
    type: TypeName


@dataclass(frozen=True, slots=True)
class Reduction:
    """An aggregate over a branch, and the variable for its result.

    `bindings`: for each alternative, all variables it binds; the bindings of several alternatives
    are united as a set before they are aggregated. `exports`: variables that take their values from
    the rows with the min or max.
    """

    kind: str  # count sum min max mean count_distinct any_value
    targets: tuple[Expr, ...]
    variable: str
    type: TypeName
    bindings: tuple[tuple[str, ...], ...]
    exports: tuple[tuple[str, TypeName], ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Branch:
    """A part of the body that runs for each row.

    exists, not exists: filters the row. count: multiplies the row's weight by the number of
    matches. aggregate: binds a variable. `reads`: the outer variables that it depends on; rows that
    are equal in these share the work. With `terms`, a count is a signed sum of products: each term
    is a coefficient, and the numbers of the alternatives whose counts are multiplied. The first
    term is the greatest.
    """

    mode: Literal["exists", "not exists", "count", "aggregate"]
    reads: tuple[str, ...]
    alternatives: tuple[tuple[Step, ...], ...]
    reduction: Reduction | None = None
    terms: tuple[tuple[int, tuple[int, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Tally:
    """A table of counts, filled for each row: for each value of `key`, the number of matches of
    `steps`. Later steps read it as a weighted trie of the relation `table`, whose last column is
    the key; earlier columns are bound already."""

    table: str
    key: str
    reads: tuple[str, ...]
    steps: tuple[Step, ...]


Step = Guard | Seek | Join | Assign | Generate | Filter | Compact | Restore | Branch | Tally


@dataclass(frozen=True, slots=True)
class GivenRows:
    """The plan runs for each new row of a relation, whose columns bind `slots` before the first
    step. `rows`: the number of rows that estimates assume.

    With `columns`, the plan is a scan of all rows of the relation, in blocks, and reads these
    columns.
    """

    relation: str
    slots: tuple[Slot, ...]
    rows: float = field(default=0.0, compare=False)
    columns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """One alternative of a rule's body, as steps.

    Its rows are the values of `outputs`. In a `bag`, all bindings count, with their weights;
    otherwise rows are a set. Each row represents `orbit` bindings, of which one is enumerated.
    `cost`: the expected work, in rows read. `given`: the plan runs for new rows of a relation.
    """

    tries: tuple[TrieRef, ...]
    steps: tuple[Step, ...]
    outputs: tuple[Expr, ...]
    bag: bool = False
    orbit: int = 1
    cost: float = field(default=0.0, compare=False)
    given: GivenRows | None = None

    @property
    def scan(self) -> GivenRows | None:
        """The given rows, if the plan is a scan."""
        return self.given if self.given is not None and self.given.columns else None


@dataclass(frozen=True, slots=True)
class Gather:
    """An aggregate of a head over columns of the bindings."""

    kind: str
    targets: tuple[Expr, ...]
    variable: str
    type: TypeName
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Term:
    """The purpose of a join in a signed sum. A term is counted, and its count is added
    `coefficient` times. A `table` is computed before the terms that read it: the number of matches
    for each value of the keys. `label` describes the body.

    With `images`, the join finds one match of each orbit, which counts for the values of each image
    of the keys: variables, or pairs of variables in which the same one is always less.
    """

    label: str
    coefficient: int = 0
    table: str = ""
    keys: tuple[Slot, ...] = ()
    images: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class RulePlan:
    """A rule: the union of its joins, then aggregates if there are any, then the head.

    Without `gathers`, the outputs of the joins are the head's arguments. With them, each group of
    joins that bind the same variables (`groups`, numbers of joins) gives a set of bindings;
    aggregates are grouped by `keys`, and `head` is computed from keys and aggregates. With `terms`,
    one for each join, the only aggregate is the signed sum of the joins' counts, and `otherwise` is
    the plan that enumerates the bindings. `within`: counts by one key, each a signed sum, which the
    joins read as tables by name. `left`: why the CPU runs it, though its stratum runs on a device.
    `apart`: no two joins have a row in common.
    """

    relation: str
    joins: tuple[JoinPlan, ...]
    head: tuple[Expr, ...]
    keys: tuple[Slot, ...] = ()
    gathers: tuple[Gather, ...] = ()
    groups: tuple[tuple[int, ...], ...] = ()
    bindings: tuple[tuple[Slot, ...], ...] = ()  # for each group: the outputs of its joins
    terms: tuple[Term, ...] = ()
    otherwise: RulePlan | None = field(default=None, compare=False, repr=False)
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    within: tuple[RulePlan, ...] = ()
    left: str | None = None
    apart: bool = False

    @property
    def recursive_on(self) -> frozenset[str]:
        """The relations whose new rows this plan reads."""
        given = (join.given for join in self.joins if join.given is not None)
        return frozenset([each.relation for each in given if not each.columns])

    @property
    def passes_over(self) -> str | None:
        """The relation that it scans, if there is one."""
        scans = (join.scan for join in self.joins)
        return next((scan.relation for scan in scans if scan is not None), None)
