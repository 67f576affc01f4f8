"""Strata: the order to evaluate relations in, and errors for cycles that cannot be evaluated.

A relation depends on those in the bodies of its rules. Negation, and aggregation other than a
min or max in the head, must not lie on a cycle; the error shows the cycle, step by step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence

from gdatalog.errors import Error
from gdatalog.parser import syntax as s
from gdatalog.planner.check import CheckedRule, Stratum
from gdatalog.planner.check import walk as w
from gdatalog.planner.check.cycle_errors import OPTIONAL, Step, cycle_error


def stratify(rules: Sequence[CheckedRule], errors: list[Error]) -> tuple[Stratum, ...]:
    """The strata with rules, in evaluation order."""
    by_head: dict[str, list[CheckedRule]] = {}
    reads: dict[str, list[str]] = {}
    for rule in rules:
        by_head.setdefault(rule.head.name, []).append(rule)
        read = reads.setdefault(rule.head.name, [])
        read += [atom.name for atom in rule.atoms]
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
    through = f"the aggregate {kinds[-1]}" if kinds else ""
    if any(part.optional for part in w.all_of(s.Not, rule.body)):
        through = OPTIONAL
    yield from _steps(rule, rule.body, through)


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
