"""Runs the text of a magic, and shows answers, errors, warnings, relations and progress."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from gdatalog.cancellation import Watch, interrupt_message
from gdatalog.database import Database
from gdatalog.engine.catalog.folders import Folders
from gdatalog.engine.compiler.compiled import Ask
from gdatalog.engine.execution import Execution
from gdatalog.engine.facts.outputs import to_stdout, write_relation
from gdatalog.engine.metrics import Metrics
from gdatalog.errors import Error, UsageError
from gdatalog.parser import Program
from gdatalog.parser.syntax import Query
from gdatalog.present import html_table
from gdatalog.progress import amount, duration
from gdatalog.records import dataclass
from gdatalog.relations import answer, catalog, limited
from gdatalog.report import Profile
from gdatalog.result import Result
from gdatalog.shell.messages import aligned
from gdatalog.shell.progress_line import ProgressPoll
from gdatalog.shell.statements import known_size
from gdatalog.values import visible_html, visible_lines


def run(
    db: Database,
    text: str,
    cells: NotebookCells,
    params: Mapping[str, object],
    given: Namespace,
) -> tuple[list[Result], list[str], Profile | None]:
    """Keeps a cell's rules and answers its queries. On an error, nothing of the text is kept.

    Returns the answers to show, in the text's order; lines about files that were written, and
    sizes; and the profile, if `given`, the options of `%datalog`, asks for it.
    """
    key = cells.key(text, given.name)
    if given.limit is not None and given.limit < 0:
        raise UsageError(f"a limit cannot be negative: {given.limit}")
    workspace = db.workspace
    with db.call():
        program = workspace.parse(text, cells.source, bare=True)
        if given.name is not None:
            _refuse_many(program)
        metrics = Metrics() if given.profile else None
        with workspace.rollback():
            execution = workspace.keep(program, key, params, Folders(), metrics, given.strategy)
            results, lines = _answer(execution, given)
        profile = None
        if metrics is not None:
            profile = Profile.after(execution.context, results[-1] if results else None)
        workspace.tell(execution, params)
        return results, lines, profile


def _answer(execution: Execution, given: Namespace) -> tuple[list[Result], list[str]]:
    results: list[Result] = []
    lines: list[str] = []
    limit: int | None = given.limit
    for ask in _asks(execution, given.name is not None, given.quiet):
        directive = ask.directive
        result = answer(execution, ask.name, None if directive else limit)
        if directive is None or to_stdout(directive):
            results.append(limited(result, limit))
        elif directive.kind == "printsize":
            lines.append(f"{ask.name}: {amount(len(result), 'tuples')}")
        else:
            written = write_relation(
                directive, ask.name, result, execution.files, execution.folders
            )
            lines.append(f"{ask.name}: {amount(len(result), 'tuples')} -> {written}")
    return results, lines


def _asks(execution: Execution, named: bool, quiet: bool) -> list[Ask]:
    """The queries to answer: those of the text, or otherwise the relation of its last rule.

    `named`: one answer is for a variable. `quiet`: queries without visible output are not
    evaluated.
    """
    asks = execution.asks()
    if quiet and not named:
        return [ask for ask in asks if ask.directive is not None and not to_stdout(ask.directive)]
    if asks and not (named and all(ask.directive is not None for ask in asks)):
        # The variable gets the last answer, so the query goes behind the outputs.
        return sorted(asks, key=lambda ask: ask.directive is None) if named else asks
    last = execution.compiled.last
    if last is not None:
        return [*asks, Ask(last, None)]
    if named:
        raise UsageError(
            "the text has no query, so there is no answer for the variable",
            hint="end it with `?- body.`, or with the rule whose relation you want",
        )
    return asks


def _refuse_many(program: Program) -> None:
    queries = [s for s in program.statements if isinstance(s, Query)]
    if len(queries) > 1:
        raise UsageError(
            f"a variable takes one answer, but this cell has {len(queries)} queries",
            queries[1].span,
            hint="keep the rules in this cell, and put each query into a cell of its own",
        )


# The running cell: its name in errors, and the keys of its rules.


class NotebookCells:
    """The running cell, and the keys of the texts of each cell's last run.

    Front-ends give each cell an id that survives edits: a cell that runs again replaces the rules
    of its last run. Without ids (IPython on a terminal, old front-ends), the key is the result's
    name or the text itself.
    """

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.id: str | None = None
        self._given: dict[str, list[str]] = {}  # keys of a cell's texts, by cell id
        self._now: list[str] = []

    def begin(self, info: Any) -> None:
        """Called when a cell starts."""
        self.id = getattr(info, "cell_id", None)
        self._now = []

    def end(self, result: Any) -> list[str]:
        """Called when a cell has run; returns the keys of texts that the cell no longer
        contains."""
        if self.id is None:
            return []
        before = self._given.pop(self.id, [])
        gone = [key for key in before if key not in self._now]
        if not getattr(result, "success", True):
            self._given[self.id] = [*gone, *self._now]  # a failed cell keeps its old texts
            return []
        if self._now:
            self._given[self.id] = self._now
        return gone

    def key(self, text: str, name: str | None) -> str:
        """The key of a text's rules; they replace the rules under the same key."""
        if self.id is None:
            return text if name is None else f"<cell of {name}>"
        key = f"<cell {self.id}, text {len(self._now) + 1}>"
        self._now.append(key)
        return key

    @property
    def source(self) -> str:
        """The text's name in errors, which is IPython's name of the cell."""
        return f"In[{self.shell.displayhook.prompt_count}]"


