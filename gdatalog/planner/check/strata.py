"""Strata: which relations depend on each other, and the order to evaluate them in.

A relation depends on those in the bodies of its rules. Negation, and aggregation other than a
min or max in the head, must not lie on a cycle; the error shows the cycle, step by step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence

from gdatalog.errors import Error
from gdatalog.parser.syntax import Aggregate, Atom, HeadAggregate, Not
from gdatalog.planner.check.checked import CheckedRule, Stratum
from gdatalog.planner.check.cycles import Step, cycle_error
from gdatalog.planner.check.walk import Node, children, walk


def stratify(rules: Sequence[CheckedRule], errors: list[Error]) -> tuple[Stratum, ...]:
    """The strata in an order in which they can be evaluated, those with rules only."""
    by_head: dict[str, list[CheckedRule]] = {}
    steps: dict[str, list[Step]] = {}
    for rule in rules:
        by_head.setdefault(rule.head.name, []).append(rule)
        steps.setdefault(rule.head.name, []).extend(steps_of(rule))
    strata: list[Stratum] = []
    reads = {name: [step.body for step in of] for name, of in steps.items()}
    for component in components(reads):
        defined = tuple(name for name in component if name in by_head)
        if not defined:
            continue
        inside = set(component)
        recursive = any(step.body in inside for name in defined for step in steps[name])
        forbidden = _forbidden(inside, defined, steps, by_head) if recursive else None
        if forbidden is not None:
            errors.append(forbidden)
            continue
        of_stratum = tuple(rule for name in defined for rule in by_head[name])
        strata.append(Stratum(defined, of_stratum, recursive))
    return tuple(strata)


def steps_of(rule: CheckedRule) -> Iterator[Step]:
    if rule.body is None:
        return
    through = ""
    for part in walk(rule.head):
        if isinstance(part, HeadAggregate) and part.kind not in ("min", "max"):
            through = f"the aggregate {part.kind}"
    yield from _steps(rule, rule.body, through)


def _steps(rule: CheckedRule, node: Node, through: str, negated: bool = False) -> Iterator[Step]:
    match node:
        case Atom(name):
            yield Step(rule.head.name, name, node, rule, through, negated)
        case Not():
            through = through or "negation"
        case Aggregate(kind):
            through = f"the aggregate {kind}"
        case _:
            pass
    for child in children(node):
        yield from _steps(rule, child, through, isinstance(node, Not))


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


def _forbidden(
    inside: set[str],
    defined: Sequence[str],
    steps: Mapping[str, Sequence[Step]],
    rules: Mapping[str, Sequence[CheckedRule]],
) -> Error | None:
    for name in defined:
        for step in steps[name]:
            if step.through and step.body in inside:
                return cycle_error([step, *_path(step.body, name, inside, steps)], rules)
    return None


def _path(
    start: str, goal: str, inside: set[str], steps: Mapping[str, Sequence[Step]]
) -> list[Step]:
    """The shortest way from one relation of a cycle to another."""
    came: dict[str, Step | None] = {start: None}
    queue = deque([start])
    while queue and goal not in came:
        name = queue.popleft()
        for step in steps.get(name, ()):
            if step.body in inside and step.body not in came:
                came[step.body] = step
                queue.append(step.body)
    path: list[Step] = []
    at = came[goal]
    while at is not None:
        path.append(at)
        at = came[at.head]
    return path[::-1]
