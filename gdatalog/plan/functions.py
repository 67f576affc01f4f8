"""The functions of the language: names, types, and whether they can fail.

A signature's types are sets of type names; equal lower-case letters stand for equal types. How
functions are evaluated is defined elsewhere.
"""

from __future__ import annotations

from gdatalog.decimals import DECIMALS
from gdatalog.records import dataclass
from gdatalog.values import TYPE_NAMES

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
    may_fail: bool = False  # on ints or symbols
    may_fail_float: bool = False  # on floats: NaN
    least: int | None = None  # fewest arguments, where fewer than len(params) are allowed

    def accepts(self, count: int) -> bool:
        least = len(self.params) if self.least is None else self.least
        return count >= least and (self.variadic or count <= len(self.params))

    def param(self, at: int) -> frozenset[str] | tuple[str, frozenset[str]]:
        return self.params[min(at, len(self.params) - 1)]


INT, FLOAT, SYMBOL, BOOL, TIMESTAMP, DATE, _ = (frozenset({name}) for name in TYPE_NAMES)


def _same(kinds: frozenset[str], count: int) -> tuple[tuple[str, frozenset[str]], ...]:
    return (("a", kinds),) * count


_ARITHMETIC = Signature(_same(NUMBERS | DECIMAL, 2), "a", may_fail_float=True)
_PARTIAL = Signature(_same(NUMBERS | DECIMAL, 2), "a", may_fail=True, may_fail_float=True)
_POWER = Signature(_same(NUMBERS, 2), "a", may_fail=True, may_fail_float=True)
_BITS = Signature((INT, INT), "int")
_TEXT = Signature((SYMBOL,), "symbol")
_OF_TIME = Signature((TIMESTAMP | DATE,), "int")
_REAL = Signature((FLOAT,), "float", may_fail_float=True)
_ROUNDING = Signature(_same(FLOAT | DECIMAL, 1), "a", may_fail_float=True)
_CHECKED = (Signature((ANY, ANY), "a", may_fail=True),)

FUNCTIONS: dict[str, tuple[Signature, ...]] = {
    "+": (Signature(_same(NUMBERS | DECIMAL | SYMBOL, 2), "a", may_fail_float=True),),
    "-": (_ARITHMETIC, Signature(_same(NUMBERS | DECIMAL, 1), "a")),
    "*": (_ARITHMETIC,),
    **dict.fromkeys("/%", (_PARTIAL,)),
    "^": (_POWER,),
    **dict.fromkeys(("band", "bor", "bxor", "bshl", "bshr", "bshru"), (_BITS,)),
    "bnot": (Signature((INT,), "int"),),
    # the logical operators of Soufflé work on ints (0 is false) and on bools
    **{name: (Signature(_same(INT | BOOL, 2), "a"),) for name in ("land", "lor", "lxor")},
    "lnot": (Signature(_same(INT | BOOL, 1), "a"),),
    "abs": (Signature(_same(NUMBERS | DECIMAL, 1), "a"),),
    **dict.fromkeys(("min", "max"), (Signature(_same(ANY, 1), "a", variadic=True, least=2),)),
    **dict.fromkeys(("floor", "ceil"), (_ROUNDING,)),
    **dict.fromkeys(("sqrt", "exp", "log"), (_REAL,)),
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
    **dict.fromkeys(("year", "month", "day"), (_OF_TIME,)),
    "seconds_between": (Signature(_same(TIMESTAMP | DATE, 2), "float"),),
}

# What the planner makes of functions of decimals (`planner/decimals.py`).
OF_SCALED = dict.fromkeys(("+!", "-!", "*!"), _CHECKED)
SIGNATURES = FUNCTIONS | OF_SCALED

# Soufflé's names, and the functions they stand for.
ALIASES: dict[str, str] = {
    **dict.fromkeys(("to_symbol", "itos", "utos", "ftos"), "to_string"),
    **dict.fromkeys(("to_unsigned", "stoi", "stou"), "to_number"),
    **dict.fromkeys(("itof", "utof", "stof"), "to_float"),
    **dict.fromkeys(("ftoi", "ftou", "itou", "utoi"), "to_int"),
}

AGGREGATES = frozenset({"count", "sum", "min", "max", "mean", "count_distinct", "any_value"})

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
PICKS = {
    "top": "top(3, x by score desc)",
    "arg_max": "arg_max(x, score)",
    "arg_min": "arg_min(x, score)",
    "string_agg": 'string_agg(x, ", " order by y)',
}
ORDERED = {**WINDOWS, **PICKS}

# Names of literals, which cannot be used as values.
GENERATORS = frozenset({"range"})
