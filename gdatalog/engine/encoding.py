"""Runs strata on dictionary codes if their keys are sparse.

With sparse 64-bit ids, each look-up is a binary search, and each key takes eight bytes. This module
encodes columns whose keys rules only compare (`planner/domains.py`), once. The rules run on codes,
which are dense and fit 32 bits, and the answer is decoded when it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from math import inf

import numpy as np

from gdatalog.engine.compiler.plans import Plans
from gdatalog.engine.context import StratumInputs
from gdatalog.engine.derived import Derived, DistinctBlocks, blocks_of, count_of
from gdatalog.engine.device import CPU
from gdatalog.engine.draft import StratumDraft
from gdatalog.engine.row_codes import dictionaries, in_codes, note_codes, note_covers
from gdatalog.planner.check import Stratum
from gdatalog.planner.domains import Column, ConstantUse, KeyDomain, domains_of, encoded_rules
from gdatalog.planner.rewrite.counts_read import COUNTS
from gdatalog.planner.rewrite.folding import value_of
from gdatalog.records import dataclass, replace
from gdatalog.settings import Thresholds
from gdatalog.storage.coded import Coded
from gdatalog.storage.dictionary import ABSENT, Dictionary
from gdatalog.storage.relation import Relation
from gdatalog.storage.table import Array
from gdatalog.values import TypeName


@dataclass(frozen=True, slots=True)
class Encoded:
    """A stratum over codes, and the dictionaries of its relations' columns."""

    stratum: Stratum
    inputs: StratumInputs
    columns: Mapping[Column, Dictionary]

    def decoded(self, name: str, relation: Relation) -> Relation:
        own = {at: d for (of, at), d in self.columns.items() if of == name}
        if name.endswith(COUNTS):  # its first column is a column of the counted relation
            counted = name.removesuffix(COUNTS)
            at = self.inputs.schemas[counted].columns.index(relation.columns[0])
            own = {0: self.columns[counted, at]} if (counted, at) in self.columns else {}
        if not own:
            return relation
        names = tuple(own.get(at) for at in range(len(relation.types)))
        decoded = Relation.of_codes(relation.columns, relation.types, relation, names)
        if all(dictionary.lasting for dictionary in own.values()):
            note_codes(decoded, names, relation)
            for at, dictionary in own.items():
                note_covers(dictionary, decoded, at)
        return decoded

    def names(self) -> tuple[str, ...]:
        """The columns of lower relations that have codes."""
        schemas = self.inputs.schemas
        own = self.stratum.relations
        lower = [(name, at) for name, at in sorted(self.columns) if name not in own]
        return tuple(f"{name}.{schemas[name].columns[at]}" for name, at in lower)


def encode(stratum: Stratum, inputs: StratumInputs) -> Encoded | None:
    """Returns the stratum over codes; None if its keys are dense or not only compared."""
    context = inputs.context
    if (
        context.settings.encode == "never"
        or context.device is not CPU
        or context.cluster is not None
    ):
        return None
    forced = context.settings.encode == "always"
    if not forced and (
        inputs.plans.holds("dense", stratum, inputs.relation) or not _reads_many(stratum, inputs)
    ):
        return None
    finding = partial(domains_of, stratum, inputs.schemas)
    domains = inputs.plans.rewritten("domains", stratum.rules, finding)
    keys = {at: _Keys(domain, stratum, inputs) for at, domain in enumerate(domains)}
    if not forced and not stratum.recursive and _is_cheap(keys.values(), stratum, inputs):
        return None
    if not any((each.domain.joined or each.coded) and each.sparse for each in keys.values()):
        named = {name: held for each in keys.values() for name, held in each.named.items()}
        inputs.plans.note("dense", stratum, named)
        return None
    chosen = [at for at, each in keys.items() if each.sparse and each.pays]
    what, making = ("encoded", *chosen), partial(encoded_rules, stratum.rules, domains, chosen)
    rules, uses = inputs.plans.rewritten(what, stratum.rules, making)
    keys = {at: keys[at] for at in chosen}
    if not forced and not stratum.recursive and any(not each.known for each in keys.values()):
        rows = {id(r): r.at_most for each in keys.values() for r, _ in each.large}
        if _is_less(stratum, inputs, sum(rows.values())):
            return None
    return _encoded(replace(stratum, rules=rules), inputs, keys, uses)


