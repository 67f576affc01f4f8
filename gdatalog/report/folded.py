"""A plan of many rules in few lines: its strata folded, the dearest first; and one of its parts.

What is dear is told by the seconds that a profile measured, or else by the rows that a plan is
expected to look at.
"""

from __future__ import annotations

from collections.abc import Iterator

from gdatalog.engine.stratum import UNKNOWN
from gdatalog.errors import UsageError
from gdatalog.planner.words import did_you_mean
from gdatalog.records import dataclass, replace
from gdatalog.report.tree import ReportNode
from gdatalog.report.words import many

LARGE = 24  # rules: a plan of more is folded
DEAREST = 5  # rules that are named at its head
RELATIONS = 4  # names that a folded stratum shows
INDEXES = 5  # the largest, that are shown
ALL = "*"
WORK = "rows to look at"  # the fact of a rule that says what it is expected to cost


def is_large(root: ReportNode) -> bool:
    """Whether a plan has more rules than are read at once.

    >>> rules = tuple(ReportNode("rule", f"p{n}(x) <- E(x).") for n in range(25))
    >>> stratum = ReportNode("stratum", "stratum 1", children=rules)
    >>> is_large(ReportNode("plan", "on cpu", children=(stratum,)))
    True
    """
    return sum(len(_rules(stratum)) for stratum in _strata(root)) > LARGE


def folded(root: ReportNode, bare: bool = True) -> ReportNode:
    """The plan with a line or two for each stratum, the dearest first, and its dearest rules.

    `bare`: without what is folded; else it is still below, for pages that unfold it.
    """
    strata = sorted(
        ((stratum, number) for number, stratum in enumerate(_strata(root), 1)),
        key=lambda each: -_cost(each[0]),
    )
    rules = sum(len(_rules(stratum)) for stratum, _ in strata)
    head = [node for node in root.children if node.kind == "dearest"]
    rest = [node for node in root.children if node.kind not in ("stratum", "dearest")]
    by = "time" if root.seconds is not None else "the rows that they are expected to look at"
    parts = f"{many(len(strata), 'stratum')}, {many(rules, 'rule')}, folded"
    details = [*root.details, f"{parts}: the dearest first, by {by}"]
    if root.seconds is None and any(dict(stratum.facts).get("recursive") for stratum, _ in strata):
        details.append(f"a recursion is assumed to follow {UNKNOWN:,} rows of each relation")
    if bare:
        first = strata[0][1]
        details.append(
            f"a part in full: --of {first} in the shell, .of({first}) in Python; {first} is a "
            f'stratum, "{rule_number(first, 1)}" its first rule; or name a relation; "{ALL}" is all'
        )
    return replace(
        root,
        details=tuple(details),
        children=(
            *(head or _dearest(root)),
            *(_stratum(stratum, bare) for stratum, _ in strata),
            *(_indexes(node) if bare and node.kind == "indexes" else node for node in rest),
        ),
    )


def part_of(root: ReportNode, which: str) -> ReportNode:
    """A plan with the rules of one relation only; with those of a stratum or a single rule by their
    numbers ("3", "3.2"); "*": with all of them."""
    if which == ALL:
        return root
    found = tuple(_parts(root, which))
    if not found:
        known = {name for stratum in _strata(root) for name in _relations(stratum)}
        raise UsageError(
            f"the plan has no stratum, rule or relation {which!r}",
            hint=did_you_mean(which, known)
            or 'the name of a relation, the number of a stratum ("3") or of a rule in it ("3.2")',
        )
    return replace(root, children=found)


def rule_number(stratum: int, rule: int) -> str:
    """What a rule is called by: its stratum and its place in that."""
    return f"{stratum}.{rule}"


def _parts(root: ReportNode, which: str) -> Iterator[ReportNode]:
    for number, stratum in enumerate(_strata(root), 1):
        rules = [
            rule
            for at, rule in enumerate(_rules(stratum), 1)
            if which in (str(number), rule_number(number, at)) or which in _names(rule)
        ]
        if len(rules) == len(_rules(stratum)) and rules:
            yield stratum
        elif rules:
            yield replace(stratum, children=tuple(rules))


