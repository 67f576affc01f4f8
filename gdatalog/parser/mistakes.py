"""stub"""

from __future__ import annotations
from gdatalog.errors import *


def wrong_word(kind, value, arrow):
    return f"`{value}` means nothing here", None, 0


def explain(tokens, at, expected, scanned):
    t = tokens[at] if at < len(tokens) else None
    if t is None:
        last = tokens[-1]
        return ParseError(
            "the statement is not complete", Span(last.source, last.end, last.end)
        ), None
    return ParseError(f"unexpected `{t.text}`", t.span), None
