"""A program on its way to answers: views and data of a database, a text, its inputs.

A `Session` lives for one call. It puts the text behind the rules that the database keeps,
reads what inputs the text needs, checks all of it together, and evaluates what is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import numpy as np

from gdatalog.engine.evaluation import Evaluation, Memory
from gdatalog.engine.files import FilePolicy, Folders, find_include, read_program, read_relation
from gdatalog.engine.fixpoint import Round
from gdatalog.engine.run import RuleRun
from gdatalog.errors import Caution, DataError, Span, UsageError
from gdatalog.executors.limits import Limits
from gdatalog.parser import Program, expand_includes
from gdatalog.parser.syntax import Decl, Directive, Query, Rule, Statement
from gdatalog.planner.check import check
from gdatalog.planner.checked import Checked, CheckedQuery, Schema, Stratum
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import concatenate
from gdatalog.storage.symbols import SymbolTable
from gdatalog.values import INT_MAX, INT_MIN, TypeName, Value


@dataclass(slots=True)
class Settings:
    """How a session runs: limits, folders, what to call back."""

    policy: FilePolicy = field(default_factory=FilePolicy)
    folders: Folders = field(default_factory=Folders)
    memory: int = 8 << 30
    poll: Callable[[], None] = lambda: None
    on_round: Callable[[Stratum, Round], None] = lambda stratum, round_: None
    force_chunk: int | None = None
    reports: list[RuleRun] | None = None


@dataclass(frozen=True, slots=True)
class Parts:
    """A text's statements: what the database would keep of it, and what it asks for."""

    rules: tuple[Statement, ...]
    queries: tuple[Query, ...]
    directives: tuple[Directive, ...]

    @staticmethod
    def of(program: Program) -> Parts:
        rules, queries, directives = [], [], []
        for statement in program.statements:
            if isinstance(statement, Query):
                queries.append(statement)
            elif isinstance(statement, Directive) and statement.kind != "input":
                directives.append(statement)
            else:
                rules.append(statement)
        return Parts(tuple(rules), tuple(queries), tuple(directives))


@dataclass(slots=True)
class InputFile:
    """What one `.input` means: where it was said to look, and the data once it is read."""

    folders: Folders
    relation: Relation | None = None


# An `.input` by its place, and one of its names.
Files = dict[tuple[Span, str], InputFile]


class Inputs(Mapping[str, Relation]):
    """Stored relations, with the files of `.input`s read when they are first asked for."""

    def __init__(
        self,
        stored: Mapping[str, Relation],
        directives: Mapping[str, list[Directive]],
        schemas: Mapping[str, Schema],
        symbols: SymbolTable,
        settings: Settings,
        read: Files,
    ) -> None:
        self.stored = stored
        self.directives = directives
        self.schemas = schemas
        self.symbols = symbols
        self.settings = settings
        self.read = read
        self._joined: dict[str, Relation] = {}

    def __contains__(self, name: object) -> bool:
        return name in self.stored or name in self.directives

    def __iter__(self) -> Iterator[str]:
        return iter({**self.stored, **self.directives})

    def __len__(self) -> int:
        return len({**self.stored, **self.directives})

    def __getitem__(self, name: str) -> Relation:
        if name not in self.directives:
            return self.stored[name]
        found = self._joined.get(name)
        if found is None:
            parts = [self.file(directive, name) for directive in self.directives[name]]
            if name in self.stored:
                parts.append(self.stored[name])
            found = parts[0] if len(parts) == 1 else union(parts)
            self._joined[name] = found
        return found

    def file(self, directive: Directive, name: str) -> Relation:
        """What one `.input` reads: once for as long as its rules are kept."""
        found = self.read[directive.span, name]
        if found.relation is None:
            table = read_relation(
                directive, name, self.schemas.get(name), self.settings.policy, found.folders
            )
            found.relation = Relation.from_table(table, self.symbols)
        return found.relation


def union(relations: list[Relation]) -> Relation:
    """The rows of relations of one schema."""
    first = relations[0]
    count = sum(relation.length for relation in relations)
    if not first.types:
        return Relation(first.columns, (), (), min(1, count))
    keys = concatenate([relation.keys for relation in relations])
    return Relation.from_rows(first.columns, first.types, keys, count)


