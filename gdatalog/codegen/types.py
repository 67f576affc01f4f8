"""Infers the types of a function's names and expressions.

Also finds what is not in the language: `infer` raises `LoopError`.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

import numpy as np

from gdatalog.codegen.function_trees import Function, called, helper, literal, statements
from gdatalog.codegen.loop_language import SCALARS, LoopError, kind_of
from gdatalog.records import dataclass, field

# A scalar, an array like `i32[]`, a tuple (of a result), or `void` if nothing is returned.
Type = str | tuple[str, ...]

# The type of array elements once they are read.
_READ = {"bool": "bool", "u64": "u64", "f64": "f64"}

# The results of intrinsics that are not i64.
_RESULTS = {
    "put": "void", "put_word": "void", "prefetch": "void", "store": "void", "word": "u64"
}  # fmt: skip
_REAL = frozenset({"floor", "ceil", "sqrt", "exp", "log", "power", "fmod", "float64"})


def is_array(kind: Type | None) -> bool:
    return isinstance(kind, str) and kind.endswith("[]")


def element_of(array: str) -> str:
    return array.removesuffix("[]")


def read_from(array: str) -> str:
    """The type of an element once it is read."""
    return _READ.get(element_of(array), "i64")


def wider(one: Type | None, other: Type | None) -> Type | None:
    """The type of a value that may have either type; None: unknown so far."""
    if one is None or one == other:
        return other
    if other is None:
        return one
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        return tuple(str(wider(a, b)) for a, b in zip(one, other, strict=True))
    if one in SCALARS and other in SCALARS:
        assert isinstance(one, str) and isinstance(other, str)
        return max(one, other, key=SCALARS.index)
    raise LoopError(f"{one} and {other} are assigned to one name")


def constant_type(value: object) -> str | None:
    """The type of a module's constant; None if it is not a constant."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, np.uint64):
        return "u64"
    if isinstance(value, (int, np.int64)):
        return "i64"
    return "f64" if isinstance(value, float) else None


@dataclass(slots=True)
class TypedFunction:
    """A function for arguments of some types: the types of its names, and of its result."""

    function: Function
    given: tuple[str, ...]
    names: dict[str, Type] = field(default_factory=dict)
    result: Type | None = None
    assigned: dict[str, int] = field(default_factory=dict)  # how often each name is, in the text
    _early: bool = False  # whether a name was read before its final type

    @property
    def symbol(self) -> str:
        """Its name in machine code."""
        return ".".join((self.function.name, *(kind.replace("[]", "p") for kind in self.given)))

    # ---------------------------------------------------------------------------- expressions

    def of(self, node: ast.expr) -> Type | None:
        """An expression's type; None: unknown so far."""
        match node:
            case ast.Name(id=name):
                return self.names.get(name) or self._name(name)
            case ast.Call():
                return self._call(node)
            case ast.BinOp(left=left, op=op, right=right):
                return arithmetic_type(left, op, right, self.of(left), self.of(right))
            case ast.Constant(value=value):
                return _of_constant(value)
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                return "bool"
            case ast.UnaryOp(operand=operand):
                return "i64" if literal(node) is not None else wider("i64", self.of(operand))
            case ast.IfExp(body=one, orelse=other):
                return wider(self.of(one), self.of(other))
            case ast.Subscript(value=ast.Name(id=name)):
                array = self.names.get(name)
                if array is None:
                    self._early = True
                    return None
                if not is_array(array):
                    raise LoopError(f"{name} is no array")
                return read_from(str(array))
            case ast.Subscript(value=ast.Call() as call, slice=ast.Constant(value=int(at))):
                found = self.of(call)
                if found is None:
                    return None
                if not isinstance(found, tuple) or not 0 <= at < len(found):
                    raise LoopError(f"value {at} of {found}: {ast.unparse(node)}")
                return found[at]
        raise LoopError(f"not in the language: {ast.unparse(node)}")

    def _name(self, name: str) -> Type | None:
        if name in self.function.world:
            found = constant_type(self.function.world[name])
            if found is None:
                raise LoopError(f"{name} is no constant")
            return found
        self._early = True
        return None

    def _call(self, node: ast.Call) -> Type | None:
        name, args = called(node), node.args
        if name == ".view":
            found = {"np.float64": "f64", "np.int64": "i64"}.get(ast.unparse(args[0]))
            if found is None:
                raise LoopError(f"not in the language: {ast.unparse(node)}")
            return found
        kinds = [self.of(arg) for arg in args]
        builtin = builtin_type(name, kinds)
        if builtin is not None:
            return builtin
        if any(kind is None for kind in kinds):
            return None
        target = self.function.named(name)
        if kind_of(target) == "intrinsic":
            return _of_intrinsic(target.__name__, kinds)
        if kind_of(target) is None:
            raise LoopError(f"{name} is no function of the language")
        return infer(helper(target), tuple(map(str, kinds))).result

    # ----------------------------------------------------------------------------- statements

    def learn(self) -> None:
        """Infers the types of all names, and of the result."""
        more = True
        while more:
            before, self._early = dict(self.names), False
            self.assigned = dict.fromkeys(self.function.parameters, 1)
            self._learn(self.function.node.body)
            more = self._early and self.names != before
        if self.result is None:
            self.result = "void"

    def _learn(self, body: Sequence[ast.stmt]) -> None:
        for node in statements(body):
            match node:
                case ast.Assign(targets=[target], value=value):
                    self._assign(target, value)
                case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                    self._widen(name, self.of(ast.BinOp(ast.Name(name), op, value)))
                case ast.For(target=ast.Name(id=name)):
                    self._widen(name, "i64")
                case ast.Return(value=None):
                    self.result = wider(self.result, "void")
                case ast.Return(value=ast.Tuple(elts=values)):
                    kinds = tuple(self.of(value) for value in values)
                    if None not in kinds:
                        self.result = wider(self.result, tuple(map(str, kinds)))
                case ast.Return(value=ast.expr() as value):
                    self.result = wider(self.result, self.of(value))
                case ast.Expr(value=ast.Call() as call):
                    self.of(call)
                case ast.If(test=test) | ast.While(test=test):
                    self.of(test)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        match target, value:
            case ast.Name(id=name), ast.Tuple(elts=values):
                for each in values:
                    if self.of(each) not in (None, "bool", "i64"):
                        raise LoopError(f"{ast.unparse(each)} in a tuple is no int")
                self._widen(name, "i64[]")
            case ast.Name(id=name), _:
                self._widen(name, self.of(value))
            case ast.Tuple(elts=targets), ast.Tuple(elts=values) if len(targets) == len(values):
                for one, its in zip(targets, values, strict=True):
                    self._assign(one, its)
            case ast.Tuple(elts=targets), _:
                kinds = self.of(value)
                if kinds is None:
                    return
                names = [target.id for target in targets if isinstance(target, ast.Name)]
                if not isinstance(kinds, tuple) or not len(kinds) == len(names) == len(targets):
                    raise LoopError(f"{kinds} is assigned to {ast.unparse(target)}")
                for name, kind in zip(names, kinds, strict=True):
                    self._widen(name, kind)
            case ast.Subscript(), _:
                self.of(value)
            case _:
                raise LoopError(f"not in the language: {ast.unparse(target)}")

    def _widen(self, name: str, kind: Type | None) -> None:
        if kind == "void" or isinstance(kind, tuple):
            raise LoopError(f"{name} is no name for {kind}")
        self.assigned[name] = self.assigned.get(name, 0) + 1
        before = self.names.get(name)
        if kind is None or kind == before:
            return
        self.names[name] = str(wider(before, kind))
        self._early = self._early or before is not None


