"""Expressions printed into one module, compiled, and run over rows: for tests of the printer.

The module writes for every expression and row its key, whether it failed, and, of a test,
whether it holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import numpy as np

from gdatalog.codegen import function_names, native
from gdatalog.cpu_ops.expressions import Scope, evaluate, test
from gdatalog.errors import NOWHERE
from gdatalog.plan.functions import FORMS, FUNCTIONS, HIDDEN, OF_SCALED, Signature, signatures
from gdatalog.plan.join_plan import Apply, Constant, Expr, Parameter, Slot, slots
from gdatalog.planner.normalise import applied
from gdatalog.printer.expressions import ExpressionPrinter
from gdatalog.storage.keys import encode_value
from gdatalog.values import FIRST_DAY, INT_MAX, INT_MIN, LAST_DAY, TYPE_NAMES, Value

DAY = 86_400_000_000_000
DECIMAL, MOST = "decimal(18,2)", 10**18 - 1  # one of all decimals, its greatest scaled int
TYPES = (*TYPE_NAMES, DECIMAL)
HUGE = 1.7976931348623157e308
VALUES: dict[str, Sequence[Any]] = {
    "int": (
        0, 1, -1, 2, -2, 3, -3, 5, 7, -7, 10, 62, 63, 64, 65, -64, 100, 2**31 - 1, -(2**31), 2**32,
        2**53 + 1, 3037000500, INT_MAX, INT_MAX - 1, INT_MIN, INT_MIN + 1,
    ),
    "float": (
        0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -2.5, 2.0, 3.0, 1e-300, 5e-324, -5e-324, 1e300, HUGE,
        -HUGE, float("inf"), float("-inf"), 2.0**53, 2.0**63, -(2.0**63), 9223372036854774784.0,
        -9223372036854777856.0, 710.0, -750.0,
    ),
    "symbol": (
        "", "a", "ab", "b", "B", "é", "日本", "12", "-3", "+7", "1.5", "inf", "-inf", "1e400", ".",
        "9223372036854775807", "9223372036854775808", "-9223372036854775808", "[", "a.", " a", "٣",
    ),
    "bool": (False, True),
    "timestamp": (
        0, 1, -1, DAY, -DAY, DAY - 1, 31 * DAY, 58 * DAY, 59 * DAY, 365 * DAY, 789 * DAY,
        951_782_400 * 10**9, 951_868_800 * 10**9, -2_203_891_200 * 10**9, 4_107_542_400 * 10**9,
        -DAY - 1, INT_MIN, INT_MIN + 1, INT_MAX,
    ),
    "date": (0, 1, -1, 31, 58, 59, 365, 789, 11_016, -25_508, FIRST_DAY, FIRST_DAY + 1, LAST_DAY),
    "duration": (0, 1, -1, DAY, -DAY, 10**9, 10**9 - 1, -(10**9) - 1, INT_MIN, INT_MAX),
    DECIMAL: (0, 1, -1, 5, -50, 110, 10**9, -(10**9), 10**9 - 1, MOST, -MOST, MOST // 2, MOST - 1),
}  # fmt: skip
PATTERNS = ("a.*", "[[:digit:]]+", "", "[", "(", ".", "é|日.")
LETTERS = {kind: {"duration": "u", DECIMAL: "e"}.get(kind, kind[0]) for kind in TYPES}
VARIABLES = {f"{LETTERS[kind]}{at}": kind for kind in TYPES for at in (1, 2)}
PARAMS: dict[str, Value] = {
    "int": 3, "float": 0.25, "symbol": "ab", "bool": True, "timestamp": 59 * DAY, "date": 59,
    "duration": DAY, DECIMAL: 110,
}  # fmt: skip

LANGUAGE: dict[str, tuple[Signature, ...]] = {
    **{name: own for name, own in FUNCTIONS.items() if name not in (*FORMS, "to_decimal")},
    **{
        name: own
        for name, own in HIDDEN.items()
        if name not in ("format_value", "round_to", "local_time", "utc_time")
    },
    # of scaled ints, and of scaled ints and any ints
    **dict.fromkeys(OF_SCALED, (Signature((("a", frozenset({DECIMAL})),) * 2, "a"),)),
    "*!": (Signature((frozenset({DECIMAL}), frozenset({"int", DECIMAL})), DECIMAL),),
    **dict.fromkeys(("!match", "match?", "!match?"), FUNCTIONS["match"]),
}
# Of decimals, the planner makes others of these.
LOWERED = {*"+*/-", "floor", "ceil", "to_int", "to_number", "to_float", "to_decimal"}
INEXACT = {"exp", "log", "^"}  # on floats: the last bit is the processor's


def typings() -> list[tuple[str, tuple[str, ...], str]]:
    """Every function with every choice of its arguments' types, and its result's."""
    found = []
    for name, every in LANGUAGE.items():
        for signature in every:
            count = len(signature.params) + (1 if signature.variadic else 0)
            count -= name == "round"
            for letter in TYPES:
                for free in TYPES:
                    kinds = [_kind(signature, at, letter, free) for at in range(count)]
                    if None not in kinds and not (name in LOWERED and DECIMAL in kinds):
                        of = tuple(map(str, kinds))
                        found.append((name, of, signature.result_of(of)))  # type: ignore[arg-type]
    return list(dict.fromkeys(found))


def _kind(signature: Signature, at: int, letter: str, free: str) -> str | None:
    """The type of an argument; `letter` is the shared type, `free` the type of all others."""
    param = signature.param(at)
    if isinstance(param, tuple):
        return letter if letter in param[1] else None
    if len(param) == 1:
        return next(iter(param))
    return free if free in param else None


TYPINGS = typings()


def draw(random: Random, kind: str, depth: int) -> Expr:
    """An expression of a type, of all functions that are printed to the last bit."""
    choices = [typing for typing in TYPINGS if typing[2] == kind]
    if depth == 0 or not choices or random.randrange(100) < (70 if kind == "symbol" else 20):
        return leaf(random, kind)
    name, kinds, result = random.choice(choices)
    if name in INEXACT and kinds[0] == "float":
        name = "%" if name == "^" else "sqrt"
    args = [draw(random, of, depth - 1) for of in kinds]
    if name.strip("!?") == "match":
        args[0] = Constant(random.choice(PATTERNS), "symbol")
    if signatures(name) and name not in OF_SCALED:  # the planner types these
        return applied(name, tuple(args), NOWHERE)
    return Apply(name, tuple(args), result)  # type: ignore[arg-type]


def leaf(random: Random, kind: Any) -> Expr:
    choice = random.randrange(100)
    if choice < 70:
        return Slot(random.choice([name for name, of in VARIABLES.items() if of == kind]), kind)
    if choice < 90:
        return Constant(random.choice(VALUES[kind]), kind)
    return Parameter(f"p_{kind}", kind)


def scope() -> Scope:
    """With symbols that no value is among, too."""
    made = Scope(params={f"p_{kind}": value for kind, value in PARAMS.items()}, symbols=_symbols())
    return made


def _symbols() -> Any:
    from gdatalog.storage.symbols import SymbolTable

    table = SymbolTable()
    for text in ("zz", *VALUES["symbol"], "0"):
        table.intern(text)
    return table


def columns(random: Random, rows: int, of: Scope) -> dict[str, np.ndarray]:
    """For each variable its keys: boundary values in all combinations that come to be."""
    return {
        name: np.array(
            [encode_value(random.choice(VALUES[kind]), kind, of.symbols) for _ in range(rows)],
            dtype=np.int64,
        )
        for name, kind in VARIABLES.items()
    }


class Module:
    """Printed expressions; `check` compares each one's keys, failures, and what its test says.

    A failing row goes on to the next (`leaves`), or to the next expression with what it has.
    """

    def __init__(self, exprs: Sequence[Expr], leaves: bool = False) -> None:
        self.exprs = exprs
        self.expressions = ExpressionPrinter()
        lines: list[str] = []
        for at, expr in enumerate(exprs):
            if leaves or at == 0:
                lines += ["for row in range(rows):"]
                reads = sorted(slots(expr)) if leaves else VARIABLES
                lines += [f"    {name}_ = {name}[row]" for name in reads]
            lines += [f"    {line}" for line in self._one(at, expr, leaves)]
        self.arguments = [*VARIABLES, *self.expressions.types()]
        types = {"rows": "i64", "keys": "i64[]", "failed": "u8[]", "holds": "bool[]"}
        types |= dict.fromkeys(VARIABLES, "i64[]") | self.expressions.types()
        given = ", ".join(f'{name}: "{kind}"' for name, kind in types.items())
        body = [f"    {line}" for line in [*self.expressions.prologue(), *lines]]
        used = ", ".join(sorted(self.expressions.imports))
        imports = f"from gdatalog.codegen.helpers.values import {used}" if used else ""
        self.text = "\n".join([imports, f"def loops({given}) -> None:", *body, ""])

    def _one(self, at: int, expr: Expr, leaves: bool) -> list[str]:
        self.expressions._operands = 0  # a module of a rule has fewer expressions
        names = {name: f"{name}_" for name in VARIABLES}
        out: list[str] = []
        if expr.type == "bool":
            holds = self.expressions.test(expr, names, out)
            out.append(f"holds[{at} * rows + row] = {holds}")
        fail = f"failed[{at} * rows + row] = 1" + ("\ncontinue" if leaves else "")
        key = self.expressions.key(expr, names, out, fail)
        return [*out, f"keys[{at} * rows + row] = {key}"]

    def compile(self) -> Any:
        return native.load(function_names.named("expressions", self.text), self.text)

    def check(self, data: Mapping[str, np.ndarray], of: Scope) -> None:
        """What the compiled loops say is what `cpu_ops.functions` says."""
        rows = len(next(iter(data.values())))
        shape = (len(self.exprs), rows)
        keys, failed = np.zeros(shape, np.int64), np.zeros(shape, np.uint8)
        holds = np.zeros(shape, np.bool_)
        arguments = self.expressions.arguments(of)
        assert list(arguments) == list(self.expressions.types())
        given = [{**data, **arguments}[name] for name in self.arguments]
        self.compile()(rows, keys.ravel(), failed.ravel(), holds.ravel(), *given)
        for at, expr in enumerate(self.exprs):
            expected, bad = evaluate(expr, data, rows, of)
            bad = np.zeros(rows, np.bool_) if bad is None else bad
            assert failed[at].astype(bool).tolist() == bad.tolist(), expr
            assert keys[at][~bad].tolist() == expected[~bad].tolist(), expr
            if expr.type == "bool":
                expected = test(expr, data, rows, of)
                assert holds[at][~bad].tolist() == expected[~bad].tolist(), expr
