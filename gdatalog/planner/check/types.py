"""Type inference by unification: every column, variable and literal of a program.

Declared columns and loaded data have fixed types; facts, rules and functions determine the rest,
over the whole program, in any order. Each type is a node of a union-find: the set of types that it
may still have, and the reason. A settled node is never merged with another; it narrows the other
and keeps its own reason. Nodes in conflict are reported with both reasons and not merged, so that
one mistake is one error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from gdatalog.decimals import DIGITS, decimal_type, scale_of
from gdatalog.errors import Error, Note, Span, TypeMismatchError
from gdatalog.parser import syntax as s
from gdatalog.plan.functions import OF_SEVERAL, ORDERED, STATISTICS, Signature, signatures
from gdatalog.planner.check import CheckedRule, Schema
from gdatalog.planner.check.catalog import Declarations
from gdatalog.planner.check.conversions import conversion
from gdatalog.planner.check.literals import decimals_of, is_flexible
from gdatalog.planner.check.signatures import (
    ALL,
    BIT,
    BOOL,
    DECIMAL,
    FLOAT,
    INT,
    MOMENT,
    NUMBER,
    ONLY,
    Overloaded,
    fits,
    literal_mask,
    mask_of,
    mask_of_spec,
    name_of,
    words_of,
)
from gdatalog.planner.check.statements import with_type
from gdatalog.planner.check.walk import conjunction, rebuild
from gdatalog.planner.check.wording import own_name, show
from gdatalog.records import dataclass, field, replace
from gdatalog.values import ListOf, ParamType, TypeName


class ColumnPlace(NamedTuple):
    """A column of an atom, whose names the catalog knows."""

    relation: str
    at: int
    schema: Schema | None

    @property
    def text(self) -> str:
        column, relation = f"{self.at + 1}", own_name(self.relation)
        if self.schema is not None:
            column = f"`{self.schema.columns[self.at]}`"
        return f"column {column} of `{relation}`"


class Why(NamedTuple):
    """Where a type was settled, and by what: a column, another expression, or "as declared"."""

    span: Span | None
    by: str | s.Expr | ColumnPlace

    @property
    def text(self) -> str:
        if isinstance(self.by, str):
            return self.by
        return f"as {self.by.text if isinstance(self.by, ColumnPlace) else show(self.by)}"


@dataclass(slots=True)
class Unifier:
    parents: list[int] = field(default_factory=list)
    masks: list[int] = field(default_factory=list)
    reasons: list[Why | None] = field(default_factory=list)
    # Holds literals: of numbers, which may be floats or decimals, or of days, which may be dates.
    literal: list[bool] = field(default_factory=list)

    def node(self, mask: int = ALL, why: Why | None = None, literal: bool = False) -> int:
        self.parents.append(len(self.parents))
        self.masks.append(mask)
        self.reasons.append(why)
        self.literal.append(literal)
        return len(self.parents) - 1

    def find(self, node: int) -> int:
        root = node
        while self.parents[root] != root:
            root = self.parents[root]
        while self.parents[node] != root:
            self.parents[node], node = root, self.parents[node]
        return root

    def narrow(self, node: int, mask: int, why: Why | None) -> bool:
        """Only the types of `mask` remain; False, and nothing changed, if none would."""
        root = node if self.parents[node] == node else self.find(node)
        common = self.masks[root] & mask
        if not common:
            return False
        if common != self.masks[root]:
            self.masks[root] = common
            self.reasons[root] = why
        return True

    def unify(self, one: int, other: int, why_one: Why, why_other: Why) -> bool:
        """One type for both; False, and nothing changed, if there is none.

        `why_one` is the reason that `one` gets if `other` settles it.
        """
        one = one if self.parents[one] == one else self.find(one)
        other = other if self.parents[other] == other else self.find(other)
        mine, its = self.masks[one], self.masks[other]
        common = mine & its
        if not common:
            return False
        if one == other:
            return True
        if mine & (mine - 1) == 0:
            if common != its:
                self.masks[other], self.reasons[other] = common, why_other
            return True
        if its & (its - 1) == 0:
            self.masks[one], self.reasons[one] = common, why_one
            return True
        self.parents[other] = one
        if self.masks[one] != common or self.reasons[one] is None:
            self.reasons[one] = self.reasons[other] or self.reasons[one]
        self.masks[one] = common
        self.literal[one] = self.literal[one] or self.literal[other]
        return True

    def why(self, node: int) -> Why | None:
        return self.reasons[self.find(node)]

    def mask(self, node: int) -> int:
        """The types that the node may have; of a literal, what it is where nothing else decides."""
        root = node if self.parents[node] == node else self.find(node)
        mask = self.masks[root]
        return literal_mask(mask) if self.literal[root] and mask & (mask - 1) else mask

    def words(self, node: int) -> str:
        return words_of(self.mask(node))

    def settled(self, node: int) -> TypeName | None:
        root = node if self.parents[node] == node else self.find(node)
        mask = self.masks[root]
        return ONLY.get(literal_mask(mask) if self.literal[root] and mask & (mask - 1) else mask)


_RESULTS: dict[str, int] = {"count": INT, "count_distinct": INT, "mean": BIT["float"]}


class TypeInference:
    """The pass. `see` each rule and fact, then `finish`."""

    decimals = False  # whether values may be decimals (`decimal_types.py`)

    def __init__(
        self, catalog: Declarations, params: Mapping[str, ParamType], errors: list[Error]
    ) -> None:
        self.catalog = catalog
        self.errors = errors
        self.unifier = Unifier()
        self.columns: dict[str, list[int]] = {}
        self.given = params
        self.params = {name: self._param(kind) for name, kind in params.items()}
        self.lists: dict[str, Span] = {}  # parameters that are lists, and where they stand first
        self.open: dict[str, Span] = {}  # those whose use says which type they have
        # Of the current rule: the nodes of its variables, and of its int literals in the order of a
        # walk. `seen`: the rules, each with these.
        self.variables: dict[str, int] = {}
        self.literals: list[int] = []
        self.seen: list[tuple[CheckedRule, dict[str, int], list[int]]] = []
        self.choices: list[Overloaded] = []
        self.rewrites = False  # whether a rule has an `as` or a `null`
        self.nulls = False  # whether a rule or fact has a `null`
        for relation in catalog.relations.values():
            if relation.schema is not None:
                why = Why(relation.span, "as declared" if relation.declared else "as loaded")
                self.columns[relation.name] = [
                    self.unifier.node(BIT[kind], why) for kind in relation.schema.types
                ]
            else:
                self.add_relation(relation.name, relation.arity or 0)

    def _param(self, kind: ParamType) -> int:
        why = Why(None, "as it is given")
        if kind is None:
            return self.unifier.node()
        if isinstance(kind, ListOf):
            if kind.empty or kind.type is None:
                return self.unifier.node()
            return self._param(kind.type)
        if kind == "int":
            return self.unifier.node(NUMBER | DECIMAL, why, literal=True)
        if scale_of(kind):  # with all of its digits, or more
            return self.unifier.node(DECIMAL & -BIT[kind], why, literal=True)
        if kind == "date":
            return self.unifier.node(MOMENT, why, literal=True)
        return self.unifier.node(BIT[kind], why)

    def add_relation(self, name: str, arity: int) -> None:
        self.columns[name] = [self.unifier.node() for _ in range(arity)]

    # ------------------------------------------------------------------- sources of types

    def see(self, rule: CheckedRule) -> None:
        """Infers from a rule, or from a fact that represents all of its shape."""
        self.variables, self.literals = {}, []
        if rule.body is not None:
            self._literal(rule.body)
        self._atom(rule.head)
        self.seen.append((rule, self.variables, self.literals))

    def see_fact(self, fact: s.Atom) -> None:
        self._atom(fact)

    def see_bounds(self, query: s.Query) -> None:
        """Limits and offsets are ints."""
        for bound in query.bounds:
            if isinstance(bound, s.Param) and bound.name in self.params:
                node, why = self.params[bound.name], Why(bound.span, "as a number of rows")
                if not self.unifier.narrow(node, INT, why):
                    message = f"a limit is an int, but {show(bound)} is {self.unifier.words(node)}"
                    hint = "give a number of rows"
                    self.errors.append(TypeMismatchError(message, bound.span, hint=hint))

    def settle_facts(self, relation: str) -> None:
        """A relation of facts only: as in data, its ints are ints, its floats floats, and its times
        timestamps.

        Not if rules add to it: in `dist(1, 0). dist(y, min(d + w)) <- ...` 0 may be 0.0.
        """
        for node in self.columns[relation]:
            why = self.unifier.why(node)
            kind = self.unifier.settled(node)
            if kind in ("int", "float", "timestamp"):
                self.unifier.narrow(node, BIT[kind], why)

    def settle_lists(self) -> None:
        """Every list parameter has values of one type, even if it is empty."""
        for name, span in self.lists.items():
            given = self.given.get(name)
            if not isinstance(given, ListOf) or self.unifier.settled(self.params[name]) is not None:
                continue
            if given.type is not None:
                self.unifier.narrow(self.params[name], BIT[given.type], Why(None, "as it is given"))
            else:
                message = (
                    f"the list `${name}` is empty, and nothing says which type its values have"
                )
                hint = "compare them with something that has a type, or give an array that "
                hint += f'has one: params={{"{name}": numpy.array([], "int64")}}'
                self.errors.append(TypeMismatchError(message, span, hint=hint))

    def settle_open(self) -> None:
        """A parameter without a value has the type of what it is compared with; a number is an
        int."""
        for name, span in self.open.items():
            node = self.params[name]
            if self.unifier.settled(node) is None and not self._may_be(node, ~NUMBER):
                self.unifier.narrow(node, INT, Why(span, "as a number"))
            if self.unifier.settled(node) is None:
                hint = "compare it with something that has a type, or give a value: "
                hint += f'db.prepare(text, {{"{name}": 1}})'
                message = f"nothing says which type the parameter `${name}` has"
                self.errors.append(TypeMismatchError(message, span, hint=hint))

    def _may_be(self, node: int, mask: int) -> bool:
        """Whether a node may have one of these types."""
        return bool(self.unifier.mask(node) & mask)

    def _literal(self, literal: s.Literal) -> None:
        match literal:
            case s.Atom():
                self._atom(literal)
            case s.Compare():
                left, node = literal.first, self._expr(literal.first)
                pairs = []
                for _, right in literal.rest:
                    pairs.append((left, node, right, self._expr(right)))
                    left, node = right, pairs[-1][3]
                for at, pair in enumerate(pairs):
                    if self.decimals:
                        self._compared(literal, at, *pair)
                    else:
                        self._same(*pair, f"`{literal.rest[at][0]}` compares")
            case s.Member():
                self._all_same((literal.item, *literal.values), "`in` compares")
            case s.Distinct():
                self._all_same(literal.args, "`distinct` compares")
            case s.Test(expr):
                self._narrow(self._expr(expr), BOOL, expr, "a test is bool", "as a test")
            case s.Range():
                for part in (literal.item, literal.start, literal.stop, literal.step):
                    node = self._expr(part)
                    self._narrow(node, INT, part, "`range` counts in int", "as part of `range`")
            case s.Not(body):
                self._literal(body)
            case s.And() | s.Or():
                for item in literal.items:
                    self._literal(item)

    def _compared(
        self, compare: s.Compare, at: int, left: s.Expr, one: int, right: s.Expr, other: int
    ) -> None:
        """Types the comparison at this place of a chain, where values may be decimals."""
        raise NotImplementedError

    def settle_operators(self) -> None:
        """Types the operators that have waited for the types of their operands."""

    def _atom(self, atom: s.Atom) -> None:
        columns = self.columns.get(atom.name, ())
        nodes = []
        for arg in atom.args:
            nodes.append(self._expr(arg))
        found = self.catalog.relations.get(atom.name)  # the relation of a query is not in there
        schema = None if found is None else found.schema
        # a wrong number of arguments has been reported
        for at, (arg, node, column) in enumerate(zip(atom.args, nodes, columns, strict=False)):
            place = ColumnPlace(atom.name, at, schema)
            if not self.unifier.unify(node, column, Why(arg.span, place), Why(arg.span, arg)):
                self._clash(arg.span, show(arg), node, place.text, column)

    def _all_same(self, exprs: Sequence[s.Expr], what: str) -> None:
        nodes = [self._expr(expr) for expr in exprs]
        for expr, node in zip(exprs[1:], nodes[1:], strict=True):
            self._same(exprs[0], nodes[0], expr, node, what)

    # ------------------------------------------------------------------------ expressions

    def _expr(self, expr: s.Expr | s.HeadAggregate) -> int:
        """The node of an expression's type. Parts are met in the order of `walk`."""
        match expr:
            case s.Var(name):
                node = self.variables.get(name)
                if node is None:
                    node = self.variables[name] = self.unifier.node()
                return node
            case s.Null():
                self.rewrites = self.nulls = True
                node = self.unifier.node()
                self.literals.append(node)
                return node
            case s.Const(kind) | s.Values(kind):
                text = "as a literal" if isinstance(expr, s.Const) else "as literals"
                if not is_flexible(expr, self.decimals):
                    return self.unifier.node(BIT[kind], Why(expr.span, text))
                mask = MOMENT if kind == "timestamp" else NUMBER if kind == "int" else FLOAT
                if self.decimals:
                    mask |= mask_of(decimals_of(expr))
                node = self.unifier.node(mask, Why(expr.span, text), literal=True)
                self.literals.append(node)
                return node
            case s.Param(name) | s.ListParam(name):
                if isinstance(expr, s.ListParam):
                    self.lists.setdefault(name, expr.span)
                if self.given.get(name, "") is None:
                    self.open.setdefault(name, expr.span)
                # a parameter that is not there was reported before
                return self.params[name] if name in self.params else self.unifier.node()
            case s.FunctionCall():
                return self._called(expr, [self._expr(arg) for arg in expr.args])
            case s.Chain():
                return self._chain(expr)
            case s.Cast(operand, type_name):
                node = self._expr(operand)
                self.rewrites = True
                base = self.catalog.types[type_name]
                reason = f"`{type_name}` is {'a name for ' if base != type_name else ''}{base}"
                self._narrow(node, BIT[base], operand, reason, f"as `{type_name}`")
                return node
            case s.Aggregate() | s.HeadAggregate():
                nodes = [self._expr(target) for target in expr.targets]
                if isinstance(expr, s.Aggregate):
                    self._literal(expr.body)
                return self._aggregated(expr, nodes)
        raise AssertionError(f"not an expression after name resolution: {expr!r}")

    def _aggregated(self, aggregate: s.Aggregate | s.HeadAggregate, nodes: list[int]) -> int:
        kind = aggregate.kind
        if kind in ORDERED and isinstance(aggregate, s.HeadAggregate):
            return self._ordered(aggregate, nodes)
        if kind in ("sum", "mean"):
            mask = self._known(NUMBER | DECIMAL)
            mask |= BIT["duration"] if kind == "sum" else 0
            takes = self.unifier.words(self.unifier.node(mask))
            reason, why = f"`{kind}` takes {takes}", f"as what `{kind}` takes"
            self._narrow(nodes[0], mask, aggregate.targets[0], reason, why)
        if kind in _RESULTS:
            return self.unifier.node(_RESULTS[kind], Why(aggregate.span, f"as a {kind}"))
        return nodes[0]

    def _ordered(self, ordered: s.HeadAggregate, nodes: list[int]) -> int:
        """The type of a function that depends on an order."""
        kind, args = ordered.kind, list(zip(ordered.targets, nodes, strict=True))
        takes = f"`{kind}` takes"
        if kind in STATISTICS:
            if kind == "quantile":
                of, node = args[1]
                self._narrow(node, FLOAT, of, f"{takes} float", f"as an argument of `{kind}`")
            self.nulls |= kind in OF_SEVERAL  # null of one row
            count = len(STATISTICS[kind][0].params)
            call = s.FunctionCall(kind, ordered.targets[:count], ordered.span)
            return self._called(call, nodes[:count])
        if kind in ("row_number", "rank", "dense_rank"):
            return self.unifier.node(INT, Why(ordered.span, f"as a {kind}"))
        number = self._known(NUMBER | DECIMAL)
        masks = {"running_sum": (number,), "top": (INT,), "string_agg": (BIT["symbol"],) * 2}
        for (arg, node), mask in zip(args, masks.get(kind, ()), strict=False):
            reason = f"{takes} {self.unifier.words(self.unifier.node(mask))}"
            self._narrow(node, mask, arg, reason, f"as an argument of `{kind}`")
        if kind in ("lag", "lead"):
            (first, own), (default, other) = args[:2]
            self._same(first, own, default, other, takes)
        return nodes[1] if kind == "top" else nodes[0]

    def _known(self, mask: int) -> int:
        """The types of a mask that the program may have."""
        return mask if self.decimals else mask & ~DECIMAL

    def _called(self, call: s.FunctionCall, nodes: list[int]) -> int:
        possible = [own for own in signatures(call.name) if own.accepts(len(nodes))]
        if len(possible) > 1:
            found = self._possible(possible, nodes)
            if len(found) > 1:
                result = self.unifier.node()
                self.choices.append(Overloaded(call, nodes, result, found))
                return result
            possible = found or possible[:1]
        return self._applied(call, nodes, possible[0])

    def _possible(
        self, every: Sequence[Signature], nodes: Sequence[int], result: int | None = None
    ) -> list[Signature]:
        """The signatures that fit what is known of the arguments and the result. If none does,
        those that fit the first argument, for the message."""
        masks = [self.unifier.masks[self.unifier.find(node)] for node in nodes]
        wanted = ALL if result is None else self.unifier.masks[self.unifier.find(result)]
        found = [own for own in every if fits(own, masks, wanted)]
        return found or [own for own in every if fits(own, masks[:1], ALL)][-1:]

    def settle_choices(self) -> None:
        """Chooses signatures of functions by types that were not known when they were met. Of those
        that stay possible the first is meant."""
        while self.choices:
            waiting = []
            for choice in self.choices:
                found = self._possible(choice.signatures, choice.nodes, choice.result)
                if len(found) > 1:
                    waiting.append(choice)
                else:
                    self._choose(choice, (found or choice.signatures)[0])
            if len(waiting) == len(self.choices):
                self._choose(waiting[0], waiting[0].signatures[0])
                del waiting[0]
            self.choices = waiting

    def _choose(self, choice: Overloaded, signature: Signature) -> None:
        call = choice.call
        node = self._applied(call, choice.nodes, signature)
        self._same(call, node, call, choice.result, f"`{call.name}` takes")

    def _applied(self, call: s.FunctionCall, nodes: Sequence[int], signature: Signature) -> int:
        shared: int | None = None
        for at, (arg, node) in enumerate(zip(call.args, nodes, strict=True)):
            param = signature.param(at)
            mask = self._known(mask_of(param if isinstance(param, frozenset) else param[1]))
            if call.name == "format_value" and at == 0:
                mask = mask_of_spec(call.args[1])
            of = signature.params[0]
            kind = f" of a {next(iter(of))}" if at and call.name in "+-*/" and len(of) == 1 else ""
            words = self.unifier.words(self.unifier.node(mask))
            reason = f"`{name_of(call)}`{kind} takes {words}"
            fits = self._narrow(node, mask, arg, reason, f"as an argument of `{call.name}`")
            if isinstance(param, tuple) and fits:
                if shared is None:
                    shared, first = node, arg
                else:
                    self._same(first, shared, arg, node, f"`{call.name}` takes")
        if signature.result == "decimal":
            return self._made_decimal(call)
        if signature.result in BIT:
            why = Why(call.span, f"as the result of `{call.name}`")
            return self.unifier.node(BIT[signature.result], why)
        return self.unifier.node() if shared is None else shared

    def _made_decimal(self, call: s.FunctionCall) -> int:
        """The node of `to_decimal(x, 2)`."""
        digits = call.args[1]
        if not isinstance(digits, s.Const) or not 0 <= int(digits.value) <= DIGITS:
            message = f"`to_decimal` takes digits after the point as a number from 0 to {DIGITS}"
            hint = "as in to_decimal(x, 2)"
            self.errors.append(TypeMismatchError(message, digits.span, hint=hint))
            return self.unifier.node()
        kind = decimal_type(int(digits.value))
        return self.unifier.node(BIT[kind], Why(call.span, "as the result of `to_decimal`"))

    def _chain(self, chain: s.Chain) -> int:
        """A chain is typed as nested calls, from left to right. Messages name the last operand in
        place of all that is left of an operator."""
        left = chain.first
        node = self._expr(left)
        for op, right in chain.rest:
            call = s.FunctionCall(op, (left, right), left.span.to(right.span))
            node = self._called(call, [node, self._expr(right)])
            left = right
        return node

    # ----------------------------------------------------------------------------- errors

    def _same(self, left: s.Expr, one: int, right: s.Expr, other: int, what: str) -> None:
        if not self.unifier.unify(one, other, Why(left.span, right), Why(right.span, left)):
            lead = f"{what} two of one type: "
            self._clash(right.span, show(right), other, show(left), one, lead)

    def _narrow(self, node: int, mask: int, expr: s.Expr, reason: str, why: str) -> bool:
        if self.unifier.narrow(node, mask, Why(expr.span, why)):
            return True
        subject, words = show(expr), self.unifier.words(node)
        message = f"{reason}, but {subject} is {words}"
        hint = conversion(subject, words, mask)
        notes = self._note(subject, node, expr.span)
        self.errors.append(TypeMismatchError(message, expr.span, hint=hint, notes=notes))
        return False

    def _clash(
        self, span: Span, subject: str, node: int, other: str, there: int, lead: str = ""
    ) -> None:
        words, other_words = self.unifier.words(node), self.unifier.words(there)
        message = f"{lead}{subject} is {words}, but {other} is {other_words}"
        hint = conversion(subject, words, self.unifier.masks[self.unifier.find(there)])
        notes = [*self._note(subject, node, span), *self._note(other, there, span)]
        self.errors.append(TypeMismatchError(message, span, hint=hint, notes=notes))

    def _note(self, subject: str, node: int, span: Span) -> list[Note]:
        """The reason for its type, unless the error is at that very place."""
        why = self.unifier.why(node)
        if why is None or why.span is span:
            return []
        here = " here" if why.span is not None else ""
        reason = "" if why.text == f"as {subject}" else f", {why.text}"
        return [Note(f"{subject} is {self.unifier.words(node)}{here}{reason}", why.span)]

    # ----------------------------------------------------------------------------- finish

    def checked_rules(self) -> Iterator[CheckedRule]:
        """The rules with the types of their variables; literals of numbers become floats or
        decimals where needed, and literals of days dates."""
        for number, (rule, variables, literals) in enumerate(self.seen):
            types: dict[str, TypeName] = {}
            for name, node in variables.items():
                types[name] = self.unifier.settled(node) or "int"
            turned = list(map(self.unifier.settled, literals))
            body, head = rule.body, rule.head
            if self.rewrites or self.decimals or not _KEPT.issuperset(turned):
                turn = iter(turned)
                body = None if body is None else self._rewrite(body, turn, number)
                head = self._rewrite(head, turn, number)
            yield CheckedRule(head, body, types, rule.span)

    def _rewrite(self, node: Any, turned: Iterator[TypeName | None], rule: int) -> Any:
        """The node without `as`; `turned` has the types that its nulls and flexible literals stand
        for, in order."""
        match node:
            case s.Null():
                return replace(node, type=next(turned) or "int")
            case s.Const() | s.Values() if is_flexible(node, self.decimals):
                return with_type(node, next(turned) or node.type)
            case s.Cast(operand):
                return self._rewrite(operand, turned, rule)
            case s.And(items):
                return conjunction([self._rewrite(item, turned, rule) for item in items], node.span)
        return rebuild(node, lambda part: self._rewrite(part, turned, rule))

    def column_types(self, relation: str) -> list[TypeName | None]:
        """The types of a relation's columns; None if nothing determines one."""
        return list(map(self.unifier.settled, self.columns[relation]))

    def open_columns(self, relation: str) -> dict[int, int]:
        """The columns whose type nothing determines, each with a number: one declaration would
        determine all columns of a number."""
        nodes = enumerate(self.columns[relation])
        return {at: self.unifier.find(n) for at, n in nodes if self.unifier.settled(n) is None}

    def param_types(self) -> dict[str, TypeName]:
        # An open type is in a rule with an error, or no value has it.
        return {name: self.unifier.settled(node) or "int" for name, node in self.params.items()}


_KEPT = frozenset({"int", "timestamp"})  # the types of literals that need no other form
