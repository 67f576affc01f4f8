"""The fast path for facts: regular expressions read facts of constants without the grammar.

Many facts in a row become columns of values. The syntax tree of such a fact, with its spans, is
made from the text when somebody needs it.
"""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from itertools import repeat

from gdatalog.decimals import LongFloat, exact_float
from gdatalog.errors import SourceText, Span
from gdatalog.parser import syntax as s
from gdatalog.parser.syntax import MANY
from gdatalog.parser.tokens import string_token
from gdatalog.values import TypeName, Value, duration_from_text, timestamp_from_text

INT = r"-?[0-9]{1,18}+(?![\w.?])"
FLOAT = r"-?[0-9]{1,18}+(?:\.[0-9]{1,18}+(?:[eE][+-]?[0-9]{1,2}+)?+|[eE][+-]?[0-9]{1,2}+)(?![\w.?])"
TEXT = r'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"'
TIME = r"@[0-9]++(?:-[0-9]++)*+(?:T[0-9]++(?::[0-9]++)*+(?:\.[0-9]++)?+)?+(?![\w.:+-])"
DURATION = r"-?(?:[0-9]{1,18}+(?:ms|us|ns|[wdhms]))++(?![\w.?])"
BOOL = r"(?:true|false)(?![\w.?'])"

MOST_FACTS = 4096  # facts that become columns together

_ARGUMENT = rf"[ \t]*+(?:{INT}|{FLOAT}|{TEXT}|{TIME}|{DURATION}|{BOOL})[ \t]*+"
_ARGUMENTS = rf"{_ARGUMENT}(?:,{_ARGUMENT})*+"
_GAP = r"(?:[ \t\r\n]++|//[^\n]*+|/\*[\s\S]*?\*/)*+"
_NAME = r"(?!(?:_|not|inf|null|nil|true|false)\b)[^\W\d]\w*+"
_END = r"\)\.(?![\w.?])"
# Compiled by the functions of `re`, which keep compiled patterns: short texts need none of them.
FACT = rf"{_GAP}({_NAME})[ \t]*+\(({_ARGUMENTS}){_END}"
_RUN = rf"(?:{_GAP}{_NAME}[ \t]*+\({_ARGUMENTS}{_END}){{{MANY},{MOST_FACTS}}}+"
_ANY = rf"[ \t]*+({TEXT}|[^\s,\"]++)[ \t]*+"  # one of these constants
SHORTEST = len("p(1).")

Shape = tuple[str, ...]  # the types of a fact's constants


class FactReader:
    """Reads the facts of a text."""

    def __init__(self, source: SourceText) -> None:
        self._source = source
        self._any = ")." in source.text
        # Up to this place, facts are read one by one.
        self._singly = 0 if len(source.text) >= MANY * SHORTEST else len(source.text)
        self._texts: dict[str, str] = {}  # each text once

    def read(self, at: int, statements: list[s.Statement]) -> int:
        """Adds the consecutive facts from `at` on; returns the start of the next statement."""
        if not self._any:
            return at
        text = self._source.text
        one = re.compile(FACT)
        while True:
            end = self._singly
            if at >= end:
                run = re.compile(_RUN).match(text, at)
                if run is not None:
                    facts = self._facts(at, run.end())
                    if facts is not None:
                        statements.append(facts)
                        at = run.end()
                        continue
                    self._singly = run.end()
                end = len(text) if run is None else run.end()
            while at < end and (found := one.match(text, at)):
                rule = fact_rule(self._source, found)
                if rule is None:
                    return at
                statements.append(rule)
                at = found.end()
            if at < end or end == len(text):
                return at

    def _facts(self, start: int, end: int) -> s.Facts | None:
        """The facts of a part of the text; None if one of them has an error."""
        groups: defaultdict[str, list[str]] = defaultdict(list)
        for name, arguments in re.compile(FACT).findall(self._source.text, start, end):
            groups[name].append(arguments)
        found = []
        for name, listed in groups.items():
            columns = _columns(name, listed, self._texts)
            if columns is None:
                return None
            found.append(columns)
        first = re.compile(FACT).match(self._source.text, start, end)
        assert first is not None
        return s.Facts(tuple(found), Span(self._source, first.start(1), end - 1))


