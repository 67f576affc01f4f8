"""Functions of the loop language as syntax trees, and what the names in them stand for."""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from gdatalog.codegen.language import ARRAYS, SCALARS, LoopError, kind_of
from gdatalog.records import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """`world`: the functions and constants that its names may stand for. `kind`: of a helper."""

    name: str
    node: ast.FunctionDef
    world: Mapping[str, Any]
    kind: str | None = None

    def named(self, name: str) -> Any:
        """What a name, perhaps of a module's, stands for."""
        module, _, name = name.rpartition(".")
        return self.world.get(name) if not module else getattr(self.world.get(module), name, None)

    @property
    def parameters(self) -> list[str]:
        return [argument.arg for argument in self.node.args.args]

    @property
    def result(self) -> ast.expr | None:
        """What it returns, if that is one value and all that it does."""
        match self.node.body:
            case [ast.Expr(value=ast.Constant()), ast.Return(value=value)]:
                return None if isinstance(value, ast.Tuple) else value
            case [ast.Return(value=value)]:
                return None if isinstance(value, ast.Tuple) else value
        return None


@cache
def helper(function: Any) -> Function:
    """A helper, read from the file that it stands in."""
    module = sys.modules[function.__module__]
    node = _node_of(str(module.__file__), function.__code__.co_firstlineno)
    name = f"{home(function.__module__)}.{function.__name__}"
    return Function(name, node, vars(module), kind_of(function))


@cache
def home(module: str) -> str:
    """A short name for a module; with a hash of its text, if it is none of ours."""
    parent, _, name = module.rpartition(".")
    if parent == f"{__package__}.helpers":
        return name
    text = Path(str(sys.modules[module].__file__)).read_bytes()
    return f"{name}.{hashlib.sha256(text).hexdigest()[:20]}"


def _node_of(path: str, number: int) -> ast.FunctionDef:
    """The function that begins at a line, of which alone the text is read: files are long."""
    lines = _lines_of(path)
    begin = end = next(at for at in range(number - 1, len(lines)) if lines[at].startswith("def "))
    while end + 1 < len(lines) and lines[end + 1][:1] in ("", " ", ")"):
        end += 1
    node = ast.parse("\n".join(lines[begin : end + 1])).body[0]
    assert isinstance(node, ast.FunctionDef)
    return node


@cache
def _lines_of(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8").splitlines()


def printed(source: str) -> tuple[Function, dict[str, str]]:
    """The one function of a printed module, and its parameters' types, which are its annotations.

    Nothing of the module is executed.
    """
    world: dict[str, Any] = {}
    found = None
    for node in ast.parse(source).body:
        match node:
            case ast.ImportFrom(module=str(module), names=names):
                home = import_module(module)
                world |= {alias.name: getattr(home, alias.name) for alias in names}
            case ast.FunctionDef():
                found = node
            case ast.Import() | ast.Expr(value=ast.Constant()):
                pass
            case _:
                raise LoopError(f"a module has no such statement: {ast.unparse(node)}")
    if found is None:
        raise LoopError("a module without a function")
    return Function(found.name, found, world), _annotated(found)


def _annotated(node: ast.FunctionDef) -> dict[str, str]:
    types = {}
    for argument in node.args.args:
        match argument.annotation:
            case ast.Constant(value=str(kind)) if kind in SCALARS or kind in ARRAYS:
                types[argument.arg] = kind
            case _:
                raise LoopError(f"{ast.unparse(argument)}: no type of the language")
    return types


# ------------------------------------------------------------------------------ syntax trees


def literal(node: ast.expr) -> int | None:
    """The number, if an expression is the literal of an int."""
    match node:
        case ast.Constant(value=bool()):
            return None
        case ast.Constant(value=int(value)):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value))):
            return -value
    return None


def statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """All statements, those within others too, in the order of the text."""
    for node in body:
        yield node
        for inner in ("body", "orelse"):
            yield from statements(getattr(node, inner, ()))


def called(node: ast.Call) -> str:
    match node.func:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=module), attr=name):
            return f"{module}.{name}"
        case ast.Attribute(attr=name):
            return f".{name}"
    raise LoopError(f"no name is called: {ast.unparse(node)}")
