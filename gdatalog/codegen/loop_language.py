"""The loop language of printed loops and helpers, and its functions as syntax trees.

It is a small, typed part of Python. Its semantics are those of Python, which can run it; codegen
translates it to LLVM IR, and `gpu_ops` to CUDA.

Types: `bool`, `i64`, `u64`, `f64`, tuples of these as results, and contiguous arrays of `i8`, `u8`,
`i32`, `u32`, `i64`, `u64`, `f64` and `bool`, written `i32[]`. A scalar read from an array has 64
bits. Integers wrap. `i64` and `u64` do not mix, except for literals; ints and floats are not
compared. `//` and `%` by 0 give 0. Each local has one type, the widest that is assigned to it.

Statements: assignments (to names, elements, tuples of them; with an operator), `if`, `while`, `for`
over a `range`, `break`, `continue`, `return`, calls. A tuple of ints that is assigned to a name is
an array, whose elements are only read. Expressions: literals, names, elements, arithmetic,
comparisons, `and`, `or`, `not`, conditional expressions, calls of helpers and intrinsics, and of
`len`, `min`, `max`, `abs`, `int`, `bool`, `float`, `np.int64`, `np.uint64`.

Helpers are functions marked `part` (compiled once for all callers, and called) or `inlined`
(compiled into each caller). An `intrinsic` is a few machine instructions: its Python body defines
it, and `machine.py` and the CUDA headers have the instructions.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from numpy.typing import NDArray

from gdatalog.records import dataclass

Array = NDArray[Any]
F = TypeVar("F", bound=Callable[..., object])
Scalar = Any  # an i64, u64 or f64: Python's number, or NumPy's, with which Python's mix

SCALARS = ("bool", "i64", "u64", "f64")  # from narrow to wide
ELEMENTS = {
    "bool": 1, "i8": 1, "u8": 1, "i32": 4, "u32": 4, "i64": 8, "u64": 8, "f64": 8
}  # fmt: skip
ARRAYS = frozenset(f"{element}[]" for element in ELEMENTS)

_KIND = "__loop_kind__"


def part(function: F) -> F:
    """Marks a helper that is compiled once for each combination of types, and called."""
    setattr(function, _KIND, "part")
    return function


def seldom(function: F) -> F:
    """Marks a `part` that is called too rarely to be worth optimising."""
    setattr(function, _KIND, "seldom")
    return function


def inlined(function: F) -> F:
    """Marks a helper of a few instructions, which is compiled into its callers."""
    setattr(function, _KIND, "inlined")
    return function


def intrinsic(function: F) -> F:
    """Marks a function that every translator implements."""
    setattr(function, _KIND, "intrinsic")
    return function


def kind_of(function: object) -> str | None:
    """`part`, `seldom`, `inlined` or `intrinsic`; None if it is not a function of the language."""
    return getattr(function, _KIND, None)


class LoopError(Exception):
    """A text that is not in the loop language: a bug of the printer or of a helper."""


class CompileError(LoopError):
    """LLVM rejects a module."""


# Functions of the loop language as syntax trees, and what their names refer to.


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
