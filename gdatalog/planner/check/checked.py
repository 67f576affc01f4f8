"""What the checks give the planner: rules with the types of everything, and broken relations.

In a checked rule
- relations that are declared inline stand expanded in the bodies that read them;
- there is one head; a rule with several heads has become several rules;
- every `Atom` names a relation; calls of functions that stood as literals are `Test`,
  `distinct(...)` is `Distinct`, `i = range(...)` is `Range`;
- every `Wildcard` is a `Var` of its own, and every variable that is local to a negation or an
  aggregate has a name of its own (`y~2`), so one name means one thing in the whole rule;
- aliases of functions are resolved (`itof` is `to_float`), `as(e, T)` is `e`;
- an int literal that stands for a float is a `Const` of type float;
- a list of many values is a relation, `x in {1, 2, ...}` an atom that reads it;
- aggregates in the head are `HeadAggregate`, those in the body know their `exports` and their
  `locals`; one with a body of its own that stood in a head is an equation of the rule's body;
- where a relation takes the min or max of a column, every rule of it with a body does so there:
  `dist(x, 0) <- source(x)` beside `dist(y, min(d + w)) <- ...` has `min(0)`; facts stay.
"""

from __future__ import annotations

from collections.abc import Mapping

from gdatalog.errors import Caution, Error, Note, Span
from gdatalog.parser.syntax import Atom, Const, Directive, ListParam, Literal, Param, Values
from gdatalog.planner.check.words import either
from gdatalog.records import dataclass, field
from gdatalog.values import TypeName, visible


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a relation, and where they were declared."""

    name: str
    columns: tuple[str, ...]
    types: tuple[TypeName, ...]
    span: Span | None = field(default=None, compare=False)
    declared: bool = False

    @property
    def arity(self) -> int:
        return len(self.types)


@dataclass(frozen=True, slots=True)
class CheckedRule:
    head: Atom
    body: Literal | None
    types: Mapping[str, TypeName]  # of each variable
    span: Span = field(compare=False)

    @property
    def aggregated(self) -> bool:
        """Whether the head has an aggregate anywhere in it."""
        from gdatalog.planner.check.walk import contains_head_aggregate

        return any(contains_head_aggregate(arg) for arg in self.head.args)


@dataclass(frozen=True, slots=True)
class CheckedQuery:
    """A `?-`: the relation that holds its answer, which a rule of `rules` may define.

    `?- tr(1, y), y < 3.` is the rule `?1(y) <- tr(1, y), y < 3.`; `?- tr.` is `tr` itself.
    `boolean`: it has no variables, the answer is yes or no.
    """

    relation: str
    boolean: bool
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Stratum:
    """Relations that depend on each other, and their rules; all others are evaluated before or
    after."""

    relations: tuple[str, ...]
    rules: tuple[CheckedRule, ...]
    recursive: bool


@dataclass(frozen=True, slots=True)
class ValueList:
    """A list of values, as a relation of one column."""

    type: TypeName
    parts: tuple[Values | Const | Param | ListParam, ...]

    @property
    def schema(self) -> tuple[tuple[str], tuple[TypeName]]:
        return ("value",), (self.type,)


@dataclass(frozen=True, slots=True)
class Checked:
    schemas: Mapping[str, Schema]  # of every relation: known, declared, defined, and of queries
    strata: tuple[Stratum, ...]  # in an order in which they can be evaluated
    facts: Mapping[str, tuple[Atom, ...]]  # ground atoms whose arguments are all Const or Param
    queries: tuple[CheckedQuery, ...]
    directives: tuple[Directive, ...]
    pragmas: tuple[tuple[str, ...], ...]
    param_types: Mapping[str, TypeName]
    cautions: tuple[Caution, ...]
    last: str | None  # the first head of the last rule or fact: what db.query returns by default
    inline: frozenset[str] = frozenset()  # the relations whose rules stand where they were read
    unbound: Mapping[str, Error] = field(default_factory=dict)  # those of them that are never made
    lists: Mapping[str, ValueList] = field(default_factory=dict)  # those that are relations


# Relations that cannot be evaluated, because a kept statement of theirs is invalid.


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a relation cannot be evaluated: a statement of `relation` is invalid, with this error.

    `relation` is the relation itself, or one that it depends on.
    """

    relation: str
    error: Error

    def why(self, name: str) -> str:
        """The same for a line of a list."""
        if name != self.relation:
            return f"it depends on `{self.relation}`, which is invalid"
        return visible(self.error.message)

    def error_for(self, name: str, span: Span | None = None) -> Error:
        """The error for a use of a relation: at `span`, or at the invalid statement."""
        lead = f"`{name}` is invalid"
        if name != self.relation:
            lead = f"`{name}` depends on `{self.relation}`, which is invalid"
        drop = drop_hint(self.relation)
        notes = list(self.error.notes)
        if span is not None:
            notes.insert(0, Note(f"`{self.relation}` is invalid here", self.error.span))
        return type(self.error)(
            f"{lead}: {self.error.message}",
            span or self.error.span,
            hint=f"{self.error.hint}; or {drop}" if self.error.hint else drop,
            notes=notes,
        )


def drop_hint(name: str) -> str:
    return f'drop `{name}`: `db.drop("{name}")` in Python, `.drop {name}` at the prompt'


def caution_of(error: Error, broken: Mapping[str, Cause]) -> Caution:
    """The caution for a kept statement that has become invalid, with what depends on it."""
    own = [
        name for name, cause in broken.items() if cause.error is error and cause.relation == name
    ]
    others = sorted(
        name for name, cause in broken.items() if cause.relation in own and name not in own
    )
    lead = either([f"`{name}`" for name in own], "and") if own else "this"
    lead += f" {'are' if len(own) > 1 else 'is'} invalid from now on"
    if others:
        depend = "depends" if len(others) == 1 else "depend"
        lead += f", and {either([f'`{name}`' for name in others], 'and')} {depend} on it"
    hints = [error.hint or "", drop_hint(own[0]) if own else ""]
    return Caution(f"{lead}: {error.message}", error.span, "; or ".join(filter(None, hints)))


NOTHING_BROKEN: Mapping[str, Cause] = {}
