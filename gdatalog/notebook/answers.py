"""Runs the text of a magic, and shows answers, errors, warnings, relations and progress."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from gdatalog.cancellation import interrupt_message
from gdatalog.database import Database
from gdatalog.engine.catalog.folders import Folders
from gdatalog.engine.compiler.compiled import Ask
from gdatalog.engine.execution import Execution
from gdatalog.engine.facts.outputs import to_stdout, write_relation
from gdatalog.engine.metrics import Metrics
from gdatalog.errors import Error, UsageError
from gdatalog.notebook.cell import NotebookCells
from gdatalog.parser import Program
from gdatalog.parser.syntax import Query
from gdatalog.present import html_table
from gdatalog.progress import amount
from gdatalog.records import dataclass
from gdatalog.relations import answer, catalog, limited
from gdatalog.report import Profile
from gdatalog.result import Result
from gdatalog.shell.messages import aligned
from gdatalog.shell.statements import known_size
from gdatalog.terminal_text import visible_html, visible_lines


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
        gone = execution.retracted.items()
        lines = [f"{name}: {amount(n, 'facts')} retracted" for name, n in gone] + lines
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
        result = answer(execution, ask.name, None if directive else limit, cut=ask.cut)
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
        vars(error)["rendered"] = True  # an `Error` renders itself, too
        return visible_lines(text).splitlines()

    error._render_traceback_ = render  # type: ignore[attr-defined]  # IPython asks for it
