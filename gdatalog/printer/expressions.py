"""Prints the expressions of a plan, which compute the values of one row. (`cpu_ops.evaluate`
computes whole columns.)

The source depends on an expression's shape only. Constants, parameters and symbols are arguments,
so that expressions of one shape share compiled code. Subexpressions without variables are computed
beforehand and passed as constants. Functions of one string read a table, indexed by the string's
code.

The source has the local names `constN`, `floatN` and `valueN`, the arguments `consts`, `ranks`,
`tableN` and `failedN`, and the helpers in `imports`.

exp, log and ^ of floats may differ from NumPy's in the last bit, as NumPy's own results do between
processors; all other results are identical.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from gdatalog.cpu_ops.expressions import Scope, constant
from gdatalog.cpu_ops.functions import EQUALITY, MONTHS, ORDER, TRUNCATED
from gdatalog.cpu_ops.texts import MATCHING, on_texts
from gdatalog.decimals import LIMIT
from gdatalog.plan.functions import NULLING, UNLESS_NULL, signature_of, signatures
from gdatalog.plan.join_plan import Apply, Expr, Slot, slots
from gdatalog.printer.filled_tables import fill
from gdatalog.records import dataclass
from gdatalog.storage.table import Array
from gdatalog.values import DAY, NULL


class Unprintable(Exception):
    """The reason, worded for users, why a plan runs breadth-first only."""


# A function with more operands takes longer to compile than NumPy takes to compute its columns.
MOST_OPERANDS = 200


def printable(*exprs: Expr) -> str | None:
    """None, or the reason why these expressions cannot be printed into one function."""
    together = ExpressionPrinter()
    try:
        for expr in exprs:
            together.key(expr, {name: name for name in slots(expr)}, [], "pass")
    except Unprintable as reason:
        return str(reason)
    return None


Form = Literal["key", "float", "bool"]


@dataclass(frozen=True, slots=True)
class _ValueText:
    """Source text of a value: its int64 key, a float64, or a bool.

    `atom`: it needs no parentheses as an operand. `constant`: its number, if it is a constant.
    """

    text: str
    form: Form = "key"
    atom: bool = True
    constant: int | None = None

    @property
    def operand(self) -> str:
        return self.text if self.atom else f"({self.text})"


_INT = {
    "band": "{0} & {1}",
    "bor": "{0} | {1}",
    "bxor": "{0} ^ {1}",
    "bnot": "~{0}",
    "bshl": "{0} << ({1} & 63)",
    "bshr": "{0} >> ({1} & 63)",
    "land": "1 if {0} != 0 and {1} != 0 else 0",
    "lor": "1 if {0} != 0 or {1} != 0 else 0",
    "lxor": "1 if ({0} != 0) != ({1} != 0) else 0",
    "lnot": "1 if {0} == 0 else 0",
}
_BOOL = {
    "land": "({0} and {1})",
    "lor": "({0} or {1})",
    "lxor": "({0} != {1})",
    "lnot": "(not {0})",
}
_HELPED = {
    "+": "plus",
    "*": "times",
    "+!": "plus",
    "-!": "minus",
    "floored": "floored",
    "rounded": "rounded",
    "bshru": "shift_right_unsigned",
    **{unit: f"{unit}_of" for unit in ("year", "month", "day", "weekday")},
    **{unit: f"{unit}_of" for unit in ("hour", "minute", "second")},
}
_PARTIAL = {"/": ("divide", "quotient_fails"), "^": ("power", "power_fails")}
_PARTIAL_DATES = {
    "+": ("later_date", "later_date_fails"),
    "-": ("between_dates", "between_dates_fails"),
}
_REAL = {"%": "fmod", "^": "power"} | {
    name: name for name in ("floor", "ceil", "sqrt", "exp", "log")
}  # of NumPy
_NEVER_NAN = {"abs", "floor", "ceil", "exp"}  # if the argument is no NaN
_PYTHON = {"=": "==", "!=": "!="} | {op: op for op in ORDER}


class ExpressionPrinter:
    """The expressions of one generated function, and the arguments that they need."""

    def __init__(self) -> None:
        self.imports: set[str] = set()  # of `codegen.helpers.values`
        self.constants: list[tuple[Expr, Literal["key", "failed"]]] = []
        self.tables: list[Apply] = []
        self._failing: set[int] = set()  # tables with a column of failures
        self._floats: set[int] = set()  # constants that are read as floats
        self._ranked = False
        self._values = 0
        self._operands = 0
        # Of the current expression: names of variables, preceding lines, the statement for failures
        self._names: Mapping[str, str] = {}
        self._out: list[str] = []
        self._fail: str | None = None

    # ---------------------------------------------------------------------------------- interface

    def key(self, expr: Expr, names: Mapping[str, str], out: list[str], fail: str) -> str:
        """Source of an expression's int64 key, usable as an operand.

        `names` maps variables to the local names of their keys. Appends to `out` the statements
        that must run before. `fail` is the statement that runs if the computation fails.
        """
        self._names, self._out, self._fail = names, out, fail
        return self._key(self._print(expr)).operand

    def test(self, expr: Expr, names: Mapping[str, str], out: list[str]) -> str:
        """Source of a test: a bool, usable as an operand of `not`, `and` and `or`."""
        self._names, self._out, self._fail = names, out, None
        return self._bool(self._print(expr)).text

    def decoded(self, key: str) -> str:
        """Source of the float that a key stands for."""
        return self._float(_ValueText(key)).text

    def encoded(self, value: str) -> str:
        """Source of a float's key."""
        return self._key(_ValueText(f"{value} + 0.0", "float")).text

    def rank(self, code: str) -> str:
        """Source of a symbol's rank."""
        self._ranked = True
        return f"ranks[{code}]"

    def prologue(self) -> list[str]:
        """Statements for the start of the function: constants become local variables."""
        lines = [f"const{at} = consts[{at}]" for at in range(len(self.constants))]
        for at in sorted(self._floats):
            lines.append(f"float{at} = float_of_key(consts[{at}])")
        return lines

    def types(self) -> dict[str, str]:
        """The arguments, in order, and their types."""
        types = {"consts": "i64[]"} if self.constants else {}
        if self._ranked:
            types["ranks"] = "i64[]"
        for at, expr in enumerate(self.tables):
            types[f"table{at}"] = "u8[]" if expr.type == "bool" else "i64[]"
            if at in self._failing:
                types[f"failed{at}"] = "u8[]"
        return types

    @property
    def of_symbols(self) -> bool:
        """Whether the arguments depend on the size of the symbol table."""
        return self._ranked or bool(self.tables)

    def arguments(self, scope: Scope) -> dict[str, Array]:
        """The arguments for one run."""
        # Constants come first: they may add symbols, which ranks and tables must include.
        found = [(constant(expr, scope), what) for expr, what in self.constants]
        keys = [key if what == "key" else int(failed) for (key, failed), what in found]
        filled = [fill(expr, scope) for expr in self.tables]
        arrays: dict[str, Array] = {"consts": np.array(keys, np.int64)} if keys else {}
        if self._ranked:
            arrays["ranks"] = scope.symbols.ranks()
        for at, (values, failed) in enumerate(filled):
            arrays[f"table{at}"] = values
            if at in self._failing:
                arrays[f"failed{at}"] = failed
        return arrays

    # ------------------------------------------------------------------------------------ kinds

    def _print(self, expr: Expr) -> _ValueText:
        if isinstance(expr, Slot):
            return _ValueText(self._names[expr.name])
        if not isinstance(expr, Apply) or _is_fixed(expr):
            return self._constant(expr)
        self._operands += len(expr.args)
        if self._operands > MOST_OPERANDS:
            raise Unprintable(f"it has more than {MOST_OPERANDS} operands to compile")
        name, kind = expr.function, expr.args[0].type
        if name in NULLING:
            return self._nulling(expr)
        if on_texts(name, kind):
            return self._textual(expr)
        args = [self._print(arg) for arg in expr.args]
        if name in EQUALITY or name in ORDER:
            return self._compare(name, args[0], args[1], expr.args[0])
        if name in ("min", "max"):
            return self._extreme(name, args, expr)
        if kind == "float":
            return self._of_floats(name, args)
        if kind == "bool":
            return self._of_bools(name, args)
        return self._of_ints(name, [self._key(arg) for arg in args], kind == "date")

    def _nulling(self, expr: Apply) -> _ValueText:
        """A function that makes nulls or chooses values: other arguments are computed if they are
        needed."""
        first, *others = expr.args
        if expr.function == "if":
            test = self._bool(self._print(first)).text
            name = self._new("0")
            self._under(f"if {test}:", name, others[0])
            self._under("else:", name, others[1])
            return _ValueText(name)
        if expr.function == UNLESS_NULL:
            tests = [f"{self._key(self._print(other)).operand} != {NULL}" for other in others]
            name = self._new(str(NULL))
            self._under(f"if {' and '.join(tests)}:", name, first)
            return _ValueText(name)
        name = self._new(self._key(self._print(first)).text)
        for other in others:
            self._under(f"if {name} == {NULL}:", name, other)
        return _ValueText(name)

    def _under(self, test: str, name: str, expr: Expr) -> None:
        """Statements that give a variable the key of an expression if a test holds."""
        out, self._out = self._out, []
        text = self._key(self._print(expr)).text
        inner, self._out = self._out, out
        out += [test, *(f"    {line}" for line in (*inner, f"{name} = {text}"))]

    def _constant(self, expr: Expr) -> _ValueText:
        at = self._argument(expr, "key")
        if self._fail is not None and _may_fail(expr):
            self._check(f"const{self._argument(expr, 'failed')} != 0")
        return _ValueText(f"const{at}", constant=at)

    def _argument(self, expr: Expr, what: Literal["key", "failed"]) -> int:
        self.constants.append((expr, what))
        return len(self.constants) - 1

    def _compare(self, op: str, left: _ValueText, right: _ValueText, of: Expr) -> _ValueText:
        left, right = self._key(left), self._key(right)
        if of.type == "symbol" and op in ORDER:
            left, right = (_ValueText(self.rank(each.text)) for each in (left, right))
        return _ValueText(f"{left.operand} {_PYTHON[op]} {right.operand}", "bool", False)

    def _extreme(self, name: str, args: Sequence[_ValueText], expr: Apply) -> _ValueText:
        if expr.type == "symbol":
            return self._extreme_symbol(name, args)
        if any(arg.form == "float" for arg in args):
            floats = [self._float(arg).text for arg in args]
            return _ValueText(f"{name}({', '.join(floats)})", "float")
        return _ValueText(f"{name}({', '.join(self._key(arg).text for arg in args)})")

    def _extreme_symbol(self, name: str, args: Sequence[_ValueText]) -> _ValueText:
        best, *others = (self._named(arg) for arg in args)
        for other in others:
            op = "<" if name == "min" else ">"
            text = f"{other} if {self.rank(other)} {op} {self.rank(best)} else {best}"
            best = self._named(_ValueText(text, "key", False))
        return _ValueText(best)

    def _of_ints(self, name: str, args: Sequence[_ValueText], dates: bool) -> _ValueText:
        operands = [arg.operand for arg in args]
        if name in ("to_int", "to_number", "ord"):
            return args[0]
        if name == "to_float":
            return _ValueText(f"float({args[0].text})", "float")
        if name == "seconds_between":
            nanoseconds = self._call("minus", (args[1].text, args[0].text))
            if dates:
                return _ValueText(f"float({nanoseconds.text}) * 86400.0", "float", False)
            return _ValueText(f"{nanoseconds.text} / 1e9", "float", False)
        if dates and name in _PARTIAL_DATES:
            return self._partial(*_PARTIAL_DATES[name], args)
        if name.startswith("date_trunc_"):
            return self._truncated(name.removeprefix("date_trunc_"), args[0].text, dates)
        if name == "abs":
            return _ValueText(f"abs({args[0].text})")
        if name == "-" and len(args) == 1:
            return _ValueText(f"-{operands[0]}", atom=False)
        if name == "-":
            return self._call("minus", [arg.text for arg in args])
        if name in ("+!", "-!"):
            value = self._named(self._call(_HELPED[name], [arg.text for arg in args]))
            self._check(f"not {-LIMIT} < {value} < {LIMIT}")
            return _ValueText(value)
        if name == "*!":
            both = self._named(args[0]), self._named(args[1])
            if self._fail is not None:
                self._check(self._call("product_fails", both).text)
            return self._call("times", both)
        if name == "unscaled":
            return _ValueText(f"float({args[0].text}) / float({args[1].text})", "float", False)
        if name == "%":
            divisor = self._named(args[1])
            self._check(f"{divisor} == 0")
            return self._call("remainder", (args[0].text, divisor))
        if name in _PARTIAL:
            return self._partial(*_PARTIAL[name], args)
        if name in _HELPED:
            helper = f"{_HELPED[name]}_date" if dates else _HELPED[name]
            return self._call(helper, [arg.text for arg in args])
        return _ValueText(_INT[name].format(*operands), atom=False)

    def _truncated(self, unit: str, value: str, dates: bool) -> _ValueText:
        if unit in MONTHS:
            return self._call("first_day" if dates else "first_day_of", (value, str(MONTHS[unit])))
        size, start = (part // DAY if dates else part for part in TRUNCATED[unit])
        return self._call("down_to", (value, str(size), str(start)))

    def _partial(self, function: str, fails: str, args: Sequence[_ValueText]) -> _ValueText:
        both = self._named(args[0]), self._named(args[1])
        if self._fail is not None:
            self._check(self._call(fails, both).text)
        return self._call(function, both)

    def _of_bools(self, name: str, args: Sequence[_ValueText]) -> _ValueText:
        if name == "to_float":
            return _ValueText(f"float({self._key(args[0]).text})", "float")
        if name in _BOOL:
            operands = [self._bool(arg).operand for arg in args]
            return _ValueText(_BOOL[name].format(*operands), "bool")
        return self._key(args[0])  # to_int, to_number, ord

    def _of_floats(self, name: str, args: Sequence[_ValueText]) -> _ValueText:
        if name == "ord":
            return self._key(args[0])
        if name == "to_float":
            return args[0]
        if name == "to_decimal":
            raise Unprintable("to_decimal() of floats")
        floats = [self._float(arg) for arg in args]
        if name in ("to_int", "to_number"):
            value = self._named(floats[0])
            self._check(f"not -9223372036854775808.0 <= {value} < 9223372036854775808.0")
            return self._call("truncate", (value,))
        if name in ("round", "round_to"):
            helper = "round_of" if name == "round" else name
            self.imports.add("round_of")
            rounded = self._call(helper, [arg.text for arg in floats])
            return _ValueText(f"{rounded.text} + 0.0", "float", False)
        operands = [arg.operand for arg in floats]
        if name == "/":
            divisor = self._named(floats[1])
            self._check(f"{divisor} == 0.0")
            text = f"{operands[0]} / {divisor}"
        elif name == "abs":
            text = f"abs({operands[0]})"
        elif name in _REAL:
            text = f"np.{_REAL[name]}({', '.join(arg.text for arg in floats)})"
        else:
            text = f" {name} ".join(operands) if len(operands) == 2 else f"{name}{operands[0]}"
        result = _ValueText(f"{text} + 0.0", "float", False)  # for -0.0 + 0.0 is 0.0
        if name in _NEVER_NAN or (len(args) == 1 and name == "-") or self._fail is None:
            return result
        value = self._named(result)
        self._check(f"{value} != {value}")
        return _ValueText(value, "float")

    def _textual(self, expr: Apply) -> _ValueText:
        name = expr.function.strip("!?")
        if name == "ord":
            return _ValueText(self.rank(self._print(expr.args[0]).text))
        if expr.type == "symbol":
            raise Unprintable(f"{_called(name)} makes new strings")
        if expr.function in MATCHING and not _is_fixed(expr.args[0]):
            raise Unprintable("match() with a pattern that is not the same for all rows")
        varying = {arg for arg in expr.args if not _is_fixed(arg)}
        if len(varying) > 1:
            raise Unprintable(f"{_called(name)} of two strings that vary")
        for arg in expr.args:
            if arg not in varying and _may_fail(arg):
                self._constant(arg)
        code = self._named(self._print(varying.pop()))
        at = len(self.tables)
        self.tables.append(expr)
        if self._fail is not None and _fails(expr):
            self._failing.add(at)
            self._check(f"failed{at}[{code}] != 0")
        if expr.type == "bool":
            return _ValueText(f"table{at}[{code}] != 0", "bool", False)
        return _ValueText(f"table{at}[{code}]")

    # ------------------------------------------------------------------------------------ forms

    def _key(self, text: _ValueText) -> _ValueText:
        if text.form == "float":
            return self._call("key_of_float", (text.text,))
        if text.form == "bool":
            return _ValueText(f"1 if {text.text} else 0", atom=False)
        return text

    def _float(self, text: _ValueText) -> _ValueText:
        """Converts to the form "float"."""
        if text.form == "float":
            return text
        self.imports.add("float_of_key")
        if text.constant is not None:
            self._floats.add(text.constant)
            return _ValueText(f"float{text.constant}", "float")
        return _ValueText(f"float_of_key({text.text})", "float")

    def _bool(self, text: _ValueText) -> _ValueText:
        return text if text.form == "bool" else _ValueText(f"{text.operand} != 0", "bool", False)

    def _call(self, name: str, args: Sequence[str]) -> _ValueText:
        self.imports.add(name)
        return _ValueText(f"{name}({', '.join(args)})")

    def _check(self, bad: str) -> None:
        if self._fail is not None:
            self._out.append(f"if {bad}:")
            self._out.extend(f"    {line}" for line in self._fail.split("\n"))

    def _named(self, text: _ValueText) -> str:
        """The name of a local variable that holds the value, so that it is computed once."""
        return text.text if text.text.isidentifier() else self._new(text.text)

    def _new(self, text: str) -> str:
        """The name of a new local variable with this value."""
        name = f"value{self._values}"
        self._values += 1
        self._out.append(f"{name} = {text}")
        return name


def _is_fixed(expr: Expr) -> bool:
    """Whether an expression can be computed before the run.

    The rank of a symbol cannot: later constants may be symbols that sort before it.
    """
    if not isinstance(expr, Apply):
        return not isinstance(expr, Slot)
    is_rank = expr.function == "ord" and expr.args[0].type == "symbol"
    return not is_rank and all(map(_is_fixed, expr.args))


def _fails(expr: Apply) -> bool:
    """Whether the function can fail on some arguments of these types."""
    if not signatures(expr.function):
        return False
    signature = signature_of(expr.function, [arg.type for arg in expr.args])
    return signature.may_fail_float if expr.args[0].type == "float" else signature.may_fail


def _may_fail(expr: Expr) -> bool:
    """Whether an expression can fail, whatever its constants are."""
    return isinstance(expr, Apply) and (_fails(expr) or any(map(_may_fail, expr.args)))


def _called(name: str) -> str:
    return f"{name}()" if name.isidentifier() else f"`{name}` on strings"