def _reads_many(stratum: Stratum, inputs: StratumInputs) -> bool:
    """Whether a stratum reads a relation with so many rows that codes may pay."""
    read = {atom.name for rule in stratum.rules for atom in rule.atoms}
    least = inputs.context.thresholds.coded_from
    return any(inputs.relation(n).at_most >= least for n in read.difference(stratum.relations))


def _is_cheap(keys: Iterable[_Keys], stratum: Stratum, inputs: StratumInputs) -> bool:
    """Whether a stratum is less work than building any dictionary that it might need: then its keys
    are not examined."""
    joined = [each for each in keys if each.domain.joined]
    least = inputs.context.thresholds.coded_from
    large = [each for each in joined if any(r.at_most >= least for r, _ in each.large)]
    if not large or any(each.known for each in large):
        return False
    rows = min(sum({id(r): r.at_most for r, _ in each.large}.values()) for each in large)
    return _is_less(stratum, inputs, rows)


@dataclass(slots=True, eq=False)
class PlainWork:
    """The expected work of a stratum without codes: of one evaluation, and of all until now; and
    the rows that would be encoded."""

    each: float = 0.0
    total: float = 0.0
    rows: float = inf


def _plain_work(stratum: Stratum, plans: Plans) -> PlainWork:
    return plans.rewritten("costs", stratum.rules, PlainWork)


def _is_less(stratum: Stratum, inputs: StratumInputs, rows: int) -> bool:
    """Whether a stratum without codes is less work, over all evaluations, than encoding some
    rows."""
    work = _plain_work(stratum, inputs.plans)
    draft = StratumDraft(stratum, inputs)
    plans = [draft.plan(rule, first=True) for rule in stratum.rules]
    work.each, work.rows = sum(join.cost for plan in plans for join in plan.joins), rows
    if inputs.context.thresholds.coded_reads * (work.total + work.each) >= rows:
        return False
    work.total += work.each
    return True


def may_pay_now(stratum: Stratum, plans: Plans, thresholds: Thresholds) -> bool:
    """Notes that a plan without codes runs again; returns whether codes may pay by now."""
    work = _plain_work(stratum, plans)
    work.total += work.each
    return thresholds.coded_reads * (work.total + work.each) >= work.rows


class _Keys:
    """The columns of a domain in the lower relations of a stratum."""

    def __init__(self, domain: KeyDomain, stratum: Stratum, inputs: StratumInputs) -> None:
        self.domain = domain
        self._forced = inputs.context.settings.encode == "always"
        self._thresholds = thresholds = inputs.context.thresholds
        names = sorted(column for column in domain.columns if column[0] not in stratum.relations)
        self.named = {name: inputs.relation(name) for name, _ in names}
        self.below = [(self.named[name], at) for name, at in names]
        most = max(relation.at_most for relation, _ in self.below)
        self.large = [
            (r, at) for r, at in self.below if thresholds.coded_ratio * r.at_most >= most and most
        ]

    @property
    def coded(self) -> bool:
        """Whether the rows are codes already, and their keys are not needed."""
        stores = [relation.store for relation, _ in self.below]
        coded = all(isinstance(store, Coded) and store.codes is not None for store in stores)
        return self._forced or coded

    @property
    def pays(self) -> bool:
        """Whether codes pay when another domain has them: a rule looks up keys, or deduplicates and
        collects keys that occur often."""
        if self.domain.joined or self.coded:
            return True
        reads = self._thresholds.coded_reads
        different = ((r, r.statistics.distinct(frozenset((at,)))) for r, at in self.large)
        return any(reads * count < relation.at_most for relation, count in different)

    @property
    def sparse(self) -> bool:
        """Whether the keys are sparse: the root of an index would be searched. If a large relation
        has most keys of their range, codes would be as sparse."""
        here = all(r.store.on_host and r.remote is None for r, _ in self.below)
        if not self.large or not here:
            return False
        if self._forced:
            return True
        own = [(r, at, r.spans[at]) for r, at in self.large]
        least = self._thresholds.coded_from
        if not any(r.at_most >= least and _sparse(r, at, low, high) for r, at, (low, high) in own):
            return False
        low, high = min(low for *_, (low, _) in own), max(high for *_, (_, high) in own)
        return all(_sparse(r, at, low, high) for r, at in self.large)

    @property
    def known(self) -> Dictionary | None:
        """A cached dictionary that has all keys, at least those of large relations."""
        return self._shared(self.below) or self._shared(self.large)

    def _shared(self, columns: Sequence[tuple[Relation, int]]) -> Dictionary | None:
        (first, at), *others = columns
        for dictionary in dictionaries(first, at):
            in_order = not (self.domain.ordered and dictionary.more)
            if in_order and all(dictionary in dictionaries(r, c) for r, c in others):
                return dictionary
        return None

    def dictionary(self) -> Dictionary:
        """The dictionary of all relations, cached for other rules."""
        found = self.known
        if found is None or not all(self._has(found, relation, at) for relation, at in self.below):
            found = Dictionary.of([relation.column(at) for relation, at in self.below])
            for relation, at in self.below:
                note_covers(found, relation, at)
        return found

    def _has(self, dictionary: Dictionary, relation: Relation, at: int) -> bool:
        """Whether a dictionary has all keys of a column, or can add them."""
        if dictionary in dictionaries(relation, at):
            return True
        column = relation.column(at)
        if self.domain.ordered:
            has = not (dictionary.encode(column) == ABSENT).any()
        else:
            has = dictionary.add(column)
        if has:
            note_covers(dictionary, relation, at)
        return bool(has)


