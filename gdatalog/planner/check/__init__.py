"""The checks: they turn a parsed program into a typed one, or report all of its errors.

This module defines their result, which the planner reads, and the words of their messages. In a
checked rule
- atoms of inline relations are replaced by the bodies of their rules;
- there is one head: a rule with several heads becomes several rules;
- every `Atom` reads a relation: a function called as a literal becomes a `Test`, `distinct(...)` a
  `Distinct`, `i = range(...)` a `Range`;
- every `Wildcard` becomes a fresh `Var`, and a variable that is local to a negation or an
  aggregate is renamed (`y~2`), so that a name is one variable in the whole rule;
- function aliases are resolved (`itof` is `to_float`), and `as(e, T)` becomes `e`;
- an int literal where a float is needed becomes a `Const` of type float;
- a long list of values becomes a relation, and `x in {1, 2, ...}` an atom that reads it;
- aggregates in the head are `HeadAggregate`, and those in the body have `exports` and `locals`; an
  aggregate in the head with a body of its own becomes an equation of the rule's body;
- if one rule of a relation takes the min or max of a column, so do all its rules with a body:
  beside `dist(y, min(d + w)) <- ...`, `dist(x, 0) <- source(x)` gets `min(0)`; facts stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from gdatalog.errors import NOWHERE, Caution, Error, Note, Span, meant
from gdatalog.parser import syntax as s
from gdatalog.planner.check.walk import Node, contains_head_aggregate, walk_all
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

    @property
    def parts(self) -> Iterator[Node]:
        """All nodes of the head and the body."""
        return walk_all(self.head, self.body)


@dataclass(frozen=True, slots=True)
class CheckedQuery:
    """A `?-`, and the relation with its answer, which may have a rule of its own.

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
    last: str | None  # the first head of the last rule or fact, which db.query returns by default
    inline: frozenset[str] = frozenset()  # the relations that were expanded where they are read
    unbound: Mapping[str, Error] = field(default_factory=dict)  # inline relations without rows
    lists: Mapping[str, ValueList] = field(default_factory=dict)  # by relation


# Relations that cannot be evaluated, because a kept statement of theirs is invalid.


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a relation cannot be evaluated: a statement of `relation` is invalid, with this error.

    `relation` is the relation itself, or one that it depends on.
    """

    relation: str
    error: Error

    def why(self, name: str) -> str:
        """The reason, short enough for a line of a list."""
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


# Helpers for messages: quoted names, counted nouns, the nearest spelling.


def own_name(name: str) -> str:
    """The name that the user wrote: `y` of the local variable `y~2`."""
    return name.partition("~")[0]


def text_of(node: s.Expr | s.HeadAggregate | s.Literal) -> str:
    """The node's source text, on one line."""
    if node.span.source is NOWHERE.source:
        return show(node).strip("`")
    text = " ".join(node.span.text.split())
    return f"({text})" if isinstance(node, s.Or) else text


def as_rule(head: str, items: Iterable[str]) -> str:
    return f"{head} <- {', '.join(items)}."


def show(node: s.Expr | s.HeadAggregate | s.Literal) -> str:
    """The node's source text, quoted and on one line."""
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


# Functions by their names in other languages.
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


# Functions of other languages that have no equivalent here, and what to write instead.
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