_inferred: dict[tuple[Function, tuple[str, ...]], TypedFunction] = {}


def infer(function: Function, given: tuple[str, ...]) -> TypedFunction:
    """The types of a function for arguments of these types."""
    found = _inferred.get((function, given))
    if found is None:
        names = function.parameters
        if len(names) != len(given):
            raise LoopError(f"{function.name} takes {len(names)} arguments, not {len(given)}")
        found = TypedFunction(function, given, dict(zip(names, given, strict=True)))
        found.learn()
        if function.kind is not None:  # printed functions are short-lived
            _inferred[function, given] = found
    return found


def _of_constant(value: object) -> Type:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        if value >= 1 << 64:
            raise LoopError(f"{value} has more than 64 bits")
        return "i64" if value < 1 << 63 else "u64"
    if isinstance(value, float):
        return "f64"
    raise LoopError(f"not in the language: {value!r}")


def builtin_type(name: str, kinds: Sequence[Type | None]) -> Type | None:
    """The result type of a function that is not a helper; None for others."""
    if name in ("len", "int", "np.int64"):
        return "i64"
    if name == "bool":
        return "bool"
    if name == "np.uint64":
        return "u64"
    if name == "float" or (name[:3] == "np." and name[3:] in _REAL):
        return "f64"
    if name in ("min", "max", "abs"):
        if len(kinds) < 2 and name != "abs":
            raise LoopError(f"{name}() of {len(kinds)} values")
        widest: Type | None = "i64"
        for kind in kinds:
            widest = wider(widest, kind)
        return widest
    return None


def arithmetic_type(
    left: ast.expr, op: ast.operator, right: ast.expr, one: Type | None, other: Type | None
) -> Type | None:
    """The result type of an operator with operands of types `one` and `other`."""
    if one is None or other is None:
        return one if other is None else other
    if "f64" in (one, other):
        return "f64"
    if isinstance(op, ast.Div):
        raise LoopError(f"/ of {one} and {other}: {ast.unparse(left)}, {ast.unparse(right)}")
    if "u64" in (one, other):
        if one != other and (literal(right if one == "u64" else left) or 0) < 0:
            raise LoopError(f"a negative number and {ast.unparse(left)}, {ast.unparse(right)}")
        if one != other and literal(right if one == "u64" else left) is None:
            text = f"{ast.unparse(left)}, {ast.unparse(right)}"
            raise LoopError(f"a signed and an unsigned number: {text}")
        return "u64"
    return "i64"


def _of_intrinsic(name: str, kinds: Sequence[Type | None]) -> Type:
    if name == "at":
        if not is_array(kinds[0]):
            raise LoopError(f"at() of {kinds[0]}")
        return read_from(str(kinds[0]))
    if name in ("word", "put_word") and kinds[0] != "u8[]":
        raise LoopError(f"{name}() of {kinds[0]}: words are read from u8[]")
    if name in ("load", "store", "add", "compare_swap", "set_bits") and kinds[0] != "i64[]":
        raise LoopError(f"{name}() of {kinds[0]}: atomics are for i64[]")
    return _RESULTS.get(name, "i64")
