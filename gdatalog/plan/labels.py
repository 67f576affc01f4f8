"""Plans as text: what their parts are called, and a line for each step.

The wording of steps is defined here only; `report` draws trees with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from gdatalog.plan import join_plan as p
from gdatalog.plan.functions import UNLESS_NULL
from gdatalog.plan.nest import Paths
from gdatalog.values import constant_text, is_list, shown_name

_INFIX = frozenset(
    {"+", "-", "*", "/", "%", "^", "=", "!=", "<", "<=", ">", ">="}
    | {"band", "bor", "bxor", "bshl", "bshr", "bshru", "land", "lor", "lxor"}
)


def format_expr(expr: p.Expr, inside: bool = False) -> str:
    match expr:
        case p.Slot():
            return expr.name
        case p.Parameter():
            return f"${expr.name}"
        case p.Constant():
            return "null" if expr.value is None else constant_text(expr.type, expr.value)
        case _:
            operator = expr.function.rstrip("!")  # of decimals
            if operator in _INFIX and len(expr.args) == 2:
                left, right = (format_expr(arg, True) for arg in expr.args)
                text = f"{left} {operator} {right}"
                return f"({text})" if inside else text
            if expr.function == UNLESS_NULL:
                return format_expr(expr.args[0], inside)
            args = ", ".join(map(format_expr, expr.args))
            return f"{expr.function}({args})"


def alternative_label(number: int, count: int) -> str:
    return f"alternative {number + 1} of {count}"


def polynomial(terms: Sequence[tuple[int, tuple[int, ...]]]) -> str:
    """A signed sum of products of the alternatives' counts.

    >>> polynomial([(1, (0, 0)), (-2, (1,))])
    '#1 #1 - 2 #2'
    """
    text = ""
    for coefficient, numbers in terms:
        sign = (" - " if text else "-") if coefficient < 0 else (" + " if text else "")
        times = "" if abs(coefficient) == 1 else f"{abs(coefficient)} "
        text += sign + times + " ".join([f"#{number + 1}" for number in numbers])
    return text


def table_label(rule: p.RulePlan) -> str:
    """A count by one key that joins read."""
    return f"table {shown_table(rule.relation)} of counts by {rule.keys[0].name}"


def term_label(term: p.Term) -> str:
    """The purpose of a join in a signed sum.

    >>> term_label(p.Term("E(a, b)", -2)), term_label(p.Term("E(_, b)", table="~1"))
    ('- 2 x the count of E(a, b)', "table '1 of the count of E(_, b)")
    """
    if term.table:
        by = f" by {', '.join([key.name for key in term.keys])}" if term.keys else ""
        return f"table {shown_table(term.table)}{by} of the count of {term.label}"
    sign, times = "-" if term.coefficient < 0 else "+", abs(term.coefficient)
    return f"{sign} {f'{times} x ' if times > 1 else ''}the count of {term.label}"


def shown_table(name: str) -> str:
    return "'" + name[1:] if name.startswith("~") else name


def given_label(given: p.GivenRows) -> str:
    names = ", ".join([slot.name for slot in given.slots])
    if given.columns:
        return f"for each row of {given.relation}, of which it reads {names}"
    return f"for each new {given.relation}({names})"


def orbit_label(orbit: int) -> str:
    return f"each row stands for {orbit} bindings: one of each orbit is looked for"


def ending_labels(rule: p.RulePlan) -> list[str]:
    """The last steps of a rule: aggregates, if there are any, and the head."""
    labels = []
    if rule.gathers:
        keys = ", ".join([key.name for key in rule.keys])
        gathers = ", ".join([f"{g.variable} = {_gathered(g)}" for g in rule.gathers])
        labels.append(f"gather {gathers}" + (f" by {keys}" if keys else ""))
    head = ", ".join(map(format_expr, rule.head))
    return [*labels, f"give {rule.relation}({head})"]


def trie_label(ref: p.TrieRef) -> str:
    """A trie: the relation, the order of its columns, and the tests on its rows.

    >>> trie_label(p.TrieRef("E", "old", (1, 0)))
    'old E[1,0]'
    """
    name = shown_table(shown_name(ref.relation))
    text = name if ref.version == "full" else f"{ref.version} {name}"
    text = f"ranked {text}" if ref.ranked else text
    if ref.columns != tuple(range(len(ref.columns))):
        text += f"[{','.join(map(str, ref.columns))}]"
    if ref.tests:
        text += "{" + ", ".join([f"{left} {op} {right}" for left, op, right in ref.tests]) + "}"
    return text


def participant_label(paths: Paths, part: p.Participant) -> str:
    """A trie with one of its levels, in brackets: `E(x, [y])`."""
    ref, path = paths.tries[part.trie], [format_expr(term) for term in paths.terms[part.trie]]
    if is_list(ref.relation):
        return trie_label(ref)
    shown = [*path[: part.depth], f"[{path[part.depth]}]", *path[part.depth + 1 :]]
    return f"{trie_label(ref)}({', '.join(shown)})"


def _all(paths: Paths, parts: Sequence[p.Participant]) -> str:
    return " and ".join([participant_label(paths, part) for part in parts])


def step_label(paths: Paths, step: p.Step) -> str:
    """What a step does."""
    match step:
        case p.Guard():
            return f"only if {trie_label(paths.tries[step.trie])} has rows"
        case p.Seek():
            return f"seek {format_expr(step.value)} in {_all(paths, step.participants)}"
        case p.Join():
            label = f"{step.variable} in {_all(paths, step.participants)}"
            for at, least in step.least:
                ref = paths.tries[step.participants[at].trie]
                label += f", each with {least} or more in {trie_label(ref)}"
            return label
        case p.Assign():
            within = f" in {_all(paths, step.participants)}" if step.participants else ""
            return f"{step.variable} := {format_expr(step.expr)}{within}"
        case p.Generate():
            if step.span is not None:
                values = f"range({', '.join(map(format_expr, step.span))})"
            else:
                values = "{" + ", ".join(map(format_expr, step.values)) + "}"
            within = f" and in {_all(paths, step.participants)}" if step.participants else ""
            return f"{step.variable} in {values}{within}"
        case p.Filter():
            return f"only if {format_expr(step.test)}"
        case p.Compact():
            lasting = " of all rounds" if step.lasting else ""
            return f"one row for each ({', '.join(step.keep)}){lasting}"
        case p.Restore():
            what = "the value of" if len(step.ranks) == 1 else "the values of"
            return f"{', '.join(step.variables)} := {what} {', '.join(step.ranks)}"
        case p.Branch():
            text: str = step.mode
            if step.reduction is not None:
                text = f"{step.reduction.variable} := {_gathered(step.reduction)}"
            return f"{text} for each ({', '.join(step.reads)})" if step.reads else text
        case p.Tally():
            return f"table {shown_table(step.table)} of counts by {step.key}"


def step_remarks(step: p.Step) -> tuple[str, ...]:
    """Details of a step, if there are any."""
    match step:
        case p.Guard() if step.weighted:
            return ("as often as it has",)
        case p.Join():
            bounds = (f"{step.variable} {op} {format_expr(bound)}" for op, bound in step.cuts)
            cut = (f"cut to {', '.join(bounds)}",) if step.cuts else ()
            if step.reuse is None:
                return cut
            return (*cut, f"from the list of {step.reuse.variable}")
        case p.Branch() if step.terms:
            return ("as a sum: " + polynomial(step.terms),)
        case p.Assign() if step.may_fail:
            return ("which may fail",)
        case p.Restore() if len(step.ranks) > 1:
            return ("sorted",)
        case _:
            return ()


def _gathered(gather: p.Gather | p.Reduction) -> str:
    return f"{gather.kind}({', '.join(map(format_expr, gather.targets))})"


Remark = Callable[[p.Step], str]


def format_join(join: p.JoinPlan, remark: Remark = lambda step: "") -> list[str]:
    """One line for each step; `remark` can add an estimate or a measurement to each."""
    lines = []
    if join.given is not None:
        lines.append(given_label(join.given))
    lines += _lines(join.steps, Paths.of(join), len(lines), remark)
    if join.orbit > 1:
        lines.append(orbit_label(join.orbit))
    return lines


def _lines(steps: Sequence[p.Step], paths: Paths, indent: int, remark: Remark) -> Iterator[str]:
    for step in steps:
        pad = "  " * indent
        text = ", ".join((step_label(paths, step), *step_remarks(step)))
        note = remark(step)
        yield pad + text + (f"   -- {note}" if note else "")
        if isinstance(step, (p.Join, p.Generate)):
            indent += 1
        if isinstance(step, p.Branch):
            for number, inner in enumerate(step.alternatives):
                if number or step.terms:
                    yield pad + (f"#{number + 1}" if step.terms else "or")
                yield from _lines(inner, paths, indent + 1, remark)
        if isinstance(step, p.Tally):
            yield from _lines(step.steps, paths, indent + 1, remark)
