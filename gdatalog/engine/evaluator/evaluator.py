"""Evaluates a checked program: the strata that an answer needs, each once, in order.

The result of a stratum is cached under its inputs: its rules and facts, the relations below it, and
parameters. A view is recomputed only when its inputs change. If rows were only added, it is updated
incrementally (`operators/incremental.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from functools import cache, partial
from typing import TYPE_CHECKING

from gdatalog.account import LARGE, trim_if_much
from gdatalog.cancellation import OBJECT, cancellable
from gdatalog.claims import Claim
from gdatalog.engine.catalog.fact_list import FactList, Piece, number_of
from gdatalog.engine.compiler.compiled import PlannedProgram
from gdatalog.engine.context import ExecutionContext, Operator, Since, StratumInputs
from gdatalog.engine.counting import CountingPlan, only_count, plan_counts, plan_reader, total_of
from gdatalog.engine.derived import Derived, Rows, remote_blocks
from gdatalog.engine.device import CPU
from gdatalog.engine.evaluator.kept_plans import KeptPlans, planned
from gdatalog.engine.evaluator.news import News, news_since
from gdatalog.engine.evaluator.results import Keeps, MadeOf, Read, Results, StratumResult
from gdatalog.engine.evaluator.upcoming import LastUse, Upcoming
from gdatalog.engine.facts.rows import fact_rows, in_rows
from gdatalog.engine.facts.unions import extended, settled, union
from gdatalog.engine.fixpoint.lattice_rounds import monotone
from gdatalog.engine.operators import Relations
from gdatalog.engine.operators.once import Once
from gdatalog.engine.operators.placed import there
from gdatalog.engine.stratum_plan import StratumPlan
from gdatalog.engine.stratum_planner import plan_stratum, run
from gdatalog.limits import accounted
from gdatalog.plan.conditions import NoRoom
from gdatalog.planner.check import Schema, Stratum
from gdatalog.planner.rewrite.counts_read import COUNTS
from gdatalog.records import replace
from gdatalog.storage.relation import Relation

if TYPE_CHECKING:
    from gdatalog.engine.placing import ProgramPlacement

Planned = tuple[StratumPlan, StratumInputs]  # and the inputs that the plan was made for


class Evaluator:
    """A program over stored relations; relations are evaluated on demand."""

    def __init__(
        self,
        context: ExecutionContext,
        program: PlannedProgram,
        stored: Mapping[str, Relation],
        facts: Callable[[str], FactList],
        results: Results,
        keep: Keeps,
        asked: Collection[str],
        let_go: Callable[[str], None] | None = None,
        known: dict[str, Relation] | None = None,
        kept_plans: KeptPlans | None = None,
        number: int = 0,
    ) -> None:
        """`facts`: those of a relation. `keep`: which results are cached. `asked`: the relations
        that will be requested. `let_go` frees a relation that is not read again; None if later
        calls may read it. `known`: what this call has evaluated. `kept_plans`: the plans of strata
        that calls with other parameters share; None: each call plans. `number`: of the catalog."""
        self.context, self.program, self.stored, self.facts = context, program, stored, facts
        self.results, self.keep, self.asked, self.let_go = results, keep, asked, let_go
        self.known = {} if known is None else known
        self.kept_plans, self.number, self.checked = kept_plans, number, program.checked
        # The inputs of strata, and the relations that these read.
        self._inputs: dict[tuple[str, ...], tuple[MadeOf, dict[Read, Relation]]] = {}
        self._counts: dict[str, Schema] = {}  # of counts
        self._ready: dict[tuple[str, ...], Planned] = {}  # strata planned ahead
        # What is new to strata that are not evaluated yet.
        self._news: dict[tuple[str, ...], tuple[StratumResult, News | None]] = {}
        self._last_use: LastUse | None = None
        self._placement: ProgramPlacement | None = None
        self._gone: set[str] = set()  # relations that were freed
        # Intern all strings of the program first: new ones change the ranks of strings.
        scope = context.scope
        program.intern(scope.symbols)
        for value in scope.params.values():
            if isinstance(value, str):
                scope.symbols.intern(value)

    def relation(self, name: str, limit: int | None = None) -> Relation:
        """Returns a relation, after evaluating what it depends on; at most `limit` of its rows,
        without computing all of it if possible."""
        found = self.known.get(name)
        if found is not None:
            return found
        last = None if limit is None else self._last_rule(name)
        wanted = [name] if last is None else self.program.reads(last)
        with accounted(self.context.limits, self.context.device.name):
            with closing(self._due(wanted)) as due:
                for stratum in due:
                    ready = self._ready.pop(stratum.relations, None)
                    plan, inputs = self.planned(stratum) if ready is None else ready
                    prepared = None if self.kept_plans is None else self.kept_plans.ready(plan)
                    self.known.update(self._settled(stratum, run(plan, inputs, prepared)))
                    if NoRoom in map(type, inputs.met) and self.kept_plans is not None:
                        self.kept_plans.pop(stratum.relations, None)  # it is planned anew
                    del inputs, ready  # they keep what the stratum has read
            if last is not None:
                inputs = replace(self.inputs(last), limit=limit)
                return run(plan_stratum(last, inputs), inputs)[name]
        return self.known[name]

    def _last_rule(self, name: str) -> Stratum | None:
        """The stratum of a relation that is what one rule derives from other relations."""
        stratum = self.program.homes.get(name)
        if stratum is None or stratum.recursive or len(stratum.rules) != 1 or self._seeds(name):
            return None
        return stratum

    def at_hand(self, name: str) -> Relation | None:
        """Returns a relation if no rule has to run for it; a derived one only if its inputs are
        unchanged."""
        if not self.checked.unbound.keys().isdisjoint(self.needed([name])):
            return None
        for stratum in self.strata_of([name]):
            found = self._recall(stratum)
            if found is None:
                return None
            self.known.update(found)
        return self.relation(name)

    def needed(self, wanted: Iterable[str]) -> set[str]:
        """The relations that must be evaluated for these."""
        needed: set[str] = set()
        todo = list(wanted)
        while todo:
            name = todo.pop()
            if name in needed or name in self.known:
                continue
            needed.add(name)
            stratum = self.program.homes.get(name)
            if stratum is not None:
                needed.update(stratum.relations)
                todo += self.program.reads(stratum)
        return needed

    def strata_of(self, wanted: Iterable[str]) -> list[Stratum]:
        """The strata that must be evaluated for these relations, in order."""
        needed = self.needed(wanted)
        return [s for s in self.checked.strata if not needed.isdisjoint(s.relations)]

    def _due(self, wanted: Collection[str]) -> Generator[Stratum]:
        """Evaluates the wanted relations, lower strata first. Yields the strata whose rules have
        to run; the caller runs them. Data and facts are taken before and, of what no stratum reads,
        after them."""
        if self.let_go is not None and self._last_use is None:
            self._last_use = LastUse(self.strata_of(self.asked), self.program.reads, self.asked)
        needed = self.needed(wanted)
        for name in sorted(needed & self.checked.unbound.keys()):
            raise self.checked.unbound[name]
        if self.let_go is None:  # otherwise each is read just before its first reader runs
            self._take_given(needed)
        strata = [s for s in self.checked.strata if not needed.isdisjoint(s.relations)]
        upcoming = Upcoming(strata, self.program.reads, self.known, {*wanted, *self.asked})
        for stratum in strata:
            if stratum.relations[0] in self.known:
                continue
            if stratum.relations in upcoming.counting:
                self.known.update(self._of_counts(upcoming.counting[stratum.relations]))
            else:
                yield from self._due_of(stratum, upcoming)
                if self.let_go is not None:
                    self._let_go(stratum, self.let_go)
            upcoming.evaluated([name for name in stratum.relations if name in self.known])
        self._take_given(needed - self._gone.difference(wanted))

    def _due_of(self, stratum: Stratum, upcoming: Upcoming) -> Generator[Stratum]:
        """The same for one stratum, unless it has a result that is valid or can be updated, or only
        its rows are counted."""
        found = self._recall(stratum)
        if found is None:
            claim: AbstractContextManager[Claim[Mapping[str, Relation]] | None] = nullcontext()
            if self._is_kept(stratum.relations):
                of, poll = self._inputs_of(stratum), self.context.limits.poll
                claim = self.results.evaluating(stratum.relations, *of, poll)
            with claim as held:
                if held is not None:
                    found = held.found or self._recall(stratum)
                if found is None:
                    found = self._follow(stratum) or self._counted(stratum, upcoming)
                    if not found:
                        self._plan_ahead(upcoming)
                        yield stratum
                        found = {name: self.known[name] for name in stratum.relations}
                    if held is not None and found.keys() == set(stratum.relations):
                        held.found = found  # otherwise these are only counts
        self.known.update(found)

    def _take_given(self, names: Iterable[str]) -> None:
        """Takes these relations, except for derived ones, from data and facts."""
        for name in names:
            if name not in self.known and name not in self.program.homes:
                self.known[name] = self._given(name)

    def _plan_ahead(self, upcoming: Upcoming) -> None:
        """Plans the strata that have a single rule and read only known relations, if there are
        several: other threads compile their loops while this one plans the others."""
        context, alone = self.context, len(upcoming.strata) == 1
        if alone or context.cluster or self.let_go is not None or context.metrics.lasting:
            return
        for stratum in upcoming.plannable(self._ready, self.results):
            plan, inputs = self._ready[stratum.relations] = self.planned(stratum, True)
            root, placed = plan.root, plan.placed
            if placed is not None:
                root, inputs = placed.then, there(inputs, placed.device)
            if isinstance(root, Once):
                root.compile_ahead(inputs)

    def _let_go(self, stratum: Stratum, let_go: Callable[[str], None]) -> None:
        """Frees the relations that are not read again after a stratum."""
        assert self._last_use is not None
        freed = 0
        for name in stratum.relations:
            let_go(name)  # the rows of its files are included
        for name in self._last_use.after(stratum):
            relation = self.known.pop(name, None)
            let_go(name)
            self.results.pop((name,), None)
            self._gone.add(name)
            for what in (name, f"index of {name}", f"codes of {name}"):
                if what in self.context.limits.account.held:
                    self.context.limits.charge(what, 0)
            freed += 0 if relation is None else relation.nbytes + relation.trie_nbytes
        if freed >= LARGE:
            trim_if_much()

    def _given(self, name: str) -> Relation:
        """A relation without rules: its data and facts."""
        schema = self.checked.schemas[name]
        stored = self.stored.get(name)
        facts = self.facts(name)
        if not facts and stored is None:
            return Relation.empty(schema.columns, schema.types)
        if not facts and stored is not None and stored.columns == schema.columns:
            return stored
        made_of = MadeOf((schema,), (), (facts,), self._values_of(facts.params))
        below = {} if stored is None else {(name, True): stored}
        with self.results.evaluating((name,), made_of, below, self.context.limits.poll) as claim:
            if claim.found is None:
                claim.found = {name: self._given_anew(name, made_of, below)}
            return claim.found[name]

    def _given_anew(self, name: str, made_of: MadeOf, below: Mapping[Read, Relation]) -> Relation:
        """The same, unless there is a valid result."""
        found, (schema,), (facts,) = self.results.get((name,)), made_of.schemas, made_of.facts
        if found is not None and found.fresh(made_of, below):
            return found.relations[name]
        stored, thresholds = self.stored.get(name), self.context.thresholds
        news = None if found is None else news_since(found, made_of, below, thresholds)
        if not facts and stored is not None:
            relation = stored.renamed(schema.columns)
        elif found is not None and news is not None and found.relations[name].store.on_host:
            seeds = self._new_seeds(name, news.facts[0], news)
            made = [Relation.from_rows(schema.columns, schema.types, *each) for each in seeds]
            relation = found.relations[name]
            relation = extended(relation, union(made)) if made else relation.unchanged()
        else:
            ((keys, count),) = self._fact_rows(name, facts)
            relation = Relation.from_rows(schema.columns, schema.types, keys, count)
            if stored is not None:
                relation = union([relation, stored])
        if not facts or self.keep([name]):
            self.results.keep((name,), made_of, below, {name: relation}, self.number)
        return relation

    # ---------------------------------------------------------------------------------- strata

    def made_of(self, stratum: Stratum) -> MadeOf:
        """The inputs of a stratum, except for the relations that it reads."""
        facts = tuple(self.facts(name) for name in stratum.relations)
        used = self.program.params(stratum).union(*(atoms.params for atoms in facts))
        schemas = tuple(self.checked.schemas[name] for name in stratum.relations)
        limits = tuple(self.context.limit_sizes.get(name) for name in stratum.relations)
        return MadeOf(schemas, stratum.rules, facts, self._values_of(used), limits)

    def _values_of(self, params: Collection[str]) -> tuple[object, ...]:
        """The values with their types, because 1 = 1.0 = True in Python."""
        types, given = self.checked.param_types, self.context.scope.params
        return tuple((name, types.get(name), given.get(name)) for name in sorted(params))

    def _inputs_of(self, stratum: Stratum) -> tuple[MadeOf, dict[Read, Relation]]:
        """What a stratum's relations are made of, and those that it reads."""
        found = self._inputs.get(stratum.relations)
        if found is None:
            below = {(name, False): self.relation(name) for name in self.program.reads(stratum)}
            stored = {(n, True): self.stored[n] for n in stratum.relations if n in self.stored}
            found = self.made_of(stratum), {**below, **stored}
            if self.let_go is None:  # otherwise relations go before the evaluation ends
                self._inputs[stratum.relations] = found
        return found

    def _recall(self, stratum: Stratum, what: str = "") -> Relations | None:
        found = self.results.get(tuple(name + what for name in stratum.relations))
        return found.relations if found and found.fresh(*self._inputs_of(stratum)) else None

    def _remember(self, stratum: Stratum, relations: Relations, what: str = "") -> None:
        if self._is_kept(stratum.relations):
            names = tuple(name + what for name in stratum.relations)
            self.results.keep(names, *self._inputs_of(stratum), relations, self.number)

    def _is_kept(self, names: Collection[str]) -> bool:
        """Whether the result of a stratum is kept for other calls."""
        return self.let_go is None and self.keep(names)

    def _follow(self, stratum: Stratum) -> Relations | None:
        """Updates the stratum's relations from their old rows and the new ones."""
        found, news = self._since(stratum)
        self._news.pop(stratum.relations, None)
        if found is None or news is None:
            return None
        if not news:
            same = {name: known.unchanged() for name, known in found.relations.items()}
            self._remember(stratum, same)
            return same
        changed = {name: rows for (name, own), rows in news.rows.items() if not own}
        facts = zip(stratum.relations, news.facts, strict=True)
        seeds = {name: in_rows(self._new_seeds(name, own, news)) for name, own in facts}
        rows = {name: parts[0].joined(*parts[1:]) for name, parts in changed.items()}
        from gdatalog.engine.operators.incremental import of_news

        since = Since(found.relations, rows, tuple(news.rules))
        inputs = replace(self.inputs(), seeds=seeds, since=since)
        root, device = of_news(stratum, inputs), self.context.device.name
        plan = StratumPlan(stratum, root, device)
        relations = run(plan, inputs)
        self._remember(stratum, relations)
        return relations

    def _since(self, stratum: Stratum) -> tuple[StratumResult | None, News | None]:
        """The result of a stratum from before, and what was added since, if its relations only get
        more rows."""
        known = self._news.get(stratum.relations)
        if known is not None:
            return known
        found = self.results.get(stratum.relations)
        if found is None:
            return None, None
        self._news[stratum.relations] = known = found, self._news_since(stratum, found)
        return known

    def _news_since(self, stratum: Stratum, found: StratumResult) -> News | None:
        news = news_since(found, *self._inputs_of(stratum), self.context.thresholds)
        if not news:
            return news
        if self.context.device is not CPU or any(map(lies_away, found.relations.values())):
            return None
        if not all(held.store.on_host for held in found.relations.values() if held.types):
            return None  # a GPU derived them
        changed = [name for name, own in news.rows if not own]
        grows = partial(monotone, stratum, changed, news.rules)
        if not news.rules:  # it is known from the last time
            what = "monotone", *changed
            return news if self.program.plans.rewritten(what, stratum.rules, grows) else None
        return news if grows() else None

    def is_current(self, stratum: Stratum) -> bool:
        """Whether a stratum has a result from before that is still valid, or can be updated."""
        found = self.results.get(stratum.relations)
        if found is None:
            return False
        fresh = found.fresh(*self._inputs_of(stratum))
        return fresh or self._since(stratum)[1] is not None

    def _new_seeds(self, name: str, facts: Collection[Piece], news: News) -> list[Rows]:
        """The rows that were added to a relation as data or facts."""
        data = [(part.keys, part.length) for part in news.rows.get((name, True), ())]
        return [*data, *(self._fact_rows(name, facts) if facts else ())]

    def has_seeds(self, name: str) -> bool:
        """Whether a relation has data or facts."""
        return name in self.stored or bool(self.facts(name))

    def inputs(self, stratum: Stratum | None = None) -> StratumInputs:
        """The inputs of strata, or of one stratum with the rows that its relations have."""
        schemas, types = self.checked.schemas, self.checked.param_types
        schemas = {**schemas, **self._counts} if self._counts else schemas
        relation: Callable[[str], Relation] = self.relation
        seeds = {}
        if stratum is not None:
            for name in self.program.reads(stratum):
                if name not in self.known:
                    self.relation(name)
            relation = self.known.__getitem__
            for name in stratum.relations:
                seeds[name] = in_rows(self._seeds(name))
        given = self.context, schemas, types, relation, self.program.plans, seeds
        placement = None
        if stratum is not None and self.context.later is not None:
            placement = self._placement_of(stratum)
        return StratumInputs(*given, replan=self._again, placement=placement)

    def _placement_of(self, stratum: Stratum) -> ProgramPlacement:
        """The placement of the strata that are needed, between the CPU and a GPU."""
        found = self._placement
        if found is None or stratum not in found.strata:
            from gdatalog.engine.placing import ProgramPlacement, weakly

            strata = self.strata_of({*self.asked, *stratum.relations})
            if all(each.relations != stratum.relations for each in strata):
                strata = [stratum]  # it is evaluated again
            # It does not hold what holds it: rows would wait for the garbage collector.
            there, given = weakly(self._there), cache(weakly(self._rows_given))
            alone = self.let_go is not None
            found = ProgramPlacement(strata, there, given, self.asked, alone)
            self._placement = found
        return found

    def _rows_given(self, name: str) -> float:
        """How many rows a relation has as data and facts."""
        stored = self.stored.get(name)
        return float(number_of(self.facts(name)) + (0 if stored is None else stored.at_most))

    def _there(self, name: str) -> Relation | None:
        """A relation that is evaluated, or not derived."""
        found = self.known.get(name)
        if found is None and name not in self.program.homes and self.let_go is None:
            found = self.known[name] = self._given(name)
        return found

    def planned(self, stratum: Stratum, ahead: bool = False) -> Planned:
        """The plan of a stratum, and the inputs that it was made for. `ahead`: whether its rows may
        turn out to be counted only, if it is recursive."""
        inputs, kept = self.inputs(stratum), self.kept_plans
        if kept is None or (ahead and stratum.recursive):
            return plan_stratum(stratum, inputs), inputs
        reads, make = self.program.reads(stratum), partial(plan_stratum, stratum, inputs)
        return planned(kept, stratum, reads, inputs, make), inputs

    def _again(self, stratum: Stratum, excluded: str) -> tuple[Operator, StratumInputs]:
        inputs = self.inputs(stratum)
        return plan_stratum(stratum, inputs, excluded=excluded).root, inputs

    def _settled(self, stratum: Stratum, relations: Relations) -> Relations:
        """The relations that a run gave; those that were known before stay the same objects if
        their rows do."""
        found = self.results.get(stratum.relations)
        if found is not None:
            old = found.relations
            relations = {name: settled(old[name], now) for name, now in relations.items()}
        self._remember(stratum, relations)
        return relations

    def _counted(self, stratum: Stratum, upcoming: Upcoming) -> Relations | None:
        """The number of rows of a stratum, if nothing else is needed; then the strata that read it
        are rewritten."""
        if not stratum.recursive or not upcoming.asked.isdisjoint(stratum.relations):
            return None
        if self.kept_plans is not None and stratum.relations in self.kept_plans:
            return None
        readers, counts = upcoming.readers(stratum), self._kept_counts
        if not (counts is not None and counts.read_by(stratum, readers)):
            if not readers or not only_count(readers, stratum.relations):
                return None
            if any(self._seeds(name) for reader in readers for name in reader.relations):
                return None
        inputs = self.inputs(stratum)
        make = partial(plan_counts, stratum, inputs, readers)
        plan = planned(counts, stratum, self.program.reads(stratum), inputs, make)
        if not isinstance(plan, CountingPlan):
            return None
        before = self._recall(stratum, COUNTS)
        relations = before or run(plan, inputs, None if counts is None else counts.ready(plan))
        counted = relations.keys() != set(stratum.relations)
        if before is None:
            self._remember(stratum, relations, COUNTS if counted else "")
        if counted:
            upcoming.counting.update(plan.readers)
            self._counts.update(plan.schemas)
        return relations

    def _of_counts(self, reader: Stratum) -> Relations:
        """Evaluates a stratum that reads counts."""
        inputs, counts = self.inputs(), self._kept_counts
        found = total_of(reader, inputs)
        if found is not None:
            return found
        reads = sorted({atom.name for rule in reader.rules for atom in rule.atoms})
        plan = planned(counts, reader, reads, inputs, partial(plan_reader, reader, inputs))
        return run(plan, inputs, None if counts is None else counts.ready(plan))

    @property
    def _kept_counts(self) -> KeptPlans | None:
        return None if self.kept_plans is None else self.kept_plans.counts

    # ----------------------------------------------------------------------------------- facts

    def _seeds(self, name: str) -> list[Derived]:
        """The rows of a relation that no rule derives: its data and facts."""
        seeds: list[Derived] = []
        stored = self.stored.get(name)
        if stored is not None and self.context.cluster is not None and lies_away(stored):
            assert stored.remote is not None
            seeds.append(remote_blocks(stored.remote))
        elif stored is not None and stored.length:
            seeds.append((stored.sorted_keys, stored.length))
        facts = self.facts(name)
        return [*seeds, *(self._fact_rows(name, facts) if facts else ())]

    def _fact_rows(self, name: str, facts: Collection[Piece]) -> list[Rows]:
        schema, scope = self.checked.schemas[name], self.context.scope
        looked_at = (number_of(facts) + 64) * schema.arity * 16 * OBJECT
        made = partial(fact_rows, facts, schema.types, schema.nullable, scope)
        return [cancellable(looked_at, made, None)]


def lies_away(relation: Relation) -> bool:
    """Whether its rows are remote only."""
    return relation.remote is not None and relation.remote.unfetched
