"""The relations that a stratum's rules read while it is evaluated, and their indexes: those that
grow, and those of lower strata."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from gdatalog.engine.context import StratumInputs
from gdatalog.engine.derived import Rows, laid
from gdatalog.engine.device import CPU, Device
from gdatalog.engine.fixpoint.delta import DeltaRelation, not_held
from gdatalog.engine.fixpoint.lattice_rounds import LatticeRounds, optimum_columns
from gdatalog.engine.scan_or_index import scanned
from gdatalog.overhead import spending, time_spent
from gdatalog.plan.join_plan import JoinPlan, RulePlan, TrieRef
from gdatalog.planner.check import CheckedRule, Stratum
from gdatalog.records import cached_property
from gdatalog.storage.on_device import KnownRows, brought
from gdatalog.storage.relation import Relation
from gdatalog.storage.trie import Trie

# Relations that replace others, by the plan that reads their tries.
Parts = Mapping[TrieRef, Relation]
NO_PARTS: Parts = MappingProxyType({})
# Tries that hold only the rows that matter to one join.
Narrowed = Mapping[TrieRef, Trie] | None


class StratumTables:
    """`rules`: the stratum's rules, by relation."""

    def __init__(
        self, stratum: Stratum, rules: Mapping[str, Sequence[CheckedRule]], inputs: StratumInputs
    ) -> None:
        self.stratum, self.rules, self.inputs = stratum, rules, inputs
        self.context = context = inputs.context
        self.ops = context.device.ops
        self.deltas: dict[str, Relation] = {}
        self.olds: dict[str, Relation] = {}  # of relations that are not kept in runs
        self._charged: set[TrieRef] = set()  # indexes whose memory is charged
        self._distinct: dict[int, bool] = {}  # whether scanned rows were, by id of the join

    @cached_property
    def tables(self) -> dict[str, DeltaRelation | LatticeRounds]:
        """The growing relations of a recursive stratum, and those of best values."""
        charge = self.context.limits.charge
        return {name: self.new_table(name, partial(charge, name)) for name in self.rules}

    def new_table(
        self, name: str, hold: Callable[[int], None] = not_held
    ) -> DeltaRelation | LatticeRounds:
        """`hold` is called with the relation's bytes while rows are added."""
        context, schema = self.context, self.inputs.schemas[name]
        kinds = optimum_columns(self.rules[name])
        if kinds:
            symbols = context.scope.symbols
            return LatticeRounds(schema.columns, schema.types, kinds, symbols, self.ops)
        spare, dedup = context.limits.spare, context.settings.dedup
        return DeltaRelation(
            schema.columns, schema.types, self.ops, dedup, spare, hold, context.thresholds
        )

    def grows(self, name: str) -> bool:
        # Tables are made when rows come.
        return self.stratum.recursive and name in self.__dict__.get("tables", self.rules)

    def reads_finished(self, plan: RulePlan) -> bool:
        """Whether a rule reads no growing relation."""
        refs = (ref for join in plan.joins for ref in join.tries)
        return not plan.recursive_on and not any(self.grows(ref.relation) for ref in refs)

    def named(self, name: str) -> Relation:
        """All rows that a relation has now."""
        return self.tables[name].full() if self.grows(name) else self.inputs.relation(name)

    def rows_of(self, join: JoinPlan, device: Device | None = None) -> Rows:
        """The rows that a join starts from, in any order: the delta of a relation, or the columns
        of one that it scans; without duplicates where rows are counted."""
        assert join.given is not None
        if join.scan is not None:
            whole = self.inputs.relation(join.scan.relation)
            scanned(join, whole)
            if join.bag:
                with spending("indexing"):
                    whole.store.distinct()
            self._distinct[id(join)] = self._are_distinct(join)  # before these rows are taken
            return whole.side_by_side(join.scan.columns)
        delta = self.deltas[join.given.relation]
        if self.context.device is CPU:
            return delta.rows, delta.length
        columns = delta.sorted_keys
        here = (device or self.context.device) is CPU
        return tuple(map(brought, columns)) if here else laid(columns, self.ops), delta.length

    def scanned_once(self, join: JoinPlan) -> bool:
        """Whether the columns that a join scans have no duplicate rows."""
        found = self._distinct.get(id(join))
        return self._are_distinct(join) if found is None else found

    def _are_distinct(self, join: JoinPlan) -> bool:
        assert join.scan is not None
        whole = self.inputs.relation(join.scan.relation)
        return (
            len(join.scan.columns) == len(whole.types) and whole.store.known >= KnownRows.DISTINCT
        )

    def trie_of(
        self,
        ref: TrieRef,
        device: Device | None = None,
        parts: Parts = NO_PARTS,
        narrowed: Narrowed = None,
    ) -> Trie:
        for given in (narrowed, self.inputs.tries):
            if given and ref in given:
                return given[ref]
        device = device or self.context.device
        table = self.tables[ref.relation] if self.grows(ref.relation) else None
        part = parts.get(ref) if parts else None
        if part is not None:
            relation = part
        else:
            relation = self.inputs.relation(ref.relation) if table is None else table.full()
        if device is CPU and (ref in self._charged or part is not None):
            found = relation.asked((ref.columns, ref.tests, ref.weighted, ref.ranked))
            if found is not None:
                return found
        trie = self._trie(device, relation, ref)
        self._charged.add(ref)
        if part is not None and device is CPU and isinstance(table, DeltaRelation):
            self.context.limits.account.add(f"index of {ref.relation}", trie.nbytes)
        else:
            what = ("" if ref.version == "full" else f"{ref.version} ") + ref.relation
            device.charge(self.context.limits, what, relation)
        return trie

    def _trie(self, device: Device, relation: Relation, ref: TrieRef) -> Trie:
        """A device's trie; its build time goes to the metrics."""
        if not self.context.metrics.lasting:
            return device.trie(relation, ref)
        there, before = device.made(relation, ref), time_spent()
        with spending("indexing"):
            trie = device.trie(relation, ref)
        seconds = None if there is not None else (time_spent() - before).indexing
        self.record_index(ref, trie, seconds)
        return trie

    def record_index(self, ref: TrieRef, trie: Trie, seconds: float | None) -> None:
        """Records an index that is read in a profile."""
        metrics, schema = self.context.metrics, self.inputs.schemas.get(ref.relation)
        if metrics.lasting and schema is not None:  # a part of a relation may have none
            metrics.index(ref, schema.columns, trie, seconds)
