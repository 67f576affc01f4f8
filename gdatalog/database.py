"""A database: data, the rules that were given to it, and answers."""

from __future__ import annotations

import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Event, RLock
from time import perf_counter
from typing import Any

from gdatalog.engine.budget import default_limit, parse_size
from gdatalog.engine.evaluation import Memory
from gdatalog.engine.files import FilePolicy, Folders, read_program, to_stdout, write_relation
from gdatalog.engine.fixpoint import Round, plan_stratum
from gdatalog.engine.run import RuleRun
from gdatalog.engine.session import (
    Files,
    Session,
    Settings,
    input_directives,
    input_keys,
    union,
)
from gdatalog.errors import (
    Caution,
    DeviceError,
    Interrupted,
    NameResolutionError,
    UsageError,
)
from gdatalog.parser import Program, format_node, parse_with_cautions
from gdatalog.parser.syntax import Decl, Directive, Query, Statement
from gdatalog.planner.checked import Schema, Stratum
from gdatalog.report import Explanation, PlannedRule, PlannedStratum, Profile
from gdatalog.result import Result
from gdatalog.storage.relation import Relation
from gdatalog.storage.symbols import SymbolTable

log = logging.getLogger("gdatalog")

_NAME = re.compile(r"[^\W\d][\w?]*(\.[\w?]+)*'*")


class ProgramWarning(UserWarning):
    """What a program may say but probably did not mean."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What a long query is at: a round of a recursive stratum."""

    relations: tuple[str, ...]
    round: int
    new_rows: int
    total_rows: int


OnProgress = Callable[[Progress], None]