def _columns(name: str, listed: Sequence[str], texts: dict[str, str]) -> s.FactColumns | None:
    """The columns of facts, given by their arguments; None if their numbers of arguments differ, or
    if a constant has an error. `texts`: the texts known so far."""
    width = len(re.findall(_ANY, listed[0]))
    rows = _lines(width).findall("\n".join(listed))
    if len(rows) < len(listed):
        return None
    columns = list(zip(*rows, strict=True)) if width > 1 else [rows]
    kinds = list(map(_kinds, columns))
    values = []
    for types, words in zip(kinds, columns, strict=True):
        read = _values(types, words, texts)
        if read is None:
            return None
        values.append(read)
    if all(len(types) == 1 for types in kinds):
        return s.FactColumns(name, (tuple([types[0] for types in kinds]),), tuple(values))
    places: dict[tuple[TypeName, ...], int] = {}
    each = zip(*(types if len(types) > 1 else repeat(types[0]) for types in kinds), strict=False)
    which = array("H", (places.setdefault(shape, len(places)) for shape in each))
    return s.FactColumns(name, tuple(places), tuple(values), which)


@cache
def _lines(width: int) -> re.Pattern[str]:
    """A pattern for lines of this many arguments."""
    return re.compile(f"^{','.join([_ANY] * width)}$", re.MULTILINE)


def _kinds(words: Sequence[str]) -> Sequence[TypeName]:
    """The type of constants, or the type of each."""
    firsts = {_KIND.get(first, "int") for first in {word[0] for word in words}}
    if len(firsts) == 1 and ("int" not in firsts or "".join(words).replace("-", "").isdecimal()):
        return tuple(firsts)
    found = list(map(_kind, words))
    return found if found.count(found[0]) < len(found) else found[:1]


def _kind(word: str) -> TypeName:
    kind = _KIND.get(word[0], "int")
    if kind != "int" or word.lstrip("-").isdecimal():
        return kind
    return "duration" if word[-1] in "wdhms" else "float"


_KIND: dict[str, TypeName] = {'"': "symbol", "@": "timestamp", "t": "bool", "f": "bool"}


def _values(
    kinds: Sequence[TypeName], words: Sequence[str], texts: dict[str, str]
) -> Sequence[Value] | None:
    """The values of constants; None if one of them has an error."""
    kind = kinds[0] if len(kinds) == 1 else None
    if kind == "int":
        return array("q", map(int, words))
    if kind == "float":
        floats = list(map(exact_float, words))
        return floats if LongFloat in set(map(type, floats)) else array("d", floats)
    if kind == "symbol":
        plain = [word[1:-1] if "\\" not in word else _text(word) for word in words]
        known = [text for text in plain if text is not None]
        return list(map(texts.setdefault, known, known)) if len(known) == len(plain) else None
    values = [value for value in map(_value, words) if value is not None]
    return values if len(values) == len(words) else None


def _value(word: str) -> Value | None:
    """The value of a constant; None if it has an error."""
    kind = _kind(word)
    if kind == "symbol":
        return _text(word)
    if kind == "timestamp":
        return timestamp_from_text(word[1:])
    if kind == "duration":
        return duration_from_text(word)
    if kind == "bool":
        return word == "true"
    return int(word) if kind == "int" else exact_float(word)


def _text(word: str) -> str | None:
    if "\\" not in word:
        return word[1:-1]
    token = string_token(SourceText("", word), 0, len(word))
    return None if token.type == "ERROR" else token.value


def fact_rule(source: SourceText, found: re.Match[str]) -> s.Rule | None:
    """The fact that was found; None if one of its constants has an error."""
    args = []
    for part in re.compile(_ANY).finditer(source.text, *found.span(2)):
        value = _value(part[1])
        if value is None:
            return None
        args.append(s.Const(_kind(part[1]), value, Span(source, *part.span(1))))
    span = Span(source, found.start(1), found.end(2) + 1)
    return s.Rule((s.Atom(found[1], tuple(args), span),), None, span)
