"""Completions of a word, and those in statements: in directives, rules and strings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from gdatalog.errors import SourceText
from gdatalog.parser.directive_words import DIRECTIVE_TYPES, QUALIFIERS
from gdatalog.parser.scanner import scan
from gdatalog.parser.tokens import ENDS_OPERAND, OPENING, Token
from gdatalog.parser.words import INFIX_WORDS, NAMED, PREFIX_WORDS, column_name
from gdatalog.plan import functions
from gdatalog.records import dataclass
from gdatalog.shell.editor.known import KnownNames
from gdatalog.shell.editor.signatures import about_function, columns_text, open_call
from gdatalog.values import TYPE_NAMES


@dataclass(frozen=True, slots=True)
class Completion:
    """`text` replaces the text from `start` to the cursor; a menu shows `about` beside it.

    `shown`: what a menu shows instead of `text`.
    """

    text: str
    start: int
    about: str = ""
    shown: str = ""


Found = Iterator[tuple[str, str, str]]  # text, about, and shown of a completion


def completions_of(found: Found, word: str, cursor: int) -> list[Completion]:
    """Completions that replace the word before the cursor."""
    start = cursor - len(word)
    return [Completion(put, start, about, shown) for put, about, shown in found]


def starting_with(word: str, names: Iterable[str]) -> list[str]:
    """The names that start with the word, ignoring case."""
    low = word.lower()
    return [name for name in dict.fromkeys(names) if name.lower().startswith(low)]


Files = Callable[[str, str], list[str]]

_WORD = re.compile(r"[^\W\d][\w?]*(?:\.[\w?]+)*\Z")
_VARIABLE = re.compile(r"[^\W\d]\w*")
_STARTS_LITERAL = frozenset(
    {
        "ARROW",
        "QUERY",
        "COMMA",
        "SEMICOLON",
        "NOT",
        "OPTIONAL",
        "RETRACT",
        "WHERE",
        "LPAR",
        "LBRACE",
    }
)
# The options of `.input E(...)` and other directives, with their values.
_YES_NO = ("true", "false")
_FILE = {"IO": ("file",), "filename": (), "delimiter": (), "headers": _YES_NO}
OPTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "input": _FILE | {"columns": (), "rfc4180": _YES_NO},
    "output": _FILE | {"IO": ("file", "stdout"), "rfc4180": _YES_NO},
    "printsize": {},
    "limitsize": {"n": ()},
}


def file_in_string(tokens: list[Token], path: str, files: Files) -> Found:
    """Completes files, where a directive names one."""
    first = tokens[0]
    option = tokens[-3].value if len(tokens) > 3 and tokens[-2].type == "EQUAL" else None
    if first.type not in ("IO", "INCLUDE") or option not in (None, "filename", "name"):
        return
    closing = '"' if first.type == "INCLUDE" or option is not None else '")'
    for found in files(path, ".dl" if first.type == "INCLUDE" else ""):
        yield found + ("" if found.endswith("/") else closing), "", found


def in_statement(
    tokens: list[Token], head: str, begins: int, text: str, cursor: int, known: KnownNames
) -> list[Completion]:
    from gdatalog.parser.grammar import operand_can_follow

    typed = _WORD.search(head)
    word = typed[0] if typed is not None else ""
    if word and tokens and tokens[-1].end == len(head):
        tokens = tokens[:-1]
    if head[: len(head) - len(word)].endswith("$"):
        params = ((name, "a parameter", "") for name in starting_with(word, known.params))
        return completions_of(params, word, cursor)
    if tokens and tokens[0].type in DIRECTIVE_TYPES:
        found = list(_in_directive(tokens, word, known))
    elif clauses := _clauses(tokens):
        about = "of the answer" if tokens[0].type == "QUERY" else "a condition"
        found = [(clause, about, "") for clause in starting_with(word, clauses)]
    elif not word and tokens and not operand_can_follow(tokens):
        return []
    else:
        variables = _variables(text, begins, cursor - len(word))
        found = list(_in_rule(tokens, word, variables, known))
        if tokens and tokens[0].type == "QUERY" and any(token.type == "ORDER" for token in tokens):
            found = [(name, "a column", "") for name in starting_with(word, variables)]
    exact = [one for one in found if one[0].startswith(word)]
    after = text[cursor : cursor + 1]
    # A bracket or `=` that already follows the cursor is not repeated.
    follows = after if after and after in "()=" else "\0"
    put = ((name.removesuffix(follows), about, shown) for name, about, shown in exact or found)
    return completions_of(put, word, cursor)


def _clauses(tokens: list[Token]) -> list[str]:
    """What can go on with a query behind its body, or with a retraction behind its atom."""
    if not tokens or tokens[0].type not in ("QUERY", "RETRACT") or open_call(tokens)[0]:
        return []
    if tokens[0].type == "RETRACT":
        where = any(token.type == "WHERE" for token in tokens)
        return [] if where or tokens[-1].type != "RPAR" else ["where "]
    if tokens[-1].type not in ENDS_OPERAND | {"DIRECTION"}:
        return []
    said = {token.type for token in tokens}
    bounds = [word for word in ("limit", "offset") if word.upper() not in said]
    if "ORDER" in said and len(bounds) == 2 and tokens[-1].type != "DIRECTION":
        bounds.insert(0, "desc")
    return [
        f"{word} " for word in (["order by"] * (not said & {"ORDER", "LIMIT", "OFFSET"}) + bounds)
    ]


def _in_directive(tokens: list[Token], word: str, known: KnownNames) -> Found:
    first, last = tokens[0], tokens[-1]
    inside = sum({"LPAR": 1, "RPAR": -1}.get(token.type, 0) for token in tokens) > 0
    if first.type == "IO":
        options = OPTIONS.get(str(first.value), {})
        if inside and last.type == "EQUAL":
            for value in starting_with(word, options.get(str(tokens[-2].value), ())):
                yield value, "", ""
        elif inside:
            for name in starting_with(word, options):
                yield f"{name}=", " or ".join(options[name]), name
        elif last is first or last.type == "COMMA":
            for name in starting_with(word, known.relations):
                yield name, columns_text(name, known.relations[name]), ""
    elif first.type in ("TYPE", "DECL") and last.type in ("COLON", "EQUAL", "SUBTYPE", "VBAR"):
        for name in starting_with(word, [*TYPE_NAMES, *known.types]):
            yield name, "a type", ""
    elif first.type == "DECL" and last.type == "RPAR":
        for name in starting_with(word, sorted(QUALIFIERS)):
            yield name, "", ""
    elif first.type == "DECL" and len(tokens) == 1:
        for name in starting_with(word, known.relations):
            yield f"{name}(", columns_text(name, known.relations[name]), name
    elif first.type == "DECL" and last.type == "LPAR" and tokens[1].value in known.relations:
        named = known.relations[str(tokens[1].value)]
        columns = columns_text("", named)[1:]
        if columns.startswith(word) and all(_is_variable(column) for column, _ in named):
            yield columns, "its columns", ""


def _in_rule(tokens: list[Token], word: str, variables: list[str], known: KnownNames) -> Found:
    name, place, tail = _call(tokens)
    ruled = any(token.type in ("ARROW", "QUERY", "WHERE") for token in tokens)
    about = dict.fromkeys(variables, "a variable")
    if name in known.relations:
        columns = known.relations[name]
        whole = ", ".join(column for column, _ in columns[place:]) + ")"
        usable = [column if _is_variable(column) else "" for column, _ in columns]
        given = _given(tokens)
        if not word and not given and all(usable[place:]) and len(columns) - place > 1:
            yield whole, columns_text(name, columns), ""
        own = usable[place] if place < len(columns) and not given else ""
        if own and own.startswith(word):
            yield own, f"column {place + 1} of {columns_text(name, columns)}", ""
            about.pop(own, None)
        if tail in ("LPAR", "COMMA") and (word or given):
            later = [column for column, _ in columns[place - len(given) :] if column not in given]
            for column in starting_with(word, later):
                yield f"{column_name(column)} = ", f"a column of {columns_text(name, columns)}", ""
    elif not name and (not tokens or tail in _STARTS_LITERAL):
        for relation in starting_with(word, known.relations):
            columns = known.relations[relation]
            put = f"{relation}(" if columns else relation
            yield put, columns_text(relation, columns), relation
        if not tokens:
            if not word:
                yield "?- ", "asks", ""
            elif "retract".startswith(word):
                yield "retract ", "deletes facts", ""
            return
        if "not".startswith(word) and tail != "NOT":
            yield "not ", "without", ""
        if word and "optional".startswith(word) and tail != "NOT":
            yield "optional ", "nulls where nothing matches", ""
    for variable in starting_with(word, about):
        yield variable, about[variable], ""
    if not ruled and not name:
        return
    if not word and tail in _STARTS_LITERAL:
        return  # too many: offered once a letter is typed, or after `=`
    if word and "null".startswith(word):
        yield "null", "no value", ""
    for function in starting_with(word, _FUNCTIONS):
        if function not in functions.AGGREGATES or name in functions.FUNCTIONS:
            yield f"{function}(", about_function(function), function
    if name in functions.FUNCTIONS:
        return
    for function in starting_with(word, () if ruled else functions.ORDERED):
        yield f"{function}(", functions.ORDERED[function], function
    for aggregate in starting_with(word, sorted(functions.AGGREGATES)):
        if not ruled:
            yield f"{aggregate}(", "aggregate of all rows of a group", aggregate
        elif name not in known.relations:
            about_it = f"{aggregate} {'' if aggregate == 'count' else 'x '}: {{ ... }}"
            yield aggregate, about_it, ""


_FUNCTIONS = sorted(
    name
    for name in (*functions.FUNCTIONS, *functions.GENERATORS)
    if name.isidentifier() and name not in INFIX_WORDS | PREFIX_WORDS
)


def _is_variable(name: str) -> bool:
    return _VARIABLE.fullmatch(name) is not None and name not in NAMED and name not in INFIX_WORDS


def _call(tokens: list[Token]) -> tuple[str, int, str]:
    """The name of the call open at the end, the index of its argument, and the last token's type.

    The name is empty outside of calls.
    """
    name, place = open_call(tokens)
    tail = tokens[-1].type if tokens else ""
    # In the middle of an argument no column is offered.
    return name, place if tail in ("LPAR", "COMMA") else 1 << 30, tail


def _given(tokens: list[Token]) -> list[str]:
    """The columns that the call open at the end has named."""
    return [str(token.value) for token in _columns_named(tokens, open_at_end=True).values()]


def _columns_named(tokens: list[Token], open_at_end: bool = False) -> dict[int, Token]:
    """The names of columns in calls, by their ids, or only those in the call open at the end."""
    found: list[dict[int, Token]] = [{}]
    calls: list[bool] = [False]
    for before, token, after in zip([None, *tokens], tokens, tokens[1:], strict=False):
        if token.type in OPENING:
            calls.append(before is not None and before.type == "NAME")
            found.append({})
        elif token.type in ("RPAR", "RBRACE") and len(calls) > 1:
            calls.pop()
            inner = found.pop()
            if not open_at_end:
                found[-1].update(inner)
        elif calls[-1] and after.type == "EQUAL" and before and before.type in ("LPAR", "COMMA"):
            found[-1][id(token)] = token
    if open_at_end:
        return found[-1]
    return {at: token for each in found for at, token in each.items()}


def _variables(text: str, begins: int, cursor: int) -> list[str]:
    """The variables of the current statement, before and after the cursor, except the word being
    typed."""
    tokens = scan(SourceText("", text[begins:]), 0, fast=False).tokens
    columns = _columns_named(tokens)
    return list(
        dict.fromkeys(
            str(token.value)
            for token, after in zip(tokens, [*tokens[1:], None], strict=False)
            if token.type == "NAME" and token.start + begins != cursor
            if after is None or after.type != "LPAR"
            if id(token) not in columns
        )
    )