class Database:
    """Relations, rules and answers. Made by `connect`.

    >>> import gdatalog as gd
    >>> with gd.connect() as db:
    ...     db["E"] = [(1, 2), (2, 3), (1, 3)]
    ...     db.query("tr(x,y,z) <- E(x,y), E(y,z), E(x,z), x < y < z.").fetchall()
    [(1, 2, 3)]
    """

    def __init__(
        self,
        *,
        device: str = "auto",
        memory_limit: str | int | None = None,
        files: str | os.PathLike[str] = "all",
    ) -> None:
        self.device = _device(device)
        self.memory_limit = default_limit() if memory_limit is None else parse_size(memory_limit)
        self.symbols = SymbolTable()
        self.on_caution: Callable[[Caution], None] = _warn
        self._policy = FilePolicy(files)
        self._stored: dict[str, Relation] = {}
        self._texts: dict[str, tuple[Statement, ...]] = {}  # rules that stay, by name of the text
        self._params: Mapping[str, Any] = {}  # what was given with them
        self._folders = Folders()  # where texts read and write that do not say
        self._remembered: Memory = {}
        self._read: Files = {}
        self._lock = RLock()
        self._stop = Event()
        self._closed = False
        self._chunk_rows: int | None = None

    def __repr__(self) -> str:
        if self._closed:
            return "<gdatalog.Database, closed>"
        return f"<gdatalog.Database on {self.device}: {', '.join(self.relations) or 'empty'}>"

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of all data. The database cannot be used afterwards."""
        with self._lock:
            self._closed = True
            self._stored, self._texts, self._remembered, self._read = {}, {}, {}, {}

    def interrupt(self) -> None:
        """Stop the query that runs in another thread: it raises `Interrupted`."""
        self._stop.set()

    # --------------------------------------------------------------------------------- data

    def load(self, name: str, data: Any, *, columns: Sequence[str] | None = None) -> None:
        """Put data under a name, in place of what was there.

        `data` is a DataFrame (pandas, polars, cuDF), an Arrow table or stream, a NumPy array,
        a list of tuples, a scipy.sparse matrix, a networkx graph, or a path of a file.

        >>> import gdatalog as gd
        >>> db = gd.connect()
        >>> db.load("E", [(1, 2), (2, 3)], columns=["src", "dst"])
        >>> db["E"].columns
        ('src', 'dst')
        """
        with self._lock:
            self._check_open()
            relation = self._relation_of(name, data, columns)
            self._stored = {**self._stored, name: relation}

    def __setitem__(self, name: str, data: Any) -> None:
        self.load(name, data)

    def insert(self, name: str, rows: Any) -> None:
        """Add rows to a relation, which is made if it is not there.

        >>> import gdatalog as gd
        >>> db = gd.connect()
        >>> db["E"] = [(1, 2)]
        >>> db.insert("E", [(2, 3), (1, 2)])
        >>> len(db["E"])
        2
        """
        with self._lock:
            self._check_open()
            before = self._stored.get(name)
            if before is None:
                self.load(name, rows)
                return
            schema = Schema(name, before.columns, before.types)
            more = self._relation_of(name, rows, None, schema)
            self._stored = {**self._stored, name: union([before, more])}

    def __delitem__(self, name: str) -> None:
        with self._lock:
            self._check_open()
            if name not in self._stored:
                raise NameResolutionError(
                    f"there is no data under the name {name!r}", hint=self._near(name)
                )
            self._stored = {key: rel for key, rel in self._stored.items() if key != name}

    def __getitem__(self, name: str) -> Result:
        """A relation: stored data, or what the rules give."""
        return self.relations[name]

    @property
    def relations(self) -> Relations:
        """All relations by name: a mapping to results, evaluated when asked for."""
        return Relations(self)

    def _relation_of(
        self,
        name: str,
        data: Any,
        columns: Sequence[str] | None,
        schema: Schema | None = None,
    ) -> Relation:
        from gdatalog.storage.frames import table_from

        if (
            not isinstance(name, str)
            or _NAME.fullmatch(name) is None
            or name in ("true", "false", "not", "inf", "_")
        ):
            raise UsageError(f"not a relation's name: {name!r}")
        if isinstance(data, Result):
            data = data.table()
        if isinstance(data, (str, os.PathLike)):
            self._policy.reading(os.fspath(data), None)
        declared = schema or self._declared(name)
        table = table_from(data, columns=columns, declared=declared, what=name)
        return Relation.from_table(table, self.symbols)

    def _declared(self, name: str) -> Schema | None:
        """What a `.decl` of the rules that stay says of a relation."""
        if not any(
            isinstance(s, Decl) and name in s.names for text in self._texts.values() for s in text
        ):
            return None
        session = self._session(Program(()), {}, self._stored_but(name), lasting=True)
        return session.checked.schemas[name]

    def _stored_but(self, name: str) -> dict[str, Relation]:
        return {key: relation for key, relation in self._stored.items() if key != name}

    # ------------------------------------------------------------------------------ queries

    def query(
        self,
        text: str,
        params: Mapping[str, Any] | None = None,
        *,
        limit: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> Result:
        """The answer of a text's `?-`, or else the relation of its last rule.

        The text's rules extend what the database has for this query only. A bare body is a
        query too. `params` gives values to `$name`s.

        >>> import gdatalog as gd
        >>> db = gd.connect()
        >>> db["E"] = [(1, 2), (2, 3)]
        >>> db.query("?- E($from, y).", {"from": 2}).fetchall()
        [(3,)]
        """
        if limit is not None and limit < 0:
            raise UsageError(f"a limit cannot be negative: {limit}")
        with self._lock:
            session = self._open(text, params, on_progress=on_progress)
            relation = session.relation(_asked(session), limit)
            self._tell(session)
            result = Result(relation, self.symbols)
            return result.head(limit) if limit is not None else result

    def run(
        self,
        text: str,
        params: Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> dict[str, Result]:
        """Keep a text's rules; give what each of its outputs holds.

        The rules are views, made anew when what they read changes. Running a text under the
        same `name` again (or the very same text) replaces the rules that it gave before.

        >>> import gdatalog as gd
        >>> db = gd.connect()
        >>> db["E"] = [(1, 2), (2, 3)]
        >>> _ = db.run("path(x,z) <- E(x,z) ; path(x,y), E(y,z).")
        >>> db["path"].sorted().fetchall()
        [(1, 2), (1, 3), (2, 3)]
        """
        with self._lock:
            program = self._parse(text, name or "<run>")
            return self._run(program, name or text, params, Folders(), on_progress)

    def run_file(
        self,
        path: str | os.PathLike[str],
        params: Mapping[str, Any] | None = None,
        *,
        facts: str | os.PathLike[str] = ".",
        out: str | os.PathLike[str] = ".",
        include: Sequence[str | os.PathLike[str]] = (),
        on_progress: OnProgress | None = None,
    ) -> dict[str, Result]:
        """Run a `.dl` file: read its inputs, keep its rules, write its outputs.

        Gives what each output holds. `facts` and `out` are the folders of `.input R` and
        `.output R`, `include` those where `.include` looks besides the file's own.
        """
        with self._lock:
            self._check_open()
            name = os.fspath(path)
            program = read_program(name, self._policy)
            folders = Folders(
                os.fspath(facts), os.fspath(out), tuple(os.fspath(folder) for folder in include)
            )
            return self._run(program, os.path.abspath(name), params, folders, on_progress)

    def _run(
        self,
        program: Program,
        key: str,
        params: Mapping[str, Any] | None,
        folders: Folders,
        on_progress: OnProgress | None,
    ) -> dict[str, Result]:
        outputs: dict[str, Result] = {}
        before = self._texts, self._params, self._read
        try:
            session = self._keep(program, key, params, folders, on_progress)
            for ask in asks(session):
                if ask.directive is None or ask.directive.kind == "printsize":
                    continue
                result = outputs[ask.name] = self._result(session, ask.name)
                if not to_stdout(ask.directive):
                    table = result.table()
                    write_relation(ask.directive, ask.name, table, self._policy, folders)
        except BaseException:
            self._texts, self._params, self._read = before
            raise
        self._tell(session)
        return outputs

    def _keep(
        self,
        program: Program,
        key: str | None,
        params: Mapping[str, Any] | None = None,
        folders: Folders | None = None,
        on_progress: OnProgress | None = None,
        reports: list[RuleRun] | None = None,
    ) -> Session:
        """Checks a program and keeps its rules, if they are right; nothing is evaluated yet.

        `key`: the name that its rules are kept under, in place of what was under it. None: each
        statement is kept by itself, so that what is typed again replaces what was typed before;
        more is to come, so that a relation without data is no reason to warn.
        """
        before = self._texts
        own = [key] if key is not None else [format_node(s) for s in program.statements]
        self._texts = {name: rules for name, rules in before.items() if name not in own}
        try:
            session = self._session(
                program, params or {}, self._stored, folders, on_progress,
                lasting=True, reports=reports, whole=key is not None,
            )  # fmt: skip
        except BaseException:
            self._texts = before
            raise
        rules = session.parts.rules
        more = {key: rules} if key is not None else {format_node(s): (s,) for s in rules}
        self._texts = {**self._texts, **(more if rules else {})}
        self._params = {**self._params, **(params or {})}
        kept = Program(tuple(s for text in self._texts.values() for s in text))
        wanted = set(input_keys(input_directives(kept)))
        self._read = {key: file for key, file in session.read.items() if key in wanted}
        return session

    def _result(self, session: Session, name: str) -> Result:
        return Result(session.relation(name), self.symbols)

    # -------------------------------------------------------------------------------- plans

    def explain(self, text: str, params: Mapping[str, Any] | None = None) -> Explanation:
        """How a text would be evaluated: nothing is, but what its plan's sizes need."""
        with self._lock:
            session = self._open(text, params)
            return self._explained(session, [_asked(session)])

    def _explained(self, session: Session, names: Sequence[str]) -> Explanation:
        around = session.evaluation.surroundings()
        return Explanation(
            [
                PlannedStratum(
                    stratum,
                    tuple(PlannedRule(r, plan) for r, plan in plan_stratum(stratum, around)),
                )
                for stratum in session.evaluation.strata_of(names)
            ]
        )

    def profile(self, text: str, params: Mapping[str, Any] | None = None) -> Profile:
        """Evaluate a text, and tell rows and time of every step. Nothing remembered is used."""
        with self._lock:
            reports: list[RuleRun] = []
            session = self._open(text, params, reports=reports)
            started = perf_counter()
            relation = session.relation(_asked(session))
            seconds = perf_counter() - started
            peak = session.evaluation.limits.peak
            self._tell(session)
            return Profile(reports, seconds, peak, Result(relation, self.symbols))

    # ----------------------------------------------------------------------------- sessions

    def _parse(self, text: str, name: str, bare: bool = False) -> Program:
        self._check_open()
        if not isinstance(text, str):
            raise UsageError(f"a program is a text, not a {type(text).__name__}")
        program, cautions = parse_with_cautions(text, name, bare=bare)
        for caution in cautions:
            self.on_caution(caution)
        return program

    def _open(
        self,
        text: str,
        params: Mapping[str, Any] | None,
        on_progress: OnProgress | None = None,
        reports: list[RuleRun] | None = None,
    ) -> Session:
        """A session for a text that is asked, not kept."""
        program = self._parse(text, "<query>", bare=True)
        return self._session(
            program, params or {}, self._stored, None, on_progress, reports=reports
        )

    def _session(
        self,
        program: Program,
        params: Mapping[str, Any],
        stored: Mapping[str, Relation],
        folders: Folders | None = None,
        on_progress: OnProgress | None = None,
        *,
        lasting: bool = False,
        whole: bool = False,
        reports: list[RuleRun] | None = None,
    ) -> Session:
        self._check_open()
        self._stop.clear()

        def poll() -> None:
            if self._stop.is_set():
                self._stop.clear()
                raise Interrupted("the query was interrupted")

        def on_round(stratum: Stratum, done: Round) -> None:
            if on_progress is not None:
                new, total = sum(done.new.values()), sum(done.total.values())
                on_progress(Progress(stratum.relations, done.number, new, total))

        settings = Settings(
            self._policy,
            folders or self._folders,
            self.memory_limit,
            poll,
            on_round,
            self._chunk_rows,
            reports,
        )
        views = tuple(statement for text in self._texts.values() for statement in text)
        return Session(
            stored,
            views,
            program,
            self.symbols,
            settings,
            self._remembered if reports is None else {},
            self._read,
            {**self._params, **params},
            lasting,
            whole=whole,
        )

    def _tell(self, session: Session) -> None:
        for caution in session.cautions:
            self.on_caution(caution)

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("this database is closed")

    def _near(self, name: str) -> str | None:
        from difflib import get_close_matches

        close = get_close_matches(name, self.relations, 1)
        return f"did you mean {close[0]!r}?" if close else None