@dataclass(slots=True)
class Session:
    """One text over what a database has."""

    stored: Mapping[str, Relation]
    views: tuple[Statement, ...]
    program: Program
    symbols: SymbolTable
    settings: Settings
    remembered: Memory
    read: Files  # of the views, and then of this text as well
    params: Mapping[str, Any] = field(default_factory=dict)
    lasting: bool = False  # whether the text's rules stay: then what they give is remembered
    whole: bool = True
    parts: Parts = field(init=False)
    checked: Checked = field(init=False)
    evaluation: Evaluation = field(init=False)

    def __post_init__(self) -> None:
        self.program = program = expand_includes(
            self.program,
            lambda path, span: read_program(
                find_include(path, span, self.settings.folders), self.settings.policy, span
            ),
        )
        self.parts = Parts.of(program)
        everything = Program((*self.views, *program.statements))
        inputs = input_directives(everything)
        # This text's files are read anew, even if the same text was there before.
        own = {
            key: InputFile(self.settings.folders) for key in input_keys(input_directives(program))
        }
        self.read = {**self.read, **own}
        known = {
            name: Schema(name, relation.columns, relation.types)
            for name, relation in self.stored.items()
        }
        # Files whose relation nobody declared are read first: their types are the data's.
        declared = {name for s in everything.statements if isinstance(s, Decl) for name in s.names}
        early = Inputs({}, inputs, {}, self.symbols, self.settings, self.read)
        for name, directives in inputs.items():
            if name not in declared and name not in known and directives[0].path is not None:
                relation = early.file(directives[0], name)
                known[name] = Schema(name, relation.columns, relation.types, directives[0].span)
        given = {name: parameter(name, value) for name, value in self.params.items()}
        self.params = {name: value for name, (_, value) in given.items()}
        types = {name: kind for name, (kind, _) in given.items()}
        self.checked = check(everything, known, types, whole=self.whole)
        self._build(inputs)

    def _build(self, inputs: dict[str, list[Directive]]) -> None:
        settings = self.settings
        stored = Inputs(
            self.stored, inputs, self.checked.schemas, self.symbols, settings, self.read
        )
        own = {head.name for s in self.parts.rules if isinstance(s, Rule) for head in s.heads}
        limits = Limits(memory=settings.memory, poll=settings.poll)

        def keep(names: Collection[str]) -> bool:
            if any(name.startswith("?") for name in names):
                return False
            return self.lasting or own.isdisjoint(names)

        self.evaluation = Evaluation(
            self.checked,
            stored,
            self.symbols,
            limits,
            settings.memory,
            {name: self._coerce(name, value) for name, value in self.params.items()},
            self.remembered,
            keep,
            settings.on_round,
            settings.reports,
            self._limit_sizes(),
            settings.force_chunk,
        )

    def _coerce(self, name: str, value: Value) -> Value:
        """An int that stands for a float is one."""
        return float(value) if self.checked.param_types.get(name) == "float" else value

    def _limit_sizes(self) -> dict[str, int]:
        sizes = {}
        for directive in self.checked.directives:
            if directive.kind == "limitsize":
                text = dict(directive.options).get("n", "")
                if not text.isdecimal():
                    raise UsageError(
                        ".limitsize needs a number of rows",
                        directive.span,
                        hint=f".limitsize {directive.names[0]}(n=1000000)",
                    )
                sizes.update(dict.fromkeys(directive.names, int(text)))
        return sizes

    @property
    def cautions(self) -> list[Caution]:
        """Those of this text (not of views that were told of before), and of its evaluation."""
        sources = {s.span.source for s in (*self.parts.rules, *self.parts.queries)}
        found = [c for c in self.checked.cautions if c.span is None or c.span.source in sources]
        return found + self.evaluation.cautions

    def own_queries(self) -> list[CheckedQuery]:
        """The text's queries, in its order."""
        own = {query.span for query in self.parts.queries}
        return [query for query in self.checked.queries if query.span in own]

    def relation(self, name: str, limit: int | None = None) -> Relation:
        if limit is not None:
            return self.evaluation.first(name, limit)
        return self.evaluation.relation(name)


def input_directives(program: Program) -> dict[str, list[Directive]]:
    """The `.input`s of each relation."""
    found: dict[str, list[Directive]] = {}
    for statement in program.statements:
        if isinstance(statement, Directive) and statement.kind == "input":
            for name in statement.names:
                found.setdefault(name, []).append(statement)
        if isinstance(statement, Decl) and "input" in statement.qualifiers:
            for name in statement.names:
                found.setdefault(name, []).append(Directive("input", (name,), span=statement.span))
    return found


def input_keys(directives: Mapping[str, list[Directive]]) -> list[tuple[Span, str]]:
    return [(part.span, name) for name, parts in directives.items() for part in parts]


def parameter(name: str, value: object) -> tuple[TypeName, Value]:
    """A parameter's type and value, from Python's, NumPy's or pandas' scalars."""
    if isinstance(value, (bool, np.bool_)):
        return "bool", bool(value)
    if isinstance(value, (int, np.integer)):
        if not INT_MIN <= int(value) <= INT_MAX:
            raise DataError(f"the parameter ${name} does not fit into 64 bits: {value}")
        return "int", int(value)
    if isinstance(value, (float, np.floating)):
        if value != value:
            raise DataError(f"the parameter ${name} is NaN, which is not a value")
        return "float", float(value)
    if isinstance(value, str):
        return "symbol", str(value)
    if isinstance(value, (date, np.datetime64)):  # pandas.Timestamp is a datetime, so a date
        import pandas as pd

        try:
            when = pd.Timestamp(value)
            if pd.isna(when):
                raise DataError(f"the parameter ${name} is NaT, which is not a value")
            when = when.tz_localize("UTC") if when.tz is None else when.tz_convert("UTC")
            return "timestamp", int(when.as_unit("ns").value)
        except (OverflowError, ValueError):
            raise DataError(
                f"the parameter ${name} is no time between 1677 and 2262: {value}"
            ) from None
    raise DataError(
        f"the parameter ${name} cannot be a {type(value).__name__}",
        hint="parameters are ints, floats, strings, bools and timestamps",
    )
