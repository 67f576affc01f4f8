"""Drawn programs as SQL for DuckDB: a second opinion that shares nothing with the oracle either.

What SQL can say: no recursion, no witnesses of a minimum, nothing that fails. A rule's bindings
are the rows of its atoms' join, so `count()` is `count(*)`: relations are sets, and every column
is a variable, a wildcard, or decided by others. An aggregate in a body is a correlated subquery.
`Unsupported` says that SQL is not asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from itertools import combinations, count, product
from typing import Any

from gdatalog.parser.syntax import (
    Aggregate,
    And,
    Atom,
    Compare,
    Const,
    Expr,
    FunctionCall,
    Literal,
    Member,
    Not,
    Or,
    Program,
    Rule,
    Test,
    Values,
    Var,
    Wildcard,
)
from tests.oracle_normal import names
from tests.oracle_values import Value
from tests.sql_words import COLUMN, INFIX, NAMED, RESULT, aggregate_sql, literal

Types = dict[str, tuple[str, ...]]


class Unsupported(Exception):
    """The program says something that SQL does not, or not in the same way."""


def run_sql(
    program: Program, types: Mapping[str, tuple[str, ...]], rows: Mapping[str, set[Any]]
) -> dict[str, set[tuple[Value, ...]]]:
    """Every defined relation, by DuckDB."""
    known = dict(types)
    statements = to_sql(program, known)
    with _connection().cursor() as db:  # its temporary tables are its own
        for name, kinds in types.items():
            columns = ", ".join(f"c{at} {COLUMN[kind]}" for at, kind in enumerate(kinds))
            db.execute(f'CREATE TEMP TABLE "{name}" ({columns})')
            if rows[name]:
                values = ", ".join(f"({', '.join(map(literal, row))})" for row in rows[name])
                db.execute(f'INSERT INTO "{name}" VALUES {values}')
        found: dict[str, set[tuple[Value, ...]]] = {}
        for name, select in statements:
            try:
                db.execute(f'CREATE TEMP TABLE "{name}" AS {select}')
            except Exception as problem:
                if type(problem).__name__ not in ("OutOfRangeException", "ConversionException"):
                    raise
                raise Unsupported("DuckDB does not wrap around") from None
            answer = db.execute(f'SELECT * FROM "{name}"').fetchall()
            found[name] = {tuple(row[: len(known[name])]) for row in answer}
    return found


@cache
def _connection() -> Any:
    import duckdb  # only who asks SQL needs it

    return duckdb.connect(config={"threads": 1})


def to_sql(program: Program, types: Types) -> list[tuple[str, str]]:
    """A SELECT for every defined relation, each after those that it reads.

    The types of the relations are added to `types`.
    """
    rules: dict[str, list[tuple[Atom, Literal | None]]] = {}
    for statement in program.statements:
        if isinstance(statement, Rule):
            for head in statement.heads:
                rules.setdefault(head.name, []).append((head, statement.body))
    selects = []
    while rules:
        ready = [name for name in rules if not (_reads(rules[name]) & rules.keys())]
        if not ready:
            raise Unsupported("recursion")
        name = ready[0]
        selects.append((name, _relation(name, rules.pop(name), types)))
    return selects


def _reads(rules: list[tuple[Atom, Literal | None]]) -> set[str]:
    return set().union(*(_atoms(body) for _, body in rules))


def _atoms(node: Any) -> set[str]:
    """The names of the atoms in a body, aggregates included."""
    parts = [getattr(node, part.name) for part in fields(node)] if is_dataclass(node) else []
    found = {node.name} if isinstance(node, Atom) else set()
    for part in node if isinstance(node, tuple) else parts:
        found |= _atoms(part)
    return found


def _relation(name: str, rules: list[tuple[Atom, Literal | None]], types: Types) -> str:
    heads = [head for head, _ in rules]
    args = [arg for head in heads for arg in head.args]
    optima = all(_bare(arg) or not _has_aggregate(arg) for arg in args)
    found = [
        _select(head, branch, types, optima)
        for head, body in rules
        for branch in ([[]] if body is None else _branches(body))
    ]
    types[name] = found[0][1]
    arity = len(heads[0].args)
    union = " UNION ALL ".join(select for select, _ in found)
    best = {at: kind for head in heads for at, arg in enumerate(head.args) if (kind := _bare(arg))}
    if not best or not optima:
        return f"SELECT DISTINCT * FROM ({union})"
    columns = [f"{best[at]}(c{at}) AS c{at}" if at in best else f"c{at}" for at in range(arity)]
    keys = [f"c{at}" for at in range(arity) if at not in best]
    group = f"GROUP BY {', '.join(keys)}" if keys else "HAVING count(*) > 0"
    return f"SELECT {', '.join(columns)} FROM ({union}) {group}"


def _bare(arg: Expr) -> str | None:
    """Whether the argument is a min or max alone, which all rules of a relation share."""
    alone = isinstance(arg, FunctionCall) and arg.name in ("min", "max") and len(arg.args) == 1
    return arg.name if alone and isinstance(arg, FunctionCall) else None


def _branches(body: Literal) -> Iterator[list[Literal]]:
    """The conjunctions that a body is the disjunction of."""
    if isinstance(body, Or):
        for item in body.items:
            yield from _branches(item)
    elif isinstance(body, And):
        for choice in product(*(list(_branches(item)) for item in body.items)):
            yield [literal for part in choice for literal in part]
    elif isinstance(body, Not) and isinstance(body.body, Not):
        yield from _branches(body.body.body)
    else:
        yield [body]


@dataclass
class Bindings:
    """FROM and WHERE of a conjunction, and its variables as SQL with their types."""

    types: Types
    names: Iterator[int]
    sql: dict[str, str] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    tables: list[str] = field(default_factory=list)
    tests: list[str] = field(default_factory=list)
    shared: set[str] | None = None  # what aggregates share, once it is known

    def __str__(self) -> str:
        return f"FROM {', '.join(self.tables or ['(SELECT 1)'])} WHERE " + " AND ".join(
            self.tests or ["true"]
        )

    def conjunction(self, items: list[Literal]) -> None:
        left = [item for item in items if not isinstance(item, Atom) or item.name not in self.types]
        expressions: list[Literal] = []
        for item in items:
            if isinstance(item, Atom) and item.name in self.types:
                expressions += self.atom(item)
        left += expressions
        nots = [item for item in left if isinstance(item, Not)]
        self.add([item for item in left if not isinstance(item, Not)])
        self.add(nots)  # when all that is bound is known

    def add(self, left: list[Literal]) -> None:
        """Adds literals as their variables allow, those with aggregates when no other can be."""
        while left:
            for item in left:
                if self.literal(item):
                    left.remove(item)
                    break
            else:
                if self.shared is not None:
                    raise Unsupported("an equation to solve")
                self.shared = set(self.sql)

    def atom(self, atom: Atom) -> Iterator[Literal]:
        """Adds a table; what is not a variable becomes an equation over its column."""
        table = f"t{next(self.names)}"
        self.tables.append(f'"{atom.name}" AS {table}')
        for at, (arg, kind) in enumerate(zip(atom.args, self.types[atom.name], strict=True)):
            column = f"{table}.c{at}"
            if isinstance(arg, Wildcard):
                continue
            if isinstance(arg, Var) and arg.name not in self.sql:
                self.sql[arg.name], self.kinds[arg.name] = column, kind
            elif isinstance(arg, Var):
                self.tests.append(f"{self.sql[arg.name]} = {column}")
            else:
                name = f"%{next(self.names)}"
                self.sql[name], self.kinds[name] = column, kind
                yield Compare(Var(name), (("=", arg),))

    def literal(self, item: Literal) -> bool:
        """Adds a test or a variable; False if a variable is not bound yet."""
        match item:
            case Compare(first, rest):
                sides = [first, *(side for _, side in rest)]
                if len(rest) == 1 and rest[0][0] == "=":
                    for one, other in (sides, sides[::-1]):
                        if self.knows(other) and self.solve(one, other):
                            return True
                if not all(map(self.knows, sides)):
                    return False
                values = [self.value(side) for side in sides]
                for at, (op, _) in enumerate(rest):
                    op = "<>" if op == "!=" else op
                    self.tests.append(f"({values[at]} {op} {values[at + 1]})")
            case Member(of, parts):
                values = tuple(
                    value
                    for part in parts
                    for value in (part.constants() if isinstance(part, Values) else (part,))
                )
                if not all(map(self.knows, values)):
                    return False
                listed = ", ".join(f"({self.value(value)})" for value in values)
                if isinstance(of, Var) and of.name not in self.sql:
                    table = f"t{next(self.names)}"
                    self.tables.append(f"(SELECT DISTINCT * FROM (VALUES {listed})) {table}(c0)")
                    self.sql[of.name], self.kinds[of.name] = f"{table}.c0", self.kind(values[0])
                    return True
                if not self.knows(of):
                    return False
                self.tests.append(f"({self.value(of)} IN ({listed}))")
            case Atom("distinct", args):
                if not all(map(self.knows, args)):
                    return False
                pairs = combinations([self.value(arg) for arg in args], 2)
                self.tests += [f"({one} <> {other})" for one, other in pairs]
            case Atom(name, args):
                return self.literal(Test(FunctionCall(name, args)))
            case Test(expr):
                if not self.knows(expr):
                    return False
                self.tests.append(f"({self.value(expr)})")
            case Not(inner):
                return self.negation(inner)
            case _:
                raise Unsupported(type(item).__name__)
        return True

    def solve(self, path: Expr, other: Expr) -> bool:
        """Binds the one unknown variable of `path`, if `+` and `-` lead to it."""
        value, kind = self.value(other), self.kind(other)
        while isinstance(path, FunctionCall) and path.name in "+-":
            unknown = [at for at, arg in enumerate(path.args) if not self.knows(arg)]
            if len(unknown) != 1:
                return False
            at = unknown[0]
            if len(path.args) == 1:
                value = f"(-{value})"
            elif path.name == "-" and at == 1:
                value = f"({self.value(path.args[0])} - {value})"
            else:
                sign = "-" if path.name == "+" else "+"
                value = f"({value} {sign} {self.value(path.args[1 - at])})"
            path = path.args[at]
        if not isinstance(path, Var) or path.name in self.sql:
            return False
        self.sql[path.name], self.kinds[path.name] = f"({value})", kind
        return True

    def negation(self, inner: Literal) -> bool:
        tests = []
        for branch in _branches(inner):
            below = Bindings(self.types, self.names, dict(self.sql), dict(self.kinds))
            try:
                below.conjunction(branch)
            except Unsupported:
                return False  # a variable may be bound later
            tests.append(f"NOT EXISTS (SELECT 1 {below})")
        self.tests += tests
        return True

    def knows(self, expr: Expr) -> bool:
        if isinstance(expr, Var):
            return expr.name in self.sql
        if isinstance(expr, FunctionCall):
            return all(map(self.knows, expr.args))
        if isinstance(expr, Aggregate):
            return self.shared is not None
        if isinstance(expr, Const):
            return True
        raise Unsupported(type(expr).__name__)

    def kind(self, expr: Expr) -> str:
        if isinstance(expr, Const):
            return expr.type
        if isinstance(expr, Var):
            if expr.name not in self.kinds:
                raise Unsupported("a witness")
            return self.kinds[expr.name]
        if isinstance(expr, Aggregate):
            if expr.kind in ("count", "count_distinct"):
                return "int"
            return "float" if expr.kind == "mean" else self.aggregate(expr)[1]
        assert isinstance(expr, FunctionCall)
        return RESULT.get(expr.name) or self.kind(expr.args[0])

    def value(self, expr: Expr) -> str:
        match expr:
            case Const(kind, value):
                return f"CAST({literal(value)} AS {COLUMN[kind]})"
            case Var(name) if name in self.sql:
                return self.sql[name]
            case Var():
                raise Unsupported("a witness")
            case FunctionCall(name, args):
                values = [self.value(arg) for arg in args]
                return self.call(name, values, self.kind(args[0]) if args else "")
            case Aggregate():
                value = self.aggregate(expr)[0]
                self.tests.append(f"{value} IS NOT NULL")  # over nothing there is no value
                return value
        raise Unsupported(type(expr).__name__)

    def aggregate(self, expr: Aggregate) -> tuple[str, str]:
        """A subquery, and the type of the aggregate's target."""
        branches = list(_branches(expr.body))
        if len(branches) > 1:
            raise Unsupported("`;` in an aggregate")
        shared = self.shared or set()
        # A variable of what is aggregated that the aggregate's body binds is another one inside.
        aggregated = shared & {name for target in expr.targets for name in names(target)}
        atoms = [part for part in branches[0] if isinstance(part, Atom)]
        if not aggregated <= {arg.name for a in atoms for arg in a.args if isinstance(arg, Var)}:
            raise Unsupported("what is aggregated may be bound by the body")
        shared = shared - aggregated
        below = Bindings(
            self.types,
            self.names,
            {name: sql for name, sql in self.sql.items() if name in shared},
            {name: kind for name, kind in self.kinds.items() if name in shared},
        )
        below.conjunction(branches[0])
        if not all(map(below.knows, expr.targets)):
            raise Unsupported("a target that is not bound")
        values = [below.value(target) for target in expr.targets]
        kind = below.kind(expr.targets[0]) if expr.targets else "int"
        # The values get names first: SQL takes an aggregate of outer columns for the outer query's.
        named = ", ".join(f"{value} AS v{at}" for at, value in enumerate(values)) or "1"
        columns = [f"v{at}" for at in range(len(values))]
        select = f"SELECT {aggregate_sql(expr.kind, columns, kind)} FROM (SELECT {named} {below})"
        return f"({select})", kind

    def call(self, name: str, values: list[str], kind: str) -> str:
        text = ", ".join(values)
        if name == "-" and len(values) == 1:
            return f"(-{text})"
        if name == "+":
            return f"({(' || ' if kind == 'symbol' else ' + ').join(values)})"
        if name == "cat":
            return f"({' || '.join(values)})"
        if name in INFIX:
            return f"({f' {INFIX[name]} '.join(values)})"
        if name in NAMED:
            return f"{NAMED[name]}({text})"
        if name == "lnot" and kind == "bool":
            return f"(NOT {text})"
        if name == "to_float":
            return f"CAST({text} AS DOUBLE)"
        if name == "to_string" and kind in ("int", "bool", "symbol"):
            return f"CAST({text} AS VARCHAR)"
        if name == "substr":
            return f"substr({values[0]}, {values[1]} + 1, {values[2]})"
        if name == "contains":
            return f"contains({values[1]}, {values[0]})"
        if name == "starts_with":
            return f"starts_with({text})"
        if name == "ord":
            return text
        raise Unsupported(name)


