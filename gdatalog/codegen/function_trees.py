"""Functions of the loop language as syntax trees, and what their names refer to."""

from __future__ import annotations

import ast
import functools
import hashlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from gdatalog.codegen.loop_language import ARRAYS, SCALARS, LoopError, kind_of
from gdatalog.records import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """`world`: the functions, constants and modules that names may refer to. `kind`: a helper's."""

    name: str
    node: ast.FunctionDef
    world: Mapping[str, Any]
    kind: str | None = None

    def named(self, name: str) -> Any:
        """What a name, possibly `module.name`, refers to."""
        module, _, name = name.rpartition(".")
        return self.world.get(name) if not module else getattr(self.world.get(module), name, None)

    @property
    def parameters(self) -> list[str]:
        return [argument.arg for argument in self.node.args.args]

    @property
    def result(self) -> ast.expr | None:
        """The expression of a function that only returns one value."""
        match self.node.body:
            case [ast.Expr(value=ast.Constant()), ast.Return(value=value)]:
                return None if isinstance(value, ast.Tuple) else value
            case [ast.Return(value=value)]:
                return None if isinstance(value, ast.Tuple) else value
        return None


@functools.cache
def helper(function: Callable[..., object]) -> Function:
    """A helper, parsed from its source file."""
    module = sys.modules[function.__module__]
    node = _node_of(str(module.__file__), function.__code__.co_firstlineno)
    name = f"{home(function.__module__)}.{function.__name__}"
    return Function(name, node, vars(module), kind_of(function))


@functools.cache
def home(module: str) -> str:
    """A short name for a module; with a hash of its source, if it is not one of ours."""
    parent, _, name = module.rpartition(".")
    if f"{__package__}.helpers" in (parent, module):
        return name
    text = Path(str(sys.modules[module].__file__)).read_bytes()
    return f"{name}.{hashlib.sha256(text).hexdigest()[:20]}"


def _node_of(path: str, number: int) -> ast.FunctionDef:
    """The function that begins at a line. Only its own lines are parsed, because files are long."""
    lines = _lines_of(path)
    begin = end = next(at for at in range(number - 1, len(lines)) if lines[at].startswith("def "))
    while end + 1 < len(lines) and lines[end + 1][:1] in ("", " ", ")"):
        end += 1
    node = ast.parse("\n".join(lines[begin : end + 1])).body[0]
    assert isinstance(node, ast.FunctionDef)
    return node


@functools.cache
def _lines_of(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8").splitlines()


def printed(source: str) -> tuple[Function, dict[str, str]]:
    """The one function of a printed module, and the types of its parameters, which are annotations.

    Nothing of the module is executed.
    """
    world: dict[str, object] = {}
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


def literal(node: ast.expr) -> int | None:
    """The value of an expression that is an int literal, else None."""
    match node:
        case ast.Constant(value=bool()):
            return None
        case ast.Constant(value=int(value)):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value))):
            return -value
    return None


def statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """All statements, including nested ones, in the order of the text."""
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
