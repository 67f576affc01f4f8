"""`Database`: loads data, keeps rules, answers queries."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal

from gdatalog.cancellation import Watch
from gdatalog.engine.devices import DeviceTurn
from gdatalog.errors import (
    Caution,
    Interrupted,
    RowLimitError,
    TimeLimitError,
    UsageError,
    check_rows,
)
from gdatalog.options import seconds_of
from gdatalog.pattern_queries import PatternQueries
from gdatalog.progress import OnProgress
from gdatalog.settings import Settings, Strategy
from gdatalog.starting import Start
from gdatalog.storage.load_options import LoadOptions, Nulls, checked
from gdatalog.values import brief, plain

if TYPE_CHECKING:
    from gdatalog.engine.catalog.folders import Folders
    from gdatalog.parser import Program
    from gdatalog.prepared import Inserter, PreparedQuery
    from gdatalog.relations import Inserted, Relations
    from gdatalog.report import Explanation, Profile
    from gdatalog.result import Result
    from gdatalog.workspace import Workspace

Params = Mapping[str, Any] | None
# Errors that end a call which might have gone on.
_ENDINGS = (MemoryError, TimeLimitError, RowLimitError, Interrupted, KeyboardInterrupt)
_PACKAGE = __name__.partition(".")[0]


class ProgramWarning(UserWarning):
    """A warning about a program that is valid but probably means something else."""


class Database(PatternQueries):
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
        self._watch = Watch()
        self._lock = DeviceTurn(start.use, self._watch)
        if start.later is not None:
            start.later.entered = self._lock.enter
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
        """Free all data, and interrupt a call that runs in another thread. You cannot use the
        database afterwards."""
        with self._lock.hurried():
            self.workspace.close()

    def interrupt(self) -> None:
        """Stop the call that runs in another thread. That call raises `Interrupted`, which says
        what it was doing and how far it was."""
        self._watch.stop.set()

    @contextmanager
    def call(
        self, on_progress: OnProgress | None = None, timeout: float | None = None
    ) -> Iterator[None]:
        """Make several calls as one. They share `timeout` seconds, `interrupt` stops all of them,
        and calls of other threads wait until the block ends, except for look-ups: these read what
        the database held before the block.

        >>> import gdatalog as gd
        >>> db = gd.connect()
        >>> with db.call(timeout=5):
        ...     db["E"] = [(1, 2), (2, 3)]
        ...     len(db.query("?- E(x, y), E(y, z)."))
        1
        """
        seconds = seconds_of(timeout)
        workspace = self.workspace  # imports do not count as time of the call
        seconds = workspace.settings.timeout if seconds is None else seconds
        with self._lock.within(seconds), self._watch.reporting(on_progress):
            outermost = self._watch.calls == 1
            if outermost:
                workspace.begin()
            try:
                yield
            except _ENDINGS as error:
                found = vars(error).setdefault("profile", None)  # Python's own have none
                if found is None and workspace.context is not None:
                    from gdatalog.report import Profile

                    vars(error)["profile"] = Profile.after(workspace.context, None, error)
                raise
            finally:
                if outermost:
                    workspace.published = workspace.catalog

    # --------------------------------------------------------------------------------- data

    def load(
        self,
        name: str,
        data: Any,
        *,
        columns: Sequence[str] | None = None,
        header: bool | None = None,
        nulls: Nulls = "error",
        fill: Mapping[str, Any] | None = None,
        row_id: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        """Store data under a name; it replaces all data of that relation.

        It replaces rows that were loaded or inserted, facts of programs, and rows that `.input`
        read. Rules stay, and a warning says that they still add to the relation. A warning also
        names kept rules that do not fit the new data: they are invalid until they fit again, or
        until you drop them.

        `data` is a DataFrame (pandas, polars, cuDF), an Arrow table or stream, an array (NumPy,
        CuPy), a list of tuples, a scipy.sparse matrix, a networkx graph, or a path: of a file, of a
        folder of Parquet files, or a pattern such as "edges/*.csv". On a cluster it may be a dask
        DataFrame, and workers read Parquet files that are not small themselves.

        `columns` selects columns by name (`column0`, `column1` where there are none), or names all
        of them. If the relation is declared, its columns match by name where the data has all of
        its names, and by position where it has none of them; anything in between is an error.
        `header` says whether the first line of a text file holds names; else the types decide.

        A missing value is an error. `nulls="drop"` drops rows with missing values and warns how
        many; `fill` gives values for them, by column.

        A relation is a set: duplicate rows become one, with a warning. `row_id` adds a column of
        row numbers in front, which keeps all rows.

        Data on the GPU that runs the queries stays there, except for texts. `on_progress` gets
        the progress of loading, as in `query`.

        >>> import gdatalog as gd
        >>> db = gd.connect()
        >>> db.load("E", [(1, 2), (2, 3)], columns=["src", "dst"])
        >>> db["E"].columns
        ('src', 'dst')
        """
        options = checked(LoadOptions(columns, header, nulls, {} if fill is None else fill, row_id))
        name = plain(name)
        with self.call(on_progress):
            findings = self.workspace.load(name, self._shared(data), options)
        self.workspace.tell_of(name, findings)

    def _shared(self, data: Any) -> Any:
        """Data to load; the rows of a result need not be decoded."""
        self.workspace.check_open()
        from gdatalog.result import Result

        return data.shared(self.workspace.symbols) if isinstance(data, Result) else data

    def __setitem__(self, name: str, data: Any) -> None:
        self.load(name, data)

    def insert(
        self,
        name: str,
        rows: Any,
        *,
        nulls: Nulls = "error",
        fill: Mapping[str, Any] | None = None,
        row_id: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> Inserted:
        """Add rows to a relation. If there is no such relation, create it.

        If the relation has rules, the rows are base facts beside those that the rules derive, and
        the returned value says so, beside the numbers of new rows (`rows`) and of rows that were
        `known`. Columns match, and missing values are dropped or filled, as in
        `load`; `row_id` continues from the greatest number. `on_progress` gets the progress of
        loading, as in `query`.

        >>> import gdatalog as gd
        >>> db = gd.connect()
        >>> db["E"] = [(1, 2)]
        >>> db.insert("E", [(2, 3), (1, 2)])
        E: 1 row inserted, 1 known already
        >>> db.insert("E", [(1, 2)]).rows, len(db["E"]), len(db["E"].new)
        (0, 2, 0)
        >>> _ = db.run("path(x, y) <- E(x, y).")
        >>> db.insert("path", [(7, 8)])
        path: 1 row inserted, as base facts beside its 1 rule
        """
        inserter = self.inserter(name, nulls=nulls, fill=fill, row_id=row_id)
        return inserter(rows, on_progress=on_progress)

    def inserter(
        self,
        name: str,
        *,
        nulls: Nulls = "error",
        fill: Mapping[str, Any] | None = None,
        row_id: str | None = None,
    ) -> Inserter:
        """Prepare inserts into a relation: a function of the rows, with the options of `insert`.

        >>> import gdatalog as gd
        >>> db = gd.connect()
        >>> insert = db.inserter("E")
        >>> insert([(1, 2)])
        E: 1 row inserted
        """
        from gdatalog.prepared import Inserter

        options = LoadOptions(None, None, nulls, {} if fill is None else fill, row_id)
        return Inserter(self.workspace, self.call, plain(name), options)

    def drop(self, name: str, *, only: Literal["rules", "data"] | None = None) -> tuple[str, ...]:
        """Drop a relation: its rules, its data and its declaration, or `only` its rules or data.

        Data are rows that were loaded or inserted, facts of programs and rows that `.input` read.
        Returns the relations that depended on it: they cannot be evaluated until it is there
        again, and a warning names their rules. `del db[name]` drops all of it, too.

        >>> import gdatalog as gd
        >>> db = gd.connect()
        >>> _ = db.run("E(1, 2). path(x, y) <- E(x, y).")
        >>> db.drop("path")
        ()
        >>> list(db.relations)
        ['E']
        """
        if only not in (None, "rules", "data"):
            raise UsageError(f"only is 'rules', 'data' or None, not {only!r}")
        with self.call():
            workspace = self.workspace
            workspace.check_open()
            before = workspace.standing()[1]
            workspace.drop([name], only or "all")
            return tuple(sorted(workspace.standing()[1].keys() - before.keys() - {name}))

    def __delitem__(self, name: str) -> None:
        self.drop(name)

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

        return Relations(self.workspace, self.call)

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
        if strategy == "auto" and max_rows is None and self.workspace.published.bound:
            from gdatalog.asking import look_up_text

            found = look_up_text(self.workspace, text, params or {}, limit)
            if found is not None:
                return found
        with self.call(on_progress, timeout):
            from gdatalog.asking import ask_text

            return ask_text(self.workspace, text, params or {}, strategy, limit, max_rows)

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
        with self.call():
            from gdatalog.prepared import PreparedQuery

            query = PreparedQuery(self.workspace, self.call, text, params or {}, strategy)
            self.workspace.warn(query.cautions)
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
        with self.call():
            from gdatalog.planner.passes import PassTrace
            from gdatalog.report import explain

            trace = PassTrace() if passes else None
            execution = self.workspace.open(text, params, strategy=strategy, passes=trace)
            plan = explain(execution, [execution.asked()], self.workspace.why)
            self.workspace.warn(execution.ignored(params or ()))
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
        ...     db.profile("n(0). n(x + 1) <- n(x).", timeout=0.1)
        ... except gd.TimeLimitError as error:
        ...     profile = error.profile
        >>> profile.ended
        'time limit'
        """
        with self.call(on_progress, timeout):
            from gdatalog.engine.metrics import Metrics
            from gdatalog.relations import answer
            from gdatalog.report import Profile

            reports = Metrics()
            execution = self.workspace.open(text, params, reports=reports, strategy=strategy)
            profile = Profile.after(execution.context, answer(execution, execution.asked()))
            self.workspace.tell(execution, params)
            return profile


def _warn(caution: Caution) -> None:
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _is_ours(frame):
        level, frame = level + 1, frame.f_back  # up to the user's code
    warnings.warn(caution.format(), ProgramWarning, stacklevel=level)


def _is_ours(frame: FrameType) -> bool:
    name: str = frame.f_globals.get("__name__", "")
    return name.partition(".")[0] == _PACKAGE
