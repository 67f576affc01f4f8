"""The join plan: what the planner writes and the executors read.

A rule becomes a `RulePlan`: one `JoinPlan` for each alternative of its body, and what happens to
their bindings (distinct rows, aggregates, head expressions). A join plan is a tree: a sequence
of steps, of which a `Branch` holds sequences of its own that share no variable with what
follows. Plans are plain data: frozen, comparable, printable (`format.py`), checked
(`check.py`), and say nothing about where they run.

Rows flow from step to step. A step narrows them (`Seek`, `Filter`, `Guard`, a branch), widens
them by a variable (`Join`, `Generate`), or gives each a value (`Assign`, an aggregate branch).
"""

from __future__ import annotations

from typing import Literal

from gdatalog.errors import NOWHERE, Span
from gdatalog.records import dataclass, field
from gdatalog.values import TypeName, Value

# ------------------------------------------------------------------------------ expressions


@dataclass(frozen=True, slots=True)
class Slot:
    """A variable's value in the row at hand."""

    name: str
    type: TypeName


@dataclass(frozen=True, slots=True)
class Constant:
    value: Value
    type: TypeName


@dataclass(frozen=True, slots=True)
class Parameter:
    """`$name`: like a constant, but its value comes with the run, not with the plan."""

    name: str
    type: TypeName


@dataclass(frozen=True, slots=True)
class Apply:
    """A function, an operator or a comparison, of arguments whose types are known."""

    function: str
    args: tuple[Expr, ...]
    type: TypeName
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Expr = Slot | Constant | Parameter | Apply


def slots(expr: Expr) -> frozenset[str]:
    """The variables that an expression reads."""
    if isinstance(expr, Slot):
        return frozenset({expr.name})
    if isinstance(expr, Apply):
        return frozenset().union(*map(slots, expr.args)) if expr.args else frozenset()
    return frozenset()


# ------------------------------------------------------------------------------------- tries

Version = Literal["full", "old", "delta"]


@dataclass(frozen=True, slots=True)
class RowTest:
    """A comparison of two columns of one atom: rows that fail it are not in the trie."""

    left: int
    op: str
    right: int


