"""Errors of name resolution: aggregates, functions and parameters where they are not allowed.

`fail` notes an error: its message, place and hint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from gdatalog.errors import Span
from gdatalog.parser import syntax as s
from gdatalog.plan.functions import ORDERED, STATISTICS
from gdatalog.planner.check.wording import nearest
from gdatalog.values import ListOf, ParamType

Fail = Callable[[str, Span, str], None]


def not_ordered(name: str, span: Span, fail: Fail) -> None:
    """The error for a function that depends on an order outside of a head, or one that does not."""
    if name in ORDERED:
        fail(
            f"`{name}` is for heads", span, f"in the head of a rule it is written `{ORDERED[name]}`"
        )
    else:
        hint = f"those that do are {', '.join(n for n in ORDERED if n not in STATISTICS)}"
        fail(f"`{name}` takes no order", span, hint)


def no_param(param: s.Param | s.ListParam, known: Iterable[str], fail: Fail) -> None:
    close = nearest(param.name, known)
    near = None if close is None else f"did you mean `${close}`?"
    give = f'give it: `params={{"{param.name}": ...}}` in Python, `-M {param.name}=value`'
    give += f" on the command line, `.set ${param.name} value` at the prompt"
    hint = near or f"{give}, `--param {param.name}=value` in a notebook"
    fail(f"the parameter `${param.name}` has no value", param.span, hint)


def one_for_many(param: s.Param | s.ListParam, kind: ParamType, fail: Fail) -> None:
    """The error for one value in place of a list, or a list in place of a value."""
    name, many = param.name, isinstance(kind, ListOf)
    if kind is None or isinstance(param, s.ListParam) == many:
        return
    if many:
        message = f"`${name}` is a list, but one value is expected here"
        fail(message, param.span, f"`x in ${name}` takes its values")
        return
    hint = f'write `x = ${name}`, or give a list, as in params={{"{name}": [...]}}'
    fail(f"`in` needs a list, and `${name}` is one value: {kind}", param.span, hint)


def no_value(call: s.FunctionCall, nested: bool, fail: Fail) -> None:
    """The error for an aggregate, range or distinct in the place of a value. `nested`: in an
    aggregate of a head."""
    name = call.name
    if name == "range":
        hint = "write `i = range(a, b)` as a literal of its own, and use `i`"
        fail("`range` is no value", call.span, hint)
    elif name == "distinct":
        hint = "write `distinct(x, y)` as a literal of its own"
        fail("`distinct` is no value", call.span, hint)
    elif nested:
        in_another(name, call.span, fail)
    else:
        form = f"{name} : {{ ... }}" if name == "count" else f"{name} e : {{ ... }}"
        hint = f"in a body it is written `x = {form}`; `{name}(...)` is for heads"
        fail(f"the aggregate `{name}` is not allowed here", call.span, hint)


def in_another(kind: str, span: Span, fail: Fail) -> None:
    hint = f"let a relation of its own hold the {kind}, and aggregate over that"
    fail("an aggregate of a head cannot hold another", span, hint)


def check_targets(
    kind: str,
    given: Sequence[s.Expr],
    noun: str,
    span: Span,
    forms: tuple[str, str, str],
    fail: Fail,
) -> None:
    """Whether an aggregate has as many targets as it takes. `forms`: how to write `count`,
    `count_distinct`, and this one."""
    count, distinct, own = forms
    if kind == "count" and given:
        hint = f"`{count}` counts matches, `{distinct}` different values"
        fail(f"`count` counts matches and takes no {noun}", span, hint)
    elif kind == "count_distinct" and not given:
        hint = f"write `{distinct}`, or `{count}` for all matches"
        fail(f"`count_distinct` needs an {noun}", span, hint)
    elif kind not in ("count", "count_distinct") and len(given) != 1:
        fail(f"`{kind}` takes one {noun}, not {len(given)}", span, f"write `{own}`")
