"""The error of a cycle that cannot be evaluated: its steps, drawn, and a rewriting as a hint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gdatalog.errors import Note, StratificationError
from gdatalog.parser import syntax as s
from gdatalog.planner.check import CheckedRule
from gdatalog.planner.check import walk as w
from gdatalog.planner.check.wording import as_rule, either, own_name, text_of
from gdatalog.records import dataclass, replace

OPTIONAL = "`optional`"


@dataclass(frozen=True, slots=True)
class Step:
    """`head` reads `body` by an atom of a rule; `through`: a negation or an aggregate around it."""

    head: str
    body: str
    atom: s.Atom
    rule: CheckedRule
    through: str = ""  # "", "negation", "`optional`", or "the aggregate count"
    negated: bool = False  # the atom stands directly behind a `!`


def drawn(cycle: Sequence[Step]) -> list[str]:
    """The cycle as lines of text, one for each step, with arrows."""
    reads = [_reads(step) for step in cycle]
    wide = max([len(step.head) for step in cycle])
    deep = max(map(len, reads))
    lines: list[str] = []
    for at, step in enumerate(cycle):
        last = at == len(cycle) - 1
        lead = "┌─> " if at == 0 else "└── " if last else "│   "
        line = f"{lead}{step.head:{wide}}  reads  {reads[at]:{deep}}  at {step.atom.span.where()}"
        lines.append(line)
        if not last:
            lines.append("│   ↓")
    if len(cycle) == 1:
        lines.append("└───┘")
    return lines


def _reads(step: Step) -> str:
    text = text_of(step.atom)
    if step.negated:
        return f"!{text}"
    return f"{text} under {step.through}" if step.through else text


LONGEST = 100  # characters of a rule in a hint


def cycle_error(
    cycle: Sequence[Step], rules: Mapping[str, Sequence[CheckedRule]]
) -> StratificationError:
    """The error of a cycle; `rules` are those of its relations."""
    cycle = _as_written(cycle)
    first = cycle[0]
    if len(cycle) == 1:
        message = f"`{first.head}` depends on itself through {first.through}"
    else:
        message = f"`{first.head}` and `{first.body}` depend on each other through {first.through}"
    drawing = Note("the cycle\n" + "\n".join([f"    {line}" for line in drawn(cycle)]))
    hint = _rewriting(first, {step.head for step in cycle}, rules)
    return StratificationError(message, first.atom.span, hint=hint, notes=[drawing])


def _as_written(cycle: Sequence[Step]) -> list[Step]:
    """The steps between relations of the program, without those that the checks have added."""
    found: list[Step] = []
    through = ""
    for step in cycle:
        through = through or step.through
        if own_name(step.body) == step.body:
            found.append(replace(step, head=own_name(step.head), through=through))
            through = ""
    return found


def _rewriting(step: Step, inside: set[str], rules: Mapping[str, Sequence[CheckedRule]]) -> str:
    """A hint: the rewriting that often helps, in the program's own names."""
    if step.through == OPTIONAL:
        return (
            "leave it out of the cycle, and read what the cycle gives by `optional` in a rule after"
        )
    if step.negated and step.atom.args == step.rule.head.args and step.head == step.body:
        return f"leave `!{text_of(step.atom)}` out: a relation is a set, no row comes into it twice"
    if step.through == "negation" and step.head == step.body:
        best = _by_min(step)
        if best is not None:
            return f"if the least is meant, `min` may be recursive: `{best}`"
    below = [
        rule for rule in rules.get(step.body, ()) if inside.isdisjoint(a.name for a in rule.atoms)
    ]
    if below and step.body != step.head:
        base = f"{step.body}_base"
        kept = text_of(below[0].head).replace(step.body, base, 1)
        of = "a rule that needs" if len(below) == 1 else f"{len(below)} rules that need"
        where = either([f"line {rule.span.line}" for rule in below[:3]], "and")
        what = "negate" if step.negated else "aggregate over"
        return (
            f"`{step.body}` has {of} no `{step.head}` ({where}): if that is what is "
            f"meant, give it a name of its own, `{kept} <- ...`, and {what} `{base}`"
        )
    if step.through == "negation":
        first = f"all of `{step.body}` must be known first, and that needs `{step.head}`"
        if step.body == step.head:
            first = f"all of `{step.body}` would have to be known before its first row"
        return (
            f"{first}: let a relation that does not read `{step.head}` say what is negated, or "
            "iterate in Python: each query reads the rows of the one before"
        )
    return _aggregate_after(step)


def _by_min(step: Step) -> str | None:
    """`d(y, n + 1) <- d(x, n), E(x, y), !d(y, _).` is a shortest path: `min(n + 1)`."""
    head, body = step.rule.head, step.rule.body
    computed = [
        at
        for at, arg in enumerate(head.args)
        if isinstance(arg, s.FunctionCall) and arg.name in ("+", "-")
    ]
    if len(computed) != 1 or body is None:
        return None
    args: list[s.Expr | s.HeadAggregate] = list(head.args)
    texts = [text_of(arg) for arg in args]
    texts[computed[0]] = f"min({texts[computed[0]]})"
    kept = [
        item
        for item in w.conjuncts(body)
        if not any(atom is step.atom for atom in w.all_of(s.Atom, item))
    ]
    held = {name for item in kept if not isinstance(item, s.Compare) for name in w.variables(item)}
    kept = [
        item for item in kept if not isinstance(item, s.Compare) or w.variables(item).keys() <= held
    ]
    rule = as_rule(f"{head.name}({', '.join(texts)})", map(text_of, kept))
    return rule if kept and len(rule) <= LONGEST else None


def _aggregate_after(step: Step) -> str:
    kind = step.through.removeprefix("the aggregate ")
    if step.body == step.head and _leaves_out_values(step):
        helper = f"{step.head}_of"
        return (
            f"only min and max may be recursive. The {kind} itself is not read in the cycle: "
            f"derive the rows that it is over first, in a relation without it, say `{helper}`, "
            f"which may be recursive; then `{text_of(step.rule.head)} <- {helper}(...).`"
        )
    return (
        f"only min and max may be recursive: this {kind} is over rows of `{step.body}` that depend "
        f"on its result. Aggregate over a relation that does not read `{step.head}`, or iterate in "
        "Python: each query reads the rows of the one before"
    )


def _leaves_out_values(step: Step) -> bool:
    """Whether the cycle reads no column that the head aggregates: it needs no values to go on."""
    values = [at for at, arg in enumerate(step.rule.head.args) if w.contains_head_aggregate(arg)]
    read = [step.atom.args[at] for at in values]
    return bool(values) and all(isinstance(a, s.Var) and own_name(a.name) == "_" for a in read)
