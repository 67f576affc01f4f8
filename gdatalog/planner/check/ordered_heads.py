"""Heads with functions that depend on an order become rules without them, and a rule for these.

A function that gives each row a value, such as `row_number`, ranges over the distinct rows of the
other terms of its head, which become a relation of their own. So

    r(g, x, row_number(order by x desc) - 1) <- E(g, x).

is, with relations that no program can name,

    r~rows(g, x) <- E(g, x).
    r~ordered(g, x, row_number(partition by g order by x desc)) <- r~rows(g, x).
    r(g, x, n - 1) <- r~ordered(g, x, n).

A function that picks values of each group, such as `top`, has rows of the group's terms and of what
it reads; other aggregates of the head have a relation too, and the rule joins them by the group. A
statistic such as `median` has what it reads, and the number of matches with that. If the body is an
atom of different variables, its own rows are read.
Only the rules in the middle have a head that depends on an order: all its terms are variables, and
so is what its functions read, or constants and parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, cast

from gdatalog.errors import Error, NameResolutionError, Span
from gdatalog.parser import syntax as s
from gdatalog.plan.functions import AGGREGATES, ORDERED, PICKS, STATISTICS, WINDOWS
from gdatalog.planner.check.catalog import CatalogRelation, Declarations
from gdatalog.planner.check.column_names import ColumnNames
from gdatalog.planner.check.heads import check_single
from gdatalog.planner.check.walk import children, rebuild, variables, walk
from gdatalog.records import dataclass, field, replace

# How many arguments each takes, and whether it has an order: None, if it may.
_SHAPES: dict[str, tuple[int, bool | None]] = {
    **dict.fromkeys(("row_number", "rank", "dense_rank"), (0, True)),
    **dict.fromkeys(("lag", "lead", "top"), (2, True)),
    "running_sum": (1, True),
    **dict.fromkeys(("arg_max", "arg_min"), (2, False)),
    "string_agg": (2, None),
    **dict.fromkeys(("median", "stddev", "var", "mode"), (1, False)),
    **dict.fromkeys(("quantile", "corr"), (2, False)),
}
Call = s.FunctionCall | s.Window
_PLAIN = frozenset({s.Var, s.Const})  # terms that hold no function


def split_ordered(
    program: s.Program, catalog: Declarations, columns: ColumnNames, errors: list[Error]
) -> s.Program:
    """The program without functions that depend on an order, but in rules as above."""
    rules = [each for each in program.statements if type(each) is s.Rule]
    heads = [head for rule in rules for head in rule.heads]
    if not any(
        map(_calls, [head for head in heads if not _PLAIN.issuperset(map(type, head.args))])
    ):
        return program
    done: dict[str, s.Rule] = {}
    statements: list[s.Statement] = []
    for statement in program.statements:
        if not isinstance(statement, s.Rule) or not any(map(_calls, statement.heads)):
            statements.append(statement)
        elif statement not in done.values():
            done.update((head.name, statement) for head in statement.heads if _calls(head))
            before = len(errors)
            split = HeadSplit(_placed(statement, columns, errors), columns, errors)
            plain = tuple([head for head in statement.heads if not _calls(head)])
            for head in statement.heads:
                if head not in plain:
                    split.split(head)
            if len(errors) == before:
                statements += [replace(statement, heads=plain)] if plain else []
                statements += split.rules
                for rule in split.rules:
                    (head,) = rule.heads
                    arity, said = len(head.args), "is defined with"
                    found = CatalogRelation(head.name, arity, said, head.span)
                    catalog.relations.setdefault(head.name, found)
    for name, rule in done.items():
        if catalog.relations[name].schema is None:
            columns.named.setdefault(name, columns.of(name))
        _check_alone(name, rule, program, catalog, errors)
    return s.Program(tuple(statements))


def _check_alone(
    name: str, rule: s.Rule, program: s.Program, catalog: Declarations, errors: list[Error]
) -> None:
    """Its relation has no other rule, and no facts or data."""
    relation = catalog.relations[name]
    head = next(head for head in rule.heads if head.name == name)
    others = [
        (other.span, other.body is None)
        for other in program.statements
        if isinstance(other, s.Rule) and other != rule
        if any(head.name == name for head in other.heads)
    ]
    kind = _calls(head)[0]
    loaded = relation.has_data and not relation.declared
    check_single(head, rule.body, rule.span, (kind.name, kind.span), others, loaded, errors)


def _calls(node: Any) -> list[Call]:
    """The functions in a head that depend on an order."""
    kinds = (s.FunctionCall, s.Window)
    return [part for part in walk(node) if isinstance(part, kinds) and part.name in ORDERED]


def _is_aggregate(node: Any) -> bool:
    """Whether it is another aggregate of a head."""
    if isinstance(node, s.FunctionCall) and node.name in AGGREGATES:
        return node.name not in ("min", "max") or len(node.args) == 1
    return isinstance(node, s.Aggregate)


def _parts(node: Any, wanted: Callable[[Any], bool]) -> list[Any]:
    """The variables of a node, and the parts that are wanted, which are not looked into."""
    if isinstance(node, s.Var) or wanted(node):
        return [node]
    return [part for child in children(node) for part in _parts(child, wanted)]


def _substituted(node: Any, change: Callable[[Any], Any]) -> Any:
    """The node with other parts where `change` gives one."""
    found = change(node)
    return found or rebuild(node, lambda child: _substituted(child, change))


@dataclass(slots=True, eq=False)
class Terms:
    """Different terms, and a variable for each."""

    exprs: list[s.Expr] = field(default_factory=list)

    def add(self, expr: s.Expr) -> s.Var:
        if expr not in self.exprs:
            self.exprs.append(expr)
        return self.variable(expr)

    def variable(self, expr: s.Expr) -> s.Var:
        if isinstance(expr, s.Var):
            return expr
        label = expr.name if isinstance(expr, s.FunctionCall | s.Window) else "term"
        label = label if label.isidentifier() else "term"
        return s.Var(f"{label}~{self.exprs.index(expr)}", expr.span)

    def variables(self) -> tuple[s.Var, ...]:
        return tuple(map(self.variable, self.exprs))

    def replaced(self, node: Any) -> Any:
        """The node with these variables in place of the terms."""
        return _substituted(node, lambda part: self.variable(part) if part in self.exprs else None)


@dataclass(slots=True, eq=False)
class HeadSplit:
    """The rules that one head becomes."""

    rule: s.Rule
    columns: ColumnNames
    errors: list[Error]
    rules: list[s.Rule] = field(default_factory=list)

    def split(self, head: s.Atom) -> None:
        calls, body = _calls(head), self.rule.body
        if body is None:
            hint = f"give it a body: `{head.name}(...) <- ...`"
            self._fail(f"`{calls[0].name}` needs a body to range over", calls[0].span, hint)
        elif False not in [self._is_right(call) for call in calls]:
            windows = [
                call for call in calls if isinstance(call, s.Window) and call.name in WINDOWS
            ]
            if windows:
                self._windows(head, body, windows)
            else:
                self._picks(head, body, calls)

    def _is_right(self, call: Call) -> bool:
        """Whether a function is written as it should be."""
        count, ordered = _SHAPES[call.name]
        keys, parted = _keys(call), call.partition if isinstance(call, s.Window) else ()
        least = count - (call.name in ("lag", "lead"))
        wrong = not least <= len(call.args) <= count or (
            ordered is not None and bool(keys) != ordered
        )
        wrong = wrong or (bool(parted) and call.name in PICKS)
        if not wrong and call.name in ("top", "string_agg", "quantile"):  # a number, a separator
            wrong = not _is_given(call.args[0 if call.name == "top" else 1])
        if wrong:
            message = f"`{call.name}` is written in another way"
            self._fail(message, call.span, f"as in `{ORDERED[call.name]}`")
        for part in _calls(call)[1:]:
            hint = "let a relation of its own hold the inner one"
            self._fail(f"`{call.name}` cannot hold `{part.name}`", part.span, hint)
            wrong = True
        return not wrong

    # ---------------------------------------------------------------------- a value for each row

    def _windows(self, head: s.Atom, body: s.Literal, calls: Sequence[s.Window]) -> None:
        terms, every = Terms(), _calls(head)
        names = dict(zip(self.columns.of(head.name), head.args, strict=False))
        for arg in head.args:
            parts = [arg]
            if any(call in calls for call in _calls(arg)):
                parts = _parts(arg, lambda part: _is_aggregate(part) or part in every)
            for part in parts:
                if part not in calls:
                    terms.add(part)
        own = terms.variables()

        def resolved(expr: s.Expr) -> s.Expr:
            """An expression with terms in place of the names of their columns."""

            def named(part: Any) -> Any:
                term = names.get(part.name) if isinstance(part, s.Var) else None
                return term if part not in terms.exprs and term in terms.exprs[: len(own)] else None

            return cast(s.Expr, _substituted(expr, named))

        used: set[str] = set()
        made: list[tuple[s.Window, list[s.Expr], list[s.Expr], list[s.Expr]]] = []
        for call in calls:
            args, parted = list(map(resolved, call.args)), list(map(resolved, call.partition))
            keys = [resolved(key) for _, key in call.rest]
            if len(args) < _SHAPES[call.name][0]:  # lag and lead without a value of their own
                args.append(s.Null(None, call.span))
            for expr in (*args, *keys, *parted):
                for part in _parts(expr, lambda part: part in terms.exprs or _is_aggregate(part)):
                    if isinstance(part, s.Var) and part not in own:
                        self._unknown(part, call)
                    elif expr not in parted and part in terms.exprs:
                        used.add(terms.variable(part).name)
            made.append((call, args, parted, keys))
        group = [var for var in own if var.name not in used]
        results: list[s.Var] = []
        ordered: list[Any] = []
        for number, (call, args, parted, keys) in enumerate(made):
            split: list[s.Expr] = [*map(terms.add, parted)] if call.partition else [*group]
            read = [arg if at and _is_given(arg) else terms.add(arg) for at, arg in enumerate(args)]
            targets = (*read, *split, *map(terms.add, keys))
            down = tuple([word == "desc" for word, _ in call.rest])
            ordered.append(s.HeadAggregate(call.name, targets, call.span, len(split), down))
            results.append(s.Var(f"{call.name}~w{number}", call.span))
        base = s.Atom(f"{head.name}~rows", tuple(terms.exprs), head.span)
        if _calls(base):
            self._picks(base, body, _calls(base))
        else:
            self._add(base, body)
        name = f"{head.name}~ordered"
        self._add(s.Atom(name, (*own, *ordered), head.span), replace(base, args=terms.variables()))
        final = tuple([_substituted(arg, _in_place(calls, results, terms)) for arg in head.args])
        self._add(replace(head, args=final), s.Atom(name, (*own, *results), head.span))

    def _unknown(self, var: s.Var, call: s.Window) -> None:
        message = f"`{var.name}` is not a term of this head"
        hint = f"`{call.name}` orders the rows of the head's other terms: make it one of them"
        self._fail(message, var.span, hint)

    # ------------------------------------------------------------------ values of each group

    def _picks(self, head: s.Atom, body: s.Literal, calls: Sequence[Call]) -> None:
        keys, others = Terms(), Terms()
        for arg in head.args:
            parts = _parts(arg, lambda part: _is_aggregate(part) or part in calls)
            if any(part in calls or _is_aggregate(part) for part in parts):
                for part in parts:
                    if part not in calls:
                        alone = isinstance(part, s.Var | s.Aggregate)
                        (keys if alone else others).add(part)
            elif parts:
                keys.add(arg)
        body, every = _with_all_named(body)
        group = keys.variables()
        found: list[s.Literal] = []
        if (others.exprs or len(calls) > 1) and not _is_plain(body):
            body = self._add(s.Atom(f"{head.name}~body", every, head.span), body)
        if others.exprs:
            name = f"{head.name}~groups"
            self._add(s.Atom(name, (*keys.exprs, *others.exprs), head.span), body)
            found.append(s.Atom(name, (*group, *others.variables()), head.span))
        results: list[s.Var] = []
        for number, call in enumerate(calls):
            name = f"{head.name}~{call.name}{number}"
            results.append(s.Var(f"{call.name}~p{number}", call.span))
            self._pick(call, s.Atom(name, group, head.span), keys, every, body)
            found.append(s.Atom(name, (*group, results[-1]), head.span))
        place = _in_place(calls, results, keys, others)
        final = tuple([_substituted(arg, place) for arg in head.args])
        whole = found[0] if len(found) == 1 else s.And(tuple(found), self.rule.span)
        self._add(replace(head, args=final), whole)

    def _pick(
        self, call: Call, head: s.Atom, keys: Terms, every: Sequence[s.Var], body: s.Literal
    ) -> None:
        """Adds the rules of a function that picks values of each group: of its rows, and of what
        it picks. `every`: all variables of the body."""
        terms, by = Terms([*keys.exprs]), _keys(call)
        kind, down = call.name, tuple([word == "desc" for word, _ in by])
        weighed: tuple[s.Expr, ...] = ()
        if kind == "string_agg":
            targets = [terms.add(call.args[0]), call.args[1], *(terms.add(key) for _, key in by)]
            for var in every:  # the same text counts as often as it is found
                terms.add(var)
        elif kind == "top":
            targets = [call.args[0], *map(terms.add, (call.args[1], *(key for _, key in by)))]
        elif kind in STATISTICS:
            targets = [arg if _is_given(arg) else terms.add(arg) for arg in call.args]
            if isinstance(body, s.Atom):
                for var in every:  # as for texts
                    terms.add(var)
            elif not any(isinstance(part, s.Or) for part in walk(body)):  # else it is refused
                weighed = (s.FunctionCall("count", (), call.span),)
                targets.append(s.Var("count~n", call.span))
        else:
            down, kind = (kind == "arg_max",), "top"
            targets = [s.Const("int", 1, call.span), *map(terms.add, call.args)]
        picked: Any = s.HeadAggregate(kind, tuple(targets), call.span, 0, down)
        if not (_is_plain(body) and set(terms.exprs) <= set(every)):
            rows = self._add(s.Atom(f"{head.name}rows", (*terms.exprs, *weighed), head.span), body)
            body = replace(rows, args=(*terms.variables(), *(targets[-1:] if weighed else ())))
        self._add(replace(head, args=(*head.args, picked)), body)

    # ---------------------------------------------------------------------------------- rules

    def _add(self, head: s.Atom, body: s.Literal) -> s.Atom:
        self.rules.append(s.Rule((head,), body, self.rule.span))
        return head

    def _fail(self, message: str, span: Span, hint: str) -> None:
        self.errors.append(NameResolutionError(message, span, hint=hint))


def _is_plain(body: s.Literal) -> bool:
    """Whether it is an atom of different variables."""
    if not isinstance(body, s.Atom):
        return False
    return len({arg.name for arg in body.args if isinstance(arg, s.Var)}) == len(body.args)


def _is_given(expr: s.Expr) -> bool:
    return isinstance(expr, s.Const | s.Null | s.Param)


def _keys(call: Call) -> tuple[tuple[str, s.Expr], ...]:
    return call.rest if isinstance(call, s.Window) else ()


def _in_place(
    calls: Sequence[Call], results: Sequence[s.Var], *terms: Terms
) -> Callable[[Any], Any]:
    """What stands in the rule's head: a variable for each function, and for each term."""

    def change(part: Any) -> Any:
        if isinstance(part, s.FunctionCall | s.Window) and part in calls:
            return results[calls.index(part)]
        return next((each.variable(part) for each in terms if part in each.exprs), None)

    return change


def _placed(rule: s.Rule, columns: ColumnNames, errors: list[Error]) -> s.Rule:
    """The rule, whose body's atoms have all columns of their relations, by their place."""

    known = columns.catalog.relations.keys() - columns.catalog.broken.keys()

    def whole(node: Any) -> Any:
        if isinstance(node, s.Atom) and node.name in known:
            return columns.with_row_id(columns.placed(node, errors))
        return node if isinstance(node, s.Not | s.Aggregate) else rebuild(node, whole)

    return rule if rule.body is None else replace(rule, body=whole(rule.body))


def _with_all_named(body: s.Literal) -> tuple[s.Literal, tuple[s.Var, ...]]:
    """The body with a name for each `_` that is a variable of the rule, and all its variables."""
    numbers = count(1)

    def named(node: Any) -> Any:
        if isinstance(node, s.Wildcard):
            return s.Var(f"_~r{next(numbers)}", node.span)
        return node if isinstance(node, s.Not | s.Aggregate) else rebuild(node, named)

    body = named(body)
    return body, tuple(variables(body, s.Not, s.Aggregate).values())