def _select(
    head: Atom, items: list[Literal], types: Types, optima: bool
) -> tuple[str, tuple[str, ...]]:
    """The head's rows for one conjunction, not made distinct, and the columns' types.

    `optima`: a min or max alone is left to the union of the relation's rules.
    """
    bindings = Bindings(types, count())
    bindings.conjunction(items)
    inner = ", ".join(f'{sql} AS "{name}"' for name, sql in bindings.sql.items())
    source = f"(SELECT {inner or '1'} {bindings})"
    kinds = tuple(_result(arg, bindings) for arg in head.args)
    outer = Bindings(types, count(), {n: f'"{n}"' for n in bindings.sql}, bindings.kinds)
    found: list[FunctionCall] = []
    columns = [f"{_head(arg, outer, found, optima)} AS c{at}" for at, arg in enumerate(head.args)]
    select = f"SELECT {', '.join(columns) or '1 AS c0'} FROM {source}"
    if not found:
        return select, kinds
    keys = [key for at, arg in enumerate(head.args) for key in _group(arg, at, outer)]
    if keys:
        return f"{select} GROUP BY {', '.join(keys)}", kinds
    always = all(call.name in ("count", "count_distinct", "sum") for call in found)
    return select if always else f"{select} HAVING count(*) > 0", kinds


