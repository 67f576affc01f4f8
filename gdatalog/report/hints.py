"""A hint for an expensive rule, where its counters suggest one.

Each hint starts with the counter behind it. Time outside the joins is checked first: a rule that
mostly waited for compilation is not slow. Rules that join the same atoms, whatever their variables
are called, are told of each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gdatalog.engine.choose import unprintable
from gdatalog.engine.metrics import Index
from gdatalog.parser import format_node
from gdatalog.parser.syntax import Atom, Literal, Var
from gdatalog.plan.join_plan import Compact, Join, TrieRef
from gdatalog.planner.check import CheckedRule
from gdatalog.planner.check.walk import conjuncts, rebuild, variables, walk
from gdatalog.planner.check.wording import either, own_name
from gdatalog.progress import format_bytes
from gdatalog.records import dataclass, replace
from gdatalog.report.indexes import index_label
from gdatalog.report.numbers import took
from gdatalog.report.rules import RuleRan

WORTH_A_HINT = 0.5  # of a rule's time
PART = 0.3
MANY = 100_000  # rows that are worth a hint
MUCH = 1_000_000  # values tried, from which on a compiled join would pay
TIMES = 5  # a hint mentions duplicates from this many derivations per row on


@dataclass(frozen=True, slots=True)
class KnownIndexes:
    """The metrics of each index, and how many rules read it. `made`: the relations that this
    evaluation computed."""

    indexes: Mapping[TrieRef, Index]
    readers: Mapping[TrieRef, int]
    made: frozenset[str]


def hint_of(
    ran: RuleRan, known: KnownIndexes, rows: Mapping[str, int], others: Mapping[str, CheckedRule]
) -> str | None:
    """Returns the most useful hint for a rule. `rows`: row counts of its stratum's relations;
    `others`: the stratum's other rules, by number."""
    return (
        _compiling(ran)
        or _moving(ran)
        or _indexing(ran, known)
        or _shared(ran, others)
        or _repeated(ran, rows)
        or _needless(ran)
        or _uncompiled(ran)
    )


def _compiling(ran: RuleRan) -> str | None:
    spent = sum(run.costs.compiling for run in ran.runs)
    if spent < WORTH_A_HINT * ran.seconds or not spent:
        return None
    return (
        f"compiling took {took(spent)} of it; the code is cached, so the next profile of this "
        "program does not compile it again"
    )


def _moving(ran: RuleRan) -> str | None:
    spent = sum(run.costs.moving for run in ran.runs)
    moved = sum(run.costs.moved for run in ran.runs)
    if not moved or spent < WORTH_A_HINT * ran.seconds:
        return None
    return f"copying {format_bytes(moved)} to and from the device took {took(spent)} of it"


def _indexing(ran: RuleRan, known: KnownIndexes) -> str | None:
    """An index that only this rule reads and that took much of the rule's time."""
    own = [
        known.indexes[ref]
        for ref in reads(ran)
        if ref in known.indexes and known.readers.get(ref) == 1
    ]
    index = max(own, key=lambda index: index.seconds or 0.0, default=None)
    if index is None or index.seconds is None or index.rows < MANY:
        return None
    if index.seconds < PART * ran.seconds:
        return None
    times = f", {index.built:,} times" if index.built > 1 else ""
    text = (
        f"making the index {index_label(index.ref, index.names)} ({index.rows:,} entries{times}) "
        f"took {took(index.seconds)} of it, and no other rule reads that"
    )
    if index.ref.relation in known.made:
        return text
    return f"{text}; it is kept, so the next query of this database finds it there"


def reads(ran: RuleRan) -> set[TrieRef]:
    """The indexes that a rule's plans read."""
    plans = (*ran.plans, *(run.plan for run in ran.runs))
    return {ref for plan in plans for join in plan.joins for ref in join.tries if ref.columns}


def _shared(ran: RuleRan, others: Mapping[str, CheckedRule]) -> str | None:
    """A join that several rules compute."""
    if ran.looked_at < max(MANY, 2 * ran.candidates):
        return None
    alike = {number: shared_join(ran.rule, rule) for number, rule in others.items()}
    alike = {number: atoms for number, atoms in alike.items() if atoms > 1}
    if not alike:
        return None
    atoms = min(alike.values())
    rules = f"rule{'s' * (len(alike) > 1)} {either(list(alike), 'and')}"
    which = f"join{'s' * (len(alike) == 1)} the same {atoms} atoms"
    return f"{rules} {which}: a rule of its own that joins them, read by all, would do that once"


