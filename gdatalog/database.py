"""`Database`: loads data, keeps rules, answers queries."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import TYPE_CHECKING, Any

from gdatalog.cancellation import Watch
from gdatalog.data_calls import DataCalls
from gdatalog.errors import Caution, Interrupted, RowLimitError, TimeLimitError, check_rows
from gdatalog.options import seconds_of
from gdatalog.pattern_queries import PatternQueries
from gdatalog.progress import OnProgress
from gdatalog.settings import Settings, Strategy
from gdatalog.starting import Start
from gdatalog.terminal_text import brief
from gdatalog.turns import Turns

if TYPE_CHECKING:
    import pandas as pd

    from gdatalog.engine.catalog.folders import Folders
    from gdatalog.parser import Program
    from gdatalog.prepared import PreparedQuery
    from gdatalog.relations import Relations
    from gdatalog.report import Explanation, Profile
    from gdatalog.result import Result
    from gdatalog.session import Session
    from gdatalog.workspace import Workspace

Params = Mapping[str, Any] | None
# Errors that end a call which might have gone on.
_ENDINGS = (MemoryError, TimeLimitError, RowLimitError, Interrupted, KeyboardInterrupt)
_PACKAGE = __name__.partition(".")[0]


class ProgramWarning(UserWarning):
    """A warning about a program that is valid but probably means something else."""


class Database(DataCalls, PatternQueries):
    """Holds relations and rules, and answers queries. `connect` makes one.

    >>> import gdatalog as gd
    >>> with gd.connect() as db:
    ...     db["E"] = [(1, 2), (2, 3), (1, 3)]
    ...     db.query("tr(x,y,z) <- E(x,y), E(y,z), E(x,z), x < y < z.").fetchall()
    [(1, 2, 3)]
    """

    def __init__(self, start: Start) -> None:
        """`start`: the arguments of `connect`."""
        self._start = start
        self.memory_limit = start.memory_limit
        self._watch = Watch()  # of the calls of this thread
        self._turns = Turns(start.use, self._watch)
        if start.later is not None:
            start.later.entered = self._turns.enter
        if start.cluster is not None:
            self._behind()

    def _behind(self) -> Workspace:
        made = self._start.workspace(_warn, self._watch)
        # Concurrent threads get the same workspace.
        found: Workspace = vars(self).setdefault("_made", made)
        return found

    @property
    def workspace(self) -> Workspace:
        """The state of the database, for tools that show or change it, such as the prompt. Its
        methods do not wait for other threads: use them within `call`. The first access imports the
        engine.

        >>> import gdatalog as gd
        >>> db = gd.connect()
        >>> with db.call():
        ...     db.workspace.statements()
        []
        """
        return vars(self).get("_made") or self._behind()

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self.workspace.closed

    @property
    def device(self) -> str:
        """Where queries run: "cpu", or a GPU as "cuda:0"; "cpu and cuda:0" once `device="auto"` has
        opened a GPU for large work."""
        return self.workspace.device_name

    @property
    def settings(self) -> Settings:
        """The current settings; `set` changes them."""
        return self.workspace.settings

    def set(self, **settings: Any) -> None:
        """Change settings for all calls that follow. docs/settings.md lists them.

        >>> import gdatalog as gd
        >>> db = gd.connect()
        >>> db.set(strategy="levelwise", timeout=30)
        >>> db.settings.timeout
        30.0
        """
        with self.call():
            self.workspace.force(**settings)

    @property
    def cluster(self) -> Any:
        """The Dask cluster that runs its queries, with `workers`, `client`, `address` and
        `dashboard`; None without one."""
        spread = self.workspace.cluster
        return None if spread is None else spread.connection

    def __repr__(self) -> str:
        if self.closed:
            return "<gdatalog.Database, closed>"
        where = self.device if self.cluster is None else f"{self.device} and {self.cluster}"
        return f"<gdatalog.Database on {where}: {brief(', '.join(self.relations)) or 'empty'}>"

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Free all data, and interrupt the calls that run in other threads. You cannot use the
        database afterwards."""
        workspace = self.workspace
        workspace.closed = True
        self._turns.stop_others()
        with self._turns.call(), self._turns.turn():
            workspace.close()

    def interrupt(self) -> None:
        """Stop the calls that run in other threads, also those that wait. Each of them raises
        `Interrupted`, which says what it was doing and how far it was."""
        self._turns.stop()

    @contextmanager
    def call(
        self, on_progress: OnProgress | None = None, timeout: float | None = None
    ) -> Iterator[None]:
        """Make several calls as one. They share `timeout` seconds, `interrupt` stops all of them,
        and changes by other threads wait until the block ends. Until then, queries of other threads
        read what the database held before the block.

        >>> import gdatalog as gd
        >>> db = gd.connect()
        >>> with db.call(timeout=5):
        ...     db["E"] = [(1, 2), (2, 3)]
        ...     len(db.query("?- E(x, y), E(y, z)."))
        1
        """
        with self._session(on_progress, timeout, writes=True):
            yield

    @contextmanager
    def _session(
        self,
        on_progress: OnProgress | None = None,
        timeout: float | None = None,
        writes: bool = False,
    ) -> Iterator[Session]:
        """A context for a call: the session that it reads, or the workspace, which it may change.
        Nested calls that read have the same session."""
        seconds = seconds_of(timeout)
        workspace = self.workspace  # imports do not count as time of the call
        seconds = workspace.settings.timeout if seconds is None else seconds
        turns, here = self._turns, self._turns.here
        with turns.call(on_progress, seconds) as watch:
            before = here.session
            alone = writes or workspace.one_at_a_time
            with turns.turn() if alone else nullcontext():
                if writes:
                    session: Session = self._begun(watch)
                elif before is not None:
                    session = before
                else:
                    if workspace.untrusted:
                        with turns.free() as free:
                            if free:
                                workspace.begin()
                    session = workspace.reading(watch)
                here.session = session
                try:
                    yield session
                except _ENDINGS as error:
                    found = vars(error).setdefault("profile", None)  # Python's own have none
                    if found is None and session.context is not None:
                        from gdatalog.report import Profile

                        vars(error)["profile"] = Profile.after(session.context, None, error)
                    raise
                finally:
                    here.session = before
                    if writes:
                        self._ended(before)

    def _adopt(self) -> None:
        """Hands a database that another thread has opened over to this thread."""
        self._turns.adopt()

    def _begun(self, watch: Watch) -> Workspace:
        """The workspace, at the start of a call that may change it."""
        workspace = self.workspace
        if not workspace.writing:
            workspace.watch = watch
            workspace.begin()
        workspace.writing += 1
        return workspace

    def _ended(self, before: Session | None) -> None:
        """Called at the end of such a call; `before`: the session of the enclosing one."""
        workspace = self.workspace
        workspace.writing -= 1
        if not workspace.writing:
            workspace.published, workspace.watch = workspace.catalog, self._watch
            if before is not None:  # the listener of a query has changed something
                before.renew(workspace.published)

    def __getitem__(self, name: str) -> Result:
        """The rows of a relation: stored ones, and those that its rules derive."""
        return self.relations[name]

    def __contains__(self, name: object) -> bool:
        return name in self.relations

    def __iter__(self) -> Iterator[str]:
        return iter(self.relations)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    @property
    def relations(self) -> Relations:
        """All relations by name: a mapping to results, which are evaluated on access."""
        from gdatalog.relations import Relations

        return Relations(self._session)

    def schema(self) -> pd.DataFrame:
        """The columns of all relations: name, type, the dtype that `df()` gives, the relation's
        number of rows if that is known without evaluation, and its origin: data, rules, or invalid.

        >>> import gdatalog as gd
        >>> db = gd.connect()
        >>> db.load("E", [(1, 2), (2, 3)], columns=["src", "dst"])
        >>> print(db.schema())
          relation column type  dtype  rows origin
        0        E    src  int  int64     2   data
        1        E    dst  int  int64     2   data
        """
        with self._session() as session:
            from gdatalog.relations import schema_frame

            return schema_frame(session)

    # ------------------------------------------------------------------------------ queries

    def query(
        self,
        text: str,
        params: Params = None,
        *,
        strategy: Strategy = "auto",
        limit: int | None = None,
        max_rows: int | None = None,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Result:
        """Answer a text's `?-`; without one, return the relation of its last rule.

        The text's rules hold for this query only. A bare body is a query too. `params` gives
        values to `$name`s.

        `strategy` says how rules run: "lftj", depth-first in compiled loops on all cores;
        "levelwise", breadth-first in array operations, which compiles nothing; "auto" uses
        "levelwise" for small work and "lftj" for large work. The answer is the same.

        `limit` cuts the answer to that many rows. `max_rows` refuses a larger answer: the call
        raises a `RowLimitError` as soon as there are more rows. After `timeout` seconds, which
        include waiting for another thread's call, the call ends with a `TimeLimitError`. Both
        errors leave the database as it was.

        The thread that called `query` calls `on_progress` with a `Progress` about ten times a
        second while the query runs, and when a compilation begins. If `on_progress` raises, the
        query ends with that error, and the database is as it was.

        >>> import gdatalog as gd
        >>> db = gd.connect()
        >>> db["E"] = [(1, 2), (2, 3)]
        >>> db.query("?- E($from, y).", {"from": 2}).fetchall()
        [(3,)]
        """
        check_rows("a limit", limit)
        check_rows("max_rows", max_rows)
        seconds_of(timeout)
        with self._session(on_progress, timeout) as session:
            from gdatalog.asking import ask, reading

            with reading(session, text, params or {}) as (program, given):
                return ask(session, program, given, strategy, limit, max_rows)

    def prepare(
        self, text: str, params: Params = None, *, strategy: Strategy = "auto"
    ) -> PreparedQuery:
        """Parse, check and plan a query once, to ask it many times.

        The result is a function of the values of the text's parameters. `params` gives values for
        calls that give no others, which also say which types these parameters have; those of the
        other parameters follow from their use. `strategy` is as in `query`.

        >>> import gdatalog as gd
        >>> db = gd.connect()
        >>> db["E"] = [(1, 2), (2, 3)]
        >>> q = db.prepare("?- E($x, y).")
        >>> q(x=2).fetchall(), q({"x": 1}, limit=1).fetchall(), dict(q.params)
        ([(3,)], [(2,)], {'x': 'int'})
        """
        with self._session() as session:
            from gdatalog.prepared import PreparedQuery

            query = PreparedQuery(session, self._session, text, params or {}, strategy)
            session.warn(query.cautions)
            return query

    def run(
        self,
        text: str,
        params: Params = None,
        *,
        name: str | None = None,
        strategy: Strategy = "auto",
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> dict[str, Result]:
        """Keep a text's rules, and return the rows of each of its outputs.

        The rules are views: they follow the data that they read. If you run a text under the same
        `name` again (or the very same text), it replaces the rules that it gave before; kept rules
        that do not fit the new ones are invalid from then on, and a warning names them. Facts of
        the text are data, as loaded rows are: `db[name] = rows` replaces them, and running the
        text again brings them back. After `timeout` seconds the call ends with a `TimeLimitError`,
        and nothing is kept.

        >>> import gdatalog as gd
        >>> db = gd.connect()
        >>> db["E"] = [(1, 2), (2, 3)]
        >>> _ = db.run("path(x,z) <- E(x,z) ; path(x,y), E(y,z).")
        >>> db["path"].sorted().fetchall()
        [(1, 2), (1, 3), (2, 3)]
        """
        with self.call(on_progress, timeout):
            from gdatalog.engine.catalog.folders import Folders
            from gdatalog.parser.syntax import Query

            program = self.workspace.parse(text, name or "<run>")
            asked = next((s for s in program.statements if isinstance(s, Query)), None)
            if asked is not None:
                what, hint = "`run` keeps rules and answers no query", "ask it of `db.query(...)`"
                self.workspace.on_caution(Caution(what, asked.span, hint))
            return self._run(program, name or text, params, Folders(), strategy)

    def run_file(
        self,
        path: str | os.PathLike[str],
        params: Params = None,
        *,
        facts: str | os.PathLike[str] = ".",
        out: str | os.PathLike[str] = ".",
        include: Sequence[str | os.PathLike[str]] = (),
        strategy: Strategy = "auto",
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> dict[str, Result]:
        """Run a `.dl` file: read its inputs, keep its rules, write its outputs.

        Returns the rows of each output. `facts` and `out` are the folders of `.input R` and
        `.output R`; `include` are folders that `.include` searches after the file's own. After
        `timeout` seconds the call ends with a `TimeLimitError`, and no rule is kept.
        """
        with self.call(on_progress, timeout):
            from gdatalog.engine.catalog.folders import Folders

            name = os.fspath(path)
            program = self.workspace.parse_file(name)
            folders = Folders(
                os.fspath(facts), os.fspath(out), tuple(os.fspath(folder) for folder in include)
            )
            key = os.path.abspath(name)
            return self._run(program, key, params, folders, strategy)

    def _run(
        self, program: Program, key: str, params: Params, folders: Folders, strategy: Strategy
    ) -> dict[str, Result]:
        from gdatalog.engine.facts.outputs import to_stdout, write_relation
        from gdatalog.relations import answer

        workspace = self.workspace
        outputs: dict[str, Result] = {}
        with workspace.rollback():
            execution = workspace.keep(program, key, params, folders, strategy=strategy)
            for ask in execution.asks():
                if ask.directive is None or ask.directive.kind == "printsize":
                    continue
                result = outputs[ask.name] = answer(execution, ask.name)
                if not to_stdout(ask.directive):
                    write_relation(ask.directive, ask.name, result, execution.files, folders)
        workspace.tell(execution, params)
        return outputs

    # -------------------------------------------------------------------------------- plans

    def explain(
        self,
        text: str,
        params: Params = None,
        *,
        strategy: Strategy = "auto",
        passes: bool = False,
    ) -> Explanation:
        """Show how a text would be evaluated. Only relations whose sizes the plan needs are
        evaluated.

        The result prints as a tree; `save("plan.html")` writes it as a page. With `passes` it also
        shows what each pass of the planner made of the rules.
        """
        with self._session() as session:
            from gdatalog.planner.passes import PassTrace
            from gdatalog.report import explain

            trace = PassTrace() if passes else None
            execution = session.open(text, params, strategy=strategy, passes=trace)
            plan = explain(execution, [execution.asked()], session.why)
            session.warn(execution.ignored(params or ()))
            return plan

    def profile(
        self,
        text: str,
        params: Params = None,
        *,
        strategy: Strategy = "auto",
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Profile:
        """Evaluate a text without cached results, and measure rows and time of every step.

        `timeout` and `on_progress` are as in `query`. If a limit or Ctrl-C ends the call, the
        error's `profile` has what was measured until then.

        >>> import gdatalog as gd
        >>> db = gd.connect(device="cpu")
        >>> try:
        ...     db.profile("n(0). n(x + 1) <- n(x).", timeout=0.5)
        ... except gd.TimeLimitError as error:
        ...     profile = error.profile
        >>> profile.ended
        'time limit'
        """
        with self._session(on_progress, timeout) as session:
            from gdatalog.engine.metrics import Metrics
            from gdatalog.relations import answer
            from gdatalog.report import Profile

            reports = Metrics()
            execution = session.open(text, params, reports=reports, strategy=strategy)
            found = answer(execution, execution.asked(), cut=execution.compiled.cut)
            profile = Profile.after(execution.context, found)
            session.tell(execution, params)
            return profile


def _warn(caution: Caution) -> None:
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _is_ours(frame):
        level, frame = level + 1, frame.f_back  # up to the user's code
    warnings.warn(caution.format(), ProgramWarning, stacklevel=level)


def _is_ours(frame: FrameType) -> bool:
    name: str = frame.f_globals.get("__name__", "")
    return name.partition(".")[0] == _PACKAGE
