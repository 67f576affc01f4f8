"""The fast path: facts whose arguments are plain constants, read without the grammar.

It accepts less than the grammar (no hexadecimal, no 19 digits, no comment inside, nothing over
two lines), and where it accepts it makes the very same tree. What it refuses goes the long way.
"""

from __future__ import annotations

import re

from gdatalog.errors import SourceText, Span
from gdatalog.parser.syntax import Atom, Const, Rule, Statement
from gdatalog.parser.tokens import string_token, timestamp_token

INT = r"-?[0-9]{1,18}+(?![\w.?])"
FLOAT = r"-?[0-9]{1,18}+(?:\.[0-9]{1,18}+(?:[eE][+-]?[0-9]{1,2}+)?+|[eE][+-]?[0-9]{1,2}+)(?![\w.?])"
TEXT = r'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"'
TIME = r"@[0-9]++(?:-[0-9]++)*+(?:T[0-9]++(?::[0-9]++)*+(?:\.[0-9]++)?+)?+(?![\w.:+-])"
BOOL = r"(?:true|false)(?![\w.?'])"
_ARGUMENT = rf"[ \t]*+(?:{INT}|{FLOAT}|{TEXT}|{TIME}|{BOOL})[ \t]*+"
_FACT = re.compile(
    r"[ \t\r\n]*+(?!(?:_|not|inf|null|nil|true|false)\b)([^\W\d]\w*+)[ \t]*+"
    rf"\(({_ARGUMENT}(?:,{_ARGUMENT})*+)\)\.(?![\w.?])"
)
_PART = re.compile(
    rf"(?P<int>{INT})|(?P<float>{FLOAT})|(?P<symbol>{TEXT})"
    rf"|(?P<timestamp>{TIME})|(?P<bool>{BOOL})"
)


def facts(source: SourceText, at: int, statements: list[Statement]) -> int:
    """Add the facts that stand at `at`, one after the other; where the next statement starts."""
    text = source.text
    match, parts = _FACT.match, _PART.finditer
    while found := match(text, at):
        args: list[Const] = []
        start, end = found.span(2)
        for part in parts(text, start, end):
            kind = part.lastgroup
            span = Span(source, part.start(), part.end())
            if kind == "int":
                args.append(Const("int", int(part[0]), span))
            elif kind == "symbol" and "\\" not in part[0]:
                args.append(Const("symbol", part[0][1:-1], span))
            elif kind == "float":
                args.append(Const("float", float(part[0]), span))
            elif kind == "bool":
                args.append(Const("bool", part[0] == "true", span))
            else:
                make = string_token if kind == "symbol" else timestamp_token
                token = make(source, span.start, span.end)
                if token.type == "ERROR":
                    return at
                args.append(Const("symbol" if kind == "symbol" else "timestamp", token.value, span))
        span = Span(source, found.start(1), end + 1)
        statements.append(Rule((Atom(found[1], tuple(args), span),), None, span))
        at = found.end()
    return at