def _strata(root: ReportNode) -> list[ReportNode]:
    return [node for node in root.children if node.kind == "stratum"]


def _rules(stratum: ReportNode) -> list[ReportNode]:
    return [node for node in stratum.children if node.kind == "rule"]


def _names(rule: ReportNode) -> set[str]:
    """The relation that a rule makes, under its own name and as the user wrote it: `p` of the
    parts `p~1` that it is split into, and of `p[bf]`, the rows of it that are asked for."""
    name = dict(rule.facts).get("relation")
    if not isinstance(name, str):
        return set()
    return {name, name.partition("~")[0].partition("[")[0]}


def _relations(stratum: ReportNode) -> set[str]:
    return {name for rule in _rules(stratum) for name in _names(rule)}


# --------------------------------------------------------------------------------- what is dear


@dataclass(frozen=True, slots=True)
class _Dear:
    node: ReportNode
    number: str
    cost: float


def _cost(node: ReportNode) -> float:
    """Seconds where they were measured, or else rows to look at."""
    if node.seconds is not None:
        return node.seconds
    work = dict(node.facts).get(WORK)
    if isinstance(work, (int, float)):
        return work
    return sum(map(_cost, node.children))


def _dearest(root: ReportNode) -> tuple[ReportNode, ...]:
    """The rules that are expected to look at most rows; a profile names its own."""
    if root.seconds is not None:
        return ()
    rules = [
        _Dear(rule, rule_number(number, at), _cost(rule))
        for number, stratum in enumerate(_strata(root), 1)
        for at, rule in enumerate(_rules(stratum), 1)
    ]
    dear = sorted(rules, key=lambda each: -each.cost)[:DEAREST]
    if not dear or not dear[0].cost:
        return ()
    children = tuple(
        ReportNode("dear rule", f"rule {each.number}: {each.node.label}", estimate=each.cost)
        for each in dear
    )
    return (ReportNode("dearest", "the dearest rules", children=children),)


# ------------------------------------------------------------------------------------- folding


def _stratum(stratum: ReportNode, bare: bool) -> ReportNode:
    """A stratum in a line: what it makes, of how many rules, and how they are run."""
    facts = dict(stratum.facts)
    names = str(facts.get("relations", "")).split(", ")
    if len(names) > RELATIONS:
        names = [*names[: RELATIONS - 1], f"{len(names) - RELATIONS + 1} more"]
    number = stratum.label.partition(":")[0]
    recursive = " (recursive)" if facts.get("recursive") else ""
    rules = _rules(stratum)
    parts = [many(len(rules), "rule")]
    strategy = facts.get("way") or facts.get("strategy")
    parts += _executors(stratum) if strategy in (None, "once") else [str(strategy)]
    rounds = facts.get("rounds")
    if recursive and isinstance(rounds, int) and rounds:
        parts.append(many(rounds, "round"))
    rows = [n for name, n in stratum.facts if name.startswith("rows of ") and isinstance(n, int)]
    if rows:
        parts.append(many(sum(rows), "row"))
    cost = _cost(stratum)
    return replace(
        stratum,
        label=f"{number}: {', '.join(names)}{recursive}: {', '.join(parts)}",
        details=() if bare else stratum.details,
        estimate=cost if stratum.seconds is None and cost else None,
        children=() if bare else stratum.children,
    )


def _executors(stratum: ReportNode) -> list[str]:
    """By which executors the rules of a stratum are run; by several, how many plans by each."""
    counts: dict[str, int] = {}
    for node in stratum.walk():
        executor = dict(node.facts).get("executor")
        if isinstance(executor, str):
            counts[executor] = counts.get(executor, 0) + 1
    if len(counts) < 2:
        return list(counts)
    return [f"{executor} {count:,}" for executor, count in counts.items()]


def _indexes(node: ReportNode) -> ReportNode:
    """The indexes, of which the largest are shown."""

    def size(index: ReportNode) -> int:
        held = dict(index.facts).get("bytes")
        return held if isinstance(held, int) else 0

    largest = sorted(node.children, key=size, reverse=True)[:INDEXES]
    more = len(node.children) - len(largest)
    rest = (ReportNode("note", f"and {more:,} more"),) if more else ()
    return replace(node, children=(*largest, *rest))
