"""Values of parameters: read from `-M name=value` and `--param name=value`, and formatted so."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gdatalog.engine.catalog.parameters import GivenList, parameter
from gdatalog.errors import ParseError, SourceText, UsageError
from gdatalog.parser import parse
from gdatalog.parser.syntax import Const, Member, Query, Values
from gdatalog.parser.tokens import string_token
from gdatalog.values import DAY, TypeName, Value, quoted, timestamp_from_text, timestamp_to_text

_NAME = re.compile(r"\$?([^\W\d]\w*)")
_INT = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"[+-]?([0-9]+\.[0-9]+([eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|inf)")


def read_parameters(given: Iterable[str], option: str = "-M") -> dict[str, object]:
    """Parses the values of `-M` or `--param` options.

    >>> read_parameters(["start=1", "name=alice", 'code="007"', "$deep=true"])
    {'start': 1, 'name': 'alice', 'code': '007', 'deep': True}
    """
    params: dict[str, object] = {}
    for text in given:
        name, equals, value = text.partition("=")
        found = _NAME.fullmatch(name)
        if not equals or found is None:
            raise UsageError(f"{option} {text}: a parameter is given as {option} name=value")
        if found[1] in params:
            raise UsageError(f"{option} {text}: the parameter ${found[1]} is given twice")
        params[found[1]] = read_value(value, option)
    return params


def read_value(text: str, option: str = "-M") -> object:
    """Parses an int, a float, true or false, a timestamp, or otherwise text.

    Constants in braces are a list, as in a program.
    """
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if text in ("true", "false"):
        return text == "true"
    if len(text) >= 2 and text[0] == text[-1] == '"':
        token = string_token(SourceText(option, text), 0, len(text))
        if token.type == "ERROR":
            raise UsageError(f"{option}: {token.value.message}", hint=token.value.hint)
        return token.value
    if text[:1] == "{" and text[-1:] == "}":
        return _list(text, option)
    nanoseconds = timestamp_from_text(text.removeprefix("@"))
    return text if nanoseconds is None else _moment(nanoseconds)


def _moment(nanoseconds: int) -> object:
    """A time; a date at midnight, which stands for either."""
    import numpy as np

    found = np.datetime64(nanoseconds, "ns")
    return found if nanoseconds % DAY else found.astype("datetime64[D]").item()


def _list(text: str, option: str) -> list[object]:
    """
    >>> _list('{"a", "b"}', "-M"), _list("{}", "-M")
    (['a', 'b'], [])
    """
    if not text[1:-1].strip():
        return []
    hint = 'constants in braces, as in {1, 2, 3} and {"a", "b"}'
    try:
        (query,) = parse(f"?- x in {text}.", option).statements
    except (ParseError, ValueError):
        raise UsageError(f"{option}: {text} is not a list of values", hint=hint) from None
    found: list[object] = []
    if isinstance(query, Query) and isinstance(query.body, Member):
        for part in query.body.values:
            if not isinstance(part, Const | Values):
                raise UsageError(f"{option}: {text} is not a list of values", hint=hint)
            values = (part.value,) if isinstance(part, Const) else part.values
            found += [_moment(int(v)) for v in values] if part.type == "timestamp" else values
    return found


def parameter_text(value: object, kind: str | None = None) -> str:
    """Formats a value as `-M` and `.set` accept it.

    >>> parameter_text(7), parameter_text(7, "float"), parameter_text("007"), parameter_text(True)
    ('7', '7.0', '"007"', 'true')
    """
    own, plain = parameter("", value)
    if isinstance(plain, GivenList):
        return "{" + ", ".join(_one(each, plain.kind, kind) for each in plain.values()) + "}"
    return _one(plain, own if isinstance(own, str) else "symbol", kind)


def _one(plain: Value, own: TypeName, kind: str | None) -> str:
    if own == "symbol":
        return quoted(str(plain))
    if own in ("timestamp", "date") or kind == "timestamp":
        return timestamp_to_text(int(plain))
    if own == "bool":
        return "true" if plain else "false"
    return repr(float(plain)) if kind == "float" else repr(plain)
