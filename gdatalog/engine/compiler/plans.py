"""The plans of a program's rules, kept until the relations change whose statistics they depend on.
If these are small, a plan also serves other relations with the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar
from weakref import ref

from gdatalog.cancellation import LONG_TEXT, apart, current_watch
from gdatalog.engine.recent import Recent
from gdatalog.importing import uncollected
from gdatalog.overhead import spending
from gdatalog.parser.syntax import Or
from gdatalog.plan.join_plan import RulePlan, Version
from gdatalog.planner.check import CheckedRule, Stratum
from gdatalog.planner.order.order_cache import Orders
from gdatalog.planner.rewrite.dead_variables import SplitStratum
from gdatalog.planner.statistics import Looked, RelationStatistics, Statistics, known_value
from gdatalog.storage.relation import Relation
from gdatalog.storage.row_store import Fingerprint, RowStore
from gdatalog.values import Value

SHIFT = 10  # a rule is planned again when a number of rows has changed by this factor
SIMILAR = 4  # cached plans of one rule, for parameters of different selectivity
LIKE = 8  # parameters share a plan if their selectivity differs by at most this factor
MOST_FACTS = 4096  # cached facts about strata
MANY_VARIABLES = 7  # rules with so many are planned aside: there are many orders to compare

Made = TypeVar("Made")
RelationOf = Callable[[str], Relation]
Splitting = Callable[[RelationOf], SplitStratum | None]
# Relations by name; those with few rows have a fingerprint, which others with the same rows share.
Held = tuple[tuple[str, ref[RowStore], Fingerprint | None], ...]
# A rule's plan, the relations that it was made of, and the selectivity of its parameters.
PreparedPlan = tuple[RulePlan, Held, tuple[Looked, ...]]


class Plans:
    """Caches the plans of a checked program's rules until their relations change."""

    def __init__(self, orders: Orders | None = None) -> None:
        """`orders`: cached variable orders of the database."""
        self.orders = orders or Orders()
        # By ids of rules and strata. The values hold these objects, so that no other gets the id.
        self._found: dict[
            tuple[int, bool, int | None, str], tuple[CheckedRule, list[PreparedPlan]]
        ] = {}
        self._parted: dict[tuple[int, str], tuple[Stratum, Held, SplitStratum | None]] = {}
        self._delta_joins: dict[tuple[int, frozenset[str]], tuple[dict[str, int], Any]] = {}
        self._facts: Recent[tuple[Stratum, Held]] = Recent(MOST_FACTS)  # of strata
        # Rewritten rules and strata, by the rewriting and the ids of the original rules.
        self._rewritten: dict[Hashable, tuple[object, Any]] = {}

    def rewritten(
        self, what: Hashable, rules: Sequence[CheckedRule], make: Callable[[], Made]
    ) -> Made:
        """Caches the rewritten rules that `make` returns, so that they are planned once."""
        key = (what, *map(id, rules))
        if key not in self._rewritten:
            self._rewritten[key] = tuple(rules), planned(rules, make)
        found: Made = self._rewritten[key][1]
        return found

    def parted(
        self, stratum: Stratum, way: str, relation: RelationOf, make: Splitting
    ) -> SplitStratum | None:
        """Returns a stratum's split rules; the same objects while they stay equal, so that they are
        planned once. `make` looks up relations."""
        known = self._parted.get((id(stratum), way))
        if known is not None and _same(known[1], relation):
            return known[2]
        looking = Looking(relation)
        made = planned(stratum.rules, partial(make, looking))
        made_of = _held(looking.at)
        before = None if known is None else known[2]
        if made == before:
            made = before
        for rule in () if before is None or made is before else before.stratum.rules:
            for key in list(self._found):
                if key[0] == id(rule):
                    self._found.pop(key, None)
        self._parted[id(stratum), way] = stratum, made_of, made
        return made

    def found(
        self,
        rule: CheckedRule,
        first: bool,
        relation: RelationOf,
        values: Mapping[str, Value],
        scans: int | None = None,
        device: str = "",
    ) -> RulePlan | None:
        """The plan of a rule in the first round or a later one, if it was kept.

        `scans`: the plan scans relations of at least this many rows. `device`: it is for this one.
        Parameters with other values share a plan if their selectivity is similar.
        """
        _, plans = self._found.setdefault((id(rule), first, scans, device), (rule, []))
        plans[:] = [known for known in plans if _same(known[1], relation)]
        for plan, _, before in plans:
            if self.alike(before, relation, values):
                return plan
        return None

    def keep(
        self,
        rule: CheckedRule,
        first: bool,
        plan: RulePlan,
        made_of: Mapping[str, Relation],
        looked: Sequence[Looked],
        scans: int | None = None,
        device: str = "",
    ) -> None:
        """Keeps a plan that was not found, by the relations that it was made of."""
        _, plans = self._found[id(rule), first, scans, device]
        plans.append((plan, _held(made_of), tuple(looked)))
        del plans[:-SIMILAR]

    def looked_at(self, plans: Collection[RulePlan]) -> tuple[Looked, ...]:
        """The selectivity of parameters that decided these plans."""
        every = (plan for _, found in list(self._found.values()) for plan in found)
        decided = {id(plan): looked for plan, _, looked in every if looked}
        return tuple(each for plan in plans for each in decided.get(id(plan), ()))

    def alike(
        self, looked: Sequence[Looked], relation: RelationOf, values: Mapping[str, Value]
    ) -> bool:
        """Whether these values of parameters would decide plans in the same way."""
        return all(_alike(each, relation, values) for each in looked)

    def delta_joins(
        self,
        rule: CheckedRule,
        read: frozenset[str],
        sizes: Statistics,
        make: Callable[[Statistics], Made],
    ) -> Made:
        """The joins of a rule for the new rows of the relations in `read`; they depend only on
        approximate numbers of rows."""
        counts, found = self._delta_joins.get((id(rule), read), ({}, None))
        if found is not None and all(
            rows / SHIFT <= sizes(name, "full").rows + 1 <= rows * SHIFT
            for name, rows in counts.items()
        ):
            made: Made = found
            return made
        seen: dict[str, int] = {}

        def look(name: str, version: Version) -> RelationStatistics:
            size = sizes(name, version)
            if version == "full":
                seen[name] = size.rows + 1
            return size

        made = planned([rule], lambda: make(look))
        self._delta_joins[id(rule), read] = seen, made
        return made

    def holds(self, fact: Hashable, stratum: Stratum, relation: RelationOf) -> bool:
        """Whether `note` recorded a fact about a stratum over the same relations: that their keys
        need no dictionary, or that a recursion did not fit a device."""
        known = self._facts.get((fact, id(stratum)))
        return known is not None and _same(known[1], relation)

    def note(self, fact: Hashable, stratum: Stratum, relations: Mapping[str, Relation]) -> None:
        self._facts.put((fact, id(stratum)), (stratum, _held(relations)))


