"""The magics, `%%datalog` and others, and their database."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

from gdatalog.cancellation import Watch
from gdatalog.database import Database
from gdatalog.errors import Error, NameResolutionError, UsageError
from gdatalog.notebook.answers import (
    Answers,
    CellText,
    How,
    Listing,
    NotebookCells,
    ProgressBar,
    bar_of,
    explained,
    forget,
    line_of,
    list_relations,
    run,
    short_errors,
    warnings_on_stderr,
)
from gdatalog.notebook.options import (
    DATALOG,
    DB,
    EXPLAIN,
    HELP,
    HELP_OPTIONS,
    LOAD,
    PROFILE,
    RELATIONS,
    RULES,
    Completer,
    MagicOptions,
    data_named,
    database_named,
    parameters,
)
from gdatalog.opening import connect
from gdatalog.planner.check import Schema
from gdatalog.progress import amount
from gdatalog.report import Explanation, Profile
from gdatalog.result import Result
from gdatalog.shell import size_of
from gdatalog.shell.commands.database import rules_text
from gdatalog.shell.statements import schema_text
from gdatalog.values import visible, visible_lines

# The shell's attribute for our magics, and IPython's mark for lines without `$` expansion.
OURS = "_gdatalog_magics"
AS_IT_IS = "_ipython_magic_no_var_expand"
_NO_RELATION = re.compile(r"there is no relation [`'](\w+)[`']")

Shown = TypeVar("Shown", Result, Explanation)


class Magics:
    """The magics of one IPython shell."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.cells = NotebookCells(shell)
        options = {name: options for name, _, options, _ in self._table()}
        texts = [name for name, kinds, _, _ in self._table() if "cell" in kinds]
        self.completer = Completer(shell, options, texts, lambda: self.db)
        self.registered = False
        self._bar: ProgressBar | None = None
        self._db: Database | None = None

    # ------------------------------------------------------------------------- in the shell

    @staticmethod
    def of(shell: Any) -> Magics:
        """The magics of a shell; `%reload_ext` keeps them and their database."""
        found: Magics | None = getattr(shell, OURS, None)
        if found is None:
            found = Magics(shell)
            setattr(shell, OURS, found)
        return found

    def register(self) -> None:
        """Registers the magics with the shell, once."""
        if self.registered:
            return
        self.registered = True
        for name, kinds, options, act in self._table():
            for kind in kinds:
                magic = self._magic(name, options, act)
                self.shell.register_magic_function(magic, kind, name)
        self.shell.events.register("pre_run_cell", self._cell_begins)
        self.shell.events.register("post_run_cell", self._cell_ends)
        self.completer.register()
        self._start_bar()  # for the cell that loads the extension

    def unregister(self) -> None:
        """Removes the magics from the shell."""
        if not self.registered:
            return
        self.registered = False
        for name, kinds, _, _ in self._table():
            for kind in kinds:
                self.shell.magics_manager.magics[kind].pop(name, None)
        self.shell.events.unregister("pre_run_cell", self._cell_begins)
        self.shell.events.unregister("post_run_cell", self._cell_ends)
        self.completer.unregister()
        self._end_bar()

    def _table(self) -> list[tuple[str, tuple[str, ...], MagicOptions, Callable[..., Any]]]:
        """The magics: name, line or cell, options, and function."""
        both, line = ("line", "cell"), ("line",)
        return [
            ("datalog", both, DATALOG, self.datalog),
            ("datalog_explain", both, EXPLAIN, self.explain),
            ("datalog_profile", both, PROFILE, self.profile),
            ("datalog_load", line, LOAD, self.load),
            ("datalog_relations", line, RELATIONS, self.relations),
            ("datalog_rules", line, RULES, self.rules),
            ("datalog_db", line, DB, self.use),
            ("datalog_help", line, HELP_OPTIONS, self.help),
        ]

    def _magic(
        self, name: str, options: MagicOptions, act: Callable[..., Any]
    ) -> Callable[..., Any]:
        """Wraps a function as IPython's magic, with short errors."""

        def magic(line: str, cell: str | None = None) -> Any:
            with short_errors(), self._telling_of_others():
                return act(line, cell)

        magic.__name__ = name
        magic.__doc__ = options.format_help()
        setattr(magic, AS_IT_IS, True)
        return magic

    @contextmanager
    def _telling_of_others(self) -> Iterator[None]:
        """Adds to errors which of the notebook's databases has a relation that ours has not."""
        try:
            yield
        except Error as error:
            for each in error.all:
                missing = _NO_RELATION.match(each.message)
                there = missing and next(self._with_relation(missing[1]), None)
                if missing and there:
                    each.hint = (
                        f"{missing[1]} is a relation of {there}: %datalog_db {there} takes it"
                    )
            raise

    def _with_relation(self, name: str) -> Iterator[str]:
        for variable, value in list(self.shell.user_ns.items()):
            other = isinstance(value, Database) and value is not self._db and not value.closed
            if other and not variable.startswith("_") and name in value.relations:
                yield variable

    def _cell_begins(self, info: Any) -> None:
        if info.store_history:  # otherwise it is part of a cell, as in %%capture
            self.cells.begin(info)
            self._start_bar()

    def _start_bar(self) -> None:
        self._end_bar()
        self._bar = bar_of(self.shell, self._watch)
        if self._bar is not None:
            self._bar.start()

    def _watch(self) -> Watch | None:
        return None if self._db is None else self._db.workspace.watch

    def _end_bar(self) -> None:
        if self._bar is not None:
            self._bar.end()
        self._bar = None

    def _line(self) -> AbstractContextManager[None]:
        return line_of(self.shell, self.db.workspace.watch)

    def _cell_ends(self, result: Any) -> None:
        if not result.info.store_history:
            return
        self._end_bar()
        gone = self.cells.end(result)
        if gone and self._db is not None and not self._db.closed:
            with warnings_on_stderr(self._db):
                forget(self._db, gone)

    @property
    def db(self) -> Database:
        """The database of the magics, opened on first use."""
        if self._db is None:
            self._db = connect()
        if self._db.closed:
            hint = "%datalog_db takes another, as in: db = gdatalog.connect(), then %datalog_db db"
            raise UsageError("the database of the magics is closed", hint=hint)
        return self._db

    # ---------------------------------------------------------------------------- what they do

    def datalog(self, line: str, cell: str | None) -> Result | Explanation | None:
        given, text = self._text(DATALOG, line, cell)
        _check_options(given)
        name = given.name
        if name is not None and not name.isidentifier():
            raise UsageError(
                f"{name!r} cannot be the name of a variable",
                hint="the program begins on the line below %%datalog, a name is optional",
            )
        params = parameters(given, self.shell.user_ns)
        own = CellText(text, self.cells.source, self.cells.key(text, name))
        if given.explain:
            with warnings_on_stderr(self.db), self._line():
                plan = explained(self.db, own, params, given.strategy)
            return plan if name is None else self._named(name, plan, given.show)
        how = How(params, given.strategy, given.limit, given.profile, name is not None, given.quiet)
        answers = self._run(own, how)
        for line in answers.lines:
            print(visible(line))
        results = list(answers.results)
        if answers.profile is not None:
            self._display(answers.profile)
        if name is not None:
            return self._named(name, results[-1], given.show)
        for result in results[:-1]:
            self._display(result)
        return results[-1] if results else None

    def _named(self, name: str, value: Shown, show: bool) -> Shown | None:
        """Assigns a value to a variable of the notebook; returns it if it is to be shown."""
        self.shell.push({name: value})
        return value if show else None

    def _run(self, text: CellText, how: How) -> Answers:
        db = self.db
        with warnings_on_stderr(db), self._line():
            return run(db, text, how)

    def explain(self, line: str, cell: str | None) -> Explanation:
        given, text = self._text(EXPLAIN, line, cell)
        params = parameters(given, self.shell.user_ns)
        with warnings_on_stderr(self.db), self._line():
            return self.db.explain(text, params)

    def profile(self, line: str, cell: str | None) -> Profile:
        given, text = self._text(PROFILE, line, cell)
        params = parameters(given, self.shell.user_ns)
        with warnings_on_stderr(self.db), self._line():
            return self.db.profile(text, params, strategy=given.strategy)

    def load(self, line: str, cell: str | None) -> None:
        given = LOAD.read(line)
        *names, data = given.data
        if len(names) > 1:
            LOAD.error(f"a relation and its data are two words, here are {len(given.data)}")
        name = names[0] if names else os.path.basename(data).split(".")[0]
        columns = None if given.columns is None else given.columns.split(",")
        with self._line():
            self.db.load(name, data_named(data, self.shell.user_ns), columns=columns)
        stored = self.db.workspace.stored[name]
        schema = Schema(name, stored.columns, stored.types)
        message = amount(stored.length, "rows") if stored.counted else size_of(stored)
        print(visible(f"{schema_text(schema)}: {message}"))

    def relations(self, line: str, cell: str | None) -> Listing:
        RELATIONS.read(line)
        return list_relations(self.db)

    def rules(self, line: str, cell: str | None) -> None:
        wanted = RULES.read(line).relation
        if wanted is not None and wanted not in self.db.relations:
            hint = self.db.workspace.near(wanted)
            raise NameResolutionError(f"there is no relation {wanted!r}", hint=hint)
        print(visible_lines(rules_text(self.db, wanted)))

    def use(self, line: str, cell: str | None) -> Database:
        name = DB.read(line).variable
        if name is not None:
            self._db = database_named(name, self.shell.user_ns)
        return self.db

    def help(self, line: str, cell: str | None) -> None:
        HELP_OPTIONS.read(line)
        print(HELP)

    # -------------------------------------------------------------------------------- helpers

    def _text(self, options: MagicOptions, line: str, cell: str | None) -> tuple[Any, str]:
        """The options of a magic, and its text: the cell, or the rest of the line."""
        if cell is not None:
            # An empty line replaces the magic's, so that errors have the cell's line numbers.
            return options.read(line), "\n" + cell
        given, text = options.read_before(line)
        if not text:
            options.error("a text is needed")
        return given, text

    def _display(self, thing: Any) -> None:
        from IPython.display import display

        display(thing)


def _check_options(given: Any) -> None:
    if given.explain and given.profile:
        raise UsageError("--explain evaluates nothing, so there is nothing for --profile to tell")
    if given.quiet and given.profile:
        raise UsageError("--quiet evaluates nothing, so there is nothing for --profile to tell")
