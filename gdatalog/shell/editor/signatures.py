"""The signatures of functions and relations, and the argument at the cursor."""

from __future__ import annotations

from gdatalog.errors import SourceText
from gdatalog.parser.directive_words import DIRECTIVE_TYPES
from gdatalog.parser.scanner import scan
from gdatalog.parser.tokens import Token
from gdatalog.plan import functions
from gdatalog.plan.function_help import help_of
from gdatalog.shell.editor.known import Columns, KnownNames


def signature(name: str) -> str:
    """The signature of a function.

    >>> signature("substr"), signature("max")
    ('substr(symbol, int, int) -> symbol', 'max(any, any, ...) -> any')
    """
    if name in functions.GENERATORS:
        return f"{name}(from, to): each int from the one to before the other"
    shapes = functions.FUNCTIONS[functions.ALIASES.get(name, name)]
    return f"{name}{shape(shapes[0])}"


def about_function(name: str) -> str:
    """The signature of a function, and what it does.

    >>> about_function("year")
    'year(date|timestamp) -> int: the year'
    """
    told = f": {help_of(name)}" if name in functions.FUNCTIONS else ""
    return signature(name) + told


def shape(of: functions.Signature) -> str:
    """The types of a signature's arguments, and of its result."""
    kinds: dict[str, str] = {}
    params: list[str] = []
    for param in of.params:
        shared, types = param if isinstance(param, tuple) else ("", param)
        params.append(_kind(types))
        if shared:
            kinds[shared] = params[-1]
        if of.least is not None and not of.variadic and len(params) > of.least:
            params[-1] = f"[{params[-1]}]"
    if of.variadic:
        params += [params[-1]] * ((of.least or 1) - len(params)) + ["..."]
    return f"({', '.join(params)}) -> {kinds.get(of.result, of.result)}"


def _kind(types: frozenset[str]) -> str:
    if types == functions.ANY:
        return "any"
    if types >= functions.DECIMAL:
        types = types - functions.DECIMAL | {"decimal"}
    numbers = ["number"] if types >= functions.NUMBERS else []
    return "|".join(
        [*numbers, *sorted(types - functions.NUMBERS - {"decimal"} if numbers else types)]
    )


def argument_at(statement: str, known: KnownNames) -> tuple[str, str, str] | None:
    """The signature of the call open at the end of a statement, split around its current argument.

    >>> argument_at("p(x) <- E(x, ", KnownNames({"E": (("src", "int"), ("dst", "int"))}))
    ('E(src: int, ', 'dst: int', ')')
    """
    tokens = scan(SourceText("", statement), 0, fast=False).tokens
    if not tokens or tokens[0].type in DIRECTIVE_TYPES:
        return None
    name, place = open_call(tokens)
    if name in known.relations:
        shown = [f"{column}: {kind}" for column, kind in known.relations[name]]
        ending = ")"
    elif name in functions.FUNCTIONS or name in functions.ALIASES:
        inner, _, ending = signature(name).removeprefix(f"{name}(").partition(")")
        shown, ending = inner.split(", "), ")" + ending
        place = min(place, len(shown) - 1) if shown[-1] == "..." else place
    else:
        return None
    if place >= len(shown):
        return f"{name}({', '.join(shown)}{ending}", "", ""
    before, after = shown[:place], shown[place + 1 :]
    return (
        f"{name}({''.join(f'{one}, ' for one in before)}",
        shown[place],
        f"{''.join(f', {one}' for one in after)}{ending}",
    )


def columns_text(name: str, columns: Columns) -> str:
    return f"{name}({', '.join(f'{column}: {kind}' for column, kind in columns)})"


def open_call(tokens: list[Token]) -> tuple[str, int]:
    """The name of the innermost call open at the end, and the index of its argument."""
    open_: list[list[int]] = []  # index of the bracket, commas since
    for at, token in enumerate(tokens):
        if token.type in ("LPAR", "LBRACE"):
            open_.append([at, 0])
        elif token.type in ("RPAR", "RBRACE") and open_:
            open_.pop()
        elif token.type == "COMMA" and open_:
            open_[-1][1] += 1
    if not open_:
        return "", 0
    at, place = open_[-1]
    if tokens[at].type == "LBRACE" or at == 0 or tokens[at - 1].type != "NAME":
        return "", 0
    return str(tokens[at - 1].value), place
