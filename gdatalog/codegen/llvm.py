"""Functions of the loop language as LLVM IR: modules. What a function says is in
`llvm_statements.py`.

A module has the helpers that become part of their callers; others are declared.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from gdatalog.codegen.functions import Function
from gdatalog.codegen.llvm_entry import entry, parameters, quoted
from gdatalog.codegen.llvm_numbers import result_type
from gdatalog.codegen.llvm_statements import Body
from gdatalog.codegen.llvm_values import Early
from gdatalog.codegen.types import TypedFunction, infer
from gdatalog.records import dataclass, field


@dataclass(frozen=True, slots=True)
class Translated:
    """A function's IR, the helpers that it calls, and LLVM's own functions that it calls."""

    text: str
    helpers: Sequence[TypedFunction]
    declared: Set[str]


@dataclass(slots=True)
class Module:
    """The functions of one module of LLVM IR. `parts`: helpers that are compiled apart."""

    texts: list[str] = field(default_factory=list)
    parts: dict[str, TypedFunction] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    declared: set[str] = field(default_factory=set)

    def add(self, typed: TypedFunction, head: str, noalias: bool = False) -> None:
        """Translates a function, and before it those that become part of it."""
        self._put(_translated(typed, head, noalias))

    def _put(self, body: Translated) -> None:
        for typed in body.helpers:
            if typed.function.kind != "inlined":
                self.parts[typed.symbol] = typed
            elif typed.symbol not in self.done:
                self.done.add(typed.symbol)
                self._put(_inlined(typed))
        self.declared |= body.declared
        self.texts.append(body.text)

    def text(self) -> str:
        calls = [
            f"declare {result_type(typed.result)} @{quoted(symbol)}({parameters(typed.given)})"
            for symbol, typed in self.parts.items()
        ]
        return "\n".join([*sorted(self.declared), *calls, "", *self.texts])


def module_of(function: Function, given: Sequence[str]) -> tuple[str, dict[str, TypedFunction]]:
    """The IR of a function that Python calls, and the helpers that it wants compiled.

    Its symbol is `entry`. It takes the address of an array of 64-bit words: for each array its
    address and its length, for each scalar its value.
    """
    typed, module = infer(function, tuple(given)), Module()
    module.add(typed, "define private {} {} nounwind", noalias=function.kind is None)
    module.texts.append(entry(typed))
    return module.text(), module.parts


def part_of(typed: TypedFunction) -> tuple[str, dict[str, TypedFunction]]:
    """The IR of a helper that other modules call, and the helpers that it wants itself."""
    module = Module()
    module.add(typed, "define {} {} nounwind")
    return module.text(), module.parts


def _translated(typed: TypedFunction, head: str, noalias: bool = False) -> Translated:
    slotted: frozenset[str] = frozenset()
    while True:
        body = Body(typed, slotted)
        try:
            return Translated(body.text(head, noalias), body.helpers, body.declared)
        except Early as name:
            slotted |= {str(name)}


# Of helpers that become part of their callers.
_texts: dict[tuple[Function, tuple[str, ...]], Translated] = {}


def _inlined(typed: TypedFunction) -> Translated:
    key = typed.function, typed.given
    found = _texts.get(key)
    if found is None:
        found = _texts[key] = _translated(typed, "define private {} {} alwaysinline")
    return found
