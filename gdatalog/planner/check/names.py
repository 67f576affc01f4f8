"""Names: resolves each name of a rule to a relation, a function, an aggregate or a parameter.

Later passes do not see a rule with an error, but still know its relation. The result is as
`planner/check/checked.py` describes it, without types.

Where a node is allowed depends on the enclosing head, fact or aggregate, so one class visits all
kinds of nodes.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from gdatalog.decimals import scale_of
from gdatalog.errors import Caution, Error, NameResolutionError, Span
from gdatalog.parser import syntax as s
from gdatalog.parser.format import format_node
from gdatalog.plan.functions import (
    AGGREGATES,
    ALIASES,
    FUNCTIONS,
    GENERATORS,
    HIDDEN,
    ORDERED,
)
from gdatalog.planner.check import AnswerCut, CheckedQuery, CheckedRule
from gdatalog.planner.check.answers import cut_of
from gdatalog.planner.check.arity import wrong_number
from gdatalog.planner.check.bindings import neighbours
from gdatalog.planner.check.catalog import (
    CatalogRelation,
    Declarations,
    arity_error,
    no_such_relation,
    no_such_type,
)
from gdatalog.planner.check.column_names import ColumnNames
from gdatalog.planner.check.forms import expanded
from gdatalog.planner.check.name_errors import (
    check_targets,
    in_another,
    no_param,
    no_value,
    not_ordered,
    one_for_many,
)
from gdatalog.planner.check.null_places import misplaced_nulls
from gdatalog.planner.check.optionals import Alternatives, rules_of
from gdatalog.planner.check.scopes import Scopes, local_name
from gdatalog.planner.check.walk import (
    Node,
    conjunction,
    count_variables,
    disjunction,
    rebuild,
    variables,
    walk,
)
from gdatalog.planner.check.wording import INSTEAD, did_you_mean
from gdatalog.records import dataclass, field, replace
from gdatalog.values import ParamType

# Names that are called like functions.
CALLABLE = (*FUNCTIONS, *ALIASES, *GENERATORS, "distinct")
PREDICATES = ("contains", "distinct", "match", "starts_with")  # which stand as literals
_NAMED = tuple([n for n in (*CALLABLE, *sorted(AGGREGATES), *ORDERED) if n.isidentifier()])
_OPERATORS = ("band", "bor", "bxor", "bshl", "bshr", "bshru", "bnot", "land", "lor", "lxor", "lnot")
_PLAIN = frozenset({s.Var, s.Const})  # arguments that need no resolution
_BOOLS = ("true", "false")
_NULLS = ("null", "nil", "none")
_MEANT = frozenset({*_BOOLS, *_NULLS})
_LISTED = sorted([name for name in FUNCTIONS if name.isidentifier() and name not in _OPERATORS])


@dataclass(slots=True)
class NameResolution:
    """The pass over a program; `rule` and `query` return resolved rules."""

    catalog: Declarations
    columns: ColumnNames
    params: Mapping[str, ParamType]
    errors: list[Error]
    cautions: list[Caution]
    numbers: Iterator[int] = field(init=False)  # of a rule's local names
    scoped: bool = False  # the rule has a negation or an aggregate
    optional: bool = False  # it has an optional body
    unknown: set[str] = field(default_factory=set)  # relations, reported once per statement
    lifted: list[s.Literal] | None = None  # in a head: equations of its aggregates with a body
    ground: bool = False  # the head is a fact's
    nested: bool = False  # in an aggregate of a head
    queries: int = 0

    # ------------------------------------------------------------------------- statements

    def rule(self, rule: s.Rule) -> list[CheckedRule]:
        """One rule for each head; none if a name is wrong."""
        before = len(self.errors)
        self._start()
        self._constants_meant(*[arg for head in rule.heads for arg in head.args], rule.body)
        body = None if rule.body is None else self._literal(rule.body)
        heads = [self._head(head, rule.body is None) for head in rule.heads]
        if len(self.errors) > before:
            return []
        atoms = [head for head, _ in heads]
        if self.optional and body is not None:
            whole = self._with_optionals(rule, atoms, [lifted for _, lifted in heads], body)
        else:
            whole = [
                CheckedRule(head, self._close(atoms, body, lifted), {}, rule.span)
                for head, lifted in heads
            ]
        return whole if len(self.errors) == before else []

    def _with_optionals(
        self, rule: s.Rule, heads: list[s.Atom], lifted: list[list[s.Literal]], body: s.Literal
    ) -> list[CheckedRule]:
        """The rules of one with optional bodies."""
        found: list[CheckedRule] = []
        for head, equations in zip(heads, lifted, strict=True):
            whole = conjunction([body, *equations], body.span)
            rules = rules_of(head, whole, self.numbers, self.errors)
            if self.catalog.relations[head.name].schema is None:
                self.columns.named.setdefault(head.name, self.columns.of(head.name))
            for made, literal in rules:
                arity, said = len(made.args), "is defined with"
                relation = CatalogRelation(made.name, arity, said, head.span)
                self.catalog.relations.setdefault(made.name, relation)
                closed = self._close([made], literal, [])
                found.append(CheckedRule(made, closed, {}, rule.span))
        return found

    def fact(self, fact: s.Atom) -> None:
        """Checks a fact that the fast path has read."""
        self._start()
        if self._is_broken(fact.name, fact.span):
            return
        self._arity(fact)
        for arg in fact.args:
            self._expr(arg)

    def query(self, query: s.Query) -> tuple[CheckedQuery | None, CheckedRule | None]:
        """The query, and the rule that answers it; no rule if it asks for a whole relation."""
        self.queries += 1
        if isinstance(query.body, s.Test) and isinstance(query.body.expr, s.Var):
            name = query.body.expr.name
            self._start()
            if self._is_broken(name, query.body.expr.span):
                return None, None
            if name not in self.catalog.relations:
                self.errors.append(no_such_relation(name, query.body.expr.span, self.catalog))
                return None, None
            cut = None if query.ordering is None else self._cut(query, self.columns.shown(name))
            return CheckedQuery(name, query.span, cut), None
        before = len(self.errors)
        self._start()
        self._constants_meant(query.body)
        resolved = self._literal(query.body)
        if query.bare and len(self.errors) > before:
            self._hint_at_fact(query.body, self.errors[-1])
        if self.optional and len(self.errors) == before:
            uses = count_variables([resolved]) + Counter([*variables(resolved)])
            resolved = Alternatives(self.numbers, self.errors, uses).of(resolved)
        body = self._close([], resolved, []) if len(self.errors) == before else None
        if len(self.errors) > before:
            return None, None
        shown = [var for name, var in variables(body).items() if "~" not in name]
        columns = tuple([var.name for var in shown])
        cut = None if query.ordering is None else self._cut(query, columns)
        if len(self.errors) > before:
            return None, None
        while f"?{self.queries}" in self.catalog.relations:
            self.queries += 1
        head = s.Atom(f"?{self.queries}", tuple(shown), query.span)
        answer = CheckedQuery(head.name, query.span, cut)
        return answer, CheckedRule(head, body, {}, query.span)

    def _cut(self, query: s.Query, columns: Sequence[str]) -> AnswerCut | None:
        for bound in query.bounds:
            self._expr(bound)
        return cut_of(query, columns, self.errors)

    def _hint_at_fact(self, body: s.Literal, error: Error) -> None:
        """`likes(alice, bob).` of an unknown relation is a fact without its quotes."""
        known = self.catalog.relations.keys() | self.catalog.broken.keys()
        if not isinstance(body, s.Atom) or body.name in known or not body.args:
            return
        if did_you_mean(body.name, self.catalog.relations) is None:
            meant = (_as_constant(a) for a in body.args)
            fact = format_node(replace(body, args=tuple(meant)))
            error.hint = f"a name is a variable here: for a fact, did you mean `{fact}.`?"

    def _constants_meant(self, *nodes: Node | None) -> None:
        """Variables such as `True` and `NULL`, which are constants in other languages."""
        seen: list[s.Var] = []
        for node in nodes:
            for part in (parts := walk(node)):
                if type(part) is s.Var and part.name not in _MEANT and part.name.lower() in _MEANT:
                    seen.append(part)
            if node is not None and s.Null in map(type, parts):
                self.errors += misplaced_nulls(node, self.catalog)
        if not seen:
            return
        uses = [var.name for var in seen]
        for var in {var.name: var for var in reversed(seen)}.values():
            meant = var.name.lower()
            meant = "null" if meant in _NULLS else meant
            message, hint = f"`{var.name}` is a variable here", f"did you mean `{meant}`?"
            if uses.count(var.name) == 1:
                self._fail(message, var.span, hint)
            else:
                self.cautions.append(Caution(message, var.span, hint))

    def _start(self) -> None:
        self.numbers = itertools.count(1)
        self.scoped = self.optional = False
        self.unknown = set()

    def _close(
        self, heads: list[s.Atom], body: s.Literal | None, lifted: list[s.Literal]
    ) -> s.Literal | None:
        """The body, with equations of aggregates from its head, and with local names."""
        items = ([] if body is None else [body]) + lifted
        if not items:
            return None
        whole = conjunction(items, items[0].span) if lifted else items[0]
        if not self.scoped:
            return whole
        return Scopes(self.numbers, self.errors, self.cautions).rule(heads, whole)

    def _fail(self, message: str, span: Span, hint: str | None = None) -> None:
        self.errors.append(NameResolutionError(message, span, hint=hint))

    # --------------------------------------------------------------------------- literals

    def _literal(self, literal: s.Literal) -> s.Literal:
        match literal:
            case s.Atom():
                return self._atom(literal)
            case s.Compare():
                return self._compare(literal)
            case s.And():
                return conjunction([self._literal(item) for item in literal.items], literal.span)
            case s.Or():
                return disjunction([self._literal(item) for item in literal.items], literal.span)
            case s.Not(s.Not(inner)):
                return self._literal(inner)
            case s.Not():
                self.scoped = True
                body = self._literal(literal.body)
                # a group may turn out to hold nothing but a negation
                return body.body if isinstance(body, s.Not) else s.Not(body, literal.span)
            case s.Optional(body):
                self.scoped = self.optional = True
                return s.Optional(self._literal(body), literal.span)
            case s.Test():
                return self._test(literal)
            case s.Member():
                return rebuild(literal, self._compared)
            case s.Distinct() | s.Range():
                return literal

    def _atom(self, atom: s.Atom) -> s.Literal:
        broken = self._is_broken(atom.name, atom.span)
        if broken or atom.name in self.catalog.relations:
            if not broken:
                if atom.columns:
                    atom = self.columns.placed(atom, self.errors)
                    if atom.columns:  # an error
                        return atom
                if self.catalog.relations[atom.name].arity != len(atom.args):
                    self._arity(atom := self.columns.with_row_id(atom))
            if _PLAIN.issuperset(map(type, atom.args)):
                return atom
            return self._with_null_tests(atom)
        callable_ = atom.name in CALLABLE or atom.name in AGGREGATES or atom.name in ORDERED
        if callable_ and atom.columns:
            hint = f"`{atom.name}` is a function: give its arguments by their place"
            self._fail("the arguments of a function have no names", atom.columns[0].span, hint)
            return atom
        if atom.name == "distinct":
            if len(atom.args) < 2:
                hint = "`distinct(x, y, z)` says that they are pairwise different"
                self._fail("`distinct` needs at least two arguments", atom.span, hint)
            return rebuild(s.Distinct(atom.args, atom.span), self._compared)
        if callable_:
            return s.Test(self._expr(s.FunctionCall(atom.name, atom.args, atom.span)), atom.span)
        if atom.name == "optional":
            hint = "as in optional p(x, y), or optional { p(x, y), q(y) }"
            self._fail("`optional` is followed by an atom, or a body in braces", atom.span, hint)
            return atom
        for arg in atom.args:
            self._atom_arg(arg)
        if atom.name not in self.unknown:
            self.unknown.add(atom.name)
            error = no_such_relation(atom.name, atom.span, self.catalog)
            if did_you_mean(atom.name, self.catalog.relations) is None:
                error.hint = did_you_mean(atom.name, PREDICATES) or error.hint
            self.errors.append(error)
        return atom

    def _is_broken(self, name: str, span: Span) -> bool:
        """Whether a relation cannot be evaluated: an error, reported once per statement."""
        cause = self.catalog.broken.get(name)
        if cause is not None and name not in self.unknown:
            self.unknown.add(name)
            self.errors.append(cause.error_for(name, span))
        return cause is not None

    def _arity(self, atom: s.Atom) -> None:
        relation = self.catalog.relations[atom.name]
        if relation.arity is None:
            relation.arity, relation.said, relation.span = len(atom.args), "is used with", atom.span
        elif relation.arity != len(atom.args):
            self.errors.append(arity_error(atom.name, len(atom.args), atom.span, relation))

    def _with_null_tests(self, atom: s.Atom) -> s.Literal:
        """An atom of a body: `p(x, null)` is `p(x, y), y = null`."""
        args = tuple(map(self._atom_arg, atom.args))
        tests: list[s.Literal] = []
        for own, arg in zip(atom.args, args, strict=True):
            if isinstance(own, s.Null):
                tests.append(s.Compare(arg, (("=", own),), own.span))
        return conjunction([s.Atom(atom.name, args, atom.span), *tests], atom.span)

    def _atom_arg(self, arg: s.Expr) -> s.Expr:
        if isinstance(arg, s.Var | s.Const):
            return arg
        if isinstance(arg, s.Wildcard | s.Null):
            return s.Var(local_name("_", self.numbers), arg.span)
        return self._expr(arg)

    def _test(self, test: s.Test) -> s.Literal:
        expr = test.expr
        if isinstance(expr, s.Var) and expr.name in self.catalog.relations:
            arity = self.catalog.relations[expr.name].arity or 0
            hint = f"write `{expr.name}({', '.join('_' * arity)})`"
            self._fail(f"the relation `{expr.name}` needs its arguments here", expr.span, hint)
        return s.Test(self._expr(expr, "tested"), test.span)

    def _compare(self, compare: s.Compare) -> s.Literal:
        sides = [compare.first, *[side for _, side in compare.rest]]
        if not any(map(_is_range, sides)):
            first, *others = [self._expr(side, "compared") for side in sides]
            ops = [op for op, _ in compare.rest]
            return s.Compare(first, tuple(zip(ops, others, strict=True)), compare.span)
        items: list[s.Literal] = []
        for left, op, right in neighbours(compare):
            if not (_is_range(left) or _is_range(right)):
                pair = s.Compare(left, ((op, right),), compare.span)
                items.append(rebuild(pair, self._compared))
            elif op != "=" or (_is_range(left) and _is_range(right)):
                hint = "`i = range(a, b)` generates each i from a on, less than b"
                self._fail("`range` can only be what a variable is `=` to", compare.span, hint)
            else:
                item, call = (right, left) if _is_range(left) else (left, right)
                assert isinstance(call, s.FunctionCall)
                items.append(self._range(item, call, compare.span))
        return conjunction(items, compare.span)

    def _range(self, item: s.Expr, call: s.FunctionCall, span: Span) -> s.Literal:
        if len(call.args) not in (2, 3):
            hint = "`i = range(a, b)` or `i = range(a, b, step)`"
            self._fail(f"`range` takes 2 or 3 arguments, not {len(call.args)}", call.span, hint)
            return s.Test(s.Const("bool", True, span), span)
        start, stop, *steps = (self._expr(arg) for arg in call.args)
        step = steps[0] if steps else s.Const("int", 1, call.span)
        if isinstance(step, s.Const) and step.value == 0:
            hint = "a step above 0 counts up, one below 0 counts down"
            self._fail("the step of this range is 0", step.span, hint)
        return s.Range(self._compared(item), start, stop, step, span)

    # ------------------------------------------------------------------------ expressions

    def _expr(self, expr: s.Expr, place: str = "an argument of a function") -> s.Expr:
        match expr:
            case s.Var() | s.Const() | s.Null() | s.Values():
                return expr
            case s.Wildcard():
                hint = "it is a new variable each time: give it a name"
                if place == "in a head":
                    hint = "a head says what is true: give each column a value"
                self._fail(f"`_` cannot be {place}", expr.span, hint)
                return expr
            case s.Param(name) | s.ListParam(name):
                if name not in self.params:
                    no_param(expr, self.params, self._fail)
                else:
                    one_for_many(expr, self.params[name], self._fail)
                return expr
            case s.FunctionCall():
                return self._call(expr)
            case s.Chain() | s.HeadAggregate():  # the latter depends on an order
                return rebuild(expr, self._expr)
            case s.Window(name):
                not_ordered(name, expr.span, self._fail)
                return expr
            case s.Cast(operand, type_name):
                if type_name not in self.catalog.types:
                    self.errors.append(no_such_type(type_name, expr.span, self.catalog))
                elif scale_of(self.catalog.types[type_name]):
                    self.catalog.decimals = True
                return s.Cast(self._expr(operand), type_name, expr.span)
            case s.Aggregate():
                if self.nested:
                    in_another(expr.kind, expr.span, self._fail)
                if self.lifted is not None:
                    return self._lift(expr, self.lifted)
                return self._aggregate(expr)

    def _compared(self, expr: s.Expr) -> s.Expr:
        return self._expr(expr, "compared")

    def _call(self, call: s.FunctionCall) -> s.Expr:
        if self.lifted is not None and _is_head_aggregate(call):
            return self._head_aggregate(call)
        name = ALIASES.get(call.name, call.name)
        args = tuple([self._expr(arg) for arg in call.args])
        if name in ("min", "max") and len(args) == 1:
            no_value(call, self.nested, self._fail)
        elif name in FUNCTIONS:
            self.catalog.decimals |= name == "to_decimal"
            if not any(signature.accepts(len(args)) for signature in FUNCTIONS[name]):
                self.errors.append(wrong_number(call, name))
            else:
                return expanded(s.FunctionCall(name, args, call.span), self._fail)
        elif name in HIDDEN and not name.isidentifier():
            pass  # a comparison in a condition
        elif name in AGGREGATES or name in GENERATORS or name == "distinct":
            no_value(call, self.nested, self._fail)
        elif name in self.catalog.relations:
            hint = f"bind variables by `{name}(...)` in the body, and use those"
            self._fail(f"`{name}` is a relation, and has no value", call.span, hint)
        elif name in ORDERED:
            not_ordered(name, call.span, self._fail)
        else:
            near = INSTEAD.get(name.lower()) or did_you_mean(name, _NAMED)
            hint = near or f"the functions are {', '.join(_LISTED)}"
            self._fail(f"there is no function `{call.name}`", call.span, hint)
        return s.FunctionCall(name, args, call.span)

    def _aggregate(self, aggregate: s.Aggregate) -> s.Expr:
        self.scoped = True
        kind = aggregate.kind
        forms = "count : {...}", "count_distinct e : {...}", f"{kind} e : {{...}}"
        check_targets(kind, aggregate.targets, "expression", aggregate.span, forms, self._fail)
        targets = tuple([self._expr(target, "aggregated") for target in aggregate.targets])
        return s.Aggregate(kind, targets, self._literal(aggregate.body), aggregate.span)

    # ------------------------------------------------------------------------------ heads

    def _head(self, head: s.Atom, fact: bool) -> tuple[s.Atom, list[s.Literal]]:
        """The head, and equations of its aggregates with a body, which move to the rule's body."""
        if not self._is_broken(head.name, head.span):
            self._arity(head)
        self.lifted, self.ground = [], fact
        args = tuple([self._expr(arg, "in a head") for arg in head.args])
        lifted, self.lifted = self.lifted, None
        return s.Atom(head.name, args, head.span), lifted

    def _head_aggregate(self, call: s.FunctionCall) -> s.Expr:
        kind = call.name
        if self.ground:
            hint = f"give it a body: `total({kind}(...)) <- E(...).`"
            self._fail("an aggregate needs a body to range over", call.span, hint)
        else:
            forms = "count()", "count_distinct(e)", f"{kind}(e)"
            check_targets(kind, call.args, "argument", call.span, forms, self._fail)
        outer, self.lifted, self.nested = self.lifted, None, True
        targets = tuple([self._expr(arg, "aggregated") for arg in call.args])
        self.lifted, self.nested = outer, False
        # a checked head may have it in place of a call
        return cast(s.Expr, s.HeadAggregate(kind, targets, call.span))

    def _lift(self, aggregate: s.Aggregate, lifted: list[s.Literal]) -> s.Expr:
        value = s.Var(local_name(aggregate.kind, self.numbers), aggregate.span)
        self.lifted = None
        resolved = self._aggregate(aggregate)
        self.lifted = lifted
        lifted.append(s.Compare(value, (("=", resolved),), aggregate.span))
        return value


def _as_constant(arg: s.Expr) -> s.Expr:
    """The constant that a name in a fact was probably meant as."""
    if not isinstance(arg, s.Var):
        return arg
    lower = arg.name.lower()
    return s.Const("bool", lower == "true") if lower in _BOOLS else s.Const("symbol", arg.name)


def _is_range(expr: s.Expr) -> bool:
    return isinstance(expr, s.FunctionCall) and expr.name == "range"


def _is_head_aggregate(call: s.FunctionCall) -> bool:
    return call.name in AGGREGATES and (call.name not in ("min", "max") or len(call.args) == 1)