def _held(relations: Mapping[str, Relation]) -> Held:
    stores = ((name, relation.store) for name, relation in relations.items())
    return tuple([(name, ref(store), store.fingerprint) for name, store in stores])


def _alike(looked: Looked, relation: RelationOf, values: Mapping[str, Value]) -> bool:
    """Whether parameter values have a selectivity similar to those of the cached plan."""
    bounds = [(op, known_value(bound, values)) for op, bound in looked.bounds]
    statistics = relation(looked.relation).statistics
    now = statistics.within(looked.column, [(op, v) for op, v in bounds if v is not None])
    pairs = zip(looked.shares, now, strict=True)
    return all(share / LIKE <= other <= share * LIKE for share, other in pairs)


def _same(made_of: Held, relation: RelationOf) -> bool:
    """Whether the relations have the same stores, or the same rows. A text's own relations and
    magic sets live for one call, so each call computes them again."""
    for name, held, fingerprint in made_of:
        store = relation(name).store
        if held() is not store and (fingerprint is None or store.fingerprint != fingerprint):
            return False
    return True


def planned(rules: Sequence[CheckedRule], make: Callable[[], Made]) -> Made:
    """What `make` plans for some rules, in a thread of its own if that may take long."""
    long = takes_long(rules)
    if long:
        with spending("planning"):
            return apart(make)
    current_watch().poll()
    with spending("planning"), uncollected():
        return make()


def takes_long(rules: Sequence[CheckedRule]) -> bool:
    """Whether planning may take more than some 20 ms: it compares the orders of many variables, or
    plans many literals or alternatives. Several groups with `;` multiply their alternatives."""
    names = length = groups = 0
    for rule in rules:
        names += len(rule.types)
        length += rule.span.end - rule.span.start
        for part in rule.parts:
            groups += type(part) is Or
    return names >= MANY_VARIABLES or length >= LONG_TEXT or groups > 1


class Looking:
    """Looks up relations; `at` has those that were looked at."""

    def __init__(self, relation: RelationOf) -> None:
        self._relation = relation
        self.at: dict[str, Relation] = {}

    def __call__(self, name: str) -> Relation:
        found = self.at.get(name)
        if found is None:
            found = self.at[name] = self._relation(name)
        return found
