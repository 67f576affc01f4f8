"""Instructions of a function's LLVM IR: numbers, elements of arrays."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gdatalog.codegen.loop_language import ELEMENTS, SCALARS, LoopError
from gdatalog.codegen.types import Type, TypedFunction, element_of, is_array, read_from
from gdatalog.records import dataclass

# The LLVM type of a value in a register, and in a local's slot.
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


@dataclass(frozen=True, slots=True)
class Value:
    """A value in a register, or a constant. `length`: an array's."""

    text: str
    kind: Type
    length: str = ""


def result_type(kind: Type | None) -> str:
    """The LLVM type of a function's result."""
    if isinstance(kind, tuple):
        return f"{{ {', '.join(SLOT[each] for each in kind)} }}"
    return SLOT[str(kind)]


class Instructions:
    """The lines of a function. `helpers`: those that it calls, `declared`: LLVM functions that it
    calls."""

    def __init__(self, typed: TypedFunction) -> None:
        self.typed = typed
        self.helpers: list[TypedFunction] = []
        self.declared: set[str] = set()
        self.lines: list[str] = []
        self.slots: list[str] = []
        self.ended = False  # whether the last line ends a block
        self.here = "start"  # the block of the last line
        self._used: set[str] = set()  # labels that something jumps to
        self._count = 0

    # ---------------------------------------------------------------------------------- lines

    def line(self, text: str) -> None:
        if not self.ended:
            self.lines.append("  " + text)

    def made(self, text: str) -> str:
        """Appends an instruction; returns the register of its result."""
        register = self.register()
        if not self.ended:
            self.lines.append(f"  {register} = {text}")
        return register

    def register(self) -> str:
        self._count += 1
        return f"%t{self._count}"

    def slot(self, kind: str) -> str:
        """A new stack slot."""
        self._count += 1
        self.slots.append(f"  %s{self._count} = alloca {SLOT[kind]}, align 8")
        return f"%s{self._count}"

    def label(self, what: str) -> str:
        self._count += 1
        return f"{what}{self._count}"

    def go(self, label: str) -> None:
        if not self.ended:
            self.line(f"br label %{label}")
            self._used.add(label)
        self.ended = True

    def branch(self, holds: str, yes: str, no: str) -> None:
        if not self.ended:
            self.line(f"br i1 {holds}, label %{yes}, label %{no}")
            self._used |= {yes, no}
        self.ended = True

    def start(self, label: str) -> None:
        """Begins a block. A block that nothing jumps to is unreachable, and so is what follows
        it."""
        self.ended = label not in self._used
        if not self.ended:
            self.lines.append(f"{label}:")
            self.here = label

    # -------------------------------------------------------------------------------- numbers

    def truth(self, value: Value) -> str:
        match value.kind:
            case "bool":
                return value.text
            case "f64":
                return self.made(f"fcmp une double {value.text}, 0.0")
            case _:
                return self.made(f"icmp ne i64 {value.text}, 0")

    def extract(self, several: Value, at: int) -> Value:
        """One value of a tuple of results."""
        if not isinstance(several.kind, tuple) or at >= len(several.kind):
            raise LoopError(f"value {at} of {several.kind} in {self.typed.symbol}")
        text = f"extractvalue {result_type(several.kind)} {several.text}, {at}"
        return Value(self.made(text), several.kind[at])

    def cast(self, value: Value, kind: str) -> Value:
        """Converts a value to another type."""
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

    def given(self, value: Value, kind: str) -> Value:
        """Converts a value where another type is expected, which must be wider."""
        have = str(value.kind)
        signs = {have, kind} == {"i64", "u64"} and not (kind == "u64" and value.text.isdigit())
        if signs:
            raise LoopError(f"a signed and an unsigned number in {self.typed.symbol}")
        if have == "f64" and kind != "f64":
            raise LoopError(f"a float where {kind} is wanted in {self.typed.symbol}")
        return self.cast(value, kind)

    def same_bits(self, value: Value, kind: str) -> Value:
        have = SLOT[str(value.kind)]
        return Value(self.made(f"bitcast {have} {value.text} to {SLOT[kind]}"), kind)

    def unary(self, op: ast.unaryop, value: Value, kind: str) -> Value:
        value = self.cast(value, kind)
        if kind == "f64" and isinstance(op, ast.USub):
            return Value(self.made(f"fneg double {value.text}"), kind)
        if kind == "f64" or not isinstance(op, (ast.USub, ast.Invert)):
            raise LoopError(f"no such operation: {type(op).__name__} of {kind}")
        if isinstance(op, ast.Invert):
            return Value(self.made(f"xor i64 {value.text}, -1"), kind)
        return Value(self.made(f"sub i64 0, {value.text}"), kind)

    def arithmetic(self, op: ast.operator, left: Value, right: Value, kind: str) -> Value:
        left, right = self.given(left, kind), self.given(right, kind)
        both = f"{left.text}, {right.text}"
        whole = isinstance(op, (ast.RShift, ast.FloorDiv, ast.Mod)) or type(op) in _INT
        if (type(op) not in _REAL) if kind == "f64" else not whole:
            raise LoopError(f"no such operation: {type(op).__name__} of {kind}")
        if kind == "f64":
            return Value(self.made(f"{_REAL[type(op)]} double {both}"), kind)
        if isinstance(op, ast.RShift):
            return Value(self.made(f"{'l' if kind == 'u64' else 'a'}shr i64 {both}"), kind)
        if isinstance(op, (ast.FloorDiv, ast.Mod)):
            return self._divide(isinstance(op, ast.Mod), left, right, kind)
        return Value(self.made(f"{_INT[type(op)]} i64 {both}"), kind)

    def _divide(self, rest: bool, left: Value, right: Value, kind: str) -> Value:
        """Python's // and %, which round down; by 0 they give 0, and the least int by -1 wraps."""
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

    def compare(self, op: ast.cmpop, left: Value, right: Value) -> Value:
        name, kinds = _COMPARED.get(type(op)), {left.kind, right.kind}
        if name is None or not kinds <= set(SCALARS):
            kinds_text = " and ".join(map(str, (left.kind, right.kind)))
            raise LoopError(f"no such comparison: {type(op).__name__} of {kinds_text}")
        if "f64" in kinds:
            if kinds != {"f64"} and not _is_literal(left, right):
                raise LoopError(f"an int and a float are compared in {self.typed.symbol}")
            left, right = self.cast(left, "f64"), self.cast(right, "f64")
            order = "u" if name == "ne" else "o"
            return Value(self.made(f"fcmp {order}{name} double {left.text}, {right.text}"), "bool")
        if kinds == {"bool"}:
            left, right = self.cast(left, "i64"), self.cast(right, "i64")
        unsigned = "u64" in kinds
        wide = "u64" if unsigned else "i64"
        left, right = self.given(left, wide), self.given(right, wide)
        sign = "" if name in ("eq", "ne") else "u" if unsigned else "s"
        return Value(self.made(f"icmp {sign}{name} i64 {left.text}, {right.text}"), "bool")

    def of_floats(self, name: str, values: Sequence[Value]) -> Value:
        kinds = ", ".join(["double"] * len(values))
        self.declared.add(f"declare double @{name}({kinds})")
        args = ", ".join(f"double {value.text}" for value in values)
        return Value(self.made(f"call double @{name}({args})"), "f64")

    def extreme(self, name: str, values: Sequence[Value], kind: str) -> Value:
        """As in Python: a later value replaces the first only if it is less (or greater)."""
        op: ast.cmpop = ast.Lt() if name == "min" else ast.Gt()
        best = self.given(values[0], kind)
        for value in values[1:]:
            other = self.given(value, kind)
            holds = self.compare(op, other, best).text
            slot = SLOT[kind]
            text = f"select i1 {holds}, {slot} {other.text}, {slot} {best.text}"
            best = Value(self.made(text), kind)
        return best

    def magnitude(self, value: Value, kind: str) -> Value:
        value = self.cast(value, kind)
        if kind == "f64":
            return self.of_floats("llvm.fabs.f64", [value])
        if kind == "u64":
            return value
        negative = self.made(f"icmp slt i64 {value.text}, 0")
        other = self.made(f"sub i64 0, {value.text}")
        return Value(self.made(f"select i1 {negative}, i64 {other}, i64 {value.text}"), kind)

    def bits(self, name: str, word: Value, more: str) -> Value:
        flag = ", i1" if more else ""
        self.declared.add(f"declare i64 @llvm.{name}.i64(i64{flag})")
        return Value(self.made(f"call i64 @llvm.{name}.i64(i64 {word.text}{more})"), "i64")

    # --------------------------------------------------------------------------------- arrays

    def element(self, array: Value, index: Value) -> str:
        if not is_array(array.kind) or index.kind not in ("i64", "u64", "bool"):
            raise LoopError(f"{array.kind}[{index.kind}] in {self.typed.symbol}")
        kind = _STORED[element_of(str(array.kind))]
        at = self.cast(index, "i64").text
        return self.made(f"getelementptr inbounds {kind}, ptr {array.text}, i64 {at}")

    def read(self, array: Value, index: Value) -> Value:
        element = element_of(str(array.kind))
        stored, where = _STORED[element], self.element(array, index)
        text = self.made(f"load {stored}, ptr {where}, align {ELEMENTS[element]}")
        if element == "bool":
            text = self.made(f"icmp ne i8 {text}, 0")
        elif element in _SIGNED:
            text = self.made(f"{_SIGNED[element]} {stored} {text} to i64")
        return Value(text, read_from(str(array.kind)))

    def put(self, array: Value, index: Value, value: Value) -> None:
        element = element_of(str(array.kind))
        stored, where = _STORED[element], self.element(array, index)
        if element == "f64":
            text = self.given(value, "f64").text
        elif element == "bool":
            text = self.made(f"zext i1 {self.truth(value)} to i8")
        else:
            text = self.given(value, read_from(str(array.kind))).text
            if stored != "i64":
                text = self.made(f"trunc i64 {text} to {stored}")
        self.line(f"store {stored} {text}, ptr {where}, align {ELEMENTS[element]}")


def _is_literal(*values: Value) -> bool:
    return any(value.text.lstrip("-").isdigit() for value in values)
