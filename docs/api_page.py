"""The page api.md of the site, made of the docstrings of what `gdatalog.__all__` names."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import gdatalog as gd

HEAD = """\
# API reference

Everything that `import gdatalog as gd` gives, as `help()` shows it. [Python](python.md) explains it
by subject. Databases come from `gd.connect` and results from queries; neither has a constructor to
call.
"""
_QUOTED = re.compile(r"(: |-> )'([^']*)'")  # annotations, as `inspect.signature` writes them
_LONG = 88
INNER = {f"Result.{key}" for key in ("of", "shared", "table", "tables")}  # for the package itself


def page() -> str:
    """The whole page."""
    things = {name: getattr(gd, name) for name in gd.__all__}
    parts = [HEAD, "## Functions\n"]
    parts += [_entry(name, thing) for name, thing in things.items() if inspect.isfunction(thing)]
    for name, thing in things.items():
        if inspect.isclass(thing) and not issubclass(thing, BaseException):
            parts.append(f"## {name}\n\n{_markdown(thing)}")
            parts += [_entry(f"{name}.{key}", value) for key, value in members(thing)]
    parts.append("## Errors and warnings\n\n| name | base | |\n| --- | --- | --- |")
    for name, thing in things.items():
        if inspect.isclass(thing) and issubclass(thing, BaseException):
            bases = ", ".join([f"`{base.__name__}`" for base in thing.__bases__])
            text = " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split("\n"))
            parts[-1] += f"\n| `{name}` | {bases} | {text} |"
    return "\n".join(parts) + "\n"


def members(thing: type) -> Iterator[tuple[str, Any]]:
    """Methods and properties; fields are in the docstring of the class."""
    for key, value in inspect.getmembers(thing):
        named = not key.startswith("_") and f"{thing.__name__}.{key}" not in INNER
        if named and hasattr(value, "__get__") and inspect.getdoc(value):
            yield key, value


def _entry(name: str, thing: Any) -> str:
    shown = ""
    if callable(thing):
        shown = f"```python\n{_signature(name, thing)}\n```\n\n"
    return f"### {name}\n\n{shown}{_markdown(thing)}"


def _signature(name: str, thing: Any) -> str:
    given = inspect.signature(thing)
    own = [each for each in given.parameters.values() if each.name not in ("self", "cls")]
    text = _QUOTED.sub(r"\1\2", str(given.replace(parameters=own)))
    name = name.rpartition(".")[2]
    if len(name + text) <= _LONG:
        return name + text
    inner, _, after = text[1:].rpartition(")")
    parts = re.split(r", (?=\*|/|\w+(?:: | = |=|,|$))", inner)
    return f"{name}(\n" + "".join([f"    {part},\n" for part in parts]) + f"){after}"


def _markdown(thing: Any) -> str:
    """A docstring, its examples as blocks."""
    parts = re.split(r"\n\n+", inspect.getdoc(thing) or "")
    shown = [f"```pycon\n{part}\n```" if part.startswith(">>>") else part for part in parts]
    return "\n\n".join(shown) + "\n"
