"""Runs the text of a magic, and shows answers, errors, warnings, relations and progress."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping

from gdatalog.database import Database
from gdatalog.engine.catalog.folders import Folders
from gdatalog.engine.compiler.compiled import Ask
from gdatalog.engine.execution import Execution
from gdatalog.engine.facts.outputs import to_stdout, write_relation
from gdatalog.engine.metrics import Metrics
from gdatalog.errors import UsageError
from gdatalog.notebook.cell import NotebookCells
from gdatalog.parser import Program
from gdatalog.parser.syntax import Query
from gdatalog.progress import amount
from gdatalog.relations import answer, limited
from gdatalog.report import Profile
from gdatalog.result import Result


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
