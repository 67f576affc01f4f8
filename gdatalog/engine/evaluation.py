"""Evaluating a checked program: the strata that an answer needs, each once, in order.

What a stratum gave is remembered by what it was made of (its rules and facts, the relations
below it, the parameters), so that a view is made anew only when something it reads changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gdatalog.cpu_ops.evaluate import Scope
from gdatalog.engine.budget import letting_go
from gdatalog.engine.copies import copied
from gdatalog.engine.derived import Rows
from gdatalog.engine.device import CPU, Device
from gdatalog.engine.fixpoint import run_stratum
from gdatalog.engine.inputs import same
from gdatalog.engine.knobs import Knobs
from gdatalog.engine.ledger import Ledger
from gdatalog.engine.prepared import CheckedText
from gdatalog.engine.surroundings import Round, Surroundings
from gdatalog.errors import Caution
from gdatalog.executors.limits import Limits
from gdatalog.parser.syntax import Atom, Const, Param
from gdatalog.planner.checked import Checked, Stratum
from gdatalog.planner.walk import Node, walk
from gdatalog.storage.elsewhere import brought, lies_here
from gdatalog.storage.keys import encode_value, float_to_key
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import sort_rows
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array
from gdatalog.values import TypeName, Value


@dataclass(slots=True)
class Remembered:
    """A stratum's relations, and all that they were made of."""

    made_of: tuple[Any, ...]
    below: tuple[Relation, ...]
    relations: Mapping[str, Relation]


Memory = dict[tuple[str, ...], Remembered]


