"""The function of a module of LLVM IR that Python calls; it calls another one of the module."""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.codegen.llvm_numbers import SLOT, result_type
from gdatalog.codegen.types import TypedFunction, is_array


def quoted(name: str) -> str:
    """A symbol as quoted in IR."""
    return f'"{name}"'


def parameters(given: Sequence[str]) -> str:
    """The LLVM types of a function's parameters."""
    return ", ".join("ptr, i64" if is_array(kind) else SLOT[kind] for kind in given)


def entry(typed: TypedFunction) -> str:
    """The IR of the function `entry`, which calls the given function."""
    lines = ["define i64 @entry(ptr %words) nounwind {"]
    args: list[str] = []
    count = 0

    def word(kind: str) -> str:
        nonlocal count
        lines.append(f"  %p{count} = getelementptr i64, ptr %words, i64 {count}")
        lines.append(f"  %w{count} = load {kind}, ptr %p{count}, align 8")
        count += 1
        return f"{kind} %w{count - 1}"

    for kind in typed.given:
        if is_array(kind):
            args += [word("ptr"), word("i64")]
        elif kind == "bool":
            read = word("i64").split()[1]
            lines.append(f"  %b{count} = icmp ne i64 {read}, 0")
            args.append(f"i1 %b{count}")
        else:
            args.append(word(SLOT[kind]))
    call = f"call {result_type(typed.result)} @{quoted(typed.symbol)}({', '.join(args)})"
    match typed.result:
        case "void":
            lines += [f"  {call}", "  ret i64 0"]
        case "i64" | "u64":
            lines += [f"  %result = {call}", "  ret i64 %result"]
        case "bool":
            lines += [f"  %found = {call}", "  %result = zext i1 %found to i64"]
            lines.append("  ret i64 %result")
        case _:
            # A float or a tuple is stored where the arguments were.
            lines.append(f"  %result = {call}")
            kinds = typed.result if isinstance(typed.result, tuple) else (str(typed.result),)
            for at, kind in enumerate(kinds):
                value = "%result"
                if isinstance(typed.result, tuple):
                    value = f"%r{at}"
                    lines.append(f"  {value} = extractvalue {result_type(kinds)} %result, {at}")
                if kind == "bool":
                    lines.append(f"  %z{at} = zext i1 {value} to i64")
                    value, kind = f"%z{at}", "i64"
                lines.append(f"  %o{at} = getelementptr i64, ptr %words, i64 {at}")
                lines.append(f"  store {SLOT[kind]} {value}, ptr %o{at}, align 8")
            lines.append("  ret i64 0")
    return "\n".join([*lines, "}", ""])
