"""Translates expressions of the loop language to LLVM IR."""

from __future__ import annotations

import ast
import struct
from collections.abc import Sequence

from gdatalog.codegen.function_trees import called, helper, literal
from gdatalog.codegen.llvm_numbers import SLOT, Instructions, Value, result_type
from gdatalog.codegen.loop_language import LoopError, kind_of
from gdatalog.codegen.types import (
    Type,
    TypedFunction,
    arithmetic_type,
    builtin_type,
    constant_type,
    infer,
    is_array,
    wider,
)

# The number of arguments of functions that are not helpers.
COUNTS = {
    "len": 1, "int": 1, "bool": 1, "float": 1, "abs": 1, "np.int64": 1, "np.uint64": 1,
    "np.float64": 1, "np.floor": 1, "np.ceil": 1, "np.sqrt": 1, "np.exp": 1, "np.log": 1,
    "np.power": 2, "np.fmod": 2,
}  # fmt: skip

_OF_FLOATS = {"floor": "llvm.floor.f64", "ceil": "llvm.ceil.f64", "sqrt": "llvm.sqrt.f64",
              "exp": "exp", "log": "log", "power": "pow", "fmod": "fmod"}  # fmt: skip
_WRAPPING = {"plus": ast.Add, "minus": ast.Sub, "times": ast.Mult}


class Early(Exception):
    """A name is read where its only assignment may not have been executed. It needs a slot."""