@dataclass(slots=True)
class Evaluation:
    """One program over stored relations; relations are evaluated when they are asked for."""

    text: CheckedText
    stored: Mapping[str, Relation]
    symbols: SymbolTable
    limits: Limits
    memory: int
    params: Mapping[str, Value] = field(default_factory=dict)
    remembered: Memory = field(default_factory=dict)
    keep: Callable[[Collection[str]], bool] = lambda names: True  # what is remembered
    on_round: Callable[[Stratum, Round], None] = lambda stratum, round_: None
    reports: Ledger | None = None
    limit_sizes: Mapping[str, int] = field(default_factory=dict)
    force_chunk: int | None = None
    knobs: Knobs = Knobs()
    device: Device = CPU
    scope: Scope = field(init=False)
    _known: dict[str, Relation] = field(default_factory=dict)
    _home: dict[str, Stratum] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.scope = Scope(self.symbols, self.params)
        # All texts of the program are in the table before anything asks for their ranks.
        self.text.intern(self.symbols)
        for value in self.params.values():
            if isinstance(value, str):
                self.symbols.intern(value)
        self._home = {name: s for s in self.checked.strata for name in s.relations}

    @property
    def checked(self) -> Checked:
        return self.text.checked

    @property
    def cautions(self) -> list[Caution]:
        return list(self.scope.cautions.values())

    def relation(self, name: str) -> Relation:
        """A relation, after whatever it depends on."""
        found = self._known.get(name)
        if found is None:
            with letting_go(self.limits, self.device.name):
                self._evaluate([name])
            found = self._known[name]
        return found

    def first(self, name: str, limit: int) -> Relation:
        """At most `limit` rows of a relation, found without making all of it where possible."""
        stratum = self._home.get(name)
        if (
            name in self._known
            or stratum is None
            or stratum.recursive
            or len(stratum.rules) != 1
            or self._seeds(name)
        ):
            return self.relation(name)
        with letting_go(self.limits, self.device.name):
            self._evaluate(self._reads(stratum))
            return self._run(stratum, limit)[name]

    def needed(self, wanted: Iterable[str]) -> set[str]:
        """The relations that have to be evaluated for these."""
        needed: set[str] = set()
        todo = list(wanted)
        while todo:
            name = todo.pop()
            if name in needed or name in self._known:
                continue
            needed.add(name)
            stratum = self._home.get(name)
            if stratum is not None:
                needed.update(stratum.relations)
                todo += self._reads(stratum)
        return needed

    def strata_of(self, wanted: Iterable[str]) -> list[Stratum]:
        """The strata that have to be evaluated for these relations, in order."""
        needed = self.needed(wanted)
        return [s for s in self.checked.strata if needed & set(s.relations)]

    def _evaluate(self, wanted: Iterable[str]) -> None:
        """Evaluates what the wanted relations need, strata below first."""
        needed = self.needed(wanted)
        for stratum in self.checked.strata:
            if needed & set(stratum.relations) and stratum.relations[0] not in self._known:
                self._known.update(self._recall(stratum) or self._run(stratum, None))
        for name in needed - self._known.keys():
            self._known[name] = self._given(name)

    def _given(self, name: str) -> Relation:
        """A relation without rules: its data and its facts."""
        schema = self.checked.schemas[name]
        stored = self.stored.get(name)
        facts = self.checked.facts.get(name)
        if not facts:
            if stored is not None:
                return self._named(name, stored, schema.columns)
            return Relation.empty(schema.columns, schema.types)
        made_of = (schema, facts, self._used_params(facts))
        found = self.remembered.get((name,))
        below = () if stored is None else (stored,)
        if found is not None and found.made_of == made_of and same(found.below, below):
            return found.relations[name]
        seeds = [(tuple(map(brought, keys)), count) for keys, count in self._seeds(name)]
        keys = [np.concatenate(columns) for columns in zip(*(k for k, _ in seeds), strict=True)]
        count = sum(count for _, count in seeds)
        relation = Relation.from_rows(schema.columns, schema.types, keys, count)
        if self.keep([name]):
            self.remembered[(name,)] = Remembered(made_of, below, {name: relation})
        return relation

    def _named(self, name: str, stored: Relation, columns: tuple[str, ...]) -> Relation:
        """A stored relation under its declared column names: the same one each time."""
        if stored.columns == columns:
            return stored
        found = self.remembered.get((name,))
        if found is None or found.made_of != columns or not same(found.below, (stored,)):
            found = Remembered(columns, (stored,), {name: stored.renamed(columns)})
            self.remembered[(name,)] = found
        return found.relations[name]

    # ---------------------------------------------------------------------------------- strata

    def _reads(self, stratum: Stratum) -> list[str]:
        """The relations outside of a stratum that its rules read, in a fixed order."""
        names = {
            part.name
            for rule in stratum.rules
            if rule.body is not None
            for part in walk(rule.body)
            if isinstance(part, Atom)
        }
        return sorted(names.difference(stratum.relations))

    def _made_of(self, stratum: Stratum) -> tuple[Any, ...]:
        facts = tuple(self.checked.facts.get(name, ()) for name in stratum.relations)
        schemas = tuple(self.checked.schemas[name] for name in stratum.relations)
        nodes = _nodes(stratum)
        used = {part.name for node in nodes for part in walk(node) if isinstance(part, Param)}
        limits = tuple(self.limit_sizes.get(name) for name in stratum.relations)
        return (
            stratum.rules, facts, schemas, self._values_of(used), limits,
            *(self._used_params(atoms) for atoms in facts),
        )  # fmt: skip

    def _used_params(self, atoms: tuple[Atom, ...]) -> tuple[Any, ...]:
        used = {arg.name for atom in atoms for arg in atom.args if isinstance(arg, Param)}
        return self._values_of(used)

    def _values_of(self, params: Collection[str]) -> tuple[Any, ...]:
        """With their types, for 1 = 1.0 = True in Python."""
        types = self.checked.param_types
        return tuple((name, types.get(name), self.params.get(name)) for name in sorted(params))

    def _below(self, stratum: Stratum) -> tuple[Relation, ...]:
        stored = [self.stored[name] for name in stratum.relations if name in self.stored]
        return (*(self.relation(name) for name in self._reads(stratum)), *stored)

    def _recall(self, stratum: Stratum) -> Mapping[str, Relation] | None:
        found = self.remembered.get(stratum.relations)
        if found is None or not same(found.below, self._below(stratum)):
            return None
        return found.relations if found.made_of == self._made_of(stratum) else None

    def surroundings(self) -> Surroundings:
        return Surroundings(
            self.checked.schemas,
            self.checked.param_types,
            self.relation,
            self.scope,
            self.limits,
            self.memory,
            self.limit_sizes,
            self.on_round,
            self.reports,
            self.force_chunk,
            self.knobs,
            self.text.plans,
            self.device,
        )

    def _run(self, stratum: Stratum, limit: int | None) -> Mapping[str, Relation]:
        around = self.surroundings()
        seeds = {name: self._sorted_seeds(name) for name in stratum.relations}
        (name, *_) = stratum.relations
        copy = None
        if limit is None and not seeds[name]:
            copy = copied(stratum, self.checked.schemas[name], self.relation)
        relations = run_stratum(stratum, seeds, around, limit) if copy is None else {name: copy}
        if limit is None and self.keep(stratum.relations):
            self.remembered[stratum.relations] = Remembered(
                self._made_of(stratum), self._below(stratum), relations
            )
        return relations

    # ----------------------------------------------------------------------------------- facts

    def _sorted_seeds(self, name: str) -> list[Rows]:
        seeds = []
        for keys, count in self._seeds(name):
            here = all(map(lies_here, keys))  # on a device they are sorted
            rows = sort_rows(keys) if keys and here else keys
            seeds.append((rows, len(rows[0]) if rows else min(1, count)))
        return seeds

    def _seeds(self, name: str) -> list[Rows]:
        """The rows that a relation has without any rule: its data, and facts."""
        seeds: list[Rows] = []
        stored = self.stored.get(name)
        if stored is not None and stored.length:
            seeds.append((stored.sorted_keys, stored.length))
        facts = self.checked.facts.get(name, ())
        if facts:
            types = self.checked.schemas[name].types
            columns = tuple(
                self._fact_column([atom.args[at] for atom in facts], kind)
                for at, kind in enumerate(types)
            )
            seeds.append((columns, len(facts)))
        return seeds

    def _fact_column(self, args: list[Any], kind: TypeName) -> Array:
        values = [arg.value if isinstance(arg, Const) else self.params[arg.name] for arg in args]
        if kind == "float":
            return float_to_key(np.array(values, dtype=np.float64))
        if kind == "symbol":
            return np.array([self.symbols.intern(str(value)) for value in values], dtype=np.int32)
        return np.array(
            [encode_value(value, kind, self.symbols) for value in values], dtype=np.int64
        )


def _nodes(stratum: Stratum) -> list[Node]:
    return [
        node
        for rule in stratum.rules
        for node in (*rule.head.args, *([rule.body] if rule.body else []))
    ]
