"""The plan checker: what every plan must satisfy. Tests run it on every plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gdatalog.engine.context import Operator
from gdatalog.engine.operators.again import Again
from gdatalog.engine.operators.copy import Copy
from gdatalog.engine.operators.fallback import WithFallback
from gdatalog.engine.operators.incremental import Incremental
from gdatalog.engine.operators.once import Once
from gdatalog.engine.operators.partitioned import Partitioned
from gdatalog.engine.operators.semi_naive import SemiNaive
from gdatalog.engine.stratum_plan import StratumPlan
from gdatalog.plan.conditions import LargeTurns, SmallRounds, Unsuited
from gdatalog.plan.effects import binds, participants, reads
from gdatalog.plan.join_plan import (
    Branch,
    Compact,
    Guard,
    Join,
    JoinPlan,
    Restore,
    RulePlan,
    Step,
    Tally,
    slots,
)
from gdatalog.plan.nest import Paths
from gdatalog.plan.rest_of_join import ROWS


class PlanError(AssertionError):
    """A plan that no executor accepts."""


def check_rule_plan(rule: RulePlan) -> None:
    for join in rule.joins:
        check_join_plan(join)
    for inner in rule.within:
        check_rule_plan(inner)
    _demand(len(rule.terms) in (0, len(rule.joins)), "each join of a sum has a term")
    numbers = [number for group in rule.groups for number in group]
    if rule.gathers:
        _demand(sorted(numbers) == list(range(len(rule.joins))), "a join is in no group, or in two")
        known = {key.name for key in rule.keys} | {g.variable for g in rule.gathers}
        for expr in rule.head:
            _demand(slots(expr) <= known, f"the head reads more than {sorted(known)}")


def check_join_plan(join: JoinPlan) -> None:
    _demand(join.orbit >= 1 and (join.bag or join.orbit == 1), "a set of rows has no orbits")
    depths = [0] * len(join.tries)
    given = [] if join.given is None else [slot.name for slot in join.given.slots]
    _demand(len(set(given)) == len(given), "two columns of given rows are one variable")
    bound = _check_steps(join, join.steps, set(given), depths)
    for output in join.outputs:
        _demand(slots(output) <= bound, f"{sorted(slots(output) - bound)} asked for, not bound")
    rest = join.given is not None and join.given.relation == ROWS
    for number, trie in enumerate(join.tries):
        _demand(
            depths[number] == len(trie.columns) or (rest and not depths[number]),
            f"trie {number} ({trie.relation}) is walked {depths[number]} of "
            f"{len(trie.columns)} levels",
        )
        _demand(len(set(trie.columns)) == len(trie.columns), "a column stands twice in a trie")
        if trie.ranked:
            _demand(trie.version == "full", "what grows is not ranked")
            _demand(set(trie.columns) <= {0, 1}, "only binary relations are ranked")


def _check_steps(
    join: JoinPlan, steps: Sequence[Step], bound: set[str], depths: list[int]
) -> set[str]:
    bound = set(bound)
    levels: dict[str, Join] = {}
    for step in steps:
        _demand(reads(step) <= bound, f"{step} reads {sorted(reads(step) - bound)}, not bound")
        if isinstance(step, Compact):
            _demand(not join.bag, "a bag's rows are not made one")
            _demand(set(step.keep) <= bound, f"{step} keeps what is not bound")
        if isinstance(step, Guard):
            _demand(not join.tries[step.trie].columns, "a guard's trie has no columns")
        if isinstance(step, Restore):
            _demand(join.tries[step.trie].ranked, "values are restored from a trie without ranks")
            _demand(len(step.ranks) == len(step.variables) > 0, "as many values as ranks")
        for part in participants(step):
            _demand(part.depth == depths[part.trie], f"{step} skips a level of trie {part.trie}")
            depths[part.trie] += 1
        if isinstance(step, Join):
            _demand(bool(step.participants), f"{step} has no participants")
            _demand(all(op in ("<", "<=", ">", ">=") for op, _ in step.cuts), "not a cut")
            if step.reuse is not None:
                _check_reuse(join, step, levels)
            for at, least in step.least:
                ref, part = join.tries[step.participants[at].trie], step.participants[at]
                _demand(part.depth == 0 and len(ref.columns) > 1, "a list of which values?")
                _demand(least > 1, "a list of one value is not short")
                _demand(join.tries.count(ref) > 1, "a part of the trie may be read")
            levels[step.variable] = step
        if isinstance(step, Branch):
            _demand((step.reduction is not None) == (step.mode == "aggregate"), f"{step.mode}?")
            used = {number for _, numbers in step.terms for number in numbers}
            whole = set(range(len(step.alternatives)))
            _demand(not used or (used == whole and step.mode == "count"), f"terms of {step}")
            for inner in step.alternatives:
                # A branch sees only the variables it reads.
                _check_steps(join, inner, set(step.reads), depths)
        if isinstance(step, Tally):
            inside = _check_steps(join, step.steps, set(step.reads), depths)
            _demand(step.key in inside, f"a tally's key {step.key} is not bound")
        for name in binds(step):
            _demand(name not in bound, f"{name} is bound twice")
            bound.add(name)
    return bound


def _check_reuse(join: JoinPlan, step: Join, levels: dict[str, Join]) -> None:
    assert step.reuse is not None
    _demand(step.reuse.variable in levels, "a list is reused that no level above has made")
    earlier = levels[step.reuse.variable]
    _demand(all(at < len(step.participants) for at in step.reuse.covers), "covers whom?")
    paths = Paths.of(join)
    _demand(
        len({paths.node(step.participants[at]) for at in step.reuse.covers})
        <= len(earlier.participants),
        "more participants are covered than the list was made of",
    )


def check_stratum(plan: StratumPlan) -> None:
    """Checks that each operator can take over from the one before, and that the rules suit all of
    them."""
    names, ways = set(plan.relations), plan.leaves
    _demand(len(names) == len(plan.relations) > 0, "a relation stands twice in a stratum, or none")
    rules = [rule for _, rule in plan.rules]
    for rule in rules:
        check_rule_plan(rule)
    left = any(rule.left for rule in rules)
    placed = plan.placed
    _demand(not left or placed is not None, "only a device leaves rules to the CPU")
    _demand(not left or not plan.recursive, "a recursive stratum runs as a whole")
    alone = plan.workers is None and plan.shared is None
    _demand(placed is None or alone, "only the CPU and one GPU are chosen from")
    heads = names | {rule.relation for rule in rules}  # projections add relations
    follows = set().union(*(rule.recursive_on for rule in rules))
    _demand(follows <= heads, f"{sorted(follows - heads)} is followed, and in no rule's head")
    if isinstance(ways[0], Incremental):
        _demand(isinstance(ways[-1], Again) and len(ways) == 2, "nothing adds what has gone")
        _demand(not rules, "rules that follow new rows are planned as they come")
        return
    _check_fallbacks(plan.root)
    if not plan.recursive:
        first, *others = ways
        copied = isinstance(first, Copy) and not rules
        copied &= all(isinstance(each, Again) for each in others)
        _demand(copied or [type(way) for way in ways] == [Once], "what is not recursive runs once")
        _demand(not follows, "what is not recursive follows new rows")
        return
    _demand(isinstance(ways[-1], SemiNaive | Again), "only rounds evaluate every recursion")
    for way in ways:
        _demand(not isinstance(way, Once | Copy), "a recursive stratum does not run once")
        if isinstance(way, Partitioned):
            _demand([key.relation for key in way.keys] == sorted(names), "each relation has a key")
            _demand(way is plan.main, "the plans of rules are those of another operator")
            _check_keys(plan, {key.relation: key.column for key in way.keys})


def _check_fallbacks(operator: Operator) -> None:
    """Checks that each condition is one that its operator can meet."""
    for part in operator.parts:
        _check_fallbacks(part)
    if not isinstance(operator, WithFallback):
        return
    _demand(bool(operator.when), "a fallback has no condition")
    first: Operator = operator.first
    while first.parts:
        first = first.parts[0]
    rounds = isinstance(first, SemiNaive)
    for when in operator.when:
        counted = isinstance(when, SmallRounds | LargeTurns)
        _demand(counted <= rounds, f"nobody counts for {first}: {when}")
        _demand(not (isinstance(when, Unsuited) and rounds), "rounds suit every recursion")


def _check_keys(plan: StratumPlan, keys: Mapping[str, int]) -> None:
    """Checks that each recursive rule passes the key on."""
    rules = [rule for _, rule in plan.rules]
    for join in (join for rule in rules if rule.recursive_on for join in rule.joins):
        assert join.given is not None
        head = next(rule.relation for rule in rules if join in rule.joins)
        key = join.given.slots[keys[join.given.relation]]
        _demand(join.outputs[keys[head]] == key, f"a rule of {head} does not pass on {key.name}")


def _demand(holds: bool, message: str) -> None:
    if not holds:
        raise PlanError(message)
