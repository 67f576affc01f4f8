"""Completion: what can stand at the cursor.

A pure function of the text, the cursor and a snapshot of names; only file names are looked up on
disk.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from gdatalog.errors import SourceText
from gdatalog.parser.directive_mistakes import FORMS
from gdatalog.parser.directive_words import DIRECTIVE_TYPES, DIRECTIVES, QUALIFIERS
from gdatalog.parser.scanner import scan
from gdatalog.parser.tokens import Token
from gdatalog.parser.words import INFIX_WORDS, NAMED, PREFIX_WORDS
from gdatalog.plan import functions
from gdatalog.records import dataclass, replace
from gdatalog.shell.editor.known import Columns, KnownNames
from gdatalog.shell.typed import StatementPart, parts_of
from gdatalog.values import TYPE_NAMES, visible

Files = Callable[[str, str], list[str]]

MOST_FILES = 200  # names offered of one folder


def files_at(typed: str, ending: str = "") -> list[str]:
    """The files and folders whose path starts with `typed`; folders end with a slash. Names with
    control characters are left out, because the terminal cannot show them.

    `ending`: only files with this ending, if there are any.
    """
    folder, slash, begun = typed.rpartition("/")
    try:
        with os.scandir(os.path.expanduser(folder + slash) or ".") as entries:
            found = sorted(
                (entry.name, entry.is_dir())
                for entry in entries
                if entry.name.startswith(begun)
                and entry.name == visible(entry.name)
                and (begun.startswith(".") or not entry.name.startswith("."))
            )
    except OSError:
        return []
    wanted = [(name, is_folder) for name, is_folder in found if is_folder or name.endswith(ending)]
    kept = wanted if any(not is_folder for _, is_folder in wanted) else found
    return [f"{folder}{slash}{name}{'/' * is_folder}" for name, is_folder in kept[:MOST_FILES]]


_WORD = re.compile(r"[^\W\d][\w?]*(?:\.[\w?]+)*\Z")
_COMMAND_PARTS = re.compile(r"\.?(\w*)\s([\s\S]*)")
_COMMAND_WORD = re.compile(r"\.(\w*)\Z")
_VARIABLE = re.compile(r"[^\W\d]\w*")
_COMMENT = re.compile(r"(?://[^\n]*|/\*(?:(?!\*/)[\s\S])*)\Z")
_STARTS_LITERAL = frozenset({"ARROW", "QUERY", "COMMA", "SEMICOLON", "NOT", "LPAR", "LBRACE"})

# The options of `.input E(...)` and other directives, with their values.
_YES_NO = ("true", "false")
_FILE = {"IO": ("file",), "filename": (), "delimiter": (), "headers": _YES_NO}
OPTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "input": _FILE | {"columns": (), "rfc4180": _YES_NO},
    "output": _FILE | {"IO": ("file", "stdout"), "rfc4180": _YES_NO},
    "printsize": {},
    "limitsize": {"n": ()},
}


@dataclass(frozen=True, slots=True)
class Completion:
    """`text` replaces the text from `start` to the cursor; a menu shows `about` beside it.

    `shown`: what a menu shows instead of `text`.
    """

    text: str
    start: int
    about: str = ""
    shown: str = ""


def complete(
    text: str, cursor: int, known: KnownNames, files: Files = files_at
) -> list[Completion]:
    """The completions at the cursor, the most likely first.

    >>> edges = KnownNames({"E": (("src", "int"), ("dst", "int"))})
    >>> [found.text for found in complete("p(x) <- E", 9, edges)]
    ['E(']
    >>> [found.text for found in complete("p(x) <- E(x, ", 13, edges)][:2]
    ['dst', 'x']
    """
    before = text[:cursor]
    part = _last_part(before, known)
    begins = part.begins if part is not None else cursor
    head = before[begins:]
    found = _COMMAND_WORD.fullmatch(head)
    if found is not None and not text[text.rfind("\n", 0, begins) + 1 : begins].strip():
        return _completions(_commands(found[1], known), found[1], cursor)
    if part is not None and not head and _COMMENT.search(before[part.start :]):
        return []
    if part is not None and part.whole and not part.command and head.endswith("."):
        head, begins = "", cursor  # after the statement's dot
    if part is not None and part.command:
        return _of_command(head, text, cursor, known, files)
    tokens = scan(SourceText("", head), 0, fast=False).tokens
    gap = head[tokens[-1].end if tokens else 0 :]
    if _COMMENT.search(gap):
        return []
    if tokens and tokens[-1].type == "ERROR" and tokens[-1].end == len(head) and head[-1] != "$":
        path = tokens[-1].text[1:]
        in_string = tokens[-1].text.startswith('"')
        return _completions(_in_string(tokens, path, files), path, cursor) if in_string else []
    return _in_statement(tokens, head, begins, text, cursor, known)


Found = Iterator[tuple[str, str, str]]  # text, about, and shown of a completion


def _completions(found: Found, word: str, cursor: int) -> list[Completion]:
    """Completions that replace the word before the cursor."""
    start = cursor - len(word)
    return [Completion(put, start, about, shown) for put, about, shown in found]


def signature(name: str) -> str:
    """The signature of a function.

    >>> signature("substr"), signature("max")
    ('substr(symbol, int, int) -> symbol', 'max(any, any, ...) -> any')
    """
    if name in functions.GENERATORS:
        return f"{name}(from, to): each int from the one to before the other"
    shapes = functions.FUNCTIONS[functions.ALIASES.get(name, name)]
    return f"{name}{_shape(shapes[0])}"


def _shape(of: functions.Signature) -> str:
    kinds: dict[str, str] = {}
    params: list[str] = []
    for param in of.params:
        shared, types = param if isinstance(param, tuple) else ("", param)
        params.append(_kind(types))
        if shared:
            kinds[shared] = params[-1]
    if of.variadic:
        params += [params[-1]] * ((of.least or 1) - len(params)) + ["..."]
    return f"({', '.join(params)}) -> {kinds.get(of.result, of.result)}"


def _kind(types: frozenset[str]) -> str:
    if types == functions.ANY:
        return "any"
    return "number" if types == functions.NUMBERS else "|".join(sorted(types))


def argument_at(statement: str, known: KnownNames) -> tuple[str, str, str] | None:
    """The signature of the call open at the end of a statement, split around its current argument.

    >>> argument_at("p(x) <- E(x, ", KnownNames({"E": (("src", "int"), ("dst", "int"))}))
    ('E(src: int, ', 'dst: int', ')')
    """
    tokens = scan(SourceText("", statement), 0, fast=False).tokens
    if not tokens or tokens[0].type in DIRECTIVE_TYPES:
        return None
    name, place = _open_call(tokens)
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


def _last_part(before: str, known: KnownNames) -> StatementPart | None:
    """The part that the cursor is in or directly after."""
    return next(iter(deque(parts_of(before, known.commands), maxlen=1)), None)


def _fitting(word: str, names: Iterable[str]) -> list[str]:
    """The names that start with the word, ignoring case."""
    low = word.lower()
    return [name for name in dict.fromkeys(names) if name.lower().startswith(low)]


# -------------------------------------------------------------------------------- commands


def _commands(word: str, known: KnownNames) -> Found:
    for name in _fitting(word, known.commands):
        arguments, summary = known.commands[name]
        yield name + " " * bool(arguments), summary, f".{name} {arguments}"
    for name in _fitting(word, DIRECTIVES):
        yield f"{name} ", f"as in {FORMS[name]}", f".{name}"


def _of_command(
    head: str, text: str, cursor: int, known: KnownNames, files: Files
) -> list[Completion]:
    """Completes a command's arguments by their kinds in the registry: `RELATION FILE`,
    `[on|off]`."""
    parts = _COMMAND_PARTS.fullmatch(head)
    if parts is None or parts[1] not in known.commands:
        return []
    name, rest = parts.groups()
    quoted = rest.count('"') % 2 == 1
    if quoted:
        earlier, _, word = rest.rpartition('"')
        words = earlier.split()
    else:
        *words, word = re.split(r"\s+", rest.lstrip())
    arguments = known.commands[name][0]
    wanted = arguments.replace("[", " ").replace("]", " ").split()
    if "QUERY" in wanted:
        skipped = cursor - len(rest)
        inner = complete(text[skipped:], len(rest), known, files)
        return [replace(one, start=one.start + skipped) for one in inner]
    if name == "set" or name in known.settings:
        asked = [name, *words] if name in known.settings else words
        values = known.settings.get(asked[0], ()) if asked else known.settings
        fitting = _fitting(word, values if len(asked) < 2 else ())
        return _completions(((value, "", "") for value in fitting), word, cursor)
    at = len(words)
    kinds = wanted[at : at + 1]
    if at == 0 and arguments.startswith("[RELATION] "):
        kinds = wanted[:2]  # the first is optional
    elif at >= max(1, len(wanted) - 1) and "..." in arguments:
        kinds = [kind.rstrip(".") for kind in wanted[:1]]
    found = (
        one
        for kind in kinds
        for choice in kind.split("|")
        for one in _argument(choice, word, quoted, known, files)
    )
    return _completions(found, word, cursor)


def _argument(kind: str, word: str, quoted: bool, known: KnownNames, files: Files) -> Found:
    """The arguments of a kind; file names are quoted where they contain blanks."""
    if kind == "RELATION":
        for name in _fitting(word, known.relations):
            yield name, columns_text(name, known.relations[name]), ""
    elif kind == "COMMAND":
        for name in _fitting(word.lstrip("."), known.commands):
            yield name, known.commands[name][1], ""
    elif kind.startswith("FILE"):
        for path in files(word, kind.removeprefix("FILE")):
            opening = '"' if " " in path and not quoted else ""
            closing = '"' if (opening or quoted) and not path.endswith("/") else ""
            yield opening + path + closing, "", path
    elif kind == kind.lower():
        for name in _fitting(word, [kind]):
            yield name, "", ""


# ------------------------------------------------------------------------------ statements


def _in_string(tokens: list[Token], path: str, files: Files) -> Found:
    """Completes files, where a directive names one."""
    first = tokens[0]
    option = tokens[-3].value if len(tokens) > 3 and tokens[-2].type == "EQUAL" else None
    if first.type not in ("IO", "INCLUDE") or option not in (None, "filename", "name"):
        return
    closing = '"' if first.type == "INCLUDE" or option is not None else '")'
    for found in files(path, ".dl" if first.type == "INCLUDE" else ""):
        yield found + ("" if found.endswith("/") else closing), "", found


def _in_statement(
    tokens: list[Token], head: str, begins: int, text: str, cursor: int, known: KnownNames
) -> list[Completion]:
    from gdatalog.parser.grammar import operand_can_follow

    typed = _WORD.search(head)
    word = typed[0] if typed is not None else ""
    if word and tokens and tokens[-1].end == len(head):
        tokens = tokens[:-1]
    if head[: len(head) - len(word)].endswith("$"):
        params = ((name, "a parameter", "") for name in _fitting(word, known.params))
        return _completions(params, word, cursor)
    if tokens and tokens[0].type in DIRECTIVE_TYPES:
        found = list(_in_directive(tokens, word, known))
    elif not word and tokens and not operand_can_follow(tokens):
        return []
    else:
        variables = _variables(text, begins, cursor - len(word))
        found = list(_in_rule(tokens, word, variables, known))
    exact = [one for one in found if one[0].startswith(word)]
    after = text[cursor : cursor + 1]
    # A bracket or `=` that already follows the cursor is not repeated.
    follows = after if after and after in "()=" else "\0"
    put = ((name.removesuffix(follows), about, shown) for name, about, shown in exact or found)
    return _completions(put, word, cursor)


def _in_directive(tokens: list[Token], word: str, known: KnownNames) -> Found:
    first, last = tokens[0], tokens[-1]
    inside = sum({"LPAR": 1, "RPAR": -1}.get(token.type, 0) for token in tokens) > 0
    if first.type == "IO":
        options = OPTIONS.get(str(first.value), {})
        if inside and last.type == "EQUAL":
            for value in _fitting(word, options.get(str(tokens[-2].value), ())):
                yield value, "", ""
        elif inside:
            for name in _fitting(word, options):
                yield f"{name}=", " or ".join(options[name]), name
        elif last is first or last.type == "COMMA":
            for name in _fitting(word, known.relations):
                yield name, columns_text(name, known.relations[name]), ""
    elif first.type in ("TYPE", "DECL") and last.type in ("COLON", "EQUAL", "SUBTYPE", "VBAR"):
        for name in _fitting(word, [*TYPE_NAMES, *known.types]):
            yield name, "a type", ""
    elif first.type == "DECL" and last.type == "RPAR":
        for name in _fitting(word, sorted(QUALIFIERS)):
            yield name, "", ""
    elif first.type == "DECL" and len(tokens) == 1:
        for name in _fitting(word, known.relations):
            yield f"{name}(", columns_text(name, known.relations[name]), name
    elif first.type == "DECL" and last.type == "LPAR" and tokens[1].value in known.relations:
        named = known.relations[str(tokens[1].value)]
        columns = columns_text("", named)[1:]
        if columns.startswith(word) and all(_is_variable(column) for column, _ in named):
            yield columns, "its columns", ""


def _in_rule(tokens: list[Token], word: str, variables: list[str], known: KnownNames) -> Found:
    name, place, tail = _call(tokens)
    ruled = any(token.type in ("ARROW", "QUERY") for token in tokens)
    about = dict.fromkeys(variables, "a variable")
    if name in known.relations:
        columns = known.relations[name]
        whole = ", ".join(column for column, _ in columns[place:]) + ")"
        usable = [column if _is_variable(column) else "" for column, _ in columns]
        if not word and all(usable[place:]) and len(columns) - place > 1:
            yield whole, columns_text(name, columns), ""
        if place < len(columns) and usable[place] and usable[place].startswith(word):
            yield usable[place], f"column {place + 1} of {columns_text(name, columns)}", ""
            about.pop(usable[place], None)
    elif not name and (not tokens or tail in _STARTS_LITERAL):
        for relation in _fitting(word, known.relations):
            columns = known.relations[relation]
            put = f"{relation}(" if columns else relation
            yield put, columns_text(relation, columns), relation
        if not tokens:
            if not word:
                yield "?- ", "asks", ""
            return
        if "not".startswith(word) and tail != "NOT":
            yield "not ", "without", ""
    for variable in _fitting(word, about):
        yield variable, about[variable], ""
    if not ruled and not name:
        return
    if not word and tail in _STARTS_LITERAL:
        return  # too many: offered once a letter is typed, or after `=`
    for function in _fitting(word, _FUNCTIONS):
        if function not in functions.AGGREGATES or name in functions.FUNCTIONS:
            yield f"{function}(", signature(function), function
    if name in functions.FUNCTIONS:
        return
    for aggregate in _fitting(word, sorted(functions.AGGREGATES)):
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
    name, place = _open_call(tokens)
    tail = tokens[-1].type if tokens else ""
    # In the middle of an argument no column is offered.
    return name, place if tail in ("LPAR", "COMMA") else 1 << 30, tail


def _open_call(tokens: list[Token]) -> tuple[str, int]:
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


def _variables(text: str, begins: int, cursor: int) -> list[str]:
    """The variables of the current statement, before and after the cursor, except the word being
    typed."""
    tokens = scan(SourceText("", text[begins:]), 0, fast=False).tokens
    return list(
        dict.fromkeys(
            str(token.value)
            for token, after in zip(tokens, [*tokens[1:], None], strict=False)
            if token.type == "NAME" and token.start + begins != cursor
            if after is None or after.type != "LPAR"
        )
    )
