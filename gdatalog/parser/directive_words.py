"""The names of directives, and where a directive ends, which has no dot."""

from __future__ import annotations

from gdatalog.parser.tokens import OPENING, Token

QUALIFIERS = frozenset({
    "input", "output", "printsize", "inline", "no_inline", "btree", "btree_delete", "brie", "magic",
    "no_magic", "overridable", "eqrel",
})  # fmt: skip

# A directive's name, and the type of its token.
DIRECTIVES = {
    "decl": "DECL",
    "type": "TYPE",
    **dict.fromkeys(("number_type", "symbol_type"), "OLD_TYPE"),
    **dict.fromkeys(("input", "output", "printsize", "limitsize"), "IO"),
    "include": "INCLUDE",
    "pragma": "PRAGMA",
    "plan": "PLAN",
}
# Soufflé's directives that we reject by name; they also end a statement that lacks its dot.
REFUSED_DIRECTIVES = frozenset({"comp", "init", "functor", "lattice", "override", "once"})
DIRECTIVE_TYPES = frozenset(DIRECTIVES.values()) | {"UNKNOWN"}


def directive_length(tokens: list[Token]) -> int:
    """The number of tokens of the directive that starts here.

    It ends once it is complete and the next token cannot continue it.
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
    """Whether the token at `at`, outside brackets, belongs to the directive."""
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
        # Without a name the directive is invalid; it ends at its line.
        return token.type == "NAME" or not new_line
    if kind == "TYPE":
        digits = token.type == "LPAR" and before.value == "decimal" and not new_line
        return digits or token.type in ("EQUAL", "SUBTYPE", "VBAR", "ERROR", "LBRACE")
    if kind == "DECL":
        if not new_line and any(part.value == "choice" for part in tokens[4:at]):
            return True  # Soufflé's choice-domain, rejected later
        if token.type == "NAME" and before.type in ("NAME", "RPAR", "ERROR"):
            # A name that could also start the next statement is a qualifier only if the next
            # token does not continue such a statement.
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
