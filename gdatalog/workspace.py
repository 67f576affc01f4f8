"""The state of a database: data, kept texts, and evaluated relations.

`Database` locks it and returns results. The prompt and the notebook's magics use it directly,
within `Database.call`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

from gdatalog.account import trim
from gdatalog.calls import Limits, accounted
from gdatalog.cancellation import OBJECT, Watch, cancellable
from gdatalog.cpu_ops.functions import Scope
from gdatalog.engine.context import Cluster, ExecutionContext, Wanted
from gdatalog.engine.derived import device_ops
from gdatalog.engine.device import CPU, Device
from gdatalog.engine.devices import ASKED, LaterGpu
from gdatalog.engine.facts import Files, all_readable, read_text
from gdatalog.engine.facts.inputs import extended
from gdatalog.engine.knobs import Knobs
from gdatalog.engine.metrics import Metrics
from gdatalog.engine.options import strategy_of
from gdatalog.engine.programs.folders import Folders
from gdatalog.engine.programs.prepared import Prepared
from gdatalog.engine.programs.remembered import Memory
from gdatalog.engine.programs.texts import KeptRules, ProgramTexts
from gdatalog.engine.session.text_session import Session, schemas_of
from gdatalog.engine.session.untrusted import check_length, without_idle_texts
from gdatalog.errors import Caution, NameResolutionError, UsageError, meant
from gdatalog.parser import Program, format_node
from gdatalog.parser.facts import one_by_one
from gdatalog.parser.syntax import Decl, Rule, Statement
from gdatalog.parser.words import check_relation_name
from gdatalog.plan.tuning import Tuning
from gdatalog.planner.check import Schema
from gdatalog.planner.check.invalid import Cause, caution_of
from gdatalog.planner.check.validity import Validity
from gdatalog.planner.check.walk import Part, names_of
from gdatalog.planner.check.wording import count
from gdatalog.planner.passes import PassTrace
from gdatalog.records import replace
from gdatalog.storage import PLAIN, Findings, LoadOptions
from gdatalog.storage.key_columns import relation_of_tables, tables_of
from gdatalog.storage.relation import Relation
from gdatalog.storage.spill import Spill
from gdatalog.storage.symbols import SymbolTable

Params = Mapping[str, Any] | None


class Workspace:
    """The state of a database. It only changes by assigning attributes, so an interrupted call
    leaves it as it was."""

    tuning: Tuning = Tuning()

    def __init__(
        self,
        memory_limit: int,
        files: Files,
        on_caution: Callable[[Caution], None],
        watch: Watch,
        spill: Spill | None = None,
    ) -> None:
        """`spill`: where rows beyond the memory limit go; None: they raise an error."""
        self.memory_limit = memory_limit
        self.spill = spill
        self.files = files  # that programs may read and write
        self.on_caution = on_caution
        self.symbols = SymbolTable()
        self.stored = {}
        self.texts = ProgramTexts()  # by the name of the text
        self.params: Mapping[str, Any] = {}  # parameters of these texts
        self.folders = Folders()  # default folders of `.input` and `.output`
        self.watch = watch
        self.timeout: float | None = None  # default time limit of a call, in seconds
        self.closed = False
        self.chunk_rows: int | None = None  # maximum rows per level; None: by memory
        self.knobs = Knobs()  # its strategy is the default of calls
        self.device: Device = CPU
        self.later: LaterGpu | None = None  # the GPU that "auto" may open
        self.cluster: Cluster | None = None
        self.untrusted = False  # whether programs are untrusted
        self.set_aside: Callable[[], Iterable[Relation]] = tuple  # relations that undo can restore
        self._why = ASKED
        self.context: ExecutionContext | None = None  # of the last session of a call
        self._remembered: Memory = {}
        self._prepared = Prepared()
        self._invalid: frozenset[str] = frozenset()  # reported errors of kept statements

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
    def why(self) -> str:
        """The reason for the device."""
        return self._why if self.auto is None else self.auto.why

    @why.setter
    def why(self, why: str) -> None:
        self._why = why

    @property
    def stored(self) -> dict[str, Relation]:
        """The relations that hold data, by name."""
        return self._stored

    @stored.setter
    def stored(self, stored: dict[str, Relation]) -> None:
        self._stored, self._known = stored, schemas_of(stored)

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
        self.stored, self.texts, self._remembered = {}, ProgramTexts(), {}
        self._prepared, self._invalid = Prepared(), frozenset()

    def forget(self) -> None:
        """Drops evaluated relations, and files that were read."""
        self._remembered, self._prepared = {}, replace(self._prepared, files={}, unions={})

    @contextmanager
    def rollback(self) -> Iterator[None]:
        """A context that restores texts and parameters on an error."""
        before = self.texts, self.params
        try:
            yield
        except BaseException:
            self.texts, self.params = before
            raise

    @contextmanager
    def without_texts(self, keys: Collection[str]) -> Iterator[None]:
        """A context without the texts under these keys."""
        before, self.texts = self.texts, self.texts.without(keys)
        try:
            yield
        finally:
            self.texts = before

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
        self.stored = {**self.stored, **again}
        if before[0] is not None:
            self.forget()
            before[0].close()

    def begin(self) -> None:
        """Called at the start of a call. With untrusted programs, drops the texts in the symbol
        table that no relation holds."""
        self.context = None
        if not self.untrusted:
            return
        remembered = (r for found in self._remembered.values() for r in found.relations.values())
        held = (*self.stored.values(), *remembered, *self.set_aside())
        symbols = without_idle_texts(self.symbols, self.memory_limit, held)
        if symbols is not None:
            self.symbols, self._prepared = symbols, Prepared()
            trim()

    def statements(self) -> list[Statement]:
        """The kept statements."""
        return self.texts.statements()

    def evaluated(self) -> dict[str, Relation]:
        """The cached relations of rules; their inputs may have changed since."""
        return {
            name: relation
            for found in self._remembered.values()
            for name, relation in found.relations.items()
        }

    # --------------------------------------------------------------------------------- data

    def relation_of(
        self, name: str, data: Any, options: LoadOptions = PLAIN, schema: Schema | None = None
    ) -> Relation:
        """Converts data to a relation, by its declaration if there is one."""
        check_relation_name(name)
        path = os.fspath(data) if isinstance(data, (str, os.PathLike)) else None
        if path is not None:
            all_readable(path, self.files)
        declared = schema or self._declared(name)
        if isinstance(data, Relation):
            own = data.columns, data.types
            if options == PLAIN and (declared is None or own == (declared.columns, declared.types)):
                return data
            data = data.to_table(self.symbols)
        found = self._afar(name, data, options, declared)
        if found is not None:
            return found
        gpu = None if self.auto is None else self.auto.for_data(data, self.tuning.gpu_bytes)
        device = gpu or self.device
        there = device_ops(device.ops)

        def made() -> Relation:
            xp = None if there is None else there.xp
            tables = tables_of(data, replace(options, declared=declared, what=name, there=xp))
            relation, loaded = relation_of_tables(tables, self.symbols, there)
            if options.findings is not None and relation.types:
                options.findings.count(loaded, relation.length)
            return relation

        with self.watch.work("loading", name if path is None else f"{name} from {path}"):
            if path is not None and there is None:
                # Rows that are read must fit the memory limit, or go to temporary files.
                limits = Limits(memory=self.memory_limit, spill=self.spill, watch=self.watch)
                with nullcontext() if self.spill is None else accounted(limits, CPU.name):
                    relation = self.watch.aside(made)
            else:
                from gdatalog.storage.raw import at_hand

                looked_at = at_hand(data) * OBJECT if there is None else 0
                relation = cancellable(looked_at, made, None)
        if not relation.store.on_host:
            device.hold(relation)
        return relation

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

    def _afar(
        self, name: str, data: Any, options: LoadOptions, declared: Schema | None
    ) -> Relation | None:
        """The relation of data that a cluster's workers read themselves or already have, or
        None."""
        if self.cluster is None or self.knobs.spread == "never" or options.mends or options.row_id:
            return None
        forced = self.knobs.spread == "partition"
        wanted = Wanted(name, self.memory_limit, options.columns, declared, forced)
        with self.watch.work("loading", name):
            return self.cluster.load(data, wanted, self.symbols)

    def _declared(self, name: str) -> Schema | None:
        """The schema of a relation by the kept `.decl`, or None."""
        if not any(isinstance(s, Decl) and name in s.names for s in self.texts.outline()):
            return None
        others = {key: relation for key, relation in self.stored.items() if key != name}
        return self.session(Program(()), stored=others).checked.schemas.get(name)

    def put(self, name: str, relation: Relation) -> None:
        """Stores a relation in place of all data of that name: rows that were loaded or inserted,
        facts, and rows of `.input`. Rules stay."""
        self.change(self.texts.less({name}, "data"), {**self.stored, name: relation}, name)
        rules = self.rules_of(name)
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
            schema = self.session(Program(())).checked.schemas.get(name)
        else:
            schema = None
        if before is not None and options.row_id in before.columns and before.length:
            ids = before.column(before.columns.index(options.row_id))
            options = replace(options, first_row_id=int(ids.max()) + 1)
        more = self.relation_of(name, data, options, schema)
        relation = more if before is None else extended(before, more)
        held = self._size_of_data(name)
        self.change(self.texts, {**self.stored, name: relation}, name)
        new = self._size_of_data(name) - held
        return new, more.length - new

    def _size_of_data(self, name: str) -> int:
        """The number of rows of a relation's data, and of its facts unless it has rules."""
        if self.texts.facts(name) and not self.rules_of(name):
            session = self.session(Program(()), lasting=True)
            if name not in session.validity.broken:
                return session.relation(name).length
        stored = self.stored.get(name)
        return 0 if stored is None else stored.length

    def drop(self, names: Collection[str], part: Part = "all") -> None:
        """Drops the rules of relations, their data, or both."""
        schemas, broken = self.standing()
        for name in names:
            if name not in schemas and name not in broken:
                raise NameResolutionError(f"there is no relation {name!r}", hint=self.near(name))
        stored = self.stored
        if part != "rules":
            stored = {name: held for name, held in stored.items() if name not in names}
        self.change(self.texts.less(names, part), stored, *names)

    def change(self, texts: ProgramTexts, stored: dict[str, Relation], *names: str) -> None:
        """Replaces the texts and the data of the named relations; warns about kept rules that
        become invalid."""
        known = schemas_of(stored)
        retyped = any(self._known.get(name) != known.get(name) for name in names)
        session = None
        if texts is not self.texts or (retyped and any(map(texts.speaks_of, names))):
            session = self.session(Program(()), stored=stored, texts=texts)
        self.texts, self.stored = texts, stored
        if session is not None:
            self.tell_invalid(session.validity)

    def tell_invalid(self, validity: Validity | None = None) -> None:
        """Warns about kept statements that have become invalid, and what depends on them."""
        if validity is None:
            validity = self.session(Program(())).validity
        known, self._invalid = self._invalid, frozenset(map(str, validity.invalid.values()))
        for error in dict.fromkeys(validity.invalid.values()):
            if str(error) not in known:
                self.on_caution(caution_of(error, validity.broken))

    def rules_of(self, name: str) -> int:
        """The number of rules that define a relation."""
        statements = self.texts.outline() if self.texts.speaks_of(name) else ()
        rules = (s for s in statements if isinstance(s, Rule) and s.body is not None)
        return sum(name in names_of(rule) for rule in rules)

    def standing(self) -> tuple[dict[str, Schema], Mapping[str, Cause]]:
        """The schemas of valid relations by name, and the causes of invalid ones."""
        session = self.session(Program(()))
        schemas = session.checked.schemas
        broken = session.validity.broken
        names = sorted(name for name in schemas if not name.startswith("?") and name not in broken)
        return {name: schemas[name] for name in names}, broken

    def near(self, name: object) -> str | None:
        """A spelling hint."""
        close = meant(str(name), [known for part in self.standing() for known in part])
        return None if close is None else f"did you mean {close!r}?"

    # ----------------------------------------------------------------------------- sessions

    def force(self, **knobs: Any) -> None:
        """Fixes choices that the engine makes otherwise, such as the strategy."""
        self.knobs = replace(self.knobs, **knobs)

    def tune(self, **thresholds: Any) -> None:
        """Changes the thresholds of the engine's choices, for tests."""
        self.tuning = replace(self.tuning, **thresholds)

    def check_open(self) -> None:
        if self.closed:
            raise UsageError("this database is closed")

    def parse(self, text: str, name: str, bare: bool = False) -> Program:
        self.check_open()
        if not isinstance(text, str):
            raise UsageError(f"a program is a text, not of type {type(text).__name__}")
        if self.untrusted:
            check_length(text, name)
        program, cautions = self._prepared.parse(text, name, bare)
        self.warn(cautions)
        return program

    def parse_file(self, path: str) -> Program:
        self.check_open()
        return self.parse(read_text(path, self.files), path)

    def open(self, text: str, params: Params, **options: Any) -> Session:
        """A session for a query whose text is not kept; `options`: those of `session`."""
        return self.session(self.parse(text, "<query>", bare=True), params, **options)

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
    ) -> Session:
        """Checks a program and keeps its rules if they are valid, without evaluating them.

        `key`: the name of the program, which replaces an earlier program of that name. None: each
        statement is kept separately, so that a statement typed again replaces itself; since more
        statements may follow, a relation without data causes no warning.

        `ends`: whether no call follows the program's own queries.
        """
        before, home = self.texts, folders or self.folders
        if key is not None:
            own = {key: program.statements}
        else:
            program = Program(tuple(one_by_one(program.statements)))
            own = {format_node(s): (s,) for s in program.statements}
        # Repeated facts stay where they are.
        same = {name for name, text in own.items() if before.repeats(name, text)}
        with self.rollback():
            self.texts = before.without(own.keys() - same)
            session = self.session(
                program, params, folders=folders, reports=reports, lasting=True,
                whole=key is not None, strategy=strategy, ends=ends, passes=passes,
            )  # fmt: skip
        rules = session.seen.rules
        more: dict[str, KeptRules] = {}
        if key is None:
            known = {id(s): name for name, (s, *_) in own.items()}
            texts = {known.get(id(s)) or format_node(s): s for s in rules}
            more = {name: KeptRules.of((s,), home) for name, s in texts.items() if name not in same}
        elif rules and key not in same:
            more = {key: KeptRules.of(rules, home, session.kept_outline())}
        self.texts = self.texts.with_more(more)
        session.kept_in(self.texts)
        self.params = {**self.params, **session.kept_params(params or {})}
        # Drop evaluated relations that no longer exist.
        for names in [n for n in self._remembered if not session.checked.schemas.keys() >= {*n}]:
            del self._remembered[names]
        return session

    def session(
        self,
        program: Program,
        params: Params = None,
        *,
        stored: Mapping[str, Relation] | None = None,
        texts: ProgramTexts | None = None,
        folders: Folders | None = None,
        reports: Metrics | None = None,
        lasting: bool = False,
        whole: bool = False,
        strategy: str = "auto",
        ends: bool = False,
        passes: PassTrace | None = None,
    ) -> Session:
        """A checked program over the kept rules and data; planned anew if `passes` are noted."""
        self.check_open()
        chosen = strategy_of(strategy)
        knobs = self.knobs if chosen == "auto" else replace(self.knobs, strategy=chosen)
        metrics = Metrics(lasting=False) if reports is None else reports
        self.context = context = ExecutionContext(
            Limits(memory=self.memory_limit, spill=self.spill, watch=self.watch),
            Scope(self.symbols, bounded=self.untrusted),
            metrics,
            knobs,
            self.device,
            self.cluster,
            self.chunk_rows,
            self.tuning,
            later=self.auto,
            passes=passes,
        )
        with metrics.spending():
            return Session(
                self.stored if stored is None else stored,
                self.texts if texts is None else texts,
                program,
                context,
                "none" if self.untrusted else self.files,
                folders or self.folders,
                self.on_caution,
                self._remembered if reports is None else {},
                self._prepared if passes is None else self._prepared.anew(),
                {**self.params, **(params or {})},
                lasting,
                whole,
                ends,
                self._known if stored is None else None,
            )

    def tell(self, session: Session, given: Params = None) -> None:
        """Reports the warnings of a session, also about parameters that were `given` for its text
        and have no effect."""
        self.warn([*session.cautions, *session.ignored(given or ())])
        if session.lasting:
            self.tell_invalid(session.validity)
