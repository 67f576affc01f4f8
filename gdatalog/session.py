"""`Session`: what a call of a database reads, and how it compiles and evaluates texts over it.

A call that reads has a session of its own. It keeps the catalog that it began with: changes make
other catalogs, so it sees one version of the data, and waits for no call that writes. What it
evaluates is kept in `results`, which the sessions share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from gdatalog.account import Accounts, default_limit
from gdatalog.cancellation import Watch
from gdatalog.cpu_ops.expressions import Scope
from gdatalog.engine.catalog.folders import Folders
from gdatalog.engine.catalog.parameters import GivenList, parameter
from gdatalog.engine.catalog.snapshot import Catalog
from gdatalog.engine.catalog.texts import ProgramTexts
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
from gdatalog.engine.metrics import Metrics
from gdatalog.engine.untrusted import check_length
from gdatalog.errors import Caution, UsageError, meant
from gdatalog.limits import Limits
from gdatalog.options import strategy_of
from gdatalog.parser import Program
from gdatalog.parser.syntax import Statement
from gdatalog.planner.check import Schema
from gdatalog.planner.check.invalid import Cause
from gdatalog.planner.check.joined_nulls import joined_columns
from gdatalog.planner.passes import PassTrace
from gdatalog.records import replace
from gdatalog.settings import Settings
from gdatalog.storage.load_options import row_count
from gdatalog.storage.relation import Relation
from gdatalog.storage.spill import Spill
from gdatalog.storage.symbols import SymbolTable
from gdatalog.values import NULL, ListOf, ParamType, Value, is_hidden

Params = Mapping[str, Any] | None
QUERY = Usage()


class Session:
    """The state of a database as a call reads it. `Workspace.reading` makes one."""

    settings: Settings = Settings()

    def __init__(
        self,
        settings: Mapping[str, Any],
        files: Files,
        on_caution: Callable[[Caution], None],
        watch: Watch,
        spill: Spill | None,
    ) -> None:
        """`spill`: where rows beyond the memory limit go; None: they raise an error."""
        self.settings = replace(self.settings, **settings)
        self.spill = spill
        self.files = files  # that programs may read and write
        self.on_caution = on_caution
        self.symbols = SymbolTable()
        self.renew(Catalog())
        self.compiler = Compiler()
        self.results = Results()  # of strata
        self.cache = FileCache()
        self.with_nulls: set[str] = set()  # relations that were loaded with nulls, untold
        self.accounts = Accounts()  # of the evaluations that run
        self.watch = watch
        self.closed = False
        self.chunk_rows: int | None = None  # maximum rows per level; None: by memory
        self.device: Device = CPU
        self.later: LaterGpu | None = None  # the GPU that "auto" may open
        self.cluster: Cluster | None = None
        self.untrusted = False  # whether programs are untrusted
        self._why = ASKED
        self.context: ExecutionContext | None = None  # of the last execution of a call

    @property
    def catalog(self) -> Catalog:
        """What the database holds."""
        return self._catalog

    def renew(self, catalog: Catalog) -> None:
        """Lets the nested calls that follow read this catalog."""
        self._catalog = catalog

    @property
    def stored(self) -> Mapping[str, Relation]:
        """The relations that hold data, by name."""
        return self.catalog.stored

    @property
    def texts(self) -> ProgramTexts:
        """The kept texts."""
        return self.catalog.texts

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
        """Whether queries are bound to relations: those of trusted programs in this process."""
        return self.cluster is None and not self.untrusted and self.chunk_rows is None

    @property
    def why(self) -> str:
        """The reason for the device."""
        return self._why if self.auto is None else self.auto.why

    @why.setter
    def why(self, why: str) -> None:
        self._why = why

    @contextmanager
    def warnings_to(self, handler: Callable[[Caution], None]) -> Iterator[None]:
        """A context in which this function receives the warnings."""
        before, self.on_caution = self.on_caution, handler
        try:
            yield
        finally:
            self.on_caution = before

    def warn(self, cautions: Iterable[Caution]) -> None:
        """Reports warnings."""
        for caution in cautions:
            self.on_caution(caution)

    def statements(self) -> list[Statement]:
        """The kept statements."""
        return self.texts.statements()

    def evaluated(self) -> dict[str, Relation]:
        """The cached relations of rules; their inputs may have changed since."""
        return {
            name: relation
            for found in list(self.results.values())
            for name, relation in found.relations.items()
        }

    def standing(self) -> tuple[dict[str, Schema], Mapping[str, Cause]]:
        """The schemas of valid relations by name, and the causes of invalid ones."""
        execution = self.execution(Program(()))
        schemas, broken = execution.checked.schemas, execution.validity.broken
        names = sorted(name for name in schemas if not is_hidden(name) and name not in broken)
        return {name: schemas[name] for name in names}, broken

    def near(self, name: object) -> str | None:
        """A spelling hint."""
        close = meant(str(name), [known for part in self.standing() for known in part])
        return None if close is None else f"did you mean {close!r}?"

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
            resources = replace(resources, results=Results())
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
            self._limits(),
            Scope(self.symbols, values),
            Metrics(lasting=False),
            self.settings,
            self.device,
            later=self.auto,
        )
        return context

    def _limits(self) -> Limits:
        limits = Limits(memory=self.memory_limit, spill=self.spill, watch=self.watch)
        limits.account.beside = self.accounts
        return limits

    def _resources(self) -> ExecutionResources:
        files = "none" if self.untrusted else self.files
        return ExecutionResources(self.compiler, self.results, self.cache, files, self.on_caution)

    def _context(
        self, metrics: Metrics, strategy: str, passes: PassTrace | None
    ) -> ExecutionContext:
        chosen = strategy_of(strategy)
        return ExecutionContext(
            self._limits(),
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
        for name in [*self.with_nulls]:
            self._tell_of_nulls(name, execution)

    def _tell_of_nulls(self, name: str, execution: Execution) -> None:
        """One note for a load that kept nulls in a column that a program joins: as errors or
        without their rows, which is how nulls were loaded before, the answer is another."""
        relation = self.stored.get(name)
        if relation is None or not relation.nullable:
            self.with_nulls.discard(name)
            return
        rules = [rule for stratum in execution.checked.strata for rule in stratum.rules]
        joined = [at for at in joined_columns(rules, name) if relation.nullable[at]]
        if not joined:
            return
        self.with_nulls.discard(name)
        at = min(joined)
        count = row_count(int(np.count_nonzero(np.asarray(relation.column(at)) == NULL)))
        message = f"{name}: {count} with a null in `{relation.columns[at]}` join with nothing"
        hint = '`x = null` finds them; nulls="drop" loads only rows without nulls, as before'
        self.on_caution(Caution(message, hint=hint))
