"""The magics, `%%datalog` and others, and their database."""

from __future__ import annotations

import os
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

from gdatalog.cancellation import Watch
from gdatalog.database import Database
from gdatalog.engine.catalog.snapshot import schema_of
from gdatalog.errors import Error, NameResolutionError, UsageError
from gdatalog.notebook import help
from gdatalog.notebook.answers import Listing, list_relations, run, short_errors
from gdatalog.notebook.cell import NotebookCells
from gdatalog.notebook.completion import Completer
from gdatalog.notebook.options import MagicOptions
from gdatalog.notebook.progress_bar import AFTER, ProgressBar, displayer
from gdatalog.notebook.variables import data_named, database_named, parameters
from gdatalog.opening import connect
from gdatalog.progress import amount
from gdatalog.records import replace
from gdatalog.report import Explanation, Profile
from gdatalog.result import Result
from gdatalog.shell.commands.rules import rules_text
from gdatalog.shell.commands.settings import shown_settings
from gdatalog.shell.messages import aligned, say, size_of
from gdatalog.shell.progress_line import ProgressLine
from gdatalog.shell.statements import schema_text
from gdatalog.storage.load_options import TEXT_OPTIONS, options_of_text
from gdatalog.terminal_text import visible, visible_lines
from gdatalog.user_settings import all_settings, parse_settings, setting

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
                function = self._magic(name, options, act)
                self.shell.register_magic_function(function, kind, name)
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

    def _table(self) -> list[tuple[str, tuple[str, ...], MagicOptions, Callable[..., object]]]:
        """The magics: name, line or cell, options, and function."""
        both, line = ("line", "cell"), ("line",)
        return [
            ("datalog", both, help.DATALOG, self.datalog),
            ("datalog_explain", both, help.EXPLAIN, self.explain),
            ("datalog_profile", both, help.PROFILE, self.profile),
            ("datalog_load", line, help.LOAD, self.load),
            ("datalog_relations", line, help.RELATIONS, self.relations),
            ("datalog_rules", line, help.RULES, self.rules),
            ("datalog_db", line, help.DB, self.use),
            ("datalog_set", line, help.SET, self.set),
            ("datalog_help", line, help.HELP_OPTIONS, self.help),
        ]

    def _magic(
        self, name: str, options: MagicOptions, act: Callable[..., object]
    ) -> Callable[..., object]:
        """Wraps a function of options, a text and parameters, or of options alone, as IPython's
        magic, with short errors."""

        def function(line: str, cell: str | None = None) -> object:
            with short_errors(), self._telling_of_others():
                if name in self.completer.texts:
                    return act(*self._text(options, line, cell))
                return act(options.read(line))

        function.__name__ = name
        function.__doc__ = options.format_help()
        setattr(function, AS_IT_IS, True)
        return function

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
                        f"the database {there} has {missing[1]}: %datalog_db {there} switches to it"
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
        if self._has_outputs():
            self._bar = ProgressBar(displayer(), self._watch)
            self._bar.start()

    def _watch(self) -> Watch | None:
        return None if self._db is None else self._db.workspace.watch

    def _has_outputs(self) -> bool:
        """Whether the front-end has an output for each cell, which can show a progress bar."""
        return getattr(self.shell, "kernel", None) is not None

    def _end_bar(self) -> None:
        if self._bar is not None:
            self._bar.end()
        self._bar = None

    @contextmanager
    def _working(self) -> Iterator[Database]:
        """The database, in a context in which warnings go to stderr as text, not as Python warnings
        about our own code. Front-ends without outputs per cell get a progress line there."""
        workspace = self.db.workspace
        line = ProgressLine(sys.stderr, workspace.watch, AFTER)
        warned = workspace.warnings_to(lambda caution: say(caution.format()))
        with warned, nullcontext() if self._has_outputs() else line:
            yield self.db

    def _cell_ends(self, result: Any) -> None:
        if not result.info.store_history:
            return
        self._end_bar()
        gone = self.cells.end(result)
        if gone and self._db is not None and not self._db.closed:
            with self._working() as db, db.call():
                catalog = db.workspace.catalog
                db.workspace.change(catalog.with_texts(catalog.texts.without(gone)))

    @property
    def db(self) -> Database:
        """The database of the magics, opened on first use."""
        if self._db is None:
            self._db = connect()
        if self._db.closed:
            hint = "%datalog_db takes another, as in: db = gdatalog.connect(), then %datalog_db db"
            raise UsageError("the database of the magics is closed", hint=hint)
        return self._db

    # ---------------------------------------------------------------------------- the magics

    def datalog(
        self, given: Namespace, text: str, params: Mapping[str, object]
    ) -> Result | Explanation | None:
        if given.profile and (given.explain or given.quiet):
            option = "--explain" if given.explain else "--quiet"
            raise UsageError(f"{option} evaluates nothing, so --profile has nothing to report")
        name = given.name
        if name is not None and not name.isidentifier():
            raise UsageError(
                f"{name!r} cannot be the name of a variable",
                hint="the program begins on the line below %%datalog, a name is optional",
            )
        if given.explain:
            # As if the text replaced the rules under its key; those stay kept.
            keys = [self.cells.key(text, name)]
            with self._working() as db, db.call(), db.workspace.without_texts(keys):
                plan = db.explain(text, params, strategy=given.strategy)
            return plan if name is None else self._named(name, plan, given.show)
        with self._working() as db, self._profiled(given.profile):
            results, lines, profile = run(db, text, self.cells, params, given)
        for said in lines:
            print(visible(said))
        if profile is not None:
            self._display(profile)
        if name is not None:
            return self._named(name, results[-1], given.show)
        for result in results[:-1]:
            self._display(result)
        return results[-1] if results else None

    def _named(self, name: str, value: Shown, show: bool) -> Shown | None:
        """Assigns a value to a variable of the notebook; returns it if it is to be shown."""
        self.shell.push({name: value})
        return value if show else None

    def explain(self, given: Namespace, text: str, params: Mapping[str, object]) -> Explanation:
        with self._working() as db:
            return db.explain(text, params, passes=given.passes)

    def profile(self, given: Namespace, text: str, params: Mapping[str, object]) -> Profile:
        with self._working() as db, self._profiled(True):
            return db.profile(text, params, strategy=given.strategy)

    @contextmanager
    def _profiled(self, wanted: bool) -> Iterator[None]:
        """Shows the profile of a call that a limit or an interrupt ends, if it is `wanted`."""
        try:
            yield
        except (Error, KeyboardInterrupt) as error:
            profile = getattr(error, "profile", None)
            if wanted and profile is not None:
                self._display(profile)
            raise

    def load(self, given: Namespace) -> None:
        *names, data = given.data
        if len(names) > 1:
            help.LOAD.error(f"expected [RELATION] DATA, found {len(given.data)} words")
        name = names[0] if names else os.path.basename(data).split(".")[0]
        said = {key: getattr(given, key) for key in TEXT_OPTIONS if getattr(given, key, None)}
        options = replace(options_of_text(said), tuples=given.tuples)
        with self._working() as db:
            db._load(name, data_named(data, self.shell.user_ns), options, given.nodes)
        for each in (name, *([given.nodes] if given.nodes else [])):
            stored = self.db.workspace.stored[each]
            message = amount(stored.length, "rows") if stored.counted else size_of(stored)
            print(visible(f"{schema_text(schema_of(each, stored))}: {message}"))

    def relations(self, given: Namespace) -> Listing:
        return list_relations(self.db)

    def rules(self, given: Namespace) -> None:
        wanted = given.relation
        if wanted is not None and wanted not in self.db.relations:
            hint = self.db.workspace.near(wanted)
            raise NameResolutionError(f"there is no relation {wanted!r}", hint=hint)
        print(visible_lines(rules_text(self.db, wanted)))

    def use(self, given: Namespace) -> Database:
        if given.variable is not None:
            self._db = database_named(given.variable, self.shell.user_ns)
        return self.db

    def set(self, given: Namespace) -> None:
        if given.name is not None:
            setting(given.name)
        if given.value is not None:
            self.db.set(**parse_settings([f"{given.name}={given.value}"]))
        shown = shown_settings(self.db)
        if given.name is not None:
            print(visible(f"{given.name}: {shown[given.name]}"))
            return
        known = all_settings().items()
        print(aligned([(name, shown[name], each.forms) for name, each in known]))

    def help(self, given: Namespace) -> None:
        print(help.HELP)

    # -------------------------------------------------------------------------------- helpers

    def _text(
        self, options: MagicOptions, line: str, cell: str | None
    ) -> tuple[Namespace, str, dict[str, object]]:
        """The options of a magic, its text (the cell, or the rest of the line), and the values of
        parameters."""
        if cell is not None:
            # An empty line replaces the magic's, so that errors have the cell's line numbers.
            given, text = options.read(line), "\n" + cell
        else:
            given, text = options.read_before(line)
        if not text:
            options.error("a text is needed")
        return given, text, parameters(given, self.shell.user_ns)

    def _display(self, thing: object) -> None:
        from IPython.display import display

        display(thing)
