"""Whether statements are complete, for interactive use."""

from __future__ import annotations

from gdatalog.errors import SourceText
from gdatalog.parser.scanner import Scanned, scan
from gdatalog.parser.tokens import (
    Token,
)


def is_complete(text: str) -> bool:
    """Whether the text ends with a complete statement, which may have errors.

    >>> is_complete("p(x) <- q(x).  // done"), is_complete("p(x) <- q(x),")
    (True, False)
    """
    source = SourceText("<text>", text)
    at = 0
    while at < len(text):
        scanned = scan(source, at)
        at = scanned.end
        if not is_ended(scanned, at >= len(text)):
            return False
    return True


def is_ended(scanned: Scanned, last: bool) -> bool:
    """Whether a statement is complete. `last`: it is the last of the text."""
    if scanned.stop == "open comment":
        return False
    if last and scanned.stop == "directive":
        return _directive_complete(scanned.tokens)
    return not last or scanned.stop != "end" or not scanned.tokens


def _directive_complete(tokens: list[Token]) -> bool:
    """Whether a directive at the end of a text is complete."""
    depth = 0
    for token in tokens:
        depth += {"LPAR": 1, "LBRACE": 1, "RPAR": -1, "RBRACE": -1}.get(token.type, 0)
    if depth > 0 or tokens[-1].type in ("COMMA", "VBAR", "EQUAL", "SUBTYPE"):
        return False
    return not (tokens[0].type == "DECL" and tokens[-1].type == "NAME" and len(tokens) == 2)