def _is_aggregate(arg: Expr) -> bool:
    if not isinstance(arg, FunctionCall):
        return False
    return bool(_bare(arg)) or arg.name in ("count", "count_distinct", "sum", "mean", "any_value")


def _has_aggregate(arg: Expr) -> bool:
    return isinstance(arg, FunctionCall) and (
        _is_aggregate(arg) or any(map(_has_aggregate, arg.args))
    )


def _head(arg: Expr, outer: Bindings, found: list[FunctionCall], optima: bool) -> str:
    """An argument of a head as SQL; the aggregates in it are added to `found`."""
    if isinstance(arg, FunctionCall) and _bare(arg) and optima:
        return outer.value(arg.args[0])
    if isinstance(arg, FunctionCall) and _is_aggregate(arg):
        found.append(arg)
        values = [outer.value(part) for part in arg.args]
        return aggregate_sql(arg.name, values, outer.kind(arg.args[0]) if arg.args else "int")
    if isinstance(arg, FunctionCall):
        values = [_head(part, outer, found, optima) for part in arg.args]
        return outer.call(arg.name, values, _result(arg.args[0], outer))
    return outer.value(arg)


def _result(arg: Expr, bindings: Bindings) -> str:
    if isinstance(arg, FunctionCall) and arg.name in ("count", "count_distinct"):
        return "int"
    if isinstance(arg, FunctionCall) and arg.name == "mean":
        return "float"
    if isinstance(arg, FunctionCall) and arg.args and arg.name not in RESULT:
        return _result(arg.args[0], bindings)
    return bindings.kind(arg)


def _group(arg: Expr, at: int, outer: Bindings) -> list[str]:
    """A column by its number; beside an aggregate the variables."""
    inside = sorted(_variables(arg))
    if _has_aggregate(arg):
        return [outer.sql[name] for name in inside]
    return [str(at + 1)] if inside else []


def _variables(arg: Expr) -> set[str]:
    """The variables outside of aggregates."""
    if isinstance(arg, Var):
        return {arg.name}
    parts = arg.args if isinstance(arg, FunctionCall) and not _is_aggregate(arg) else ()
    return set().union(*map(_variables, parts))
