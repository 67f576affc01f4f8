"""Directives: their names, and where one ends, for it needs no dot."""

from __future__ import annotations

from gdatalog.parser.tokens import OPENING, Token

QUALIFIERS = frozenset(
    {
        "input",
        "output",
        "printsize",
        "inline",
        "no_inline",
        "btree",
        "btree_delete",
        "brie",
        "magic",
        "no_magic",
        "overridable",
        "eqrel",
    }
)


# A directive's name, and the type of its token.
DIRECTIVES = {
    "decl": "DECL",
    "type": "TYPE",
    "number_type": "OLD_TYPE",
    "symbol_type": "OLD_TYPE",
    "input": "IO",
    "output": "IO",
    "printsize": "IO",
    "limitsize": "IO",
    "include": "INCLUDE",
    "pragma": "PRAGMA",
    "plan": "PLAN",
}
# Soufflé's, which are refused by name; known, so that they end a statement that lacks its dot.
REFUSED_DIRECTIVES = frozenset({"comp", "init", "functor", "lattice", "override", "once"})
DIRECTIVE_TYPES = frozenset(DIRECTIVES.values()) | {"UNKNOWN"}


def directive_length(tokens: list[Token]) -> int:
    """How many of the tokens belong to the directive that the first one opens.

    It ends where it is complete and what follows cannot go on with it.
    """
    kind = tokens[0].type
    depth = 0
    for at in range(1, len(tokens)):
        token = tokens[at]
        if token.type in OPENING or (token.type == "ERROR" and token.text == "["):
            depth += 1
        elif token.text in (")", "}", "]"):
            depth -= 1
            continue
        if depth > 0:
            continue
        if not _goes_on(kind, tokens, at):
            return at
    return len(tokens)


def _goes_on(kind: str, tokens: list[Token], at: int) -> bool:
    """Whether the token at `at`, outside brackets, still belongs to its directive."""
    token, before = tokens[at], tokens[at - 1]
    new_line = "\n" in token.source.text[before.end : token.start]
    if kind == "PLAN":
        ends_line = before.type in ("PLAN", "NUMBER", "RPAR")
        return token.type in ("NUMBER", "COLON", "LPAR", "COMMA") and not (new_line and ends_line)
    if kind == "PRAGMA" or kind == "INCLUDE":
        many = kind == "PRAGMA" and not new_line
        if token.type == "NAME":
            return at == 1 and not new_line  # its quotes are missing
        return token.type in ("STRING", "ERROR") and (many or at == 1)
    if kind == "UNKNOWN":
        return not new_line
    if before.type in ("COMMA", "VBAR", "EQUAL", "SUBTYPE") or token.type == "COMMA":
        return True
    if at == 1:
        # Without a name the directive is broken; the next line is not part of that.
        return token.type == "NAME" or not new_line
    if kind == "TYPE":
        return token.type in ("EQUAL", "SUBTYPE", "VBAR", "ERROR", "LBRACE")
    if kind == "DECL":
        if not new_line and any(part.value == "choice" for part in tokens[4:at]):
            return True  # Soufflé's choice-domain, which is refused
        if token.type == "NAME" and before.type in ("NAME", "RPAR", "ERROR"):
            # A name that the next statement could start with is a qualifier only where that
            # statement does not go on with it.
            after = tokens[at + 1] if at + 1 < len(tokens) else None
            goes_on = (
                after is None
                or after.type in ("NAME", "QUERY")
                or token.value == "choice"
                or "\n" in token.source.text[token.end : after.start]
            )
            return goes_on and (token.value in QUALIFIERS or not new_line)
        return token.type in ("LPAR", "ERROR") or (not new_line and token.type == "OPERATOR")
    return token.type == "LPAR" and before.type == "NAME"