@dataclass(frozen=True, slots=True)
class Ask:
    """One thing that a program asks for: an output or printsize, or else a query."""

    name: str
    directive: Directive | None


def asks(session: Session) -> list[Ask]:
    """What a session's text asks for, in its order."""
    queries = {query.span: query.relation for query in session.own_queries()}
    found: list[Ask] = []
    for statement in session.program.statements:
        if isinstance(statement, Query):
            found.append(Ask(queries[statement.span], None))
        elif isinstance(statement, Directive) and statement.kind in ("output", "printsize"):
            found += [Ask(name, statement) for name in statement.names]
        elif isinstance(statement, Decl):
            for kind in ("output", "printsize"):
                if kind in statement.qualifiers:
                    directive = Directive(kind, statement.names, span=statement.span)
                    found += [Ask(name, directive) for name in statement.names]
    return found


class Relations(Mapping[str, Result]):
    """The relations of a database, by name."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def _names(self) -> dict[str, Schema]:
        db = self._db
        with db._lock:
            session = db._session(Program(()), {}, db._stored, lasting=True)
            schemas = session.checked.schemas
            return {name: schemas[name] for name in sorted(schemas) if not name.startswith("?")}

    def __getitem__(self, name: str) -> Result:
        db = self._db
        with db._lock:
            session = db._session(Program(()), {}, db._stored, lasting=True)
            if name not in session.checked.schemas:
                raise NameResolutionError(f"there is no relation {name!r}", hint=db._near(name))
            return db._result(session, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def __contains__(self, name: object) -> bool:
        return name in self._names()

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def schema(self, name: str) -> Schema:
        """A relation's columns and types; nothing is evaluated."""
        return self._names()[name]

    def __repr__(self) -> str:
        lines = []
        for name, schema in self._names().items():
            columns = ", ".join(map(": ".join, zip(schema.columns, schema.types, strict=True)))
            lines.append(f"{name}({columns})")
        return "\n".join(lines) or "no relations"