class LLVMValues(Instructions):
    """Appends the lines of expressions to a function.

    `known`: the values of names that are assigned once. `slotted`: names that have a slot although
    they are assigned once.
    """

    def __init__(self, typed: TypedFunction, slotted: frozenset[str] = frozenset()) -> None:
        super().__init__(typed)
        self.known: dict[str, Value] = {}
        self.slotted = slotted

    def is_fixed(self, name: str) -> bool:
        """Whether a local has one value wherever it is read, so that it needs no slot."""
        return self.typed.assigned.get(name) == 1 and name not in self.slotted

    # ---------------------------------------------------------------------------- conditions

    def jump(self, node: ast.expr, yes: str, no: str) -> None:
        """Jumps to one of two labels, by a condition."""
        match node:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self.jump(operand, no, yes)
            case ast.BoolOp(op=op, values=values):
                for value in values[:-1]:
                    more = self.label("and" if isinstance(op, ast.And) else "or")
                    ends = (more, no) if isinstance(op, ast.And) else (yes, more)
                    self.jump(value, *ends)
                    self.start(more)
                self.jump(values[-1], yes, no)
            case ast.Constant(value=value):
                self.go(yes if value else no)
            case ast.Compare(left=left, ops=[*first, last], comparators=[*others, end]) if others:
                before = self.value(left)
                for comparison, other in zip(first, others, strict=True):
                    more, after = self.label("and"), self.value(other)
                    self.branch(self.compare(comparison, before, after).text, more, no)
                    self.start(more)
                    before = after
                self.branch(self.compare(last, before, self.value(end)).text, yes, no)
            case _:
                self.branch(self.truth(self.value(node)), yes, no)

    def _chosen(self, node: ast.expr, one: ast.expr, other: ast.expr, kind: str) -> Value:
        """One of two values; only the chosen one is computed."""
        yes, no, end = self.label("yes"), self.label("no"), self.label("chosen")
        self.jump(node, yes, no)
        came = []
        for label, value in ((yes, one), (no, other)):
            self.start(label)
            text = self.given(self.value(value), kind).text
            if not self.ended:
                came.append(f"[{text}, %{self.here}]")
            self.go(end)
        self.start(end)
        return Value(self.made(f"phi {SLOT[kind]} {', '.join(came)}"), kind)

    # ---------------------------------------------------------------------------- expressions

    def value(self, node: ast.expr) -> Value:
        match node:
            case ast.Name(id=name):
                return self.known.get(name) or self._name(name)
            case ast.Call(func=ast.Attribute(value=inner, attr="view")):
                return self.same_bits(self.value(inner), str(self.typed.of(node)))
            case ast.Call():
                return self._call(node)
            case ast.Constant(value=value):
                return _constant(value)
            case ast.BinOp(left=left, op=op, right=right):
                one, other = self.value(left), self.value(right)
                kinds = self._kind(left, one), self._kind(right, other)
                kind = arithmetic_type(left, op, right, *kinds)
                return self.arithmetic(op, one, other, str(kind))
            case ast.UnaryOp(op=ast.Not()) | ast.BoolOp():
                return self._chosen(node, ast.Constant(True), ast.Constant(False), "bool")
            case ast.UnaryOp(op=op, operand=operand):
                number = literal(node)
                if number is not None:
                    return Value(str(number), "i64")
                its = self.value(operand)
                return self.unary(op, its, str(wider("i64", self._kind(operand, its))))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self.compare(op, self.value(left), self.value(right))
            case ast.Compare(comparators=[_, *others]) if any(map(_may_fail, others)):
                return self._chosen(node, ast.Constant(True), ast.Constant(False), "bool")
            case ast.Compare(left=left, ops=ops, comparators=others):
                values = [self.value(each) for each in (left, *others)]
                text = "true"
                for at, op in enumerate(ops):
                    holds = self.compare(op, values[at], values[at + 1]).text
                    text = self.made(f"and i1 {text}, {holds}")
                return Value(text, "bool")
            case ast.IfExp(test=test, body=one, orelse=other):
                return self._chosen(test, one, other, str(self.typed.of(node)))
            case ast.Subscript(value=ast.Name() as array, slice=index):
                return self.read(self.value(array), self.value(index))
            case ast.Subscript(value=ast.Call() as call, slice=ast.Constant(value=int(at))):
                return self.extract(self.value(call), at)
        raise LoopError(f"not in the language: {ast.unparse(node)}")

    def _kind(self, node: ast.expr, value: Value) -> Type | None:
        return self.typed.of(node) if isinstance(node, ast.Constant) else value.kind

    def _name(self, name: str) -> Value:
        if name in self.typed.names:
            if self.is_fixed(name):
                raise Early(name)
            kind = self.typed.names[name]
            if is_array(kind):
                data = self.made(f"load ptr, ptr %l.{name}, align 8")
                length = self.made(f"load i64, ptr %l.{name}.n, align 8")
                return Value(data, kind, length)
            return Value(self.made(f"load {SLOT[str(kind)]}, ptr %l.{name}, align 8"), kind)
        value = self.typed.function.world.get(name)
        constant = constant_type(value)
        if constant is None or value is None:
            raise LoopError(f"nothing is called {name}")
        return Value(_constant(value if constant in ("bool", "f64") else int(value)).text, constant)

    # ---------------------------------------------------------------------------------- calls

    def _call(self, node: ast.Call) -> Value:
        name = called(node)
        if node.keywords:
            raise LoopError(f"an argument by name: {ast.unparse(node)}")
        values = [self.value(arg) for arg in node.args]
        if len(values) != COUNTS.get(name, len(values)):
            raise LoopError(f"{name}() of {len(values)} values")
        if name == "len":
            if not is_array(values[0].kind):
                raise LoopError(f"len() of {values[0].kind}")
            return Value(values[0].length, "i64")
        kinds = [self._kind(arg, its) for arg, its in zip(node.args, values, strict=True)]
        kind = str(builtin_type(name, kinds))
        if name in ("int", "bool", "float", "np.int64", "np.uint64", "np.float64"):
            return self.cast(values[0], kind)
        if name in ("min", "max"):
            return self.extreme(name, values, kind)
        if name == "abs":
            return self.magnitude(values[0], kind)
        if name.startswith("np."):
            return self.of_floats(_OF_FLOATS[name[3:]], [self.given(v, "f64") for v in values])
        target = self.typed.function.named(name)
        if kind_of(target) == "intrinsic":
            if len(values) != target.__code__.co_argcount:
                raise LoopError(f"{name}() of {len(values)} values")
            return self._intrinsic(target.__name__, values)
        typed = infer(helper(target), tuple(str(value.kind) for value in values))
        result = typed.function.result
        if typed.function.kind == "inlined" and result is not None:
            return self._expanded(typed, result, values)
        self.helpers.append(typed)
        args = ", ".join(_passed(value) for value in values)
        call = f'call {result_type(typed.result)} @"{typed.symbol}"({args})'
        if typed.result == "void":
            self.line(call)
            return Value("", "void")
        assert typed.result is not None
        return Value(self.made(call), typed.result)

    def _expanded(self, typed: TypedFunction, result: ast.expr, values: Sequence[Value]) -> Value:
        """Inlines a helper that is a single expression."""
        outside = self.typed, self.known, self.slotted
        self.typed, self.slotted = typed, frozenset()
        self.known = dict(zip(typed.function.parameters, values, strict=True))
        found = self.given(self.value(result), str(typed.result))
        self.typed, self.known, self.slotted = outside
        return found

    def _intrinsic(self, name: str, values: Sequence[Value]) -> Value:
        match name, values:
            case "at", [array, index]:
                return self.read(array, index)
            case "put", [array, index, value]:
                self.put(array, index, value)
                return Value("", "void")
            case "word", [array, index]:
                where = self.element(array, index)
                return Value(self.made(f"load i64, ptr {where}, align 1"), "u64")
            case "put_word", [array, index, value]:
                where = self.element(array, index)
                self.line(f"store i64 {self.given(value, 'u64').text}, ptr {where}, align 1")
                return Value("", "void")
            case "prefetch", [array, index]:
                self.declared.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
                where = self.element(array, index)
                self.line(f"call void @llvm.prefetch.p0(ptr {where}, i32 0, i32 3, i32 1)")
                return Value("", "void")
            case "plus" | "minus" | "times", [one, other]:
                both = self.cast(one, "i64"), self.cast(other, "i64")
                return self.arithmetic(_WRAPPING[name](), *both, "i64")
            case "popcount", [word]:
                return self.bits("ctpop", word, "")
            case "trailing_zeros", [word]:
                return self.bits("cttz", word, ", i1 false")
            case "bit_length", [number]:
                zeros = self.bits("ctlz", number, ", i1 false")
                return Value(self.made(f"sub i64 64, {zeros.text}"), "i64")
        return self._atomic(name, values)

    def _atomic(self, name: str, values: Sequence[Value]) -> Value:
        """Atomic operations with relaxed ordering."""
        where = self.element(values[0], values[1])
        given = [self.given(value, "i64").text for value in values[2:]]
        match name:
            case "load":
                return Value(self.made(f"load atomic i64, ptr {where} monotonic, align 8"), "i64")
            case "store":
                self.line(f"store atomic i64 {given[0]}, ptr {where} monotonic, align 8")
                return Value("", "void")
            case "add" | "set_bits":
                op = "add" if name == "add" else "or"
                text = f"atomicrmw {op} ptr {where}, i64 {given[0]} monotonic, align 8"
                return Value(self.made(text), "i64")
            case "compare_swap":
                text = f"cmpxchg ptr {where}, i64 {given[0]}, i64 {given[1]} monotonic monotonic"
                both = self.made(f"{text}, align 8")
                return Value(self.made(f"extractvalue {{ i64, i1 }} {both}, 0"), "i64")
        raise LoopError(f"no intrinsic: {name}")


def _constant(value: object) -> Value:
    if isinstance(value, bool):
        return Value(str(value).lower(), "bool")
    if isinstance(value, int):
        return Value(str(value), "i64")
    if isinstance(value, float):
        return Value(f"0x{struct.pack('>d', value).hex().upper()}", "f64")
    raise LoopError(f"no number: {value!r}")


def _may_fail(node: ast.expr) -> bool:
    """Whether an expression may only be computed if it is needed."""
    inner = [each for each in ast.walk(node) if isinstance(each, (ast.Call, ast.Subscript))]
    return any(not isinstance(each, ast.Call) or called(each) != "len" for each in inner)


def _passed(value: Value) -> str:
    if is_array(value.kind):
        return f"ptr {value.text}, i64 {value.length}"
    return f"{SLOT[str(value.kind)]} {value.text}"
