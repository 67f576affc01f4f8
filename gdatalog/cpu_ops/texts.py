"""Functions of texts, evaluated once for each distinct combination of arguments; `match` in linear
time for untrusted patterns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import islice
from re import _constants as sre  # private: the parser of re
from re import _parser  # private: the parser of re
from typing import Any

import numpy as np

from gdatalog.account import TEXTS
from gdatalog.cancellation import cancellable, current_watch, working_space
from gdatalog.errors import EvaluationError
from gdatalog.records import dataclass
from gdatalog.storage.duplicates import group_rows
from gdatalog.storage.keys import float_to_key
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array
from gdatalog.values import INT_MAX, INT_MIN, TypeName, Value, timestamp_to_text

AT_ONCE = 1 << 12  # values that are Python objects at the same time
READ = 1 << 21  # characters that functions read between two polls
POLLED = 256  # texts that are matched between two polls
LONGEST = 1_000_000  # characters of a result, if `bounded`
LONG = 1 << 16  # characters of arguments: results of more are charged first

Outcome = tuple[Array, Array | None]  # the column, and where it failed
Warn = Callable[[str], None]

_POSIX = {
    "alpha": "a-zA-Z", "digit": "0-9", "alnum": "a-zA-Z0-9", "upper": "A-Z", "lower": "a-z",
    "space": r"\s", "blank": r" \t", "punct": r"!-/:-@\[-`{-~", "xdigit": "0-9A-Fa-f",
    "word": r"\w", "cntrl": r"\x00-\x1f\x7f", "print": r"\x20-\x7e", "graph": r"\x21-\x7e",
}  # fmt: skip


# Escapes, classes, repetitions and other braces.
_PARTS = re.compile(
    r"\\N\{[^}]*\}|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(?:[0-9]+(?:,[0-9]*)?|,[0-9]*)\}|\{", re.DOTALL
)


def _posix(text: str) -> str:
    """Translates the POSIX classes of a pattern. A brace that is no repetition is an error, as in
    Soufflé; Python would match it."""
    made = re.sub(
        r"\[:(\w+):\]", lambda found: _POSIX.get(found[1], found[0]), text, flags=re.ASCII
    )
    for part in _PARTS.finditer(made):
        if part[0] == "{":
            raise re.error("a brace that is no repetition, such as {2,3}; \\{ matches a brace")
    return made


@lru_cache(maxsize=256)
def _pattern(text: str) -> re.Pattern[str] | str:
    """A compiled pattern of `match`, or what is wrong with it."""
    try:
        return re.compile(_posix(text))
    except (re.error, OverflowError, RecursionError) as problem:
        return str(problem)


def _matches(
    pattern: str, texts: Sequence[str], bounded: bool, warn: Warn
) -> Sequence[bool | None]:
    """Which texts match completely; None each if the pattern is invalid. `bounded`: in linear
    time."""
    if bounded:
        made = linear(pattern)
        if isinstance(made, LinearPattern):
            return made.full_matches(texts)
        wrong = made
    else:
        found = _pattern(pattern)
        if isinstance(found, re.Pattern):
            matches: list[bool] = []
            for at in range(0, len(texts), POLLED):
                current_watch().poll()
                matches += [found.fullmatch(t) is not None for t in texts[at : at + POLLED]]
            return matches
        wrong = found
    warn(f"the pattern {pattern!r} is not valid ({wrong}): it matches nothing")
    return [None] * len(texts)


# The results of match functions, from a match that is None if the pattern is invalid. The planner
# uses all but `match` for negated patterns, below a negation, and for values of `match`.
MATCHING: dict[str, Callable[[bool | None], bool]] = {
    "match": lambda found: found is True,
    "!match": lambda found: found is False,
    "match?": lambda found: found is not False,
    "!match?": lambda found: found is not True,
    "is_pattern": lambda found: found is not None,
}


def _number(text: str) -> int | None:
    if re.fullmatch(r"[+-]?[0-9]{1,100}", text) is None:
        return None
    number = int(text)
    return number if INT_MIN <= number <= INT_MAX else None


_FLOAT = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?inf")


def _float(text: str) -> float | None:
    if _FLOAT.fullmatch(text) is None:
        return None
    return float(text) + 0.0


def _split_part(text: str, separator: str, at: int) -> str:
    """The part numbered from 1; "" if there is none."""
    if at < 1 or not separator:
        return text if at == 1 else ""
    start = 0
    for _ in range(at - 1):
        found = text.find(separator, start)
        if found < 0:
            return ""
        start = found + len(separator)
    end = text.find(separator, start)
    return text[start:] if end < 0 else text[start:end]


def _substr(text: str, start: int, length: int) -> str:
    return text[start : start + length] if start >= 0 and length >= 0 else ""


def text_of(value: Value, kind: TypeName) -> str:
    """`to_string`: the shortest text that reads back."""
    if kind == "float":
        return repr(float(value))
    if kind == "bool":
        return "true" if value else "false"
    if kind == "timestamp":
        return timestamp_to_text(int(value))
    return str(value)


# name: (function, type of the result); a result of None is a failure
TEXTUAL: dict[str, tuple[Callable[..., Any], TypeName]] = {
    "cat": (lambda *texts: "".join(texts), "symbol"),
    "strlen": (len, "int"),
    "substr": (_substr, "symbol"),
    "contains": (lambda needle, text: needle in text, "bool"),
    "starts_with": (lambda text, prefix: text.startswith(prefix), "bool"),
    "upper": (str.upper, "symbol"),
    "lower": (str.lower, "symbol"),
    "split_part": (_split_part, "symbol"),
    "to_string": (text_of, "symbol"),
}
ON_SYMBOLS: dict[str, tuple[Callable[..., Any], TypeName]] = {
    "+": (lambda a, b: a + b, "symbol"),
    "to_int": (_number, "int"),
    "to_number": (_number, "int"),
    "to_float": (_float, "float"),
    "ord": (len, "int"),  # replaced by ranks below
}


def on_texts(name: str, kind: TypeName) -> bool:
    """Whether a function, with a first argument of this type, is one of texts."""
    return name in TEXTUAL or name in MATCHING or (kind == "symbol" and name in ON_SYMBOLS)


_SYMBOL_ARGS: dict[str, tuple[bool, ...]] = {
    "substr": (True, False, False),
    "split_part": (True, True, False),
}


def tabulate(
    name: str,
    args: Sequence[Array],
    kind: TypeName,
    symbols: SymbolTable,
    warn: Warn,
    bounded: bool = False,
) -> Outcome:
    """A function of texts, computed once for each distinct combination of arguments."""
    if name == "ord":
        return symbols.ranks()[args[0]], None
    columns = list(np.broadcast_arrays(*args))
    size = len(columns[0])
    keys = [float_to_key(column) if column.dtype.kind == "f" else column for column in columns]
    first, groups = group_rows([np.asarray(key, dtype=np.int64) for key in keys], size)
    picked = [column[first] for column in columns]
    if name == "to_string":
        if kind == "symbol":
            return columns[0], None
        made = (text_of(value, kind) for part in _parts(picked[0]) for value in part.tolist())
        return symbols.intern_new(made)[groups], None
    if name in MATCHING:
        return _matching(MATCHING[name], picked[0], picked[1], symbols, warn, bounded)[groups], None
    function, result = TEXTUAL[name] if name in TEXTUAL else ON_SYMBOLS[name]
    is_text = _SYMBOL_ARGS.get(name, (True,) * len(columns))
    rows = _arguments(picked, is_text, symbols)
    if result == "symbol":
        return symbols.intern_new(_made(function, rows, bounded))[groups], None
    outcome = [function(*arguments) for arguments in rows]
    failed = np.array([value is None for value in outcome], dtype=np.bool_)
    dtype = {"int": np.int64, "float": np.float64, "bool": np.bool_}[result]
    values: Array = np.array([0 if value is None else value for value in outcome], dtype=dtype)
    return values[groups], failed[groups] if failed.any() else None


def _matching(
    outcome: Callable[[bool | None], bool],
    patterns: Array,
    codes: Array,
    symbols: SymbolTable,
    warn: Warn,
    bounded: bool,
) -> Array:
    """A match function on pairs of pattern and text."""
    found = np.empty(len(patterns), dtype=np.bool_)
    order = np.argsort(patterns, kind="stable")
    ends = np.flatnonzero(np.diff(patterns[order])) + 1
    for rows in np.split(order, ends):
        current_watch().poll()
        pattern = symbols.text(int(patterns[rows[0]]))
        for part in _parts(rows):
            texts = symbols.texts_of(codes[part])
            found[part] = list(map(outcome, _matches(pattern, texts, bounded, warn)))
    return found


def _parts(column: Array) -> Iterator[Array]:
    """A column in batches, to bound the number of Python objects."""
    for start in range(0, len(column), AT_ONCE):
        yield column[start : start + AT_ONCE]


def _arguments(
    columns: Sequence[Array], is_text: Sequence[bool], symbols: SymbolTable
) -> Iterator[tuple[Value, ...]]:
    """The values of a function's arguments, row by row. Polls between batches."""
    poll = current_watch().poll
    for parts in zip(*map(_parts, columns), strict=True):
        values = [
            symbols.texts_of(part) if text else part.tolist()
            for part, text in zip(parts, is_text, strict=True)
        ]
        rows = zip(*values, strict=True)
        read = sum(sum(map(len, v)) for v, text in zip(values, is_text, strict=True) if text)
        at_once = max(1, AT_ONCE * READ // max(READ, read))
        poll()
        while block := list(islice(rows, at_once)):
            yield from block
            poll()


def _made(
    function: Callable[..., str], rows: Iterable[tuple[Value, ...]], bounded: bool
) -> Iterator[str]:
    """The texts that a function makes. Memory for a long one is charged before it is made."""
    for arguments in rows:
        length = sum(len(value) for value in arguments if isinstance(value, str))
        if length < LONG:
            yield function(*arguments)
            continue
        plain = all(value.isascii() for value in arguments if isinstance(value, str))
        with working_space(TEXTS, length if plain else 4 * length):
            pass
        text = function(*arguments)
        if bounded and len(text) > LONGEST:
            raise EvaluationError(
                f"this makes a text of {len(text):,} characters: an untrusted text may make none "
                f"of more than {LONGEST:,}"
            )
        yield text


# `match` in linear time for any pattern, for databases that evaluate untrusted texts.
#
# Python's `re` backtracks, which can take exponential time. RE2, which is part of Arrow, does not.
# Python's own parser parses the pattern, and the result is written in RE2's syntax. Classes become
# the code points that Python matches, so that both engines agree. The whole text has to match, so
# it makes no difference whether a repetition is greedy.
#
# Features that RE2 lacks, above all lookaround and backreferences, are refused. So are Python's `$`
# before other items and its word boundaries, which mean something else in RE2.

# The parser of the standard library has no types.


LONGEST_PATTERN = 1_000  # characters of a pattern
MOST_REPEATED = 1_000  # RE2's own limit
# A character of a text takes RE2 up to 20 ns for each state of the pattern, 70 ns for a state that
# is a class of Unicode.
MOST_STEPS = 1 << 26
PIECE = 1 << 23  # steps in one batch
CLASS = 3  # states of a class with many ranges
MANY = 50  # more ranges than this are many
ROW = 4  # steps that take as long as a pass over a row

_ASCII, _FOLDS, _LINES, _ALL = re.ASCII, re.IGNORECASE, re.MULTILINE, re.DOTALL
_TYPES = re.ASCII | re.UNICODE | re.LOCALE
_CATEGORIES = {
    sre.CATEGORY_DIGIT: r"\d", sre.CATEGORY_NOT_DIGIT: r"\D",
    sre.CATEGORY_SPACE: r"\s", sre.CATEGORY_NOT_SPACE: r"\S",
    sre.CATEGORY_WORD: r"\w", sre.CATEGORY_NOT_WORD: r"\W",
}  # fmt: skip
_REFUSED = {
    sre.ASSERT: "lookaround", sre.ASSERT_NOT: "lookaround", sre.FAILURE: "lookaround",
    sre.GROUPREF: "a backreference", sre.GROUPREF_EXISTS: "a backreference",
    sre.ATOMIC_GROUP: "an atomic group", sre.POSSESSIVE_REPEAT: "a possessive repetition",
}  # fmt: skip
_ENDS = (sre.AT_END, sre.AT_END_STRING)


@dataclass(frozen=True, slots=True)
class LinearPattern:
    """A pattern in RE2's syntax, and the greatest number of its states."""

    text: str
    states: int

    def full_matches(self, texts: Sequence[str]) -> list[bool]:
        """Which texts match completely. The call can be cancelled between batches."""
        found: list[bool] = []
        at = 0
        while at < len(texts):
            start, steps = at, 0
            while at < len(texts) and steps < PIECE:
                length = len(texts[at]) + 1
                if length * self.states > MOST_STEPS:
                    raise EvaluationError(
                        f"a text of {length - 1:,} characters is too long for `match` with a "
                        f"pattern of this size",
                        hint="a shorter pattern, or a part of the text: substr(text, 0, 10000)",
                    )
                steps += length * self.states
                at += 1
            found += cancellable(steps // ROW, partial(self._matches, texts[start:at]), None)
        return found

    def _matches(self, texts: Sequence[str]) -> list[bool]:
        import pyarrow as pa
        import pyarrow.compute as pc

        array = pa.array(texts, pa.large_string())
        matched: list[bool] = pc.match_substring_regex(array, self.text).to_pylist()
        return matched


class _NotLinear(Exception):
    """A feature that a pattern may not use."""


@lru_cache(maxsize=256)
def linear(pattern: str) -> LinearPattern | str:
    """Translates a pattern of Python's `re` for RE2, or says what is wrong with it."""
    if len(pattern) > LONGEST_PATTERN:
        return f"an untrusted pattern has at most {LONGEST_PATTERN:,} characters"
    try:
        parsed = _parser.parse(_posix(pattern))
        text, states = _sequence(parsed, parsed.state.flags, True)
        found = LinearPattern(rf"\A(?:{text})\z", states)
        found._matches([""])
    except (re.error, OverflowError) as problem:
        return str(problem)
    except RecursionError:
        return "it is nested too deep"
    except _NotLinear as refused:
        return f"an untrusted pattern may not use {refused}"
    except ValueError:  # Arrow's, if RE2 refuses it
        return "it is too large"
    return found


def _sequence(items: Any, flags: int, last: bool) -> tuple[str, int]:
    """Consecutive items. `last`: nothing follows them."""
    parts, states = [], 0
    for at, (op, value) in enumerate(items):
        ends = last and all(op is sre.AT and value in _ENDS for op, value in items[at + 1 :])
        part, count = _item(op, value, flags, ends)
        parts.append(part)
        states += count
    return "".join(parts), states


def _item(op: Any, value: Any, flags: int, last: bool) -> tuple[str, int]:
    if op in _REFUSED:
        raise _NotLinear(_REFUSED[op])
    if op is sre.ANY:
        return ("(?s:.)" if flags & _ALL else r"[^\n]"), 1
    if op is sre.LITERAL:
        return _class([(op, value)], flags)
    if op is sre.NOT_LITERAL:
        return _class([(sre.NEGATE, None), (sre.LITERAL, value)], flags)
    if op is sre.IN:
        return _class(value, flags)
    if op is sre.AT:
        return _place(value, flags, last), 1
    if op is sre.BRANCH:
        parts = [_sequence(items, flags, last) for items in value[1]]
        return f"(?:{'|'.join(text for text, _ in parts)})", 1 + sum(count for _, count in parts)
    if op is sre.SUBPATTERN:
        _, added, removed, items = value
        if added & _TYPES:
            flags &= ~_TYPES
        text, states = _sequence(items, (flags | added) & ~removed, last)
        return f"(?:{text})", states
    assert op in (sre.MAX_REPEAT, sre.MIN_REPEAT), op
    low, high, items = value
    text, states = _sequence(items, flags, False)
    most = max(1, low) if high is sre.MAXREPEAT else high
    if most > MOST_REPEATED:
        raise _NotLinear(f"a repetition of more than {MOST_REPEATED:,}")
    return f"(?:{text}){{{low},{'' if high is sre.MAXREPEAT else high}}}", 1 + states * most


def _place(value: Any, flags: int, last: bool) -> str:
    """An item that matches a position between characters."""
    if value in (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING):
        return "(?m:^)" if flags & _LINES and value is sre.AT_BEGINNING else r"\A"
    if value is sre.AT_END and flags & _LINES:
        return "(?m:$)"
    if value is sre.AT_END and not last:  # a line break may follow
        raise _NotLinear("`$` but at its end")
    if value in _ENDS:
        return r"\z"
    if value is sre.AT_BOUNDARY and flags & _ASCII:
        return r"\b"
    raise _NotLinear(r"`\b` without `(?a)`" if value is sre.AT_BOUNDARY else r"`\B`")


def _class(items: Sequence[tuple[Any, Any]], flags: int) -> tuple[str, int]:
    """A class of characters, as the code points that it has in Python."""
    ranges: list[tuple[int, int]] = []
    written = []
    for op, value in items:
        if op is sre.LITERAL:
            ranges.append((value, value))
            written.append(rf"\U{value:08x}")
        elif op is sre.RANGE:
            ranges.append(value)
            written.append(rf"\U{value[0]:08x}-\U{value[1]:08x}")
        elif op is sre.CATEGORY:
            ranges += _ranges(_CATEGORIES[value], bool(flags & _ASCII))
            written.append(_CATEGORIES[value])
    if flags & _FOLDS:
        folded = re.compile(f"[{''.join(written)}]", flags & (_FOLDS | _ASCII))
        ranges += [(ord(found), ord(found)) for found in folded.findall(_cased())]
    negated = "^" if items[0][0] is sre.NEGATE else ""
    text = "".join(rf"\x{{{low:x}}}-\x{{{high:x}}}" for low, high in ranges)
    return f"[{negated}{text}]", CLASS if len(ranges) > MANY else 1


@lru_cache(maxsize=12)
def _ranges(category: str, ascii_only: bool) -> Sequence[tuple[int, int]]:
    """The code points of one of Python's categories."""
    every = np.arange(0x110000, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")
    pattern = re.compile(f"{category}+", re.ASCII if ascii_only else 0)
    return [(found.start(), found.end() - 1) for found in pattern.finditer(every)]


@lru_cache(maxsize=1)
def _cased() -> str:
    """All characters that equal others if case is ignored."""
    return "".join(c for c in map(chr, range(0x20000)) if c.lower() != c or c.upper() != c)
