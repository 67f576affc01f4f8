"""`match` in linear time for any pattern, for databases that evaluate untrusted texts.

Python's `re` backtracks, which can take exponential time. RE2, which is part of Arrow, does not.
Python's own parser parses the pattern, and the result is written in RE2's syntax. Classes become
the code points that Python matches, so that both engines agree. The whole text has to match, so
it makes no difference whether a repetition is greedy.

Features that RE2 lacks, above all lookaround and backreferences, are refused. So are Python's `$`
before other items and its word boundaries, which mean something else in RE2.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache, partial
from re import _constants as sre  # private: the parser of re
from re import _parser  # private: the parser of re
from typing import Any

import numpy as np

from gdatalog.cancellation import cancellable
from gdatalog.errors import EvaluationError
from gdatalog.records import dataclass

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
_POSIX = {
    "alpha": "a-zA-Z", "digit": "0-9", "alnum": "a-zA-Z0-9", "upper": "A-Z", "lower": "a-z",
    "space": r"\s", "blank": r" \t", "punct": r"!-/:-@\[-`{-~", "xdigit": "0-9A-Fa-f",
    "word": r"\w", "cntrl": r"\x00-\x1f\x7f", "print": r"\x20-\x7e", "graph": r"\x21-\x7e",
}  # fmt: skip


# Escapes, classes, repetitions and other braces.
_PARTS = re.compile(
    r"\\N\{[^}]*\}|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(?:[0-9]+(?:,[0-9]*)?|,[0-9]*)\}|\{", re.DOTALL
)


def posix(text: str) -> str:
    """Translates the POSIX classes of a pattern. A brace that is no repetition is an error, as in
    Soufflé; Python would match it."""
    made = re.sub(
        r"\[:(\w+):\]", lambda found: _POSIX.get(found[1], found[0]), text, flags=re.ASCII
    )
    for part in _PARTS.finditer(made):
        if part[0] == "{":
            raise re.error("a brace that is no repetition, such as {2,3}; \\{ matches a brace")
    return made


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
        parsed = _parser.parse(posix(pattern))
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
