"""The state of a database, and how calls change what it holds.

The prompt and the notebook's magics use it directly, within `Database.call`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from gdatalog.account import trim
from gdatalog.cancellation import Watch
from gdatalog.deleting import retract
from gdatalog.engine.catalog.folders import Folders
from gdatalog.engine.catalog.snapshot import Catalog, schema_of
from gdatalog.engine.catalog.texts import KeptRules
from gdatalog.engine.compiler.compiler import Compiler
from gdatalog.engine.context import Cluster
from gdatalog.engine.device import CPU
from gdatalog.engine.evaluator.results import Results
from gdatalog.engine.execution import Execution, Usage
from gdatalog.engine.facts.inputs import FileCache
from gdatalog.engine.facts.unions import extended
from gdatalog.engine.metrics import Metrics
from gdatalog.engine.untrusted import without_idle_texts
from gdatalog.errors import Caution, DataError, NameResolutionError, UsageError
from gdatalog.loading import Loader
from gdatalog.parser import Program, format_node
from gdatalog.parser.fact_statements import one_by_one
from gdatalog.parser.syntax import Decl, Retract
from gdatalog.parser.words import check_relation_name
from gdatalog.planner.check import Schema
from gdatalog.planner.check.invalid import caution_of
from gdatalog.planner.check.statements import Part
from gdatalog.planner.check.validity import Validity
from gdatalog.planner.check.wording import count
from gdatalog.planner.passes import PassTrace
from gdatalog.records import replace
from gdatalog.session import Params, Session
from gdatalog.storage.kinds import ROW_ID, either, joined, shown_columns
from gdatalog.storage.load_options import PLAIN, Findings, LoadOptions
from gdatalog.storage.relation import Relation
from gdatalog.user_settings import changed


class Workspace(Session):
    """The state of a database, and the session of the call whose turn it is to write. What it holds
    changes by assigning another `catalog`, so an interrupted call leaves it as it was."""

    published: Catalog  # after the last whole call
    writing = 0  # depth of nested calls that may write
    set_aside: Callable[[], Iterable[Relation]] = tuple  # relations that undo can restore

    def renew(self, catalog: Catalog) -> None:
        super().renew(catalog)
        self.published = catalog

    @property
    def catalog(self) -> Catalog:
        """What the database holds."""
        return self._catalog

    @catalog.setter
    def catalog(self, catalog: Catalog) -> None:
        if catalog.number < self._catalog.number:  # an earlier state is restored: it is the latest
            catalog = replace(catalog)
        self._catalog = catalog
        if not self.writing:
            self.published = catalog

    @property
    def one_at_a_time(self) -> bool:
        """Whether all calls take turns: a GPU or a cluster serves one at a time."""
        opened = self.later is not None and self.later.device is not None
        return opened or self.device is not CPU or self.cluster is not None

    def reading(self, watch: Watch) -> Session:
        """The session of a call that begins now, and reads."""
        session = Session.__new__(Session)
        vars(session).update(vars(self))  # at once: a call may be writing
        session._catalog, session.watch, session.context = vars(session)["published"], watch, None
        return session

    def close(self) -> None:
        self.closed = True
        self.clear()
        self.device.close()
        if self.later is not None:
            self.later.close()
        if self.cluster is not None:
            self.cluster.close()

    def clear(self) -> None:
        """Drops all rules, all data, and everything derived from them."""
        self.catalog = Catalog(params=self.catalog.params, folders=self.catalog.folders)
        self.compiler, self.results, self.cache = Compiler(), Results(), FileCache()

    def forget(self) -> None:
        """Drops evaluated relations, and files that were read."""
        self.results, self.catalog = Results(), replace(self.catalog)
        self.cache.forget()

    @contextmanager
    def rollback(self) -> Iterator[None]:
        """A context that restores the catalog on an error."""
        before = self.catalog
        try:
            yield
        except BaseException:
            self.catalog = before
            raise

    @contextmanager
    def without_texts(self, keys: Collection[str]) -> Iterator[None]:
        """A context without the texts under these keys."""
        before = self.catalog
        self.catalog = before.with_texts(before.texts.without(keys))
        try:
            yield
        finally:
            self.catalog = before

    def move_to(self, new: Cluster | None, files: Mapping[str, tuple[str, LoadOptions]]) -> None:
        """Runs queries on these workers from now on, or on none. Relations whose rows are on the
        old workers are read again, from `files` with their options."""
        before = self.cluster, self.device, self.why
        self.cluster = new
        if new is not None and (self.device is not CPU or self.later is not None):
            self.device, self.why = CPU, "GPUs are for the workers"
        try:
            again = {name: self.relation_of(name, *file) for name, file in files.items()}
        except BaseException:
            self.cluster, self.device, self.why = before
            if new is not None:
                new.close()
            raise
        self.catalog = self.catalog.with_data({**self.stored, **again})
        if before[0] is not None:
            self.forget()
            before[0].close()

    def begin(self) -> None:
        """Called at the start of a call whose turn it is. With untrusted programs, drops the texts
        in the symbol table that no relation holds."""
        self.context = None
        if not self.untrusted:
            return
        results = (r for found in list(self.results.values()) for r in found.relations.values())
        held = (*self.stored.values(), *results, *self.set_aside())
        symbols = without_idle_texts(self.symbols, self.memory_limit, held)
        if symbols is not None:
            # At once, because calls that read copy them.
            new = {"symbols": symbols, "compiler": Compiler(), "cache": FileCache()}
            vars(self).update(new, results=Results(self.results))
            trim()

    # --------------------------------------------------------------------------------- data

    @property
    def loader(self) -> Loader:
        """Converts data to relations of this database."""
        return Loader(
            self.symbols, self.files, self.watch, self.memory_limit, self.spill, self.device,
            self.auto, self.settings.thresholds.gpu_bytes, self.cluster, self.settings.spread,
            self.accounts,
        )  # fmt: skip

    def relation_of(
        self, name: str, data: Any, options: LoadOptions = PLAIN, schema: Schema | None = None
    ) -> Relation:
        """Converts data to a relation, by its declaration if there is one."""
        check_relation_name(name)
        self.watch.poll()  # few rows are converted without a look at the time limit
        return self.loader.relation(name, data, options, schema or self._declared(name))

    def load(self, name: str, data: Any, options: LoadOptions = PLAIN) -> Findings:
        """Stores data under a name, in place of earlier data; returns findings for `tell_of`."""
        findings = Findings()
        relation = self.relation_of(name, data, replace(options, findings=findings))
        findings.check_duplicates(name, self.settings.duplicates)
        self.put(name, relation)
        if relation.nullable and options.nulls == "keep" and self._declared(name) is None:
            self.with_nulls.add(name)
        return findings

    def tell_of(self, name: str, findings: Findings) -> None:
        """Warns about findings in data that was loaded."""
        self.warn(findings.cautions(name))

    def _declared(self, name: str) -> Schema | None:
        """The schema of a relation by the kept `.decl`, or None."""
        if not any(isinstance(s, Decl) and name in s.names for s in self.texts.outline()):
            return None
        others = self.catalog.without_data({name})
        return self.execution(Program(()), catalog=others).checked.schemas.get(name)

    def put(self, name: str, relation: Relation) -> None:
        """Stores a relation in place of all data of that name: rows that were loaded or inserted,
        facts, and rows of `.input`. Rules stay."""
        catalog = self.catalog.with_texts(self.texts.less({name}, "data"))
        self.change(catalog.with_relation(name, relation), name)
        rules = self.catalog.rules_of(name)
        if rules:
            add = "adds" if rules == 1 else "add"
            message = f"{name} has {count(rules, 'rule')}, which still {add} to these rows"
            self.on_caution(Caution(message, hint=f'db.drop("{name}") drops rules and data'))

    def add(self, name: str, data: Any, options: LoadOptions = PLAIN) -> tuple[int, int]:
        """Adds rows to a relation, beside its facts and rules; returns how many are new, and how
        many its data had already."""
        before = self.stored.get(name)
        if before is not None:
            schema: Schema | None = schema_of(name, before)
        elif self.texts.speaks_of(name):
            schema = self.execution(Program(())).checked.schemas.get(name)
        else:
            schema = None
        if before is not None:
            options = _continued(name, options, before)
        more = self.relation_of(name, data, options, schema)
        if options.findings is not None:
            options.findings.check_duplicates(name, self.settings.duplicates)
        relation = more if before is None else extended(before, more)
        if before is not None:
            kinds = joined(before.kinds, more.kinds, before.columns)
            nullable = either(before.nullable, more.nullable)
            if nullable != before.nullable:
                self._check_declared(name, nullable)
            before.check_nullable(nullable)
            more.check_nullable(nullable)
            relation = relation.of_kinds(kinds, nullable)
        held = self._size_of_data(name)
        self.change(self.catalog.with_relation(name, relation), name)
        new = self._size_of_data(name) - held
        return new, more.length - new

    def _check_declared(self, name: str, nullable: tuple[bool, ...]) -> None:
        """Raises if rows with nulls are added to columns that are declared without nulls."""
        schema = self._declared(name)
        if schema is None:
            return
        own = schema.nullable or (False,) * schema.arity
        for at, (null, declared) in enumerate(zip(nullable, own, strict=False)):
            if null and not declared:
                column, kind = schema.columns[at], schema.types[at]
                message = f"{name}: a value of the column {column!r} is missing"
                hint = f'declare it {column}: {kind}?; nulls="drop" drops such rows'
                raise DataError(message, hint=hint)

    def _size_of_data(self, name: str) -> int:
        """The number of rows of a relation's data, and of its facts unless it has rules."""
        if self.texts.facts(name) and not self.catalog.rules_of(name):
            execution = self.execution(Program(()), Usage(lasting=True))
            if name not in execution.validity.broken:
                return execution.relation(name).length
        stored = self.stored.get(name)
        return 0 if stored is None else stored.length

    def drop(self, names: Collection[str], part: Part = "all") -> None:
        """Drops the rules of relations, their data, or both."""
        schemas, broken = self.standing()
        for name in names:
            if name not in schemas and name not in broken:
                raise NameResolutionError(f"there is no relation {name!r}", hint=self.near(name))
        catalog = self.catalog.with_texts(self.texts.less(names, part))
        self.change(catalog if part == "rules" else catalog.without_data(names), *names)

    def change(self, catalog: Catalog, *names: str) -> None:
        """Takes another catalog, with other texts or with other data of the named relations; warns
        about kept rules that become invalid."""
        before, execution = self.catalog, None
        retyped = any(before.schemas.get(name) != catalog.schemas.get(name) for name in names)
        if catalog.texts is not before.texts or (
            retyped and any(map(catalog.texts.speaks_of, names))
        ):
            execution = self.execution(Program(()), catalog=catalog)
        self.catalog = catalog
        if execution is not None:
            self.tell_invalid(execution.validity)

    def tell_invalid(self, validity: Validity | None = None) -> None:
        """Warns about kept statements that have become invalid, and what depends on them."""
        if validity is None:
            validity = self.execution(Program(())).validity
        known, reported = self.catalog.reported, frozenset(map(str, validity.invalid.values()))
        if reported != known:
            self.catalog = replace(self.catalog, reported=reported)
        for error in dict.fromkeys(validity.invalid.values()):
            if str(error) not in known:
                self.on_caution(caution_of(error, validity.broken))

    def force(self, **settings: Any) -> None:
        """Changes settings, such as the strategy of calls that do not choose one."""
        self.settings = changed(self.settings, settings)

    def tune(self, **thresholds: Any) -> None:
        """Changes the thresholds of the engine's choices, for tests."""
        self.settings = self.settings.tuned(**thresholds)

    def keep(
        self,
        program: Program,
        key: str | None,
        params: Params = None,
        folders: Folders | None = None,
        reports: Metrics | None = None,
        strategy: str = "auto",
        ends: bool = False,
        passes: PassTrace | None = None,
    ) -> Execution:
        """Checks a program and keeps its rules if they are valid, without evaluating them.

        `key`: the name of the program, which replaces an earlier program of that name. None: each
        statement is kept separately, so that a statement typed again replaces itself; since more
        statements may follow, a relation without data causes no warning.

        `ends`: whether no call follows the program's own queries.

        Retractions are run before, over what the database holds.
        """
        retractions = [each for each in program.statements if isinstance(each, Retract)]
        if retractions:
            rest = [each for each in program.statements if not isinstance(each, Retract)]
            program = Program(tuple(rest))
            with self.rollback():
                gone = retract(self, retractions, program, params)
                execution = self.keep(
                    program, key, params, folders, reports, strategy, ends, passes
                )
                execution.retractions, execution.retracted = retractions, gone
                return execution
        before, home = self.texts, folders or self.catalog.folders
        if key is not None:
            own = {key: program.statements}
        else:
            program = Program(tuple(one_by_one(program.statements)))
            own = {format_node(s): (s,) for s in program.statements}
        # Repeated facts stay where they are.
        same = {name for name, text in own.items() if before.repeats(name, text)}
        others = self.catalog.with_texts(before.without(own.keys() - same))
        usage = Usage(lasting=True, whole=key is not None, ends=ends)
        execution = self.execution(
            program, usage, params=params, catalog=others, folders=folders, reports=reports,
            strategy=strategy, passes=passes,
        )  # fmt: skip
        rules = execution.compiled.rules
        more: dict[str, KeptRules] = {}
        if key is None:
            known = {id(s): name for name, (s, *_) in own.items()}
            texts = {known.get(id(s)) or format_node(s): s for s in rules}
            more = {name: KeptRules.of((s,), home) for name, s in texts.items() if name not in same}
        elif rules and key not in same:
            more = {key: KeptRules.of(rules, home, execution.compiled.kept_outline)}
        kept = others.with_texts(others.texts.with_more(more))
        self.catalog = kept.with_params(execution.kept_params(params or {}))
        execution.kept_in(self.catalog)
        # Drop evaluated relations that no longer exist.
        for names in list(self.results):
            if not execution.checked.schemas.keys() >= {*names}:
                self.results.pop(names, None)
        return execution

    def tell(self, execution: Execution, given: Params = None) -> None:
        super().tell(execution, given)
        if execution.lasting:
            self.tell_invalid(execution.validity)


def _continued(name: str, options: LoadOptions, before: Relation) -> LoadOptions:
    """Options for rows that are added to these: their numbers follow. Hidden numbers are added
    without being asked for."""
    hidden = shown_columns(before.kinds, len(before.types)) < len(before.types)
    if hidden and options.row_id is None:
        options = replace(options, row_id=True)
    elif options.row_id is True and not hidden:
        message = f"{name} has no row ids, so that more rows cannot have any"
        raise UsageError(message, hint=f'db.load("{name}", ..., row_id=True) loads rows with ids')
    column = ROW_ID if options.row_id is True else options.row_id
    if column not in before.columns or not before.length:
        return options
    ids = before.column(before.columns.index(column))
    return replace(options, first_row_id=int(ids.max()) + 1)
