"""A plan as text: a line for each step, indented where the rows become more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from gdatalog.plan.effects import all_steps
from gdatalog.plan.nodes import (
    Assign,
    Branch,
    Compact,
    Constant,
    Expr,
    Filter,
    Gather,
    Generate,
    Guard,
    Join,
    JoinPlan,
    Parameter,
    Participant,
    Reduction,
    Restore,
    RulePlan,
    Seek,
    Slot,
    Step,
    TrieRef,
)
from gdatalog.values import timestamp_to_text

_INFIX = frozenset(
    {"+", "-", "*", "/", "%", "^", "=", "!=", "<", "<=", ">", ">="}
    | {"band", "bor", "bxor", "bshl", "bshr", "bshru", "land", "lor", "lxor"}
)
Remark = Callable[[Step], str]


def format_expr(expr: Expr, inside: bool = False) -> str:
    match expr:
        case Slot():
            return expr.name
        case Parameter():
            return f"${expr.name}"
        case Constant():
            if expr.type == "symbol":
                return '"' + str(expr.value).replace("\\", "\\\\").replace('"', '\\"') + '"'
            if expr.type == "timestamp":
                return "@" + timestamp_to_text(int(expr.value))
            return str(expr.value).lower() if expr.type == "bool" else str(expr.value)
        case _:
            if expr.function in _INFIX and len(expr.args) == 2:
                left, right = (format_expr(arg, True) for arg in expr.args)
                text = f"{left} {expr.function} {right}"
                return f"({text})" if inside else text
            args = ", ".join(map(format_expr, expr.args))
            return f"{expr.function}({args})"


def format_rule(rule: RulePlan, remark: Remark = lambda step: "") -> str:
    """The whole rule: each join, then what becomes of its bindings."""
    lines = []
    for number, join in enumerate(rule.joins):
        if len(rule.joins) > 1:
            lines.append(f"alternative {number + 1} of {len(rule.joins)}")
        lines += format_join(join, remark)
    if rule.gathers:
        keys = ", ".join(key.name for key in rule.keys)
        gathers = ", ".join(f"{g.variable} = {_gathered(g)}" for g in rule.gathers)
        lines.append(f"gather {gathers}" + (f" by {keys}" if keys else ""))
    head = ", ".join(map(format_expr, rule.head))
    lines.append(f"give {rule.relation}({head})")
    return "\n".join(lines)


def _gathered(gather: Gather | Reduction) -> str:
    return f"{gather.kind}({', '.join(map(format_expr, gather.targets))})"


def format_join(join: JoinPlan, remark: Remark = lambda step: "") -> list[str]:
    """One line a step; `remark` may add to each what was expected or what happened."""
    paths = _paths(join.steps, len(join.tries))
    lines = []
    if join.given is not None:
        names = ", ".join(slot.name for slot in join.given.slots)
        lines.append(f"for each new {join.given.relation}({names})")
    lines += _lines(join.steps, join.tries, paths, len(lines), remark)
    if join.orbit > 1:
        lines.append(f"each row stands for {join.orbit} bindings: one of each orbit is looked for")
    return lines


def _paths(steps: Sequence[Step], count: int) -> list[list[str]]:
    """What each trie's levels are bound to."""
    paths: list[list[str]] = [[] for _ in range(count)]
    for step in all_steps(tuple(steps)):
        if isinstance(step, Seek):
            name = format_expr(step.value)
        elif isinstance(step, (Join, Assign, Generate)):
            name = step.variable
        else:
            continue
        for part in step.participants:
            paths[part.trie].append(name)
    return paths


def _lines(
    steps: Sequence[Step],
    tries: Sequence[TrieRef],
    paths: list[list[str]],
    indent: int,
    remark: Remark,
) -> Iterator[str]:
    def at(part: Participant) -> str:
        ref = tries[part.trie]
        path = paths[part.trie]
        shown = [*path[: part.depth], f"[{path[part.depth]}]", *path[part.depth + 1 :]]
        return f"{_trie(ref)}({', '.join(shown)})"

    for step in steps:
        pad = "  " * indent
        note = remark(step)
        match step:
            case Guard():
                text = f"only if {_trie(tries[step.trie])} has rows"
                text += ", as often as it has" if step.weighted else ""
            case Seek():
                text = f"seek {format_expr(step.value)} in {_and(map(at, step.participants))}"
            case Join():
                text = f"{step.variable} in {_and(map(at, step.participants))}"
                if step.cuts:
                    bounds = (f"{step.variable} {c.op} {format_expr(c.bound)}" for c in step.cuts)
                    text += f", cut to {', '.join(bounds)}"
                if step.reuse is not None:
                    text += f", from the list of {step.reuse.variable}"
                indent += 1
            case Assign():
                text = f"{step.variable} := {format_expr(step.expr)}"
                if step.participants:
                    text += f" in {_and(map(at, step.participants))}"
                text += ", which may fail" if step.may_fail else ""
            case Generate():
                if step.span is not None:
                    values = f"range({', '.join(map(format_expr, step.span))})"
                else:
                    values = "{" + ", ".join(map(format_expr, step.values)) + "}"
                text = f"{step.variable} in {values}"
                if step.participants:
                    text += f" and in {_and(map(at, step.participants))}"
                indent += 1
            case Filter():
                text = f"only if {format_expr(step.test)}"
            case Compact():
                text = f"one row for each ({', '.join(step.keep)})"
                text += " of all rounds" if step.lasting else ""
            case Restore():
                text = f"{', '.join(step.variables)} := "
                text += "the value of " if len(step.ranks) == 1 else "the values of "
                text += ", ".join(step.ranks) + (", sorted" if len(step.ranks) > 1 else "")
            case Branch():
                text = step.mode
                if step.reduction is not None:
                    text = f"{step.reduction.variable} := {_gathered(step.reduction)}"
                if step.reads:
                    text += f" for each ({', '.join(step.reads)})"
        yield pad + text + (f"   -- {note}" if note else "")
        if isinstance(step, Branch):
            for number, inner in enumerate(step.alternatives):
                if number:
                    yield pad + "or"
                yield from _lines(inner, tries, paths, indent + 1, remark)


def _and(parts: Iterator[str] | map[str]) -> str:
    return " and ".join(parts)


def _trie(ref: TrieRef) -> str:
    text = ref.relation if ref.version == "full" else f"{ref.version} {ref.relation}"
    text = f"ranked {text}" if ref.ranked else text
    if ref.columns != tuple(range(len(ref.columns))):
        text += f"[{','.join(map(str, ref.columns))}]"
    if ref.tests:
        text += "{" + ", ".join(f"{t.left} {t.op} {t.right}" for t in ref.tests) + "}"
    return text
