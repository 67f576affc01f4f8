"""Large plans in few lines: strata are folded, the most expensive first.

Cost is measured seconds in a profile, and the rows that a plan expects to read in an explanation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gdatalog.engine.draft import UNKNOWN
from gdatalog.errors import UsageError
from gdatalog.planner.check.wording import did_you_mean
from gdatalog.records import replace
from gdatalog.report.numbers import many
from gdatalog.report.tree import ReportNode

LARGE = 24  # rules: larger plans are folded
COSTLIEST = 5  # rules listed at the top
RELATIONS = 4  # names that a folded stratum lists
INDEXES = 5  # indexes shown, largest first
ALL = "*"
WORK = "rows to look at"  # the fact with a rule's expected cost


def is_large(root: ReportNode) -> bool:
    """Whether a plan has too many rules to read at once.

    >>> rules = tuple(ReportNode("rule", f"p{n}(x) <- E(x).") for n in range(25))
    >>> stratum = ReportNode("stratum", "stratum 1", children=rules)
    >>> is_large(ReportNode("plan", "on cpu", children=(stratum,)))
    True
    """
    return sum(len(_rules(stratum)) for stratum in _strata(root)) > LARGE


def folded(root: ReportNode, bare: bool = True) -> ReportNode:
    """Returns the plan with a line or two for each stratum, and its most expensive rules.

    `bare` drops what is folded; otherwise it stays below, for pages that can unfold it.
    """
    strata = sorted(
        ((stratum, number) for number, stratum in enumerate(_strata(root), 1)),
        key=lambda each: -_cost(each[0]),
    )
    rules = sum(len(_rules(stratum)) for stratum, _ in strata)
    head = [node for node in root.children if node.kind == "costliest"]
    rest = [node for node in root.children if node.kind not in ("stratum", "costliest", "pass")]
    by = "time" if root.seconds is not None else "the rows that they are expected to look at"
    parts = f"{many(len(strata), 'stratum')}, {many(rules, 'rule')}, folded"
    details = [*root.details, f"{parts}: the costliest first, by {by}"]
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
            *_passes(root),
            *(head or _costliest(root)),
            *(_stratum(stratum, bare) for stratum, _ in strata),
            *(_indexes(node) if bare and node.kind == "indexes" else node for node in rest),
        ),
    )


def named_part(root: ReportNode, which: str) -> ReportNode:
    """Returns a plan with only the rules of one relation, of a stratum or a single rule by number
    ("3", "3.2"), or with all rules ("*")."""
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
    return replace(root, children=(*_passes(root), *found))


def rule_number(stratum: int, rule: int) -> str:
    """A rule's number: its stratum and its position in the stratum."""
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


def _passes(root: ReportNode) -> list[ReportNode]:
    """What rewrote the program."""
    return [node for node in root.children if node.kind == "pass"]


def _strata(root: ReportNode) -> list[ReportNode]:
    return [node for node in root.children if node.kind == "stratum"]


def _rules(stratum: ReportNode) -> list[ReportNode]:
    return [node for node in stratum.children if node.kind == "rule"]


def _names(rule: ReportNode) -> set[str]:
    """The names of a rule's relation, internal and as written: `p` for the parts `p~1` of a split
    rule and for the magic set `p[bf]`."""
    name = dict(rule.facts).get("relation")
    if not isinstance(name, str):
        return set()
    return {name, name.partition("~")[0].partition("[")[0]}


def _relations(stratum: ReportNode) -> set[str]:
    return {name for rule in _rules(stratum) for name in _names(rule)}


def _cost(node: ReportNode) -> float:
    """Measured seconds, or else the rows that the plan expects to read."""
    if node.seconds is not None:
        return node.seconds
    work = dict(node.facts).get(WORK)
    if isinstance(work, (int, float)):
        return work
    return sum(map(_cost, node.children))


def _costliest(root: ReportNode) -> tuple[ReportNode, ...]:
    """The rules that expect to read most rows. A profile lists its own."""
    if root.seconds is not None:
        return ()
    rules = [
        (_cost(rule), f"rule {rule_number(number, at)}: {rule.label}")
        for number, stratum in enumerate(_strata(root), 1)
        for at, rule in enumerate(_rules(stratum), 1)
    ]
    costly = sorted(rules, key=lambda each: -each[0])[:COSTLIEST]
    if not costly or not costly[0][0]:
        return ()
    children = tuple(ReportNode("costly rule", label, estimate=cost) for cost, label in costly)
    return (ReportNode("costliest", "the costliest rules", children=children),)


def _stratum(stratum: ReportNode, bare: bool) -> ReportNode:
    """Summarises a stratum in one line: its relations, number of rules and executors."""
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
    """The executors of a stratum's rules; if there are several, the number of plans for each."""
    executors = (dict(node.facts).get("executor") for node in stratum.walk())
    counts = Counter(executor for executor in executors if isinstance(executor, str))
    if len(counts) < 2:
        return list(counts)
    return [f"{executor} {count:,}" for executor, count in counts.items()]


def _indexes(node: ReportNode) -> ReportNode:
    """The indexes; only the largest are shown."""

    def size(index: ReportNode) -> int:
        held = dict(index.facts).get("bytes")
        return held if isinstance(held, int) else 0

    largest = sorted(node.children, key=size, reverse=True)[:INDEXES]
    more = len(node.children) - len(largest)
    rest = (ReportNode("note", f"and {more:,} more"),) if more else ()
    return replace(node, children=(*largest, *rest))