def _sparse(relation: Relation, at: int, low: int, high: int) -> bool:
    """Whether a column has few of the keys of a range."""
    if high - low < 4 * relation.at_most:
        return False
    return high - low >= 4 * relation.statistics.distinct(frozenset((at,))) + 1024


def _encoded(
    stratum: Stratum, inputs: StratumInputs, keys: Mapping[int, _Keys], uses: Sequence[ConstantUse]
) -> Encoded | None:
    context = inputs.context
    params, thresholds = context.scope.params, context.thresholds
    ratio, least = thresholds.coded_ratio, thresholds.coded_from
    values: dict[str, int] = {}
    for use in uses:
        value = value_of(use.value, params, inputs.param_types)
        if value is None:  # the rule fails if a row reaches it
            return None
        assert isinstance(value.value, int)
        values[use.name] = value.value
    base = {column: at for at, each in keys.items() for column in each.domain.columns}
    first = {at: each.dictionary() for at, each in keys.items()}
    last = dict(first)

    # Keys that occur only in seeds or constants get codes after all others, for this call.
    for at, each in keys.items():
        own = [column for column, domain in base.items() if domain == at]
        parts = [(column, part) for name, column in own for part in inputs.seeds.get(name, ())]
        found = [block[column] for column, part in parts for block in blocks_of(part)]
        found += [np.array([values[u.name]]) for u in uses if u.domain == at and u.exact]
        for column in found:
            last[at] = last[at].extended(column)
        if len(last[at]) > len(first[at]) and (
            each.domain.ordered or ratio * (len(last[at]) - len(first[at])) > len(first[at]) + least
        ):
            return None

    codes = _codes(uses, values, last)
    known = {column: first[at] for column, at in base.items()}
    relations: dict[str, Relation] = {}

    def relation(name: str) -> Relation:
        if name not in relations:
            plain = inputs.relation(name)
            own = tuple(known.get((name, at)) for at in range(len(plain.types)))
            relations[name] = in_codes(plain, own)
            if relations[name] is not plain:
                context.limits.charge(f"codes of {name}", relations[name].nbytes)
        return relations[name]

    types: dict[str, TypeName] = {**inputs.param_types}
    types.update((name, "int") for name in codes)
    columns = {column: last[at] for column, at in base.items()}
    seeds = {n: [_seed(part, n, columns) for part in parts] for n, parts in inputs.seeds.items()}
    coded = replace(context, scope=replace(context.scope, params={**params, **codes}))
    within = replace(inputs, context=coded, param_types=types, relation=relation, seeds=seeds)
    return Encoded(stratum, within, columns)


def _codes(
    uses: Sequence[ConstantUse], values: Mapping[str, int], dictionaries: Mapping[int, Dictionary]
) -> dict[str, int]:
    """The codes of constants; a constant that is no key gets an unused code."""
    codes: dict[str, int] = {}
    absent: dict[int, int] = {}
    for use in uses:
        value = values[use.name]
        code = dictionaries[use.domain].bound(value, use.op)
        if use.op in ("=", "!=") and code == ABSENT:
            code += ~absent.setdefault(value, len(absent))
        codes[use.name] = code
    return codes


def _seed(part: Derived, name: str, columns: Mapping[Column, Dictionary]) -> Derived:
    def code(at: int, key: Array) -> Array:
        dictionary = columns.get((name, at))
        return key if dictionary is None else dictionary.encode(key)

    blocks = [tuple(code(at, key) for at, key in enumerate(block)) for block in blocks_of(part)]
    return DistinctBlocks(blocks, count_of(part))
