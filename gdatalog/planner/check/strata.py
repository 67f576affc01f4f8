"""Strata: the order to evaluate relations in, and errors for cycles that cannot be evaluated.

A relation depends on those in the bodies of its rules. Negation, and aggregation other than a
min or max in the head, must not lie on a cycle; the error shows the cycle, step by step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence

from gdatalog.errors import Error, Note, StratificationError
from gdatalog.parser import syntax as s
from gdatalog.planner.check import CheckedRule, Stratum
from gdatalog.planner.check import walk as w
from gdatalog.planner.check.wording import as_rule, either, own_name, text_of
from gdatalog.records import dataclass


def stratify(rules: Sequence[CheckedRule], errors: list[Error]) -> tuple[Stratum, ...]:
    """The strata with rules, in evaluation order."""
    by_head: dict[str, list[CheckedRule]] = {}
    reads: dict[str, list[str]] = {}
    for rule in rules:
        by_head.setdefault(rule.head.name, []).append(rule)
        read = reads.setdefault(rule.head.name, [])
        read += [atom.name for atom in w.all_of(s.Atom, rule.body)]
    strata: list[Stratum] = []
    for component in components(reads):
        defined = tuple([name for name in component if name in by_head])
        if not defined:
            continue
        inside = set(component)
        recursive = not all(inside.isdisjoint(reads[name]) for name in defined)
        cycle = _forbidden_cycle(defined, by_head) if recursive else []
        if cycle:
            errors.append(cycle_error(cycle, by_head))
            continue
        of_stratum = tuple([rule for name in defined for rule in by_head[name]])
        strata.append(Stratum(defined, of_stratum, recursive))
    return tuple(strata)


def _forbidden_cycle(
    inside: Collection[str], rules: Mapping[str, Sequence[CheckedRule]]
) -> list[Step]:
    """A cycle of these relations through a negation or an aggregate, if there is one."""
    own = set(inside)
    steps = {
        name: [step for rule in rules[name] for step in steps_of(rule) if step.body in own]
        for name in inside
    }
    forbidden = next((step for of in steps.values() for step in of if step.through), None)
    if forbidden is None:
        return []
    return [forbidden, *_path(forbidden.body, forbidden.head, steps)]


def steps_of(rule: CheckedRule) -> Iterator[Step]:
    if rule.body is None:
        return
    kinds = [
        part.kind
        for part in w.all_of(s.HeadAggregate, rule.head)
        if part.kind not in ("min", "max")
    ]
    yield from _steps(rule, rule.body, f"the aggregate {kinds[-1]}" if kinds else "")


def _steps(rule: CheckedRule, node: w.Node, through: str, negated: bool = False) -> Iterator[Step]:
    match node:
        case s.Atom(name):
            yield Step(rule.head.name, name, node, rule, through, negated)
        case s.Not():
            through = through or "negation"
        case s.Aggregate(kind):
            through = f"the aggregate {kind}"
        case _:
            pass
    for child in w.children(node):
        yield from _steps(rule, child, through, isinstance(node, s.Not))


def components(reads: Mapping[str, Collection[str]]) -> Iterator[list[str]]:
    """Strongly connected components by Tarjan, each after all that it reads."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    for root in reads:
        if root in index:
            continue
        work = [(root, iter(reads[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            name, rest = work[-1]
            read = next(rest, None)
            if read is None:
                work.pop()
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[name])
                if low[name] == index[name]:
                    component = [stack.pop()]
                    while component[-1] != name:
                        component.append(stack.pop())
                    on_stack.difference_update(component)
                    yield component[::-1]
            elif read not in index:
                index[read] = low[read] = len(index)
                stack.append(read)
                on_stack.add(read)
                work.append((read, iter(reads.get(read, ()))))
            elif read in on_stack:
                low[name] = min(low[name], index[read])


def _path(start: str, goal: str, steps: Mapping[str, Sequence[Step]]) -> list[Step]:
    """The shortest path from one relation of a cycle to another."""
    came: dict[str, Step | None] = {start: None}
    queue = deque([start])
    while queue and goal not in came:
        name = queue.popleft()
        for step in steps[name]:
            if step.body not in came:
                came[step.body] = step
                queue.append(step.body)
    path: list[Step] = []
    at = came[goal]
    while at is not None:
        path.insert(0, at)
        at = came[at.head]
    return path


# The error of a cycle that cannot be evaluated: a drawing of the cycle, and a rewriting as a hint.
#
# the cycle: ┌─> win reads !lose(x) at game.dl:2:17 │ ↓ └── lose reads !win(x) at game.dl:3:18

LONGEST = 100  # characters of a rule in a hint


@dataclass(frozen=True, slots=True)
class Step:
    """`head` reads `body` by an atom of a rule; `through`: a negation or an aggregate around it."""

    head: str
    body: str
    atom: s.Atom
    rule: CheckedRule
    through: str = ""  # "", "negation", or "the aggregate count"
    negated: bool = False  # the atom stands directly behind a `!`


def cycle_error(
    cycle: Sequence[Step], rules: Mapping[str, Sequence[CheckedRule]]
) -> StratificationError:
    """The error of a cycle; `rules` are those of its relations."""
    first = cycle[0]
    if len(cycle) == 1:
        message = f"`{first.head}` depends on itself through {first.through}"
    else:
        message = f"`{first.head}` and `{first.body}` depend on each other through {first.through}"
    drawing = Note("the cycle\n" + "\n".join([f"    {line}" for line in drawn(cycle)]))
    hint = _rewriting(first, {step.head for step in cycle}, rules)
    return StratificationError(message, first.atom.span, hint=hint, notes=[drawing])


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


# ------------------------------------------------------------------------------ rewritings


def _rewriting(step: Step, inside: set[str], rules: Mapping[str, Sequence[CheckedRule]]) -> str:
    """A hint: the rewriting that often helps, in the program's own names."""
    if step.negated and step.atom.args == step.rule.head.args and step.head == step.body:
        return f"leave `!{text_of(step.atom)}` out: a relation is a set, no row comes into it twice"
    if step.through == "negation" and step.head == step.body:
        best = _by_min(step)
        if best is not None:
            return f"if the least is meant, `min` may be recursive: `{best}`"
    below = [
        rule
        for rule in rules.get(step.body, ())
        if inside.isdisjoint(a.name for a in w.all_of(s.Atom, rule.body))
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