def _repeated(ran: RuleRan, rows: Mapping[str, int]) -> str | None:
    """A variable that the head and some atoms do not use: the rule derives each row once for each
    of its values."""
    own = rows.get(ran.rule.head.name, 0)
    given = max(ran.candidates, ran.bindings)
    if given < MANY or given < TIMES * max(1, own):
        return None
    seen = {key: saw for run in ran.runs for key, saw in run.seen.items()}
    steps = [step for run in ran.runs for join in run.plan.joins for step in join.steps]
    compacted = sum(
        seen[id(step)].rows_in for step in steps if isinstance(step, Compact) and id(step) in seen
    )
    if compacted > given / TIMES:
        return None  # dead variables were projected away already
    bound = {step.variable for step in steps if isinstance(step, Join)}
    names = _separate(ran.rule, bound)
    if not names:
        return None
    return (
        f"it gives each row {given / max(1, own):,.0f} times on average, by other values of "
        f"{either(list(map(own_name, names)))}, which the head leaves out: where few rows remain "
        "without one of these, join its atoms in a rule of its own"
    )


def _separate(rule: CheckedRule, bound: set[str]) -> list[str]:
    """The variables that the head and some of the atoms do not use."""
    if rule.body is None or rule.aggregated:
        return []
    atoms = [item for item in conjuncts(rule.body) if isinstance(item, Atom)]
    return [
        name
        for name in dict.fromkeys(name for atom in atoms for name in variables(atom))
        if name in bound - set(variables(rule.head))
        and 1 < sum(name in variables(atom) for atom in atoms) < len(atoms)
    ]


def _needless(ran: RuleRan) -> str | None:
    """A rule whose rows other rules had derived before."""
    if ran.new != 0 or ran.candidates < MANY:
        return None
    return (
        f"none of its {ran.candidates:,} rows was new: on this data the other rules give all of "
        "them"
    )


def _uncompiled(ran: RuleRan) -> str | None:
    """The reason why a rule cannot be compiled."""
    if ran.looked_at < MUCH:
        return None
    for run in ran.runs:
        for number, choice in run.executors.items():
            reason = unprintable(run.plan.joins[number])
            if choice.breadth_first and not choice.scans and reason is not None:
                return (
                    f"it cannot be compiled, for {reason}: the join without that, as a rule of its "
                    "own, could be"
                )
    return None


def shared_join(rule: CheckedRule, other: CheckedRule) -> int:
    """Counts the atoms that two rules join in the same way, if one body is a part of the other;
    otherwise returns 0."""
    if rule.body is None or other.body is None:
        return 0
    few, more = sorted((list(conjuncts(rule.body)), list(conjuncts(other.body))), key=len)
    atoms = sum(isinstance(item, Atom) for item in few)
    return atoms if atoms and _stands_in(few, more) else 0


def _stands_in(part: Sequence[Literal], whole: Sequence[Literal]) -> bool:
    """Whether a conjunction contains another one, up to names of variables."""
    shapes = [_shape(item) for item in whole]
    wanted = [(_shape(item), _names(item)) for item in part]
    offered = [(shape, _names(item)) for shape, item in zip(shapes, whole, strict=True)]
    if not {shape for shape, _ in wanted} <= set(shapes):
        return False

    def search(at: int, taken: frozenset[int], named: dict[str, str]) -> bool:
        if at == len(wanted):
            return True
        shape, names = wanted[at]
        for number, (other, others) in enumerate(offered):
            if number in taken or other != shape:
                continue
            both = dict(named)
            same = all(both.setdefault(a, b) == b for a, b in zip(names, others, strict=True))
            apart = len(set(both.values())) == len(both)
            if same and apart and search(at + 1, taken | {number}, both):
                return True
        return False

    return search(0, frozenset(), {})


def _names(item: Literal) -> list[str]:
    return [node.name for node in walk(item) if isinstance(node, Var)]


def _shape(item: Literal) -> str:
    """A literal with all variables replaced by one."""
    return format_node(_blank(item))


def _blank(node: Literal) -> Literal:
    if isinstance(node, Var):
        return replace(node, name="v")
    return rebuild(node, _blank)
