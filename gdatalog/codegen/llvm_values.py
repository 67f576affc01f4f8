"""Expressions of the loop language as LLVM IR."""

from __future__ import annotations

import ast
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gdatalog.codegen.functions import helper
from gdatalog.codegen.language import LoopError, kind_of
from gdatalog.codegen.types import (
    ELEMENTS,
    Type,
    Typed,
    called,
    constant_type,
    element_of,
    infer,
    is_array,
    literal,
    read_from,
)

if TYPE_CHECKING:
    from gdatalog.codegen.llvm import Module

# What a value of a type is in a register and in a local's slot.
SLOT = {"bool": "i1", "i64": "i64", "u64": "i64", "f64": "double", "void": "void"}
_STORED = {
    "bool": "i8", "i8": "i8", "u8": "i8", "i32": "i32", "u32": "i32", "i64": "i64", "u64": "i64",
    "f64": "double",
}  # fmt: skip
_SIGNED = {"i8": "sext", "i32": "sext", "u8": "zext", "u32": "zext"}
_LEAST = -(1 << 63)

_COMPARED = {ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt",
             ast.GtE: "ge"}  # fmt: skip
_INT = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.BitAnd: "and", ast.BitOr: "or",
        ast.BitXor: "xor", ast.LShift: "shl"}  # fmt: skip
_REAL = {ast.Add: "fadd", ast.Sub: "fsub", ast.Mult: "fmul", ast.Div: "fdiv"}
_OF_FLOATS = {"floor": "llvm.floor.f64", "ceil": "llvm.ceil.f64", "sqrt": "llvm.sqrt.f64",
              "exp": "exp", "log": "log", "power": "pow", "fmod": "fmod"}  # fmt: skip
_WRAPPING = {"plus": ast.Add, "minus": ast.Sub, "times": ast.Mult}


@dataclass(frozen=True, slots=True)
class Value:
    """A value in a register, or a constant. `length`: of an array."""

    text: str
    kind: Type
    length: str = ""


def result_type(kind: Type | None) -> str:
    """LLVM's name for what a function gives."""
    if isinstance(kind, tuple):
        return f"{{ {', '.join(SLOT[each] for each in kind)} }}"
    return SLOT[str(kind)]