def _asked(session: Session) -> str:
    """The relation that a text asks for."""
    queries = session.own_queries()
    if len(queries) > 1:
        raise UsageError(
            f"a query has one answer, and this text asks {len(queries)} times",
            queries[1].span,
            hint="call db.query once for each `?-`",
        )
    if queries:
        return queries[0].relation
    if session.checked.last is None or not session.parts.rules:
        raise UsageError(
            "this text asks for nothing",
            hint="end it with `?- body.`, or with the rule whose relation you want",
        )
    return session.checked.last


def _device(device: str) -> str:
    if device not in ("auto", "cpu") and not re.fullmatch(r"cuda(:\d+)?", device):
        raise UsageError(f"there is no device {device!r}", hint='"auto", "cpu", "cuda", "cuda:1"')
    if device.startswith("cuda"):
        raise DeviceError(
            "this version of gdatalog runs on the CPU only",
            hint='use device="cpu", or device="auto", which takes a GPU once there is support',
        )
    if device == "auto":
        log.info("device: cpu")
    return "cpu"


def _warn(caution: Caution) -> None:
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__") == __name__:
        level, frame = level + 1, frame.f_back  # out of this file, to who called it
    warnings.warn(caution.format(), ProgramWarning, stacklevel=level)


def connect(
    *,
    device: str = "auto",
    memory_limit: str | int | None = None,
    files: str | os.PathLike[str] = "all",
) -> Database:
    """A new, empty database.

    `memory_limit` ("8GiB", or bytes) bounds what a query may hold. `files` bounds what a text
    may read and write: "all", "read", "none", or a folder.

    >>> import gdatalog as gd
    >>> gd.connect(memory_limit="1GiB", files="none")
    <gdatalog.Database on cpu: empty>
    """
    return Database(device=device, memory_limit=memory_limit, files=files)


def query(
    text: str,
    data: Mapping[str, Any] | None = None,
    params: Mapping[str, Any] | None = None,
    *,
    device: str = "auto",
) -> Result:
    """One query over some data, without keeping a database.

    >>> import gdatalog as gd
    >>> gd.query("n(count()) <- E(_, _).", {"E": [(1, 2), (2, 3)]}).fetchall()
    [(2,)]
    """
    with connect(device=device) as db:
        for name, rows in (data or {}).items():
            db.load(name, rows)
        return db.query(text, params)
