"""The oracle: naive evaluation over Python sets of everything that LANGUAGE.md says.

Slow and plain on purpose. It shares the syntax tree with the package and nothing else: it has
its own functions (`oracle_values`), its own scoping and normal form (`oracle_normal`), its own
strata. A rule is evaluated by trying all rows of its atoms; a stratum by evaluating all its
rules until nothing changes.

Two things need care. An expression that fails does not fail the program at once: its binding
is marked (`POISON`) and raises only where it passes every other test. And a test without a
value (`match` with a pattern that is none) neither holds nor not holds (`VOID`).

Its length is that of the language: nothing here is about being quick.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from gdatalog.decimals import scale_of
from gdatalog.parser.syntax import (
    Atom,
    Cast,
    Compare,
    Const,
    Decl,
    Expr,
    FunctionCall,
    ListParam,
    Member,
    Null,
    Param,
    Program,
    Query,
    Rule,
    Test,
    TypeDecl,
    Values,
    Var,
)
from tests.oracle_answers import in_order
from tests.oracle_heads import (
    all_by_place,
    by_place,
    group_terms,
    head_aggregates,
    is_aggregate,
    reads,
)
from tests.oracle_normal import ARGUMENT, Gen, Neg, Normaliser, Opt, RangeOf, names, outer_names
from tests.oracle_order import find_order
from tests.oracle_ordered import PICKS, WINDOWS, calls, each_choice, picked, window_rows
from tests.oracle_values import (
    COMPARE,
    Dur,
    Failure,
    Ts,
    Value,
    Void,
    aggregate,
    apply,
    as_decimal,
    chosen,
    clean,
)

OK, POISON, VOID = 0, 1, 2
FAILED: Any = type("Failed", (), {"__repr__": lambda self: "FAILED"})()
STEPS = 1_000_000  # rows that are tried before the oracle gives up
ROUNDS = 2000  # a fixpoint over the tests' little data that takes longer never ends

Relation = set[tuple[Value, ...]]
Env = dict[str, Any]


def evaluate(
    program: Program,
    data: Mapping[str, Iterable[tuple[Value, ...]]],
    types: Mapping[str, tuple[str, ...]],
    params: Mapping[str, Value] | None = None,
) -> dict[str, Relation]:
    """Every relation of the program: loaded, declared or defined."""
    return Oracle(program, data, types, params or {}).relations()


def answers(
    program: Program,
    data: Mapping[str, Iterable[tuple[Value, ...]]],
    types: Mapping[str, tuple[str, ...]],
    params: Mapping[str, Value] | None = None,
) -> list[tuple[tuple[str, ...], Relation]]:
    """The columns and rows of every `?-`: yes is the empty row, no is no row.

    The columns of `?- tr.` are the relation's, which the oracle does not know: they are empty.
    """
    oracle = Oracle(program, data, types, params or {})
    oracle.relations()
    queries = [statement for statement in program.statements if isinstance(statement, Query)]
    return [oracle.answer(query) for query in queries]


def ordered_answers(
    program: Program,
    data: Mapping[str, Iterable[tuple[Value, ...]]],
    types: Mapping[str, tuple[str, ...]],
    params: Mapping[str, Value] | None = None,
) -> list[tuple[tuple[str, ...], list[tuple[Value, ...]]]]:
    """The same, each in the order that its query says, and cut by it; without an order sorted."""
    queries = [statement for statement in program.statements if isinstance(statement, Query)]
    found = answers(program, data, types, params)
    return [
        (columns, in_order(query, columns, rows, params or {}))
        for query, (columns, rows) in zip(queries, found, strict=True)
    ]


class TooLong(Exception):
    """The oracle gives up: the program asks for more than it is made for."""


class Oracle:
    def __init__(
        self,
        program: Program,
        data: Mapping[str, Iterable[tuple[Value, ...]]],
        types: Mapping[str, tuple[str, ...]],
        params: Mapping[str, Value],
    ) -> None:
        self.params = params
        self.steps = 0
        self.chosen: dict[int, Value] = {}  # what functions of a head have picked
        self.types = {**_declared(program), **types}
        self.rules: list[tuple[Atom, Any]] = []
        self.orders: dict[tuple[int, frozenset[str], frozenset[str]], list[tuple[Any, Any]]] = {}
        self.kept: list[Any] = []  # bodies whose identity is a key of `orders`
        rules = [statement for statement in program.statements if isinstance(statement, Rule)]
        defined = {head.name for rule in rules for head in rule.heads}
        self.data = {name: {self.row(name, row) for row in rows} for name, rows in data.items()}
        self.normal = Normaliser(defined | self.data.keys() | self.types.keys())
        columns: dict[str, list[str]] = {
            name: [column.name for column in statement.columns]
            for statement in program.statements
            if isinstance(statement, Decl)
            for name in statement.names
        }
        self.columns = columns
        heads = {id(head): by_place(head, columns) for rule in rules for head in rule.heads}
        for rule in rules:
            for named in rule.heads:
                plain, gens = self.normal.head(all_by_place(heads[id(named)], columns))
                body = self.normal.body(all_by_place(rule.body, columns))
                self.rules.append((plain, [branch + gens for branch in body]))
        self.state: dict[str, Relation] = {
            name: set(self.data.get(name, ())) for name in self.normal.relations
        }

    def row(self, name: str, values: Iterable[Value]) -> tuple[Value, ...]:
        """As it is stored: an int that stands for a float is one."""
        row = tuple(values)
        kinds = self.types.get(name, ("",) * len(row))
        row = tuple(
            float(v) if kind == "float" and isinstance(v, int) else v
            for v, kind in zip(row, kinds, strict=True)
        )
        return tuple(clean(v) if isinstance(v, float) else v for v in row)

    # ------------------------------------------------------------------------------ strata

    def relations(self) -> dict[str, Relation]:
        for stratum in self.strata():
            self.fixpoint(stratum)
        return self.state

    def strata(self) -> list[list[str]]:
        """Relations that depend on each other, after all that they depend on."""
        needs: dict[str, set[str]] = {name: set() for name in self.state}
        strictly: dict[str, set[str]] = {name: set() for name in self.state}
        for head, body in self.rules:
            needs[head.name] |= reads(body, False)
            strictly[head.name] |= reads(body, True)
            kinds = {self.kind(head, at) for at in range(len(head.args))} - {None}
            optional = any(isinstance(item, Opt) for branch in body for item in branch)
            if kinds - {"min", "max"} or optional:
                strictly[head.name] |= reads(body, False)
        while True:
            wider = {name: needs[name].union(*(needs[n] for n in needs[name])) for name in needs}
            if wider == needs:
                break
            needs = wider
        left, order = set(needs), []
        while left:
            name = min(n for n in left if all(m not in left or n in needs[m] for m in needs[n]))
            stratum = {m for m in left if m == name or (m in needs[name] and name in needs[m])}
            if any(strictly[m] & stratum for m in stratum):
                raise ValueError(f"not stratified: {sorted(stratum)}")
            order.append(sorted(stratum))
            left -= stratum
        return order

    def fixpoint(self, stratum: list[str]) -> None:
        rules = [rule for rule in self.rules if rule[0].name in stratum]
        best = {name: self.optimised(name) for name in stratum}
        for _ in range(ROUNDS):
            found = {name: set(self.data.get(name, ())) for name in stratum}
            for head, body in rules:
                found[head.name] |= {self.row(head.name, r) for r in self.derive(head, body)}
            found = {name: _keep_best(rows, best[name]) for name, rows in found.items()}
            if all(self.state[name] == found[name] for name in stratum):
                return
            self.state.update(found)
        raise Failure(f"does not end: {stratum}")

    def optimised(self, name: str) -> dict[int, str]:
        """The columns of which only the least or greatest is kept, over all rules and facts."""
        kinds: dict[int, str] = {}
        for head, _ in self.rules:
            if head.name != name:
                continue
            for at, arg in enumerate(head.args):
                if self.kind(head, at) not in (None, "min", "max"):
                    return {}
                if is_aggregate(arg) and isinstance(arg, FunctionCall):
                    kinds[at] = arg.name
        return kinds

    def kind(self, head: Atom, at: int) -> str | None:
        """The aggregate in an argument of a head, if there is one."""
        found = head_aggregates(head.args[at])
        return found[0].name if found else None

    def answer(self, query: Query) -> tuple[tuple[str, ...], Relation]:
        if isinstance(query.body, Test) and isinstance(query.body.expr, Var):
            return (), self.state[query.body.expr.name]
        body = all_by_place(query.body, self.columns)
        columns = tuple(outer_names(body))
        found = self.bindings(self.normal.body(body), {}, set(columns))
        return columns, {tuple(env[name] for name in columns) for env in found}

    # ------------------------------------------------------------------------------- rules

    def derive(self, head: Atom, body: Any) -> Iterator[tuple[Value, ...]]:
        if calls(head.args, WINDOWS):
            columns = self.columns.get(head.name, [])
            yield from window_rows(
                head, columns, lambda terms: set(self.derive(terms, body)), self.value
            )
            return
        bindings = self.bindings(body, {}, names(head.args))
        aggregates = [part for arg in head.args for part in head_aggregates(arg)]
        if not aggregates:
            for env in bindings:
                with suppress(Void):
                    yield tuple(self.value(arg, env) for arg in head.args)
            return
        keys = list(group_terms(head))
        groups: dict[tuple[Value, ...], tuple[Env, list[Env]]] = {}
        for env in bindings:
            try:
                key = tuple(self.value(term, env) for term in keys)
            except Void:
                continue
            groups.setdefault(key, (env, []))[1].append(env)
        picks = calls(head.args, PICKS)
        if not keys and all(a.name in ("count", "count_distinct", "sum") for a in aggregates):
            groups.setdefault((), ({}, []))
        for group, envs in groups.values():
            for self.chosen in each_choice([(c, picked(c, envs, self.value)) for c in picks]):
                with suppress(Void):
                    yield tuple(self.head_value(arg, group, envs) for arg in head.args)

    def head_value(self, arg: Expr, group: Env, envs: list[Env]) -> Value:
        """The value of an argument with aggregates, each of them evaluated over `envs`."""
        if id(arg) in self.chosen:
            return self.chosen[id(arg)]
        if is_aggregate(arg) and isinstance(arg, FunctionCall):
            rows = [tuple(self.value(part, env) for part in arg.args) for env in envs]
            return aggregate(arg.name, rows)
        if isinstance(arg, FunctionCall):
            if arg.name in ("if", "case"):
                value = partial(self.head_value, group=group, envs=envs)
                place = chosen(arg.args, partial(holds, value=value))
                return self.head_value(arg.args[place], group, envs)
            return apply(arg.name, [self.head_value(part, group, envs) for part in arg.args])
        if isinstance(arg, Cast) and not scale_of(arg.type_name):
            return self.head_value(arg.operand, group, envs)
        return self.value(arg, group)

    def bindings(self, body: Any, env: Env, wanted: set[str]) -> list[Env]:
        """The distinct bindings that pass; raises where one does and an expression failed."""
        found = self.solve(body, env, wanted)
        if any(status == POISON for _, status in found):
            raise Failure("an expression failed")
        return [env for env, status in found if status == OK]

    def solve(self, body: Any, env: Env, wanted: set[str]) -> list[tuple[Env, int]]:
        """All bindings of a body with their status, as a set.

        Bindings that bind different variables are different; of the names that were made
        here none counts, for the program's variables decide their values.
        """
        distinct: dict[Any, tuple[Env, int]] = {}
        for branch in body:
            for found, status in self.step(self.order(branch, env, wanted), 0, env, OK):
                key = frozenset((n, v) for n, v in found.items() if not n.startswith("%"))
                old = distinct.get((key, status))
                distinct[key, status] = ({**found, **old[0]} if old else found), status
        return list(distinct.values())

    def step(
        self, order: list[tuple[Any, Any]], at: int, env: Env, status: int
    ) -> Iterator[tuple[Env, int]]:
        if at == len(order):
            yield env, status
            return
        item, extra = order[at]
        for found, new in self.item(item, extra, env):
            yield from self.step(order, at + 1, found, max(status, new))

    def item(self, item: Any, extra: Any, env: Env) -> Iterator[tuple[Env, int]]:
        """The ways to go on from a binding through one item of a branch."""
        try:
            match item:
                case Atom():
                    yield from self.atom(item, env)
                case Neg(body):
                    inner = self.solve(body, env, set())
                    statuses = {status for _, status in inner}
                    if OK not in statuses:
                        yield env, max(statuses, default=OK)
                case Opt(body):
                    matches = self.solve(body, env, set())
                    yield from matches
                    statuses = {status for _, status in matches}
                    if OK not in statuses:
                        yield {**dict.fromkeys(extra), **env}, max(statuses, default=OK)
                case Gen():
                    yield from self.gen(item, *extra, env)
                case Compare(left, ((op, right),)):
                    if extra is not None:  # binds a variable
                        yield from self.assign(*extra, env)
                    elif isinstance(left, Null) or isinstance(right, Null):
                        same = self.value(left, env) is self.value(right, env)
                        if op == ("=" if same else "!="):
                            yield env, OK
                    elif COMPARE[op](self.value(left, env), self.value(right, env)):
                        yield env, OK
                case Member(of, values):
                    chosen = {each for value in values for each in self.listed(value, env)}
                    yield from self.choose(of, chosen, extra, env)
                case RangeOf(of, args):
                    bounds = [self.value(arg, env) for arg in args]
                    if None in bounds:
                        return
                    if bounds[2:] == [0]:
                        raise Failure("a range with step 0")
                    yield from self.choose(of, range(*bounds), extra, env)
                case Test(expr):
                    if self.value(expr, env):
                        yield env, OK
        except Failure:
            yield self.unknown(extra, env), POISON
        except Void:
            yield self.unknown(extra, env), VOID

    def unknown(self, extra: Any, env: Env) -> Env:
        """The binding after an item that failed: what it would have bound has no value."""
        if isinstance(extra, str):
            return {**env, extra: FAILED}
        if isinstance(extra, tuple) and isinstance(extra[0], str):
            return {**env, extra[0]: FAILED}
        return env

    def atom(self, atom: Atom, env: Env) -> Iterator[tuple[Env, int]]:
        self.steps += len(self.state[atom.name])
        if self.steps > STEPS:
            raise TooLong
        for row in self.state[atom.name]:
            found, status = dict(env), OK
            for arg, value in zip(atom.args, row, strict=True):
                if isinstance(arg, Var) and arg.name not in found:
                    found[arg.name] = value
                    continue
                known = found[arg.name] if isinstance(arg, Var) else self.value(arg, env)
                if known is FAILED:
                    status = POISON
                elif known is None or known != value:
                    break
            else:
                yield found, status

    def choose(self, of: Expr, values: Any, binds: str | None, env: Env) -> Iterator[Any]:
        if binds is None:
            if (chosen := self.value(of, env)) in values and chosen is not None:
                yield env, OK
            return
        for value in values:
            yield from self.assign(binds, of, value, env)

    def assign(self, name: str, path: Expr, value: Any, env: Env) -> Iterator[tuple[Env, int]]:
        """Bind `name`, the one unbound variable of `path`, so that `path` has the value."""
        target = value if not isinstance(value, Expr) else self.value(value, env)
        joins = isinstance(value, Var) and value.name.startswith(ARGUMENT)
        while not isinstance(path, Var):
            assert isinstance(path, FunctionCall) and isinstance(target, int | Ts | Dur | None)
            if len(path.args) == 1:
                path, target = path.args[0], apply("-", [target])
            elif name in names(path.args[0]):
                other = self.value(path.args[1], env)
                if joins and other is None:
                    return
                target = apply("-" if path.name == "+" else "+", [target, other])
                path = path.args[0]
            else:
                other = self.value(path.args[0], env)
                if joins and other is None:
                    return
                target = apply("-", [target, other] if path.name == "+" else [other, target])
                path = path.args[1]
        yield {**env, name: target}, OK

    def gen(
        self, gen: Gen, shared: set[str], exports: set[str], env: Env
    ) -> Iterator[tuple[Env, int]]:
        outer = {name: value for name, value in env.items() if name in shared}
        found = self.solve(gen.body, outer, exports)
        rows = [inner for inner, status in found if status == OK]
        try:
            if any(status == POISON for _, status in found):
                raise Failure("an expression failed")
            targets = [tuple(inner[name] for name in gen.targets) for inner in rows]
            result = aggregate(gen.kind, targets)
        except Failure:
            yield {**env, gen.name: FAILED, **{n: FAILED for n in exports if n not in env}}, POISON
            return
        except Void:
            return
        witnesses = {()}
        if exports:
            best = [inner for inner in rows if inner[gen.targets[0]] == result]
            witnesses = {tuple((n, inner[n]) for n in sorted(exports)) for inner in best}
        for witness in witnesses:
            if all(_joins(env, name, value) for name, value in witness):
                yield {**env, gen.name: result, **dict(witness)}, OK

    # --------------------------------------------------------------------------- expressions

    def listed(self, value: Expr, env: Env) -> list[Any]:
        """The values that one part of a list stands for."""
        if isinstance(value, Values):
            return [self.value(each, env) for each in value.constants()]
        if isinstance(value, ListParam):
            return list(self.params[value.name])
        return [self.value(value, env)]

    def value(self, expr: Expr, env: Env) -> Any:
        match expr:
            case Null():
                return None
            case FunctionCall("=" | "!=" as op, (Null(), side) | (side, Null())):
                return (self.value(side, env) is None) == (op == "=")
            case Const("timestamp", value):
                return Ts(value)
            case Const("duration", value):
                return Dur(value)
            case Const("float", value):
                return clean(float(value))
            case Const(_, value):
                return value
            case Param(name):
                return self.params[name]
            case Var(name):
                if env[name] is FAILED:
                    raise Failure("an expression failed")
                return env[name]
            case Cast(Const(_, value), kind) if scale_of(kind):
                return as_decimal(getattr(value, "text", value), scale_of(kind))
            case Cast(operand, kind):
                found, scale = self.value(operand, env), scale_of(kind)
                return as_decimal(found, scale) if scale else found
            case FunctionCall("if" | "case", args):
                holding = partial(holds, value=partial(self.value, env=env))
                return self.value(args[chosen(args, holding)], env)
            case FunctionCall(name, args):
                return apply(name, [self.value(arg, env) for arg in args])
        raise TypeError(f"not an expression: {expr}")

    # ------------------------------------------------------------------------------- scoping

    def order(self, branch: list[Any], env: Env, wanted: set[str]) -> list[tuple[Any, Any]]:
        """The items in an order in which each can be evaluated, with what each binds.

        Atoms first: a variable that an atom binds is never computed. Aggregates when all
        else that can be bound is: they share with the branch what it binds without them.
        """
        key = id(branch), frozenset(env), frozenset(wanted)
        if key not in self.orders:
            self.kept.append(branch)
            self.orders[key] = find_order(branch, set(env), wanted)
        return self.orders[key]


def _joins(env: Env, name: str, value: Value) -> bool:
    return name not in env or (value is not None and env[name] == value)


def holds(test: Any, value: Callable[[Any], Any]) -> bool:
    """Whether a condition of `if` holds: no comparison with a null does."""
    match test:
        case FunctionCall("lnot", (part,)):
            return not holds(part, value)
        case FunctionCall("land" | "lor" as name, parts):
            return (all if name == "land" else any)(holds(part, value) for part in parts)
        case FunctionCall("=" | "!=" as name, (left, right)) if isinstance(
            left, Null
        ) or isinstance(right, Null):
            other = value(right if isinstance(left, Null) else left)
            return (other is None) == (name == "=")
    return value(test) is True


def _keep_best(rows: Relation, best: Mapping[int, str]) -> Relation:
    if not best:
        return rows
    groups: dict[tuple[Value, ...], list[tuple[Value, ...]]] = {}
    for row in rows:
        key = tuple(value for at, value in enumerate(row) if at not in best)
        groups.setdefault(key, []).append(row)
    kept = set()
    for group in groups.values():
        row = list(group[0])
        for at, kind in best.items():
            row[at] = aggregate(kind, [(other[at],) for other in group])
        kept.add(tuple(row))
    return kept


def _declared(program: Program) -> dict[str, tuple[str, ...]]:
    base = {"number": "int", "unsigned": "int"}
    for _ in range(len(program.statements)):
        for statement in program.statements:
            if isinstance(statement, TypeDecl):
                target = statement.targets[0]
                base[statement.name] = base.get(target, target)
    return {
        name: tuple(base.get(column.type_name, column.type_name) for column in statement.columns)
        for statement in program.statements
        if isinstance(statement, Decl)
        for name in statement.names
    }
