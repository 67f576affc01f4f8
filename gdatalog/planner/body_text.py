"""Normalised bodies as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gdatalog.plan import join_plan as p
from gdatalog.plan.expression_text import format_expr
from gdatalog.plan.labels import given_label
from gdatalog.planner import items as n
from gdatalog.values import is_list, shown_name


def body_text(items: Sequence[n.Item], given: p.GivenRows | None = None) -> str:
    """A conjunction; `given`: the rows that it runs for.

    >>> x, y = p.Slot("x", "int"), p.Slot("y", "int")
    >>> test = n.TestItem(p.Apply("<", (x, y), "bool"))
    >>> body_text([n.AtomItem("E", (x, y)), test, n.NotItem(((n.AtomItem("F", (y,)),),), {"y"})])
    'E(x, y), x < y, !(F(y))'
    """
    texts = [item_text(item) for item in items]
    if given is not None:
        texts.insert(0, given_label(given))
    return ", ".join(texts) or "true"


def item_text(item: n.Item) -> str:
    """One item, as it would be written in a rule."""
    match item:
        case n.AtomItem():
            args = ", ".join(map(format_expr, item.args))
            if is_list(item.relation):
                return f"{args} in {shown_name(item.relation)}"
            version = "" if item.version == "full" else f"{item.version} "
            return f"{version}{'ranked ' if item.ranked else ''}{shown_name(item.relation)}({args})"
        case n.Equation():
            return f"{format_expr(item.left)} = {format_expr(item.right)}"
        case n.TestItem():
            return format_expr(item.test)
        case n.GenerateItem():
            if item.span is not None:
                start, stop, step = map(format_expr, item.span)
                return f"{item.slot.name} = range({start}, {stop}, {step})"
            return f"{item.slot.name} in {{{', '.join(map(format_expr, item.values))}}}"
        case n.NotItem():
            return f"!({_either(item.alternatives)})"
        case n.EitherItem():
            return f"({_either(item.alternatives)})"
        case n.AggregateItem():
            of = ", ".join(map(format_expr, item.targets))
            asked = f"{item.kind} {of}".rstrip()
            return f"{item.slot.name} = {asked} : {{{_either(item.alternatives)}}}"
        case n.RestoreItem():
            names = ", ".join([value.name for value in item.values])
            return f"{names} = the vertices of {', '.join(item.ranks)}"


def _either(alternatives: Iterable[Sequence[n.Item]]) -> str:
    return " ; ".join(map(body_text, alternatives))
