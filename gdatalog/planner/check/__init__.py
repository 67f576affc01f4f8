"""The checks: from a program as it is written to one with types, or all of its errors.

Here is what they give the planner: rules, relations, words for messages. In a checked rule
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

from collections.abc import Iterable, Mapping, Sequence

from gdatalog.errors import NOWHERE, Caution, Error, Note, Span, meant
from gdatalog.parser import syntax as s
from gdatalog.planner.check.walk import contains_head_aggregate
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
    head: s.Atom
    body: s.Literal | None
    types: Mapping[str, TypeName]  # of each variable
    span: Span = field(compare=False)

    @property
    def aggregated(self) -> bool:
        """Whether the head has an aggregate anywhere in it."""
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
    parts: tuple[s.Values | s.Const | s.Param | s.ListParam, ...]

    @property
    def schema(self) -> tuple[tuple[str], tuple[TypeName]]:
        return ("value",), (self.type,)


@dataclass(frozen=True, slots=True)
class Checked:
    schemas: Mapping[str, Schema]  # of every relation: known, declared, defined, and of queries
    strata: tuple[Stratum, ...]  # in an order in which they can be evaluated
    facts: Mapping[str, tuple[s.Atom, ...]]  # ground atoms whose arguments are all Const or Param
    queries: tuple[CheckedQuery, ...]
    directives: tuple[s.Directive, ...]
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


# Words of messages: names in quotes, numbers of things, the nearest spelling.


def own_name(name: str) -> str:
    """The name that the user wrote: `y` of the local variable `y~2`."""
    return name.partition("~")[0]


def text_of(node: s.Expr | s.HeadAggregate | s.Literal) -> str:
    """The node as the source has it, on one line."""
    if node.span.source is NOWHERE.source:
        return show(node).strip("`")
    text = " ".join(node.span.text.split())
    return f"({text})" if isinstance(node, s.Or) else text


def as_rule(head: str, items: Iterable[str]) -> str:
    return f"{head} <- {', '.join(items)}."


def show(node: s.Expr | s.HeadAggregate | s.Literal) -> str:
    """The node as the source has it, in quotes and on one line."""
    text = " ".join(node.span.text.split())
    if node.span.source is not NOWHERE.source:
        return f"`{text}`" if len(text) <= 60 else f"`{text[:57]}...`"
    match node:
        case s.Var(name):
            return f"`{own_name(name)}`"
        case s.Param(name) | s.ListParam(name):
            return f"`${name}`"
        case s.Const(_, value):
            return f'`"{value}"`' if isinstance(value, str) else f"`{value}`"
        case s.Atom(name, _):
            return f"`{name}(...)`"
        case s.Not(body):
            return f"`!`{show(body)}"
        case _:
            return f"the {type(node).__name__.lower()}"


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def either(names: Sequence[str], last: str = "or") -> str:
    """`a, b or c`."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} {last} {names[-1]}"


# What functions are called elsewhere.
SYNONYMS = {
    "avg": "mean",
    "average": "mean",
    "concat": "cat",
    "int": "to_int",
    "len": "strlen",
    "length": "strlen",
    "lcase": "lower",
    "regexp_matches": "match",
    "str": "to_string",
    "substring": "substr",
    "ucase": "upper",
}


# What functions elsewhere do, and what to write for them here.
INSTEAD = {
    "coalesce": "there is no null: write a rule for each case",
    "collect": "no column holds a list: the rows of a group are its list",
    "exists": "an atom alone says that there is such a row",
    "group_concat": "no column holds a list: the rows of a group are its list",
    "if": "write one rule for each case",
    "iif": "write one rule for each case",
    "now": "give the time as a parameter: `$now`",
    "rank": "a rank counts those before: `n = count : { R(y), y < x }`",
    "round": "`floor(x + 0.5)` rounds",
    "row_number": "rows have no order; a rank counts those before: `n = count : { R(y), y < x }`",
}


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant."""
    names = [other for other in known if other != name]
    if SYNONYMS.get(name.lower()) in names:
        return SYNONYMS[name.lower()]
    return meant(name, names)


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    best = nearest(name, known)
    return None if best is None else f"did you mean `{best}`?"