class Values:
    """The lines of a function, and how expressions become such."""

    def __init__(self, typed: Typed, module: Module) -> None:
        self.typed = typed
        self.module = module
        self.lines: list[str] = []
        self.slots: list[str] = []
        self.ended = False  # whether nothing comes behind the last line
        self._count = 0

    # ---------------------------------------------------------------------------------- lines

    def line(self, text: str) -> None:
        self.lines.append("  " + text)

    def made(self, text: str) -> str:
        """The register that an instruction gives."""
        self._count += 1
        self.line(f"%t{self._count} = {text}")
        return f"%t{self._count}"

    def slot(self, kind: str) -> str:
        """A place on the stack."""
        self._count += 1
        self.slots.append(f"  %s{self._count} = alloca {SLOT[kind]}, align 8")
        return f"%s{self._count}"

    def label(self, what: str) -> str:
        self._count += 1
        return f"{what}{self._count}"

    def go(self, label: str) -> None:
        if not self.ended:
            self.line(f"br label %{label}")
        self.ended = True

    def start(self, label: str) -> None:
        """Begins a block."""
        self.lines.append(f"{label}:")
        self.ended = False

    # ---------------------------------------------------------------------------- conditions

    def jump(self, node: ast.expr, yes: str, no: str) -> None:
        """Goes to one of two places, by a condition."""
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
            case _:
                holds = self.truth(self.value(node))
                self.line(f"br i1 {holds}, label %{yes}, label %{no}")
                self.ended = True

    def truth(self, value: Value) -> str:
        match value.kind:
            case "bool":
                return value.text
            case "f64":
                return self.made(f"fcmp une double {value.text}, 0.0")
            case _:
                return self.made(f"icmp ne i64 {value.text}, 0")

    def _chosen(self, node: ast.expr, one: ast.expr, other: ast.expr, kind: str) -> Value:
        """One of two values, of which only that is computed that is chosen."""
        found = self.slot(kind)
        yes, no, end = self.label("yes"), self.label("no"), self.label("chosen")
        self.jump(node, yes, no)
        for label, value in ((yes, one), (no, other)):
            self.start(label)
            text = self.cast(self.value(value), kind).text
            self.line(f"store {SLOT[kind]} {text}, ptr {found}, align 8")
            self.go(end)
        self.start(end)
        return Value(self.made(f"load {SLOT[kind]}, ptr {found}, align 8"), kind)

    # ---------------------------------------------------------------------------- expressions

    def value(self, node: ast.expr) -> Value:
        match node:
            case ast.Constant(value=value):
                return _constant(value)
            case ast.Name(id=name):
                return self._name(name)
            case ast.BinOp(left=left, op=op, right=right):
                kind = self.typed.of(node)
                return self._arithmetic(op, self.value(left), self.value(right), str(kind))
            case ast.UnaryOp(op=ast.Not()) | ast.BoolOp():
                return self._chosen(node, ast.Constant(True), ast.Constant(False), "bool")
            case ast.UnaryOp(op=op, operand=operand):
                number = literal(node)
                if number is not None:
                    return Value(str(number), "i64")
                return self._unary(op, self.value(operand), str(self.typed.of(node)))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self._compare(op, self.value(left), self.value(right))
            case ast.Compare(left=left, ops=ops, comparators=others):
                values = [self.value(each) for each in (left, *others)]
                text = "true"
                for at, op in enumerate(ops):
                    holds = self._compare(op, values[at], values[at + 1]).text
                    text = self.made(f"and i1 {text}, {holds}")
                return Value(text, "bool")
            case ast.IfExp(test=test, body=one, orelse=other):
                return self._chosen(test, one, other, str(self.typed.of(node)))
            case ast.Subscript(value=ast.Name() as array, slice=index):
                return self.read(self.value(array), self.value(index))
            case ast.Subscript(value=ast.Call() as call, slice=ast.Constant(value=int(at))):
                return self.extract(self.value(call), at)
            case ast.Call(func=ast.Attribute(value=inner, attr="view")):
                return self._same_bits(self.value(inner), str(self.typed.of(node)))
            case ast.Call():
                return self._call(node)
        raise LoopError(f"not in the language: {ast.unparse(node)}")

    def _name(self, name: str) -> Value:
        if name in self.typed.names:
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

    def extract(self, several: Value, at: int) -> Value:
        """One of several results."""
        assert isinstance(several.kind, tuple)
        text = f"extractvalue {result_type(several.kind)} {several.text}, {at}"
        return Value(self.made(text), several.kind[at])

    def cast(self, value: Value, kind: str) -> Value:
        """The same number as another type."""
        have, text = value.kind, value.text
        if have == kind:
            return value
        match have, kind:
            case ("i64", "u64") | ("u64", "i64"):
                return Value(text, kind)
            case _, "bool":
                return Value(self.truth(value), kind)
            case "bool", "i64" | "u64":
                return Value(self.made(f"zext i1 {text} to i64"), kind)
            case "bool" | "u64", "f64":
                width = "i1" if have == "bool" else "i64"
                return Value(self.made(f"uitofp {width} {text} to double"), kind)
            case "i64", "f64":
                return Value(self.made(f"sitofp i64 {text} to double"), kind)
            case "f64", "i64":
                return Value(self.made(f"fptosi double {text} to i64"), kind)
        raise LoopError(f"{have} is no {kind}")

    def _same_bits(self, value: Value, kind: str) -> Value:
        have = SLOT[str(value.kind)]
        return Value(self.made(f"bitcast {have} {value.text} to {SLOT[kind]}"), kind)

    def _unary(self, op: ast.unaryop, value: Value, kind: str) -> Value:
        value = self.cast(value, kind)
        if kind == "f64":
            return Value(self.made(f"fneg double {value.text}"), kind)
        if isinstance(op, ast.Invert):
            return Value(self.made(f"xor i64 {value.text}, -1"), kind)
        return Value(self.made(f"sub i64 0, {value.text}"), kind)

    def _arithmetic(self, op: ast.operator, left: Value, right: Value, kind: str) -> Value:
        left, right = self.cast(left, kind), self.cast(right, kind)
        both = f"{left.text}, {right.text}"
        if kind == "f64":
            return Value(self.made(f"{_REAL[type(op)]} double {both}"), kind)
        if isinstance(op, ast.RShift):
            return Value(self.made(f"{'l' if kind == 'u64' else 'a'}shr i64 {both}"), kind)
        if isinstance(op, (ast.FloorDiv, ast.Mod)):
            return self._divide(isinstance(op, ast.Mod), left, right, kind)
        return Value(self.made(f"{_INT[type(op)]} i64 {both}"), kind)

    def _divide(self, rest: bool, left: Value, right: Value, kind: str) -> Value:
        """Python's // and %, which round down; of 0 gives 0, and the least int by -1 wraps."""
        divisor = right.text
        fixed = divisor.isdigit() and int(divisor) > 0
        if not fixed:
            zero = self.made(f"icmp eq i64 {divisor}, 0")
            bad = zero
            if kind == "i64":
                one = self.made(f"icmp eq i64 {divisor}, -1")
                least = self.made(f"icmp eq i64 {left.text}, {_LEAST}")
                wraps = self.made(f"and i1 {one}, {least}")
                bad = self.made(f"or i1 {zero}, {wraps}")
            divisor = self.made(f"select i1 {bad}, i64 1, i64 {divisor}")
        sign = "u" if kind == "u64" else "s"
        quotient = self.made(f"{sign}div i64 {left.text}, {divisor}")
        product = self.made(f"mul i64 {quotient}, {divisor}")
        remainder = self.made(f"sub i64 {left.text}, {product}")
        if kind == "i64":
            some = self.made(f"icmp ne i64 {remainder}, 0")
            signs = self.made(f"xor i64 {remainder}, {divisor}")
            differ = self.made(f"icmp slt i64 {signs}, 0")
            down = self.made(f"and i1 {some}, {differ}")
            less = self.made(f"sub i64 {quotient}, 1")
            more = self.made(f"add i64 {remainder}, {divisor}")
            quotient = self.made(f"select i1 {down}, i64 {less}, i64 {quotient}")
            remainder = self.made(f"select i1 {down}, i64 {more}, i64 {remainder}")
        found = remainder if rest else quotient
        if not fixed:
            found = self.made(f"select i1 {zero}, i64 0, i64 {found}")
        return Value(found, kind)

    def _compare(self, op: ast.cmpop, left: Value, right: Value) -> Value:
        name = _COMPARED[type(op)]
        kinds = {left.kind, right.kind}
        if "f64" in kinds:
            left, right = self.cast(left, "f64"), self.cast(right, "f64")
            order = "u" if name == "ne" else "o"
            return Value(self.made(f"fcmp {order}{name} double {left.text}, {right.text}"), "bool")
        if kinds == {"bool"}:
            left, right = self.cast(left, "i64"), self.cast(right, "i64")
        unsigned = "u64" in kinds
        if unsigned and kinds != {"u64"} and not _is_literal(left, right):
            raise LoopError(f"a signed and an unsigned number are compared in {self.typed.symbol}")
        left, right = self.cast(left, "i64"), self.cast(right, "i64")
        sign = "" if name in ("eq", "ne") else "u" if unsigned else "s"
        return Value(self.made(f"icmp {sign}{name} i64 {left.text}, {right.text}"), "bool")

    # --------------------------------------------------------------------------------- arrays

    def _element(self, array: Value, index: Value) -> str:
        kind = _STORED[element_of(str(array.kind))]
        at = self.cast(index, "i64").text
        return self.made(f"getelementptr inbounds {kind}, ptr {array.text}, i64 {at}")

    def read(self, array: Value, index: Value) -> Value:
        element = element_of(str(array.kind))
        stored, where = _STORED[element], self._element(array, index)
        text = self.made(f"load {stored}, ptr {where}, align {ELEMENTS[element]}")
        if element == "bool":
            text = self.made(f"icmp ne i8 {text}, 0")
        elif element in _SIGNED:
            text = self.made(f"{_SIGNED[element]} {stored} {text} to i64")
        return Value(text, read_from(str(array.kind)))

    def put(self, array: Value, index: Value, value: Value) -> None:
        element = element_of(str(array.kind))
        stored, where = _STORED[element], self._element(array, index)
        if element == "f64":
            text = self.cast(value, "f64").text
        elif element == "bool":
            text = self.made(f"zext i1 {self.truth(value)} to i8")
        else:
            if value.kind == "f64":
                raise LoopError(f"a float is put into {array.kind}")
            text = self.cast(value, "i64").text
            if stored != "i64":
                text = self.made(f"trunc i64 {text} to {stored}")
        self.line(f"store {stored} {text}, ptr {where}, align {ELEMENTS[element]}")

    # ---------------------------------------------------------------------------------- calls

    def _call(self, node: ast.Call) -> Value:
        name = called(node)
        values = [self.value(arg) for arg in node.args]
        if name == "len":
            return Value(values[0].length, "i64")
        kind = str(self.typed.of(node))
        if name in ("int", "bool", "float", "np.int64", "np.uint64", "np.float64"):
            return self.cast(values[0], kind)
        if name in ("min", "max"):
            return self._extreme(name, values, kind)
        if name == "abs":
            return self._magnitude(values[0], kind)
        if name.startswith("np."):
            return self._of_floats(_OF_FLOATS[name[3:]], [self.cast(v, "f64") for v in values])
        target = self.typed.function.named(name)
        if kind_of(target) == "intrinsic":
            return self._intrinsic(target.__name__, values)
        typed = infer(helper(target), tuple(str(value.kind) for value in values))
        self.module.helper(typed)
        args = ", ".join(_passed(value) for value in values)
        call = f'call {result_type(typed.result)} @"{typed.symbol}"({args})'
        if typed.result == "void":
            self.line(call)
            return Value("", "void")
        assert typed.result is not None
        return Value(self.made(call), typed.result)

    def _of_floats(self, name: str, values: Sequence[Value]) -> Value:
        kinds = ", ".join(["double"] * len(values))
        self.module.declared.add(f"declare double @{name}({kinds})")
        args = ", ".join(f"double {value.text}" for value in values)
        return Value(self.made(f"call double @{name}({args})"), "f64")

    def _extreme(self, name: str, values: Sequence[Value], kind: str) -> Value:
        """As Python does it: another one takes the place of the first only if it is less."""
        op: ast.cmpop = ast.Lt() if name == "min" else ast.Gt()
        best = self.cast(values[0], kind)
        for value in values[1:]:
            other = self.cast(value, kind)
            holds = self._compare(op, other, best).text
            slot = SLOT[kind]
            text = f"select i1 {holds}, {slot} {other.text}, {slot} {best.text}"
            best = Value(self.made(text), kind)
        return best

    def _magnitude(self, value: Value, kind: str) -> Value:
        value = self.cast(value, kind)
        if kind == "f64":
            return self._of_floats("llvm.fabs.f64", [value])
        negative = self.made(f"icmp slt i64 {value.text}, 0")
        other = self.made(f"sub i64 0, {value.text}")
        return Value(self.made(f"select i1 {negative}, i64 {other}, i64 {value.text}"), kind)

    def _intrinsic(self, name: str, values: Sequence[Value]) -> Value:
        match name, values:
            case "at", [array, index]:
                return self.read(array, index)
            case "put", [array, index, value]:
                self.put(array, index, value)
                return Value("", "void")
            case "plus" | "minus" | "times", [one, other]:
                both = self.cast(one, "i64"), self.cast(other, "i64")
                return self._arithmetic(_WRAPPING[name](), *both, "i64")
            case "popcount", [word]:
                return self._bits("ctpop", word, "")
            case "trailing_zeros", [word]:
                return self._bits("cttz", word, ", i1 false")
            case "bit_length", [number]:
                zeros = self._bits("ctlz", number, ", i1 false")
                return Value(self.made(f"sub i64 64, {zeros.text}"), "i64")
        return self._atomic(name, values)

    def _bits(self, name: str, word: Value, more: str) -> Value:
        flag = ", i1" if more else ""
        self.module.declared.add(f"declare i64 @llvm.{name}.i64(i64{flag})")
        return Value(self.made(f"call i64 @llvm.{name}.i64(i64 {word.text}{more})"), "i64")

    def _atomic(self, name: str, values: Sequence[Value]) -> Value:
        """Each operation is whole; nothing else is ordered by it."""
        where = self._element(values[0], values[1])
        given = [self.cast(value, "i64").text for value in values[2:]]
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


def _is_literal(*values: Value) -> bool:
    return any(value.text.lstrip("-").isdigit() for value in values)


def _passed(value: Value) -> str:
    if is_array(value.kind):
        return f"ptr {value.text}, i64 {value.length}"
    return f"{SLOT[str(value.kind)]} {value.text}"
