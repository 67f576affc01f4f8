"""Translates statements of the loop language to LLVM IR.

Expressions are in `llvm_values.py`, instructions in `llvm_numbers.py`.

A local that is assigned once is a register. Others are stack slots, which an early LLVM pass turns
into registers. An array has two slots, its address and its length, and is passed as two arguments.
Loops test at their end whether there is another turn, which is the form that LLVM optimises.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gdatalog.codegen.entry_point import quoted
from gdatalog.codegen.llvm_numbers import SLOT, Value, result_type
from gdatalog.codegen.llvm_values import LLVMValues
from gdatalog.codegen.loop_language import ELEMENTS, LoopError
from gdatalog.codegen.types import Type, TypedFunction, element_of, is_array

# Arrays that several threads write: their contents may change through other pointers.
SHARED = frozenset({"control", "marks", "slots"})


class Body(LLVMValues):
    """The body of one function."""

    def __init__(self, typed: TypedFunction, slotted: frozenset[str]) -> None:
        super().__init__(typed, slotted)
        self._loops: list[tuple[str, str]] = []  # the targets of `continue` and `break`

    def text(self, head: str, noalias: bool) -> str:
        typed = self.typed
        parameters, first = [], []
        names = dict(zip(typed.function.parameters, typed.given, strict=True))
        for name, kind in names.items():
            if is_array(kind):
                alone = " noalias" if noalias and name not in SHARED else ""
                align = ELEMENTS[element_of(kind)]
                parameters.append(f"ptr{alone} align {align} %a.{name}, i64 %a.{name}.n")
                if self.is_fixed(name):
                    self.known[name] = Value(f"%a.{name}", kind, f"%a.{name}.n")
                    continue
                first.append(f"  store ptr %a.{name}, ptr %l.{name}, align 8")
                first.append(f"  store i64 %a.{name}.n, ptr %l.{name}.n, align 8")
            else:
                parameters.append(f"{SLOT[kind]} %a.{name}")
                wide = typed.names[name]
                if wide != kind:
                    raise LoopError(f"{name} of {typed.symbol} is {kind} and {wide}")
                if self.is_fixed(name):
                    self.known[name] = Value(f"%a.{name}", kind)
                    continue
                first.append(f"  store {SLOT[kind]} %a.{name}, ptr %l.{name}, align 8")
        self._block(typed.function.node.body)
        if not self.ended and typed.result != "void":
            raise LoopError(f"{typed.symbol} may end without a result")
        self.line("ret void")
        slots = []
        for name, found in typed.names.items():
            if self.is_fixed(name):
                continue
            if is_array(found):
                slots += [f"  %l.{name} = alloca ptr, align 8"]
                slots += [f"  %l.{name}.n = alloca i64, align 8"]
            else:
                slots.append(f"  %l.{name} = alloca {SLOT[str(found)]}, align 8")
        symbol = f"@{quoted(typed.symbol)}({', '.join(parameters)})"
        lines = [head.format(result_type(typed.result), symbol) + " {", "start:"]
        return "\n".join([*lines, *slots, *self.slots, *first, *self.lines, "}", ""])

    def _block(self, body: Sequence[ast.stmt]) -> None:
        outside = self.known
        self.known = dict(outside)  # assignments in a block are known in it
        for node in body:
            if self.ended:
                break  # unreachable
            self._statement(node)
        self.known = outside

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                pass
            case ast.Expr(value=value):
                self.value(value)
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                found = [self.value(each) for each in values]
                for target, its in zip(targets, found, strict=True):
                    self._store(target, its)
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
                several = self.value(value)
                for at, target in enumerate(targets):
                    self._store(target, self.extract(several, at))
            case ast.Assign(targets=[ast.Name() as target], value=ast.Tuple(elts=values)):
                self._store(target, self._tuple_of([self.value(each) for each in values]))
            case ast.Assign(targets=[target], value=value):
                self._store(target, self.value(value))
            case ast.AugAssign(target=target, op=op, value=value):
                self._store(target, self.value(ast.BinOp(target, op, value)))
            case ast.If():
                self._if(node)
            case ast.While():
                self._while(node)
            case ast.For():
                self._for(node)
            case ast.Continue():
                self.go(self._loops[-1][0])
            case ast.Break():
                self.go(self._loops[-1][1])
            case ast.Return():
                self._return(node.value)
            case _:
                raise LoopError(f"not in the language: {ast.unparse(node)}")

    def _store(self, target: ast.expr, value: Value) -> None:
        match target:
            case ast.Name(id=name):
                kind = self.typed.names[name]
                if self.is_fixed(name):
                    self.known[name] = value if is_array(kind) else self.given(value, str(kind))
                    return
                if is_array(kind):
                    self.line(f"store ptr {value.text}, ptr %l.{name}, align 8")
                    self.line(f"store i64 {value.length}, ptr %l.{name}.n, align 8")
                    return
                found = self.given(value, str(kind))
                self.line(f"store {SLOT[str(kind)]} {found.text}, ptr %l.{name}, align 8")
            case ast.Subscript(value=array, slice=index):
                self.put(self.value(array), self.value(index), value)
            case _:
                raise LoopError(f"not in the language: {ast.unparse(target)}")

    def _tuple_of(self, values: Sequence[Value]) -> Value:
        """Ints as an array on the stack."""
        self._count += 1
        base = f"%s{self._count}"
        self.slots.append(f"  {base} = alloca [{len(values)} x i64], align 8")
        array = Value(base, "i64[]", str(len(values)))
        for at, value in enumerate(values):
            self.put(array, Value(str(at), "i64"), value)
        return array

    def _if(self, node: ast.If) -> None:
        yes, no, end = self.label("then"), self.label("else"), self.label("end")
        self.jump(node.test, yes, no if node.orelse else end)
        self.start(yes)
        self._block(node.body)
        self.go(end)
        if node.orelse:
            self.start(no)
            self._block(node.orelse)
            self.go(end)
        self.start(end)

    def _while(self, node: ast.While) -> None:
        if node.orelse:
            raise LoopError("a loop with an else")
        body, again, end = self.label("turn"), self.label("while"), self.label("left")
        self.jump(node.test, body, end)
        self.start(body)
        self._loops.append((again, end))
        self._block(node.body)
        self._loops.pop()
        self.go(again)
        self.start(again)
        self.jump(node.test, body, end)
        self.start(end)

    def _for(self, node: ast.For) -> None:
        match node:
            case ast.For(target=ast.Name(id=name), iter=ast.Call() as call, orelse=[]):
                pass
            case _:
                raise LoopError(f"no loop over a range: {ast.unparse(node)}")
        bounds = [self.given(self.value(arg), "i64") for arg in call.args]
        if ast.unparse(call.func) != "range" or not 1 <= len(bounds) <= 2:
            raise LoopError(f"no loop over a range: {ast.unparse(node.iter)}")
        low, high = bounds if len(bounds) == 2 else (Value("0", "i64"), bounds[0])
        body, step, end = self.label("turn"), self.label("next"), self.label("left")
        if (low.text, high.text) == ("0", "1"):
            self._turn(name, low, node.body, end, end)
            self.go(end)
            self.start(end)
            return
        before = self.here
        self.branch(self.made(f"icmp slt i64 {low.text}, {high.text}"), body, end)
        self.start(body)
        turn, after = self.register(), self.register()
        place = len(self.lines)
        self._turn(name, Value(turn, "i64"), node.body, step, end)
        self.go(step)
        self.start(step)
        came = "" if self.ended else f", [{after}, %{step}]"
        self.lines.insert(place, f"  {turn} = phi i64 [{low.text}, %{before}]{came}")
        self.line(f"{after} = add nsw i64 {turn}, 1")
        self.branch(self.made(f"icmp slt i64 {after}, {high.text}"), body, end)
        self.start(end)

    def _turn(self, name: str, value: Value, body: Sequence[ast.stmt], step: str, end: str) -> None:
        """One turn of a loop over a range."""
        outside = self.known
        self.known = dict(outside)
        self._store(ast.Name(name), value)
        self._loops.append((step, end))
        self._block(body)
        self._loops.pop()
        self.known = outside

    def _return(self, node: ast.expr | None) -> None:
        result: Type | None = self.typed.result
        if node is None or result == "void":
            self.line("ret void")
        elif isinstance(result, tuple):
            if isinstance(node, ast.Tuple):
                parts = [self.value(each) for each in node.elts]
                text = "undef"
                for at, (part, kind) in enumerate(zip(parts, result, strict=True)):
                    given = self.given(part, kind).text
                    text = self.made(
                        f"insertvalue {result_type(result)} {text}, {SLOT[kind]} {given}, {at}"
                    )
            else:
                several = self.value(node)
                if several.kind != result:
                    raise LoopError(
                        f"{several.kind} where {result} is wanted in {self.typed.symbol}"
                    )
                text = several.text
            self.line(f"ret {result_type(result)} {text}")
        else:
            kind = str(result)
            self.line(f"ret {SLOT[kind]} {self.given(self.value(node), kind).text}")
        self.ended = True
