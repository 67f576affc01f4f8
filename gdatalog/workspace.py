"""The state of a database: its current catalog, its compiler and results, settings and devices.

`Database` locks it and returns results. The prompt and the notebook's magics use it directly,
within `Database.call`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from gdatalog.account import default_limit, trim
from gdatalog.calls import Limits
from gdatalog.cancellation import Watch
from gdatalog.cpu_ops.expressions import Scope
from gdatalog.engine.catalog.folders import Folders
from gdatalog.engine.catalog.parameters import GivenList, parameter
from gdatalog.engine.catalog.snapshot import Catalog
from gdatalog.engine.catalog.texts import KeptRules, ProgramTexts
from gdatalog.engine.compiler.compiled import Compiled, parameters_in
from gdatalog.engine.compiler.compiler import Compiler
from gdatalog.engine.compiler.constants import SharedText
from gdatalog.engine.context import Cluster, ExecutionContext
from gdatalog.engine.device import CPU, Device
from gdatalog.engine.devices import ASKED, LaterGpu
from gdatalog.engine.evaluator.results import Results
from gdatalog.engine.execution import (
    Execution,
    ExecutionResources,
    Usage,
    begin,
    compile_text,
    scalars,
    typed_params,
)
from gdatalog.engine.facts.files import Files, read_text
from gdatalog.engine.facts.inputs import FileCache
from gdatalog.engine.facts.unions import extended
from gdatalog.engine.metrics import Metrics
from gdatalog.engine.untrusted import check_length, without_idle_texts
from gdatalog.errors import Caution, NameResolutionError, UsageError, meant
from gdatalog.loading import Loader
from gdatalog.options import strategy_of
from gdatalog.parser import Program, format_node
from gdatalog.parser.facts import one_by_one
from gdatalog.parser.syntax import Decl, Statement
from gdatalog.parser.words import check_relation_name
from gdatalog.planner.check import Schema
from gdatalog.planner.check.invalid import Cause, caution_of
from gdatalog.planner.check.validity import Validity
from gdatalog.planner.check.walk import Part
from gdatalog.planner.check.wording import count
from gdatalog.planner.passes import PassTrace
from gdatalog.records import replace
from gdatalog.settings import Settings
from gdatalog.storage.load_options import PLAIN, Findings, LoadOptions
from gdatalog.storage.relation import Relation
from gdatalog.storage.spill import Spill
from gdatalog.storage.symbols import SymbolTable
from gdatalog.user_settings import changed
from gdatalog.values import ListOf, ParamType, Value

Params = Mapping[str, Any] | None
QUERY = Usage()


class Workspace:
    """The state of a database. What it holds changes by assigning another `catalog`, so an
    interrupted call leaves it as it was."""

    settings: Settings = Settings()

    def __init__(
        self,
        settings: Mapping[str, Any],
        files: Files,
        on_caution: Callable[[Caution], None],
        watch: Watch,
        spill: Spill | None = None,
    ) -> None:
        """`spill`: where rows beyond the memory limit go; None: they raise an error."""
        self.settings = replace(self.settings, **settings)
        self.spill = spill
        self.files = files  # that programs may read and write
        self.on_caution = on_caution
        self.symbols = SymbolTable()
        self._catalog = self.published = Catalog()  # `published`: after the last whole call
        self.compiler = Compiler()
        self.results: Results = {}  # of strata
        self.cache = FileCache()
        self.watch = watch
        self.closed = False
        self.chunk_rows: int | None = None  # maximum rows per level; None: by memory
        self.device: Device = CPU
        self.later: LaterGpu | None = None  # the GPU that "auto" may open
        self.cluster: Cluster | None = None
        self.untrusted = False  # whether programs are untrusted
        self.set_aside: Callable[[], Iterable[Relation]] = tuple  # relations that undo can restore
        self._why = ASKED
        self.context: ExecutionContext | None = None  # of the last execution of a call

    @property
    def memory_limit(self) -> int:
        """The memory limit of a query, in bytes."""
        limit = self.settings.memory_limit
        return default_limit() if limit is None else limit

    @property
    def device_name(self) -> str:
        """Where queries run, for users."""
        gpu = None if self.auto is None else self.auto.device
        return self.device.name if gpu is None else f"{self.device.name} and {gpu.name}"

    @property
    def auto(self) -> LaterGpu | None:
        """The GPU that "auto" may use; with a cluster none, because the workers use theirs."""
        return self.later if self.cluster is None and self.device is CPU else None

    @property
    def binds(self) -> bool:
        """Whether queries are bound to relations: those of trusted programs on the CPU of this
        process."""
        elsewhere = self.device is not CPU or self.cluster is not None or self.later is not None
        return not (elsewhere or self.untrusted) and self.chunk_rows is None

    @property
    def why(self) -> str:
        """The reason for the device."""
        return self._why if self.auto is None else self.auto.why

    @why.setter
    def why(self, why: str) -> None:
        self._why = why

    @property
    def catalog(self) -> Catalog:
        """What the database holds."""
        return self._catalog

    @catalog.setter
    def catalog(self, catalog: Catalog) -> None:
        self._catalog = catalog
        if not self.watch.calls:
            self.published = catalog

    @property
    def stored(self) -> Mapping[str, Relation]:
        """The relations that hold data, by name."""
        return self.catalog.stored

    @property
    def texts(self) -> ProgramTexts:
        """The kept texts."""
        return self.catalog.texts

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
        self.compiler, self.results, self.cache = Compiler(), {}, FileCache()

    def forget(self) -> None:
        """Drops evaluated relations, and files that were read."""
        self.results, self.catalog = {}, replace(self.catalog)
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

    @contextmanager
    def warnings_to(self, handler: Callable[[Caution], None]) -> Iterator[None]:
        """A context in which this function receives the warnings."""
        before, self.on_caution = self.on_caution, handler
        try:
            yield
        finally:
            self.on_caution = before

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
        """Called at the start of a call. With untrusted programs, drops the texts in the symbol
        table that no relation holds."""
        self.context = None
        if not self.untrusted:
            return
        results = (r for found in self.results.values() for r in found.relations.values())
        held = (*self.stored.values(), *results, *self.set_aside())
        symbols = without_idle_texts(self.symbols, self.memory_limit, held)
        if symbols is not None:
            self.symbols, self.compiler, self.cache = symbols, Compiler(), FileCache()
            trim()

    def statements(self) -> list[Statement]:
        """The kept statements."""
        return self.texts.statements()

    def evaluated(self) -> dict[str, Relation]:
        """The cached relations of rules; their inputs may have changed since."""
        return {
            name: relation
            for found in self.results.values()
            for name, relation in found.relations.items()
        }

    # --------------------------------------------------------------------------------- data

    def relation_of(
        self, name: str, data: Any, options: LoadOptions = PLAIN, schema: Schema | None = None
    ) -> Relation:
        """Converts data to a relation, by its declaration if there is one."""
        check_relation_name(name)
        loader = Loader(
            self.symbols, self.files, self.watch, self.memory_limit, self.spill, self.device,
            self.auto, self.settings.thresholds.gpu_bytes, self.cluster, self.settings.spread,
        )  # fmt: skip
        return loader.relation(name, data, options, schema or self._declared(name))

    def load(self, name: str, data: Any, options: LoadOptions = PLAIN) -> Findings:
        """Stores data under a name, in place of earlier data; returns findings for `tell_of`."""
        findings = Findings()
        relation = self.relation_of(name, data, replace(options, findings=findings))
        self.put(name, relation)
        return findings

    def tell_of(self, name: str, findings: Findings) -> None:
        """Warns about findings in data that was loaded."""
        self.warn(findings.cautions(name))

    def warn(self, cautions: Iterable[Caution]) -> None:
        """Reports warnings."""
        for caution in cautions:
            self.on_caution(caution)

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
            schema: Schema | None = Schema(name, before.columns, before.types)
        elif self.texts.speaks_of(name):
            schema = self.execution(Program(())).checked.schemas.get(name)
        else:
            schema = None
        if before is not None and options.row_id in before.columns and before.length:
            ids = before.column(before.columns.index(options.row_id))
            options = replace(options, first_row_id=int(ids.max()) + 1)
        more = self.relation_of(name, data, options, schema)
        relation = more if before is None else extended(before, more)
        held = self._size_of_data(name)
        self.change(self.catalog.with_relation(name, relation), name)
        new = self._size_of_data(name) - held
        return new, more.length - new

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

    def standing(self) -> tuple[dict[str, Schema], Mapping[str, Cause]]:
        """The schemas of valid relations by name, and the causes of invalid ones."""
        execution = self.execution(Program(()))
        schemas, broken = execution.checked.schemas, execution.validity.broken
        names = sorted(name for name in schemas if not name.startswith("?") and name not in broken)
        return {name: schemas[name] for name in names}, broken

    def near(self, name: object) -> str | None:
        """A spelling hint."""
        close = meant(str(name), [known for part in self.standing() for known in part])
        return None if close is None else f"did you mean {close!r}?"

    # --------------------------------------------------------------------------- executions

    def force(self, **settings: Any) -> None:
        """Changes settings, such as the strategy of calls that do not choose one."""
        self.settings = changed(self.settings, settings)

    def tune(self, **thresholds: Any) -> None:
        """Changes the thresholds of the engine's choices, for tests."""
        self.settings = self.settings.tuned(**thresholds)

    def check_open(self) -> None:
        if self.closed:
            raise UsageError("this database is closed")

    def parse(self, text: str, name: str, bare: bool = False) -> Program:
        self.check_open()
        if not isinstance(text, str):
            raise UsageError(f"a program is a text, not of type {type(text).__name__}")
        if self.untrusted:
            check_length(text, name)
        program, cautions = self.compiler.parse(text, name, bare, not self.untrusted)
        self.warn(cautions)
        return program

    def query(self, text: str) -> SharedText | Program:
        """The program of a query, or what it shares with a text that has other constants."""
        if self.untrusted or not isinstance(text, str):
            return self.parse(text, "<query>", bare=True)
        self.check_open()
        found = self.compiler.query(text, "<query>")
        if isinstance(found, SharedText):
            return found
        self.warn(found[1])
        return found[0]

    def parse_file(self, path: str) -> Program:
        self.check_open()
        return self.parse(read_text(path, self.files), path)

    def open(self, text: str, params: Params, **options: Any) -> Execution:
        """An execution of a query whose text is not kept; `options`: those of `execution`."""
        return self.execution(self.parse(text, "<query>", bare=True), params=params, **options)

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
        """
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
        for names in [n for n in self.results if not execution.checked.schemas.keys() >= {*n}]:
            del self.results[names]
        return execution

    def execution(
        self,
        program: Program,
        usage: Usage = QUERY,
        *,
        params: Params = None,
        catalog: Catalog | None = None,
        folders: Folders | None = None,
        reports: Metrics | None = None,
        strategy: str = "auto",
        passes: PassTrace | None = None,
    ) -> Execution:
        """A program compiled over the kept rules and data; planned anew if `passes` are noted."""
        self.check_open()
        catalog = catalog or self.catalog
        metrics = Metrics(lasting=False) if reports is None else reports
        self.context = context = self._context(metrics, strategy, passes)
        resources = self._resources()
        if reports is not None:
            resources = replace(resources, results={})
        if passes is not None:
            resources = replace(resources, compiler=Compiler())
        given = {**catalog.params, **(params or {})}
        with metrics.spending():
            folders = folders or catalog.folders
            typed = typed_params(program, given)
            return begin(program, catalog, context, resources, typed, folders, usage)

    def signature(
        self, program: Program, given: Mapping[str, Any]
    ) -> tuple[Compiled, dict[str, ParamType]]:
        """A query compiled for parameters of any value, and the types of its own parameters, in
        order. `given`: values, whose types these have; the use of others says which they have."""
        self.check_open()
        catalog = self.catalog
        context = self._context(Metrics(lasting=False), "auto", None)
        names = parameters_in(program.statements)
        types: dict[str, ParamType] = dict.fromkeys(names)
        for name, value in {**catalog.params, **given}.items():
            types[name] = parameter(name, value)[0]
        compiled = compile_text(
            program, catalog, context, self._resources(), types, catalog.folders, QUERY
        )
        found = compiled.checked.param_types
        return compiled, {
            name: ListOf(found[name]) if compiled.parameters[name] else found[name]
            for name in compiled.parameters
        }

    def bound_context(
        self, compiled: Compiled, params: Mapping[str, Value | GivenList]
    ) -> ExecutionContext:
        """The context of a query that is bound to its relations."""
        values = scalars(compiled, params)
        for value in values.values():
            if isinstance(value, str):
                self.symbols.intern(value)  # before anything reads the ranks of strings
        self.context = context = ExecutionContext(
            Limits(memory=self.memory_limit, spill=self.spill, watch=self.watch),
            Scope(self.symbols, values),
            Metrics(lasting=False),
            self.settings,
        )
        return context

    def _resources(self) -> ExecutionResources:
        files = "none" if self.untrusted else self.files
        return ExecutionResources(self.compiler, self.results, self.cache, files, self.on_caution)

    def _context(
        self, metrics: Metrics, strategy: str, passes: PassTrace | None
    ) -> ExecutionContext:
        chosen = strategy_of(strategy)
        return ExecutionContext(
            Limits(memory=self.memory_limit, spill=self.spill, watch=self.watch),
            Scope(self.symbols, bounded=self.untrusted),
            metrics,
            self.settings if chosen == "auto" else replace(self.settings, strategy=chosen),
            self.device,
            self.cluster,
            self.chunk_rows,
            later=self.auto,
            passes=passes,
        )

    def tell(self, execution: Execution, given: Params = None) -> None:
        """Reports the warnings of an execution, also about parameters `given` for its text that
        have no effect."""
        self.warn([*execution.cautions, *execution.ignored(given or ())])
        if execution.lasting:
            self.tell_invalid(execution.validity)