# Errors, warnings, the list of relations, progress.


@contextmanager
def short_errors() -> Iterator[None]:
    """A context in which errors are shown without a traceback; `%tb` shows it."""
    try:
        yield
    except Error as error:
        _show_once(error, str(error))
        raise
    except KeyboardInterrupt as stopped:
        _show_once(stopped, interrupt_message(stopped))
        raise


def _show_once(error: BaseException, text: str) -> None:
    """Replaces the traceback of an exception, once: IPython renders it when the cell fails, and
    again for `%tb`, which shows the full traceback."""

    def render() -> list[str]:
        del error._render_traceback_  # type: ignore[attr-defined]  # IPython asks for it
        return visible_lines(text).splitlines()

    error._render_traceback_ = render  # type: ignore[attr-defined]  # IPython asks for it


# The table of relations that `%datalog_relations` shows.

INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class Listing:
    """For each relation its name, columns, number of rows if known, and origin; for an invalid one,
    the error."""

    lines: tuple[tuple[str, str, str, str], ...]

    def __repr__(self) -> str:
        if not self.lines:
            return (
                "no relations yet: %datalog_load E edges.csv, or a cell that begins with %%datalog"
            )
        rows = (
            (name if rows == INVALID else f"{name}({columns})", rows, origin)
            for name, columns, rows, origin in self.lines
        )
        return aligned(rows, right=(1,))

    def _repr_html_(self) -> str:
        if not self.lines:
            return f"<p>{visible_html(repr(self))}</p>"
        names = ("relation", "columns", "rows", "from")
        kinds = ("symbol", "symbol", "int", "symbol")
        return html_table(names, kinds, self.lines, types=False)


def list_relations(db: Database) -> Listing:
    """All relations, with their sizes if known without evaluation."""
    with db.call():
        entries = catalog(db.workspace)
        return Listing(tuple((e.name, e.columns, known_size(e), e.origin) for e in entries))


# A progress bar in the output of a cell, which disappears when the work is done.
#
# It shows the work of the magics' database, started by a magic or from Python.

AFTER = 0.5  # seconds until the bar appears

# Content to display, by MIME type.
Bundle = dict[str, str]
NOTHING: Bundle = {"text/plain": "", "text/html": ""}


class ProgressBar(ProgressPoll):
    """Shows a progress bar whenever a call of a database takes longer than `after`.

    `show` is called with the content, and with whether it replaces the previous content.
    """

    def __init__(
        self,
        show: Callable[[Bundle, bool], None],
        watch: Callable[[], Watch | None],
        after: float = AFTER,
    ) -> None:
        super().__init__()
        self.show = show
        self.watch = watch
        self.after = after
        self._placed = False

    def _show(self) -> bool:
        watch = self.watch()
        seconds = None if watch is None else watch.seconds
        if watch is None or seconds is None or seconds < self.after:
            return False
        self.show(bundle(watch, seconds), self._placed)
        self._placed = True
        return True

    def _clear(self) -> None:
        self.show(NOTHING, True)


def bundle(watch: Watch, seconds: float) -> Bundle:
    """The bar as it is now. Without a known end it has no value, which makes it indeterminate."""
    progress, parts = watch.status()
    title, share = ("running", None) if progress is None else (progress.title, progress.share)
    if progress is None or progress.left is None:
        parts.append(duration(seconds))
    text = f"{title}: {', '.join(parts)}"
    value = "" if share is None else f' value="{share:.3f}"'
    html = (
        '<div style="display:flex;align-items:center;gap:0.8em">'
        f'<progress max="1"{value} style="width:14em"></progress>'
        f"<span>{visible_html(text)}</span></div>"
    )
    return {"text/plain": text, "text/html": html}


def displayer() -> Callable[[Bundle, bool], None]:
    """Returns a function that displays in the cell's output, always in the same place."""
    from uuid import uuid4

    from IPython.display import display

    place = uuid4().hex

    def show(bundle: Bundle, again: bool) -> None:
        display(bundle, raw=True, display_id=place, update=again)

    return show