@dataclass(frozen=True, slots=True)
class TrieRef:
    """One atom's trie: which relation, which of its rows, which columns in which order.

    Columns that the rule does not ask for are left out; `weighted` keeps how many rows stand
    behind each path, where the rule counts them. `ranked`: of a binary relation of vertices, both
    ways of every edge, and in place of a vertex its rank in the order of degrees; the tests
    compare ranks. `sliced`: in cells, what chooses the rows that are there by their first value: a
    variable with its range, or a constant.
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
    """A trie (by its number in the plan) that takes part in a step with one of its levels."""

    trie: int
    depth: int


@dataclass(frozen=True, slots=True)
class RangeBound:
    """The variable at hand compared with something already bound: a range of a sorted list."""

    op: str  # < <= > >=
    bound: Expr


@dataclass(frozen=True, slots=True)
class Reuse:
    """The list of an earlier level, raw, instead of the participants that it was made of."""

    variable: str
    covers: tuple[int, ...]  # which of this level's participants, by their place
    implied: tuple[int, ...] = ()  # which of this level's cuts the list has been through


# ------------------------------------------------------------------------------------- steps


@dataclass(frozen=True, slots=True)
class Guard:
    """Goes on only if the trie has a row at all; counts them if it is `weighted`."""

    trie: int
    weighted: bool = False


@dataclass(frozen=True, slots=True)
class Seek:
    """A known value is looked up in the participants: a constant, or a variable from outside."""

    value: Expr
    participants: tuple[Participant, ...]


@dataclass(frozen=True, slots=True)
class Join:
    """A variable takes the values that all participants have, within the cuts.

    `implied` are pairs (participant, cut), by their places, where the participant's trie holds
    no rows outside of the cut anyway.
    """

    variable: str
    type: TypeName
    participants: tuple[Participant, ...]
    cuts: tuple[RangeBound, ...] = ()
    implied: tuple[tuple[int, int], ...] = ()
    reuse: Reuse | None = None
    estimate: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class Assign:
    """A variable takes the value of an expression; participants must have it."""

    variable: str
    type: TypeName
    expr: Expr
    participants: tuple[Participant, ...] = ()
    may_fail: bool = False


@dataclass(frozen=True, slots=True)
class Generate:
    """A variable takes each of some values, or each of a range; participants must have it."""

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
    """Rows go on for which the test holds."""

    test: Expr


@dataclass(frozen=True, slots=True)
class Compact:
    """Some variable is not needed any more: rows equal in the ones that are become one.

    `lasting`: what follows reads nothing that a fixpoint changes, so that a row that went on in
    an earlier round need not go on again.
    """

    keep: tuple[str, ...]
    lasting: bool = False


@dataclass(frozen=True, slots=True)
class Restore:
    """Ranks of a ranked trie become the values that they stand for, in ascending order.

    `ranks` are bound; `variables`, as many, get the values: the least first.
    """

    trie: int
    ranks: tuple[str, ...]
    variables: tuple[str, ...]
    type: TypeName


@dataclass(frozen=True, slots=True)
class Reduction:
    """An aggregate over a branch: what is gathered, and the variable that holds the outcome.

    `bindings` lists, for each alternative, all variables it binds: where there are several
    alternatives the bindings are united as a set before anything is gathered. `exports` are
    variables that take their values from the rows that attain a min or max.
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
    """A part of the body of its own, run for each row.

    exists, not exists: the row goes on if there is a match, or if there is none. count: the
    row weighs as many times as there are matches. aggregate: the row gets a value.
    `reads` are the variables from outside that matter; rows equal in those share the work.
    With `terms`, a count is a signed sum of products: each is a coefficient, and by their numbers
    the alternatives whose matches are multiplied. The first term is no less than any other.
    """

    mode: Literal["exists", "not exists", "count", "aggregate"]
    reads: tuple[str, ...]
    alternatives: tuple[tuple[Step, ...], ...]
    reduction: Reduction | None = None
    terms: tuple[tuple[int, tuple[int, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Tally:
    """A table of counts, made anew for each row: for each value of `key`, how many matches `steps`
    have with it. The steps that follow read it as a weighted trie of the relation `table`, whose
    last column is the key; the columns before it are bound already.
    """

    table: str
    key: str
    reads: tuple[str, ...]
    steps: tuple[Step, ...]


Step = Guard | Seek | Join | Assign | Generate | Filter | Compact | Restore | Branch | Tally


# ------------------------------------------------------------------------------------- plans


@dataclass(frozen=True, slots=True)
class GivenRows:
    """Rows that a plan is run for, each in turn: what is new of a relation. Their columns are
    these variables, which all steps find bound. `rows`: as many as estimates were made for.

    `columns`: all rows of the relation are given, some at a time, and these columns of them: such
    a plan is a scan.
    """

    relation: str
    slots: tuple[Slot, ...]
    rows: float = field(default=0.0, compare=False)
    columns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """One alternative of a rule's body, as steps.

    Its rows are the values of `outputs`. In a `bag` the rows of all bindings count, with their
    weights; otherwise only which rows there are. Each row of the steps stands for `orbit`
    bindings, of which only one was looked for. `cost` is the work expected, in rows looked at.
    `given`: the plan follows new rows of a relation.
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
        """The relation that the plan scans, if it is a scan."""
        return self.given if self.given is not None and self.given.columns else None


@dataclass(frozen=True, slots=True)
class Gather:
    """An aggregate of a head, of columns of the bindings."""

    kind: str
    targets: tuple[Expr, ...]
    variable: str
    type: TypeName
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Term:
    """What a join of a signed sum is for. A term is counted, and its count enters the sum
    `coefficient` times. A `table` is made before the terms that read it: for each value of the
    keys, how many matches the join has. `label` shows the body that is counted.

    With `images` the join finds one match of each orbit, which counts for the values of each image
    of the keys: variables, or pairs of variables, of which one value is always the less.
    """

    label: str
    coefficient: int = 0
    table: str = ""
    keys: tuple[Slot, ...] = ()
    images: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class RulePlan:
    """A rule: the union of its joins, then aggregates if there are any, then the head.

    Without `gathers` the outputs of the joins are the head's arguments. With them, each group
    of joins that bind the same variables (`groups`, numbers of joins) gives the set of its
    bindings; what is gathered is grouped by `keys`, and `head` is computed of keys and
    gathers. `combines`: min and max of this relation combine over all rules and facts. With
    `terms`, one for each join, the only gather is the signed sum of the joins' counts; `otherwise`
    is the plan that enumerates the bindings. `within`: counts by one key, each a signed sum, that
    the joins read as tables by their names.
    """

    relation: str
    joins: tuple[JoinPlan, ...]
    head: tuple[Expr, ...]
    keys: tuple[Slot, ...] = ()
    gathers: tuple[Gather, ...] = ()
    groups: tuple[tuple[int, ...], ...] = ()
    bindings: tuple[tuple[Slot, ...], ...] = ()  # of each group: the outputs of its joins
    terms: tuple[Term, ...] = ()
    otherwise: RulePlan | None = field(default=None, compare=False, repr=False)
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    within: tuple[RulePlan, ...] = ()

    @property
    def recursive_on(self) -> frozenset[str]:
        """The relations whose new rows this plan follows."""
        given = (join.given for join in self.joins if join.given is not None)
        return frozenset(each.relation for each in given if not each.columns)

    @property
    def passes_over(self) -> str | None:
        """The relation of which it is given all rows, some at a time, if there is one."""
        scans = (join.scan for join in self.joins)
        return next((scan.relation for scan in scans if scan is not None), None)
