"""`Catalog`: an immutable snapshot of what a database holds."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from itertools import count
from typing import Any

from gdatalog.engine.catalog.folders import Folders
from gdatalog.engine.catalog.texts import ProgramTexts
from gdatalog.parser.syntax import Rule
from gdatalog.planner.check import Schema
from gdatalog.planner.check.statements import names_of
from gdatalog.records import dataclass, field, replace
from gdatalog.storage.relation import Relation


@dataclass(frozen=True, slots=True, eq=False)
class Catalog:
    """Stored relations by name, kept texts, and their parameters. A change makes a new catalog, so
    whoever holds this one sees the state before the change.

    `schemas`: those of the stored relations; the same object while none changes. `reported`: the
    errors of invalid statements that the user has been warned about. `number`: of two catalogs, the
    later one has the greater.
    """

    stored: Mapping[str, Relation] = field(default_factory=dict)
    schemas: Mapping[str, Schema] = field(default_factory=dict)
    texts: ProgramTexts = field(default_factory=ProgramTexts)
    params: Mapping[str, Any] = field(default_factory=dict)
    folders: Folders = Folders()  # the default folders of `.input` and `.output`
    reported: frozenset[str] = frozenset()
    # Queries that are bound to these relations; a changed catalog starts without any.
    bound: dict[Hashable, Any] = field(init=False, default_factory=dict)
    # The plans of programs over these relations, by id of the program.
    plans: dict[int, Any] = field(init=False, default_factory=dict)
    number: int = field(init=False, default_factory=count().__next__)
    asked: set[Hashable] = field(default_factory=set)  # queries that were asked before a change

    def with_data(self, stored: Mapping[str, Relation]) -> Catalog:
        """The catalog with these relations in place of all that are stored."""
        schemas: Mapping[str, Schema] = {
            name: self.schemas[name]
            if relation is self.stored.get(name)
            else schema_of(name, relation)
            for name, relation in stored.items()
        }
        if schemas == self.schemas and [*schemas] == [*self.schemas]:
            schemas = self.schemas
        return replace(self, stored=stored, schemas=schemas)

    def with_relation(self, name: str, relation: Relation) -> Catalog:
        """The catalog with a relation in place of the stored one of that name."""
        schema, schemas = schema_of(name, relation), self.schemas
        if schemas.get(name) != schema:
            schemas = {**schemas, name: schema}
        return replace(self, stored={**self.stored, name: relation}, schemas=schemas)

    def without_data(self, names: Collection[str]) -> Catalog:
        """The catalog without the rows of some stored relations."""
        return self.with_data({name: r for name, r in self.stored.items() if name not in names})

    def with_texts(self, texts: ProgramTexts) -> Catalog:
        return self if texts is self.texts else replace(self, texts=texts)

    def with_params(self, params: Mapping[str, Any]) -> Catalog:
        """The catalog with more parameters, or others of these names."""
        return replace(self, params={**self.params, **params}) if params else self

    def rules_of(self, name: str) -> int:
        """The number of rules that define a relation."""
        statements = self.texts.outline() if self.texts.speaks_of(name) else ()
        rules = (s for s in statements if isinstance(s, Rule) and s.body is not None)
        return sum(name in names_of(rule) for rule in rules)


def schema_of(name: str, relation: Relation) -> Schema:
    kinds, nullable = relation.kinds, relation.nullable
    return Schema(name, relation.columns, relation.types, kinds=kinds, nullable=nullable)
