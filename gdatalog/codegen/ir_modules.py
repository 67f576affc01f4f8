"""Modules of LLVM IR. Functions are translated in `llvm_statements.py`.

A module contains the helpers that are inlined; other helpers are declared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from functools import cache

from gdatalog.codegen.entry_point import entry, parameters, quoted
from gdatalog.codegen.function_trees import Function
from gdatalog.codegen.llvm_numbers import result_type
from gdatalog.codegen.llvm_statements import Body
from gdatalog.codegen.llvm_values import Early
from gdatalog.codegen.types import TypedFunction, infer
from gdatalog.records import dataclass, field

# A function's IR, the helpers that it calls, and the LLVM functions that it calls.
Translated = tuple[str, Sequence[TypedFunction], Set[str]]


@dataclass(slots=True)
class Module:
    """The functions of one module of LLVM IR. `parts`: helpers that are compiled separately."""

    texts: list[str] = field(default_factory=list)
    parts: dict[str, TypedFunction] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    declared: set[str] = field(default_factory=set)

    def add(self, translated: Translated) -> None:
        """Adds a function, and before it the helpers that it inlines."""
        text, helpers, declared = translated
        for typed in helpers:
            if typed.function.kind != "inlined":
                self.parts[typed.symbol] = typed
            elif typed.symbol not in self.done:
                self.done.add(typed.symbol)
                self.add(_inlined(typed.function, typed.given))
        self.declared |= declared
        self.texts.append(text)

    def text(self) -> str:
        calls = [
            f"declare {result_type(typed.result)} @{quoted(symbol)}({parameters(typed.given)})"
            for symbol, typed in self.parts.items()
        ]
        return "\n".join([*sorted(self.declared), *calls, "", *self.texts])


def module_of(function: Function, given: Sequence[str]) -> tuple[str, dict[str, TypedFunction]]:
    """The IR of a function that Python calls, and the helpers that it needs compiled.

    Its symbol is `entry`. It takes the address of an array of 64-bit words: an address and a length
    for each array, a value for each scalar.
    """
    typed, module = infer(function, tuple(given)), Module()
    module.add(_translated(typed, "define private {} {} nounwind", function.kind is None))
    module.texts.append(entry(typed))
    return module.text(), module.parts


def bundle_of(
    helpers: Mapping[str, TypedFunction], there: Callable[[str], int | None]
) -> tuple[str, dict[str, TypedFunction], dict[str, int]]:
    """Compiles helpers and those that they call into one module. Returns its IR, its helpers, and
    the addresses of other helpers that it calls, which `there` knows."""
    module = Module()
    made: dict[str, TypedFunction] = {}
    addresses: dict[str, int] = {}
    left = list(helpers.items())
    for symbol, typed in left:
        address = None if symbol in made else there(symbol)
        if address is not None:
            addresses[symbol] = address
        elif symbol not in made:
            made[symbol] = typed
            module.add(_translated(typed, "define {} {} nounwind"))
            left += module.parts.items()
    module.parts = {name: typed for name, typed in module.parts.items() if name not in made}
    return module.text(), made, {name: addresses[name] for name in module.parts}


def _translated(typed: TypedFunction, head: str, noalias: bool = False) -> Translated:
    slotted: frozenset[str] = frozenset()
    while True:
        body = Body(typed, slotted)
        try:
            return body.text(head, noalias), body.helpers, body.declared
        except Early as name:
            slotted |= {str(name)}


@cache
def _inlined(function: Function, given: tuple[str, ...]) -> Translated:
    return _translated(infer(function, given), "define private {} {} alwaysinline")
