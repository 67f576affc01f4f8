"""The error of a function with a wrong number of arguments."""

from __future__ import annotations

from gdatalog.decimals import DECIMALS
from gdatalog.errors import TypeMismatchError
from gdatalog.parser import syntax as s
from gdatalog.plan.functions import ANY, FUNCTIONS
from gdatalog.planner.check.wording import either
from gdatalog.values import TYPE_NAMES


def wrong_number(call: s.FunctionCall, name: str) -> TypeMismatchError:
    """`name`: the function that is meant, where the call has another name for it."""
    counts: list[str] = []
    forms: list[str] = []
    for signature in FUNCTIONS[name]:
        most = len(signature.params)
        least = most if signature.least is None else signature.least
        or_more = " or more" if signature.variadic else f" or {most}" * (most > least)
        counts.append(f"{least}{or_more}")
        kinds = [either(kinds_of(signature.param(at))) for at in range(least)]
        forms.append(f"`{name}({', '.join(kinds)}{', ...' if signature.variadic else ''})`")
    takes = either(counts)
    noun = "argument" if takes == "1" else "arguments"
    message = f"`{call.name}` takes {takes} {noun}, not {len(call.args)}"
    return TypeMismatchError(message, call.span, hint=f"it is {either(forms)}")


def kinds_of(param: frozenset[str] | tuple[str, frozenset[str]]) -> list[str]:
    """The types that an argument may have, in a fixed order."""
    kinds = param if isinstance(param, frozenset) else param[1]
    if kinds == ANY:
        return ["any type"]
    decimal = [] if kinds.isdisjoint(DECIMALS) else ["decimal"]
    return [kind for kind in TYPE_NAMES if kind in kinds] + decimal
