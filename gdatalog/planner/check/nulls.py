"""Nulls: which columns may hold them, and rules that say what becomes of them.

Behind this pass a null is a key like any other, the greatest of its column, and equal to itself.
What the language says of nulls is written into the rules:

- a variable that is joined or compared, and could be null, gets a test, `x != null`;
- a function of something that could be null is `unless null(f(x), x)`: null where x is;
- aggregates skip nulls: `sum(x)` is `sum(coalesce(x, 0))`.

So rewritings that join a binding back to itself, negate a test, or group rows need know nothing of
nulls, and rules without nullable columns stay as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from gdatalog.errors import Error, TypeMismatchError
from gdatalog.parser import syntax as s
from gdatalog.plan.functions import OF_SEVERAL, STATISTICS
from gdatalog.planner.check import CheckedRule, Schema, Stratum
from gdatalog.planner.check import walk as w
from gdatalog.planner.check.bindings import neighbours, ready, solvable
from gdatalog.planner.check.null_values import Known, NullExpressions
from gdatalog.planner.check.wording import own_name, show
from gdatalog.records import replace
from gdatalog.values import NULL, TypeName, constant_text

# The variable that an item binds, and what it gets, if the item is an equation.
Definitions = dict[s.Literal, tuple[str, s.Expr]]
ARGUMENT = "~v"  # begins the names of what atoms have in place of expressions; it counts nothing


def with_nulls(
    schemas: Mapping[str, Schema],
    strata: Sequence[Stratum],
    facts: Collection[s.Atom],
    params: Mapping[str, TypeName],
    errors: list[Error],
) -> tuple[dict[str, Schema], tuple[Stratum, ...]]:
    """The schemas with the columns that may hold nulls, and the rules with what becomes of them.

    `facts`: one of each shape.
    """
    nullable = {name: list(schema.nullable) for name, schema in schemas.items()}
    for name, schema in schemas.items():
        nullable[name] = nullable[name] or [False] * schema.arity
    for fact in facts:
        for at, arg in enumerate(fact.args):
            if isinstance(arg, s.Null):
                _give(nullable, schemas[fact.name], at, arg, errors)
    rules = [rule for stratum in strata for rule in stratum.rules]
    changed = True
    while changed:
        changed = False
        for rule in rules:
            head = NullRule(rule, nullable, params).head()
            for at, (_, null) in enumerate(head):
                if null and not nullable[rule.head.name][at]:
                    schema = schemas[rule.head.name]
                    _give(nullable, schema, at, rule.head.args[at], errors)
                    changed = True
    if errors:
        return dict(schemas), tuple(strata)
    found = {
        name: replace(schema, nullable=tuple(nullable[name]) if any(nullable[name]) else ())
        for name, schema in schemas.items()
    }
    made = []
    for stratum in strata:
        own = [_rewritten(rule, stratum, nullable, params, errors) for rule in stratum.rules]
        made.append(replace(stratum, rules=tuple(own)))
    return found, tuple(made)


def _give(
    nullable: dict[str, list[bool]],
    schema: Schema,
    at: int,
    arg: s.Expr | s.HeadAggregate,
    errors: list[Error],
) -> None:
    """Makes a column nullable because of what a head gives it; an error if it was declared not to
    be."""
    nullable[schema.name][at] = True
    if schema.declared and not (schema.nullable and schema.nullable[at]):
        column = schema.columns[at]
        message = f"{show(arg)} may be null, and the column `{column}` of `{schema.name}` may not"
        hint = f"declare it as `{column}: {schema.types[at]}?`, or give nulls a value by `coalesce`"
        errors.append(TypeMismatchError(message, arg.span, hint=hint))


def _rewritten(
    rule: CheckedRule,
    stratum: Stratum,
    nullable: Mapping[str, Sequence[bool]],
    params: Mapping[str, TypeName],
    errors: list[Error],
) -> CheckedRule:
    given = NullRule(rule, nullable, params)
    head = given.head()
    several = sum(other.head.name == rule.head.name for other in stratum.rules) > 1
    args: tuple[Any, ...] = rule.head.args
    for own, (_, null) in zip(args, head, strict=True):
        kind = own.kind if null and isinstance(own, s.HeadAggregate) else None
        if kind in ("min", "max") and (stratum.recursive or (several and kind == "max")):
            why = "its rule is recursive" if stratum.recursive else "other rules have values too"
            message = f"{show(own)} may be null, and {why}"
            hint = "leave nulls out by `!= null`, or give them a value by `coalesce`"
            errors.append(TypeMismatchError(message, own.span, hint=hint))
    for own, null in zip(args, nullable[rule.head.name], strict=True):
        if null and isinstance(own, s.Const) and own.value == NULL:
            message = f"{constant_text(own.type, NULL)} is the key of a null: "
            message += "no value that may be null can be that great"
            errors.append(TypeMismatchError(message, own.span))
    if rule.ordered:
        return rule
    return given.rule(tuple([arg for arg, _ in head]))


class NullRule(NullExpressions):
    """A rule whose atoms read columns of which some are `nullable`."""

    def __init__(
        self,
        rule: CheckedRule,
        nullable: Mapping[str, Sequence[bool]],
        params: Mapping[str, TypeName],
    ) -> None:
        super().__init__(rule, params)
        self.nullable = nullable
        self.known: Known = {}
        self.body: s.Literal | None = None
        if rule.body is not None:
            self.body, self.known = self.within(rule.body, {})

    def head(self) -> list[tuple[Any, bool]]:
        """The terms of the head, and whether each may be null."""
        found = []
        for arg in self.own.head.args:
            if isinstance(arg, s.HeadAggregate) and self.own.ordered:
                found.append((arg, self._ordered(arg)))
            else:
                lifted = self.lift(arg, self.known)
                found.append((self.whole(lifted), bool(lifted[1])))
        return found

    def rule(self, args: tuple[s.Expr, ...]) -> CheckedRule:
        head = replace(self.own.head, args=args)
        return CheckedRule(head, self.body, self.types, self.own.span)

    def _ordered(self, call: s.HeadAggregate) -> bool:
        """Whether a function that depends on an order may be null."""
        targets = call.targets
        if call.kind in OF_SEVERAL:
            return True
        if call.kind in ("lag", "lead") or call.kind in STATISTICS:
            return any(self.lift(each, self.known)[1] for each in targets[:2])
        return False

    # ------------------------------------------------------------------------------- bodies

    def conjunction(
        self, given: Sequence[s.Literal], outer: Known, body: s.Literal
    ) -> tuple[s.Literal, Known]:
        items = [part for item in given for part in _apart(item)]
        known, tested = dict(outer), dict[s.Expr, None]()
        items = self._atoms(items, known, tested)
        bound = known
        known = dict(bound)
        defined, owned = self._bind(items, known)
        narrowed = self._narrowed(items, known, owned)
        for name, null in bound.items():
            if null and not narrowed[name]:  # as all alternatives of a group test
                tested[s.Var(name, self.own.span)] = None
        for item in items:
            for cond in self._needs(item, known, defined):
                tested[cond] = None
        # Once more, with what the tests say.
        sure = {each.name for each in tested if isinstance(each, s.Var)}
        known = {name: null and name not in sure for name, null in bound.items()}
        defined, owned = self._bind(items, known)
        known.update(dict.fromkeys(sure & known.keys(), False))
        narrowed = self._narrowed(items, known, owned)
        written = []
        for item in items:
            if isinstance(item, s.Or):
                written.append(self._chosen(item, known, owned[item]))
            else:
                written.append(self._written(item, narrowed, defined))
        known = narrowed
        span = body.span
        tests: list[s.Literal] = [
            s.Compare(each, (("!=", s.Null(self.type_of(each), span)),), span) for each in tested
        ]
        return w.conjunction([*tests, *self.beside, *written], span), known

    def _atoms(
        self, items: Sequence[s.Literal], known: Known, tested: dict[s.Expr, None]
    ) -> list[s.Literal]:
        """Notes what atoms bind. Their expressions become variables of their own, where the column
        or the expression may be null."""
        found: list[s.Literal] = []
        equations: list[s.Literal] = []
        uses = Counter[str]()
        nulls: Known = {}
        for item in items:
            if isinstance(item, s.Atom):
                # the parts of a head meet in its groups, and that of nulls is one
                part = item.name.startswith(f"{self.own.head.name}~")
                for arg, null in zip(item.args, self._columns(item), strict=True):
                    if isinstance(arg, s.Var):
                        uses[arg.name] += not part
                        nulls[arg.name] = nulls.get(arg.name, True) and null
        for name, null in nulls.items():
            null = null and known.get(name, True)
            if null and uses[name] + (name in known) > 1:
                tested[s.Var(name, self.own.span)] = None
                null = False
            known[name] = null
        for item in items:
            if not isinstance(item, s.Atom):
                found.append(item)
                continue
            args = list(item.args)
            for at, (arg, null) in enumerate(zip(item.args, self._columns(item), strict=True)):
                if isinstance(arg, s.Null) and not null:
                    equations.append(s.Test(s.Const("bool", False, arg.span), arg.span))
                elif isinstance(arg, s.FunctionCall | s.Chain | s.Aggregate) and (
                    null or any(known.get(name) for name in w.variables(arg))
                ):
                    args[at] = var = self.fresh(self.type_of(arg), arg, ARGUMENT)
                    known[var.name] = null
                    equations.append(s.Compare(var, (("=", arg),), arg.span))
            found.append(replace(item, args=tuple(args)))
        return [*found, *equations]

    def _columns(self, atom: s.Atom) -> Sequence[bool]:
        return self.nullable.get(atom.name) or [False] * len(atom.args)

    def _bind(
        self, items: Sequence[s.Literal], known: Known
    ) -> tuple[Definitions, dict[s.Or, set[str]]]:
        """Notes what literals other than atoms bind. Returns equations and generators, and the
        variables that alternatives were the first to bind."""
        defined: Definitions = {}
        owned: dict[s.Or, set[str]] = {item: set() for item in items if isinstance(item, s.Or)}
        before = -1
        while before != len(known):
            before = len(known)
            for item, own in owned.items():
                branches = self._branches(item, known, own)
                for name in branches[0]:
                    if name not in known and all(name in branch for branch in branches):
                        known[name] = any(branch[name] for branch in branches)
                        own.add(name)
            if before == len(known):
                self._define(items, known, defined)
        return defined, owned

    def _branches(self, item: s.Or, known: Known, own: Collection[str]) -> list[Known]:
        """What is known behind each alternative."""
        outer = {name: null for name, null in known.items() if name not in own}
        return [self.within(each, outer)[1] for each in item.items]

    def _narrowed(
        self, items: Sequence[s.Literal], known: Known, owned: Mapping[s.Or, set[str]]
    ) -> Known:
        """What is known behind all items: what each alternative tests is not null."""
        found = dict(known)
        for item in items:
            if not isinstance(item, s.Or):
                continue
            branches = self._branches(item, known, owned[item])
            inside = w.count_variables([item])
            for name in dict.fromkeys(name for branch in branches for name in branch):
                nulls = [branch[name] for branch in branches if name in branch]
                if len(nulls) == len(branches):
                    found[name] = found[name] and any(nulls)
                elif any(nulls) and inside[name] < self.own.uses[name]:
                    message = f"`{own_name(name)}` may be null, and only some alternatives bind it"
                    hint = "write a rule for each combination of the alternatives"
                    raise TypeMismatchError(message, item.span, hint=hint)
        return found

    def _chosen(self, item: s.Or, known: Known, own: Collection[str]) -> s.Literal:
        outer = {name: null for name, null in known.items() if name not in own}
        return w.disjunction([self.within(each, outer)[0] for each in item.items], item.span)

    def _define(self, items: Sequence[s.Literal], known: Known, defined: Definitions) -> None:
        """Notes what equations, generators and aggregates bind; collects the first two."""
        kinds = s.Compare | s.Member | s.Range
        waiting = [item for item in items if isinstance(item, kinds) and item not in defined]
        while True:
            found = next((item for item in waiting if self._defines(item, known, defined)), None)
            if found is not None:
                waiting.remove(found)
            elif not any(self._exports(item, known) for item in items):
                return

    def _defines(
        self, item: s.Compare | s.Member | s.Range, known: Known, defined: Definitions
    ) -> bool:
        """Notes the variable that an item binds; False if it binds none now."""
        bound = known.keys()
        match item:
            case s.Compare(left, (("=", right),)):
                for path, value in ((left, right), (right, left)):
                    if isinstance(value, s.Null):  # `x = null` is a test
                        return False
                    name = solvable(path, bound, self.types)
                    if name is not None and ready(value, bound):
                        defined[item] = name, self._solved(path, value, known)
                        known[name] = bool(self.lift(defined[item][1], known)[1])
                        return True
            case s.Member(s.Var(name), values) if name not in bound:
                if all(ready(value, bound) for value in values):
                    defined[item] = name, item.item
                    known[name] = any(self.lift(value, known)[1] for value in values)
                    return True
            case s.Range(s.Var(name)) if name not in bound:
                if all(ready(each, bound) for each in w.children(item)[1:]):
                    defined[item] = name, item.item
                    known[name] = False
                    return True
        return False

    def _exports(self, item: s.Literal, known: Known) -> bool:
        """Notes the variables that aggregates of an item give values; False if there are none."""
        new = False
        for arg in item.args if isinstance(item, s.Atom) else ():
            name = solvable(arg, known.keys(), self.types)
            if name is not None:  # of a column without nulls
                known[name] = False
                new = True
        for aggregate in w.all_of(s.Aggregate, item):
            if set(aggregate.exports) - known.keys() and ready(aggregate, known.keys()):
                inner = self.within(aggregate.body, known)[1]
                for name in aggregate.exports:
                    known.setdefault(name, inner.get(name, False))
                new = True
        return new

    def _solved(self, path: s.Expr, value: s.Expr, known: Known) -> s.Expr:
        """The value of the unbound variable of `path`, which has `value`."""
        while not isinstance(path, s.Var):
            if isinstance(path, s.Chain):
                path = _nested(path)
            assert isinstance(path, s.FunctionCall)
            (first, *others), span = path.args, path.span
            if not others:
                path, value = first, s.FunctionCall("-", (value,), span)
            elif not ready(first, known.keys()):
                op = "-" if path.name == "+" else "+"
                path, value = first, s.FunctionCall(op, (value, others[0]), span)
            else:
                both = (value, first) if path.name == "+" else (first, value)
                path, value = others[0], s.FunctionCall("-", both, span)
        return value

    def _needs(self, item: s.Literal, known: Known, defined: Definitions) -> Iterator[s.Expr]:
        """What must not be null where an item holds."""
        defines = item in defined
        match item:
            case s.Compare(s.Var(name)) if defines and name.startswith(ARGUMENT):
                # one value of the column for each of the variable that is solved for
                yield from self._conds(defined[item][1:], {**known, name: False})
            case s.Compare(left, ((_, right),)):
                if not defines and not isinstance(left, s.Null) and not isinstance(right, s.Null):
                    yield from self._conds((left, right), known)
            case s.Member(value) if not defines:
                yield from self._conds((value,), known)
            case s.Range():
                yield from self._conds(w.children(item)[defines:], known)
            case s.Distinct(args):
                yield from self._conds(args, known)
            case s.Test(expr):
                yield from self._conds((expr,), known)

    def _conds(self, exprs: Sequence[Any], known: Known) -> Iterator[s.Expr]:
        for expr in exprs:
            yield from self.lift(expr, known)[1]

    def _written(self, item: s.Literal, known: Known, defined: Definitions) -> s.Literal:
        """An item in which nothing that a test reads is null."""
        match item:
            case s.Not(body):
                return replace(item, body=self.within(body, known)[0])
            case s.Compare(left, ((op, right),)):
                if item not in defined:
                    return self._compared(item, left, op, right, known)
                name, value = defined[item]
                lifted = self.lift(value, known)
                if lifted[1]:
                    item = s.Compare(s.Var(name, item.span), (("=", value),), item.span)
                    return replace(item, rest=(("=", self.whole(lifted)),))
            case s.Member(value, values):
                whole = tuple([self.whole(self.lift(each, known)) for each in values])
                return replace(item, item=self.lift(value, known)[0], values=whole)
            case s.Atom():
                return item
        return w.rebuild(item, lambda part: self.lift(part, known)[0])

    def _compared(
        self, item: s.Compare, left: s.Expr, op: str, right: s.Expr, known: Known
    ) -> s.Literal:
        """A comparison of what is bound."""
        sides = [self.lift(side, known) for side in (left, right)]
        nulls = [isinstance(side, s.Null) for side in (left, right)]
        if any(nulls):
            other = sides[nulls[0]]
            if all(nulls) or not other[1] or op not in ("=", "!="):
                holds = op == ("=" if all(nulls) else "!=")
                return s.Test(s.Const("bool", holds, item.span), item.span)
            null = (left, right)[not nulls[0]]
            return s.Compare(self.whole(other), ((op, null),), item.span)
        return s.Compare(sides[0][0], ((op, sides[1][0]),), item.span)


def _apart(item: s.Literal) -> Iterator[s.Literal]:
    """A chain of comparisons as its neighbours; `!!` is nothing."""
    while isinstance(item, s.Not) and isinstance(item.body, s.Not):
        item = item.body.body
    if isinstance(item, s.Compare) and len(item.rest) > 1:
        for left, op, right in neighbours(item):
            yield s.Compare(left, ((op, right),), item.span)
    elif isinstance(item, s.And):
        for part in item.items:
            yield from _apart(part)
    else:
        yield item


def _nested(chain: s.Chain) -> s.Expr:
    left = chain.first
    for op, right in chain.rest:
        left = s.FunctionCall(op, (left, right), chain.span)
    return left
