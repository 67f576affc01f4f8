"""The functions of the language: names, types, and whether they can fail.

A signature's types are sets of type names; equal lower-case letters stand for equal types. How
functions are evaluated is defined elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.decimals import DECIMALS, decimal_type, result_scale, scale_of
from gdatalog.records import dataclass
from gdatalog.values import TYPE_NAMES, TypeName

TYPES: tuple[str, ...] = (*TYPE_NAMES, *DECIMALS)
NUMBERS = frozenset({"int", "float"})
DECIMAL = frozenset(DECIMALS)
ANY = frozenset(TYPES)


@dataclass(frozen=True, slots=True)
class Signature:
    """`params`: for each argument a set of types, or ("a", set) for a shared type.

    `result` is a type name or such a letter. `variadic` repeats the last parameter.
    """

    params: tuple[frozenset[str] | tuple[str, frozenset[str]], ...]
    result: str
    variadic: bool = False
    may_fail: bool = False  # on all but floats
    may_fail_float: bool = False  # on floats: NaN
    least: int | None = None  # fewest arguments, where fewer than len(params) are allowed

    def accepts(self, count: int) -> bool:
        least = len(self.params) if self.least is None else self.least
        return count >= least and (self.variadic or count <= len(self.params))

    def param(self, at: int) -> frozenset[str] | tuple[str, frozenset[str]]:
        return self.params[min(at, len(self.params) - 1)]

    def result_of(self, kinds: Sequence[TypeName]) -> TypeName:
        """The type of the result for arguments of these types, which fit."""
        for at, kind in enumerate(kinds):
            param = self.param(at)
            if isinstance(param, tuple) and param[0] == self.result:
                return kind
        return self.result

    def fits(self, kinds: Sequence[str]) -> bool:
        """Whether it takes arguments of these types."""
        if not self.accepts(len(kinds)):
            return False
        shared: dict[str, str] = {}
        for at, kind in enumerate(kinds):
            param = self.param(at)
            if isinstance(param, tuple):
                letter, param = param
                if shared.setdefault(letter, kind) != kind:
                    return False
            if kind not in param:
                return False
        return True


INT, FLOAT, SYMBOL, BOOL, TIMESTAMP, DATE, DURATION = (frozenset({name}) for name in TYPE_NAMES)


def _same(kinds: frozenset[str], count: int) -> tuple[tuple[str, frozenset[str]], ...]:
    return (("a", kinds),) * count


def _on(kinds: frozenset[str], count: int, fails: bool = False) -> Signature:
    """Of arguments of one type, which the result has, too."""
    return Signature(_same(kinds, count), "a", may_fail=fails, may_fail_float=count == 2)


def _of_times(*shapes: str) -> tuple[Signature, ...]:
    """Signatures written as `"timestamp duration timestamp"`: arguments and result. A date's
    arithmetic leaves its range, or is no number of days."""
    parts = [shape.split() for shape in shapes]
    return tuple(
        Signature(tuple([frozenset({kind}) for kind in args]), result, may_fail="date" in args)
        for *args, result in parts
    )


_MEASURES = NUMBERS | DURATION | DECIMAL
_BITS = Signature((INT, INT), "int")
_TEXT = Signature((SYMBOL,), "symbol")
_OF_TIME = Signature((TIMESTAMP | DATE,), "int")
_IF = Signature((BOOL, *_same(ANY, 2)), "a")
_REAL = Signature((FLOAT,), "float", may_fail_float=True)
_ROUNDING = Signature(_same(FLOAT | DECIMAL, 1), "a", may_fail_float=True)

FUNCTIONS: dict[str, tuple[Signature, ...]] = {
    # of signatures that fit, the first is meant
    "+": (
        _on(_MEASURES | SYMBOL, 2),
        *_of_times("timestamp duration timestamp", "duration timestamp timestamp"),
        *_of_times("date duration date", "duration date date"),
    ),
    "-": (
        _on(_MEASURES, 2),
        _on(_MEASURES, 1),
        *_of_times("timestamp timestamp duration", "timestamp duration timestamp"),
        *_of_times("date date duration", "date duration date"),
    ),
    "*": (_on(NUMBERS | DECIMAL, 2), *_of_times("duration int duration", "int duration duration")),
    "/": (
        _on(NUMBERS | DECIMAL, 2, fails=True),
        Signature((DURATION, INT), "duration", may_fail=True),
        Signature((DURATION, DURATION), "float", may_fail=True),
    ),
    "%": (_on(_MEASURES, 2, fails=True),),
    "^": (_on(NUMBERS, 2, fails=True),),
    **dict.fromkeys(("band", "bor", "bxor", "bshl", "bshr", "bshru"), (_BITS,)),
    "bnot": (Signature((INT,), "int"),),
    # the logical operators of Soufflé work on ints (0 is false) and on bools
    **{name: (Signature(_same(INT | BOOL, 2), "a"),) for name in ("land", "lor", "lxor")},
    "lnot": (Signature(_same(INT | BOOL, 1), "a"),),
    "abs": (_on(_MEASURES, 1),),
    **dict.fromkeys(("min", "max"), (Signature(_same(ANY, 1), "a", variadic=True, least=2),)),
    **dict.fromkeys(("floor", "ceil"), (_ROUNDING,)),
    **dict.fromkeys(("sqrt", "exp", "log"), (_REAL,)),
    "round": (Signature((FLOAT, INT), "float", least=1),),
    "to_int": (Signature((ANY,), "int", may_fail=True, may_fail_float=True),),
    "to_float": (Signature((INT | FLOAT | SYMBOL | BOOL | DECIMAL,), "float", may_fail=True),),
    # the type of the result depends on the second argument
    "to_decimal": (
        Signature(
            (INT | FLOAT | SYMBOL | DECIMAL, INT), "decimal", may_fail=True, may_fail_float=True
        ),
    ),
    "to_number": (Signature((ANY,), "int", may_fail=True, may_fail_float=True),),
    "to_string": (Signature((ANY,), "symbol"),),
    "ord": (Signature((ANY,), "int"),),
    "cat": (Signature((SYMBOL,), "symbol", variadic=True, least=2),),
    "strlen": (Signature((SYMBOL,), "int"),),
    "substr": (Signature((SYMBOL, INT, INT), "symbol"),),
    # contains(needle, text), match(pattern, text), starts_with(text, prefix)
    **dict.fromkeys(("contains", "match", "starts_with"), (Signature((SYMBOL, SYMBOL), "bool"),)),
    **dict.fromkeys(("upper", "lower"), (_TEXT,)),
    "split_part": (Signature((SYMBOL, SYMBOL, INT), "symbol"),),
    "trim": (Signature((SYMBOL, SYMBOL), "symbol", least=1),),
    "replace": (Signature((SYMBOL, SYMBOL, SYMBOL), "symbol"),),
    "position": (Signature((SYMBOL, SYMBOL), "int"),),  # position(needle, text)
    "regex_extract": (Signature((SYMBOL, SYMBOL, INT), "symbol", may_fail=True, least=2),),
    "format": (Signature((SYMBOL, ANY), "symbol", variadic=True, least=1),),
    **dict.fromkeys(("year", "month", "day", "weekday"), (_OF_TIME,)),
    **dict.fromkeys(("hour", "minute", "second"), (Signature((TIMESTAMP,), "int"),)),
    "date_trunc": (Signature((SYMBOL, ("a", TIMESTAMP | DATE)), "a"),),
    "seconds_between": (Signature(_same(TIMESTAMP | DATE, 2), "float"),),
    "coalesce": (Signature(_same(ANY, 1), "a", variadic=True, least=2),),
    "parse_time": (Signature((SYMBOL, SYMBOL), "timestamp", may_fail=True, least=1),),
    "format_time": (Signature((TIMESTAMP | DATE, SYMBOL), "symbol"),),
    "if": (_IF,),
    "case": (Signature(_IF.params, "a", variadic=True),),
}

# The first argument, or null where another one is null: a function that no program can name.
UNLESS_NULL = "unless null"
# Functions of keys, which may be those of nulls.
NULLING = frozenset({UNLESS_NULL, "coalesce", "if"})

# Functions of the language that name resolution writes in terms of others (check/forms.py).
FORMS = frozenset({"format", "date_trunc", "case"})
CLOCK_UNITS = ("second", "minute", "hour", "day")
CALENDAR_UNITS = ("week", "month", "quarter", "year")
# What the planner makes of functions of decimals (`planner/decimals.py`).
OF_SCALED = dict.fromkeys(
    ("+!", "-!", "*!"), (Signature((INT | DECIMAL,) * 2, "a", may_fail=True),)
)
# Functions without a name in the language.
HIDDEN: dict[str, tuple[Signature, ...]] = {
    **dict.fromkeys(("=", "!=", "<", "<=", ">", ">="), (Signature(_same(ANY, 2), "bool"),)),
    **{f"date_trunc_{unit}": (Signature((TIMESTAMP,), "timestamp"),) for unit in CLOCK_UNITS},
    **{f"date_trunc_{unit}": (_on(TIMESTAMP | DATE, 1),) for unit in CALENDAR_UNITS},
    **OF_SCALED,
    "round_to": (Signature((FLOAT, FLOAT), "float"),),  # to the inverse of a power of 10
    # times of a zone as times without one, and back
    **dict.fromkeys(("local_time", "utc_time"), (Signature((TIMESTAMP, SYMBOL), "timestamp"),)),
    "format_value": (Signature((ANY, SYMBOL), "symbol"),),
}


def signature_of(name: str, kinds: Sequence[str]) -> Signature:
    """The signature of a call with arguments of these types."""
    return next(own for own in signatures(name) if own.fits(kinds))


def type_of_result(name: str, kinds: Sequence[TypeName], digits: object = None) -> TypeName:
    """The type of a call with arguments of these types; `digits`: of `to_decimal`."""
    if name == "to_decimal":
        return decimal_type(int(str(digits)))
    if len(kinds) == 2 and name in "+-*/%" and not DECIMAL.isdisjoint(kinds):
        one, other = map(scale_of, kinds)
        return "float" if name == "/" else decimal_type(result_scale(name, one, other))
    return signature_of(name, kinds).result_of(kinds)


def signatures(name: str) -> tuple[Signature, ...]:
    """Those of a function; none of one that the planner makes."""
    return FUNCTIONS.get(name) or HIDDEN.get(name) or STATISTICS.get(name, ())


# Soufflé's names, and the functions they stand for.
ALIASES: dict[str, str] = {
    **dict.fromkeys(("to_symbol", "itos", "utos", "ftos"), "to_string"),
    **dict.fromkeys(("to_unsigned", "stoi", "stou"), "to_number"),
    **dict.fromkeys(("itof", "utof", "stof"), "to_float"),
    **dict.fromkeys(("ftoi", "ftou", "itou", "utoi"), "to_int"),
}

AGGREGATES = frozenset({"count", "sum", "min", "max", "mean", "count_distinct", "any_value"})
ACCUMULATED = AGGREGATES - {"count_distinct"}  # loops keep one value for each

# Functions of heads that depend on the order of rows: those that give each row a value, and those
# that pick values of each group. Each with how it is written.
WINDOWS = {
    "row_number": "row_number(order by x)",
    "rank": "rank(order by x)",
    "dense_rank": "dense_rank(order by x)",
    "lag": "lag(x, 0 order by t)",
    "lead": "lead(x, 0 order by t)",
    "running_sum": "running_sum(x order by t)",
}
# Statistics of each group: what they take.
_MIDDLE = (
    Signature((NUMBERS,), "float"),
    Signature((("a", TIMESTAMP | DURATION | DECIMAL),), "a"),
)
STATISTICS: dict[str, tuple[Signature, ...]] = {
    **dict.fromkeys(("median", "quantile"), _MIDDLE),
    **dict.fromkeys(("stddev", "var"), (Signature((NUMBERS,), "float"),)),
    "corr": (Signature((NUMBERS, NUMBERS), "float"),),
    "mode": (Signature((("a", ANY),), "a"),),
}
OF_SEVERAL = frozenset({"stddev", "var", "corr"})  # null of groups of one row
PICKS = {
    "top": "top(3, x by score desc)",
    "arg_max": "arg_max(x, score)",
    "arg_min": "arg_min(x, score)",
    "string_agg": 'string_agg(x, ", " order by y)',
    "median": "median(x)",
    "quantile": "quantile(x, 0.9)",
    "stddev": "stddev(x)",
    "var": "var(x)",
    "mode": "mode(x)",
    "corr": "corr(x, y)",
}
ORDERED = {**WINDOWS, **PICKS}

# Names of literals, which cannot be used as values.
GENERATORS = frozenset({"range"})
