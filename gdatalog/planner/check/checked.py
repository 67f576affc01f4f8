"""The result of the checks, which the planner reads, also as text. In a checked rule
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

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from gdatalog.errors import Caution, Error, Span
from gdatalog.parser import format_node
from gdatalog.parser import syntax as s
from gdatalog.plan.functions import ORDERED
from gdatalog.planner.check.walk import Node, all_of, no_match_of, rebuild, walk
from gdatalog.records import dataclass, field, replace
from gdatalog.storage.kinds import ROW_ID, ROW_NUMBERS, Kinds, either, shown_columns
from gdatalog.values import TypeName


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a relation, and where they were declared. `kinds`: the dtypes of columns that
    are loaded, and the zones of times. `nullable`: which columns may hold nulls; empty: none."""

    name: str
    columns: tuple[str, ...]
    types: tuple[TypeName, ...]
    span: Span | None = field(default=None, compare=False)
    declared: bool = False
    kinds: Kinds = ()
    nullable: tuple[bool, ...] = ()

    @property
    def arity(self) -> int:
        return len(self.types)

    @property
    def shown(self) -> int:
        """The number of columns without one of hidden row numbers."""
        return shown_columns(self.kinds, self.arity)

    def nulls_beyond(self, other: Schema) -> bool:
        """Whether a column is nullable that is not in another schema of these types."""
        return bool(self.nullable) and either(self.nullable, other.nullable) != other.nullable

    def as_shown(self) -> Schema:
        """The columns without one of hidden row numbers."""
        shown = slice(self.shown)
        columns, types = self.columns[shown], self.types[shown]
        kinds, nullable = self.kinds[shown], self.nullable[shown]
        return replace(self, columns=columns, types=types, kinds=kinds, nullable=nullable)

    def with_row_ids(self) -> Schema:
        """The same columns, and a hidden one of row numbers."""
        if self.shown < self.arity:
            return self
        columns, types = (*self.columns, ROW_ID), (*self.types, "int")
        kinds = *(self.kinds or (None,) * self.arity), ROW_NUMBERS
        nullable = self.nullable and (*self.nullable, False)
        return replace(self, columns=columns, types=types, kinds=kinds, nullable=nullable)


@dataclass(frozen=True, slots=True)
class CheckedRule:
    head: s.Atom
    body: s.Literal | None
    types: Mapping[str, TypeName]  # of each variable
    span: Span = field(compare=False)
    _parts: tuple[Node, ...] | None = field(default=None, init=False, compare=False, repr=False)
    _atoms: tuple[s.Atom, ...] | None = field(default=None, init=False, compare=False, repr=False)

    @property
    def aggregated(self) -> bool:
        """Whether the head has an aggregate anywhere in it."""
        return s.HeadAggregate in map(type, self.parts)

    @property
    def ordered(self) -> bool:
        """Whether its head has functions that depend on the order of rows."""
        args: tuple[Any, ...] = self.head.args
        found = s.HeadAggregate in map(type, args)
        return found and any(isinstance(a, s.HeadAggregate) and a.kind in ORDERED for a in args)

    @property
    def parts(self) -> tuple[Node, ...]:
        """All nodes of the head and the body."""
        found = self._parts
        if found is None:
            found = (*walk(self.head), *walk(self.body))
            object.__setattr__(self, "_parts", found)
        return found

    @property
    def uses(self) -> Counter[str]:
        """How often each variable occurs."""
        return Counter([part.name for part in self.parts if type(part) is s.Var])

    @property
    def atoms(self) -> tuple[s.Atom, ...]:
        """The atoms of the body, those within negations and aggregates included."""
        found = self._atoms
        if found is None:
            found = tuple([part for part in self.parts[1:] if type(part) is s.Atom])
            object.__setattr__(self, "_atoms", found)
        return found


@dataclass(frozen=True, slots=True)
class AnswerCut:
    """Which rows of an answer are asked for: sorted by the columns in `order`, each with whether it
    is descending, without the first `offset`, and at most `limit`."""

    order: tuple[tuple[int, bool], ...] = ()
    limit: s.Const | s.Param | None = None
    offset: s.Const | s.Param | None = None


@dataclass(frozen=True, slots=True)
class CheckedQuery:
    """A `?-`, and the relation with its answer, which may have a rule of its own.

    `?- tr(1, y), y < 3.` is the rule `?1(y) <- tr(1, y), y < 3.`; `?- tr.` is `tr` itself.
    """

    relation: str
    span: Span = field(compare=False)
    cut: AnswerCut | None = None


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


def rule_text(rule: CheckedRule) -> str:
    """Formats a checked rule as a user would write it: `_` for `_~1`, if that occurs once, and
    `optional` for its alternatives."""
    parts: list[Any] = [rule.head] if rule.body is None else [rule.head, _with_optionals(rule.body)]
    names = Counter(var.name for part in parts for var in all_of(s.Var, part))

    def blank(node: Any) -> Any:
        if isinstance(node, s.Var):
            return s.Wildcard() if node.name.startswith("_~") and names[node.name] == 1 else node
        return rebuild(node, blank)

    return " <- ".join([format_node(blank(part)) for part in parts]) + "."


def _with_optionals(node: Any) -> Any:
    node = rebuild(node, _with_optionals)
    if isinstance(node, s.Member) and isinstance(node.values[0], s.Null):
        return s.Compare(node.item, (("=", node.values[0]),))
    if isinstance(node, s.Or) and no_match_of(node) is not None:
        matches = node.items[:-1]
        return s.Optional(matches[0] if len(matches) == 1 else s.Or(matches))
    return node


def rule_texts(strata: Iterable[Stratum]) -> tuple[str, ...]:
    """All rules of these strata."""
    return tuple([rule_text(rule) for stratum in strata for rule in stratum.rules])
