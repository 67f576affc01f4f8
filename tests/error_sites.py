"""Where the package makes errors and warnings, and what their messages look like.

A message is found as it stands in the source: a text, an f-string, a choice of them, or a name
that was assigned one in the same function. What is put in stands for anything.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gdatalog import errors

PACKAGE = Path(errors.__file__).parent
KINDS = {
    name
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, (errors.Error, errors.Caution))
}
# Functions that make an error, and which of their arguments is its message.
MAKERS = dict.fromkeys((*KINDS, "mistake", "_fail"), 0) | {"error": 1}
ANYTHING = "\0"


@dataclass(frozen=True, slots=True)
class Site:
    """One place in the source; `pattern` is None where its message is made elsewhere."""

    module: str
    line: int
    maker: str
    pattern: str | None

    def __str__(self) -> str:
        return f"{self.module}:{self.line} {self.maker}: {self.pattern}"

    def is_in(self, text: str) -> bool:
        if self.pattern is None:
            return False
        told = re.sub(r"^(\.\+\?)+", "", self.pattern)  # looking for anything first is slow
        return re.search(told, text) is not None


def sites(*folders: str) -> Iterator[Site]:
    """Those of the modules in some folders of the package."""
    for folder in folders:
        paths = sorted((PACKAGE / folder).glob("**/*.py" if folder else "*.py"))
        for path in paths:
            module = path.relative_to(PACKAGE).with_suffix("").as_posix()
            tree = ast.parse(path.read_text(encoding="utf-8"))
            yield from _sites(module, tree, {})


def _sites(module: str, node: ast.AST, names: dict[str, list[ast.expr]]) -> Iterator[Site]:
    if isinstance(node, ast.FunctionDef):
        names = {}
        for part in ast.walk(node):
            if isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Name):
                names.setdefault(part.targets[0].id, []).append(part.value)
    if isinstance(node, ast.Call):
        function = node.func
        maker = function.id if isinstance(function, ast.Name) else ""
        maker = function.attr if isinstance(function, ast.Attribute) else maker
        at = MAKERS.get(maker)
        if at is not None and len(node.args) > at:
            found = [text for text in _texts(node.args[at], names) if text.strip(ANYTHING + " ")]
            for text in found or [None]:
                yield Site(module, node.lineno, maker, None if text is None else _pattern(text))
    for child in ast.iter_child_nodes(node):
        yield from _sites(module, child, names)


def _texts(node: ast.expr, names: dict[str, list[ast.expr]]) -> list[str]:
    """The texts that an expression may be, with a mark for what is put in."""
    match node:
        case ast.Constant(str() as text):
            return [text]
        case ast.JoinedStr(parts):
            found = [""]
            for part in parts:
                own = _texts(part, names) if isinstance(part, ast.Constant) else [ANYTHING]
                found = [before + text for before in found for text in own]
            return found
        case ast.IfExp(_, one, other):
            return _texts(one, names) + _texts(other, names)
        case ast.BinOp(left, ast.Add(), right):
            ends = _texts(right, names)
            return [one + other for one in _texts(left, names) for other in ends]
        case ast.Name(name) if name in names:
            return [text for value in names[name] for text in _texts(value, {})]
        case _:
            return [ANYTHING]


def _pattern(text: str) -> str:
    return ".+?".join(re.sub(r"([.*+?|()\[\]{}^$\\])", r"\\\1", p) for p in text.split(ANYTHING))
