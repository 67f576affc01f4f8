"""Runs a program from the command line, and reads parameter values."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from shutil import get_terminal_size
from time import perf_counter
from typing import TYPE_CHECKING, Any

from gdatalog.account import free_at_once
from gdatalog.cancellation import Watch
from gdatalog.database import Database
from gdatalog.engine.catalog.folders import Folders
from gdatalog.engine.compiler.compiled import Ask
from gdatalog.engine.execution import Execution
from gdatalog.engine.facts.files import read_text
from gdatalog.engine.facts.outputs import to_stdout, write_relation
from gdatalog.engine.metrics import Metrics
from gdatalog.errors import DataError, Error, TimeLimitError, UsageError
from gdatalog.opening import connect
from gdatalog.options import parse_seconds, parse_threads
from gdatalog.overhead import spending, time_spent
from gdatalog.parser import Program
from gdatalog.parser.syntax import Facts, Rule, Statement
from gdatalog.planner.check.statements import names_of
from gdatalog.planner.passes import PassTrace
from gdatalog.progress import amount
from gdatalog.records import dataclass
from gdatalog.relations import answer
from gdatalog.result import Result
from gdatalog.shell.messages import say, say_error, took
from gdatalog.shell.output import Output
from gdatalog.shell.progress_line import ProgressLine
from gdatalog.storage.load_options import is_database
from gdatalog.user_settings import parse_settings

if TYPE_CHECKING:
    from gdatalog.report import Profile


# The options of `connect`, by name.
CONNECTION = (
    "device", "cluster", "memory_limit", "temp_directory", "temp_limit", "timeout", "untrusted",
    "threads", "strategy", "settings",
)  # fmt: skip
CONNECTING = 0.3  # seconds until the progress line appears
# With --profile, `json` is the format of answers.
PROFILE_FORMS = ("text", "mermaid", "html")


@dataclass(frozen=True, slots=True)
class CommandLine:
    """The parsed options of a command line. `connection`: those of `connect`, and the saved
    `database` that it opens."""

    connection: Mapping[str, Any]
    files: tuple[str, ...]
    commands: tuple[str, ...]
    facts: str
    out: str
    params: tuple[str, ...]
    include: tuple[str, ...]
    form: str | None
    limit: int | None
    explain: bool
    passes: bool
    profile: bool
    of: str | None
    timing: bool
    bail: bool
    no_warnings: bool
    doctor: bool
    clear_cache: bool

    @staticmethod
    def from_options(given: Mapping[str, Any]) -> CommandLine:
        """From all options by name."""
        connection = {name: given[name] for name in CONNECTION}
        others = {name: value for name, value in given.items() if name not in connection}
        saved = [name for name in given["files"] if is_database(name)]
        if len(saved) > 1:
            raise UsageError(
                f"one database can be opened, not {len(saved)}: {' '.join(saved)}",
                hint="name one of them; .export writes a relation to a file that the other loads",
            )
        others["files"] = tuple(name for name in given["files"] if not is_database(name))
        return CommandLine({**connection, "database": next(iter(saved), None)}, **others)

    @property
    def profile_form(self) -> str | None:
        """The format of a profile on stdout, in place of answers; None: they have the format, and
        the profile is text on stderr."""
        return self.form if self.profile and self.form in PROFILE_FORMS else None

    @property
    def folders(self) -> Folders:
        return Folders(self.facts, self.out, self.include)


def opened(given: Mapping[str, Any]) -> Database:
    """Opens the database that options of `connect` ask for."""
    threads, timeout = given["threads"], given["timeout"]
    line = ProgressLine(sys.stderr, Watch(), CONNECTING)
    with nullcontext() if given.get("cluster") is None else line("connecting to the cluster"):
        limit = None if timeout is None else parse_seconds(timeout)
        settings = parse_settings(given.get("settings", ()))
        beside = ("settings", "strategy", "database")
        own = {name: value for name, value in given.items() if name not in beside}
        own.update(threads=parse_threads(threads), timeout=limit)
        if given.get("strategy", "auto") != "auto":
            if "strategy" in settings:
                raise UsageError("strategy is given twice", hint="--strategy and --set both set it")
            settings["strategy"] = given["strategy"]
        return connect(given.get("database"), **own, settings=settings)


def run_job(
    db: Database, options: CommandLine, params: Mapping[str, object], output: Output
) -> list[Error]:
    """Runs the texts of a command line as one program; reports and returns its errors."""
    free_at_once()
    try:
        program = _read(db, options)
        reports = Metrics() if options.profile else None
        shows = options.profile_form is None  # otherwise stdout is for the profile
        trace = PassTrace() if options.passes else None
        line = ProgressLine(sys.stderr, db.workspace.watch)
        with db.call():
            with line("reading"):
                execution = db.workspace.keep(
                    program, "<program>", params, options.folders, reports=reports,
                    ends=not options.explain, passes=trace,
                )  # fmt: skip
            db.workspace.warn(execution.ignored(params))
            if options.explain:
                from gdatalog.report import explain

                asked = [ask.name for ask in execution.asks()]
                plan = explain(execution, asked or ruled_names(execution), db.workspace.why)
                output.plan(plan if options.of is None else plan.of(options.of), options.form)
                return []
            started, before = perf_counter(), time_spent()
            shown = sum(_to_stdout(ask, execution) for ask in execution.asks()) if shows else 0
            with output.document(shown), execution.reading_ahead():
                failed = answer_all(
                    db, execution, output, line, options.timing, options.bail, shows
                )
            seconds = perf_counter() - started
            if options.timing:
                spent = time_spent() - before
                parts = {
                    "loading": spent.loading,
                    "writing": spent.writing,
                    "opening the GPU": spent.opening,
                }
                shares = [f"{what} {cost:.3f} s" for what, cost in parts.items() if cost]
                say(f"total: {seconds:.3f} s{', of it ' if shares else ''}{', '.join(shares)}")
            if reports is not None:
                from gdatalog.report import Profile

                ended = failed[0] if failed else None
                profile = Profile.after(execution.context, None, ended)
                failed += _say_profile(profile, options, output)
            return failed
    except Error as error:
        say_error(error)
        found = error.profile if options.profile else None
        return [error, *(() if found is None else _say_profile(found, options, output))]
    except KeyboardInterrupt as error:
        found = vars(error).get("profile") if options.profile else None
        if found is not None:
            _say_profile(found, options, output)
        raise


def _say_profile(profile: Profile, options: CommandLine, output: Output) -> list[Error]:
    """Prints the profile, in full if it has no part `--of`; reports and returns that error."""
    failed: list[Error] = []
    if options.of is not None:
        try:
            profile = profile.of(options.of)
        except UsageError as error:
            say_error(error)
            failed.append(error)
    if options.profile_form is not None:
        output.plan(profile, options.profile_form)
        return failed
    at_terminal = sys.stderr.isatty()
    say(profile.to_text(get_terminal_size().columns) if at_terminal else str(profile))
    return failed


def answer_all(
    db: Database,
    execution: Execution,
    output: Output,
    line: ProgressLine,
    timing: bool = False,
    bail: bool = False,
    shows: bool = True,
) -> list[Error]:
    """Answers all queries of a execution in order; reports and returns their errors. Unless it
    `shows` them, it evaluates those for stdout only."""
    failed: list[Error] = []
    seen: set[str] = set()  # an error shared by several answers is reported once
    asked = execution.asks()
    if not asked:
        say("note: the program has no query, so nothing was evaluated; add `?- ...` or `.output R`")
    metrics = execution.context.metrics
    for ask in asked:
        started, before = perf_counter(), metrics.done
        title = "query" if ask.name.startswith("?") else ask.name
        try:
            with line(title):
                limit = None if ask.directive else output.limit
                result = answer(execution, ask.name, limit, cut=ask.cut)
                len(result)  # include its evaluation in the time
            time = took(perf_counter() - started, execution.done_by(before))
            if shows or not _to_stdout(ask, execution):
                _give(execution, ask, result, output, time, line(title))
        except Error as error:
            if str(error) not in seen:
                say_error(error)
            seen.add(str(error))
            failed.append(error)
            if bail or isinstance(error, TimeLimitError):
                break
        if timing:
            say(f"{title}: {took(perf_counter() - started, execution.done_by(before))}")
    db.workspace.tell(execution)
    return failed


def _give(
    execution: Execution, ask: Ask, result: Result, output: Output, time: str, line: ProgressLine
) -> None:
    """Writes an answer to its destination, stdout or a file. `line` shows the progress, unless the
    answer itself goes to a terminal."""
    directive = ask.directive
    if directive is None:
        with nullcontext() if output.stream.isatty() else line:
            output.answer(ask.name, result, time)
    elif directive.kind == "printsize":
        output.size(ask.name, len(result))
    elif _to_stdout(ask, execution):
        output.relation(ask.name, result, directive)
    else:
        with line, spending("writing"):
            written = write_relation(
                directive, ask.name, result, execution.files, execution.folders
            )
        if sys.stderr.isatty():
            say(f"{ask.name}: {amount(len(result), 'rows')} -> {written}")


def _to_stdout(ask: Ask, execution: Execution) -> bool:
    """Whether an answer goes to stdout instead of a file."""
    directive = ask.directive
    if directive is None or directive.kind == "printsize":
        return True
    return to_stdout(directive) or (execution.folders.out == "-" and directive.path is None)


def ruled_names(execution: Execution) -> list[str]:
    """The relations that have rules or facts in an execution's program."""
    rules = (each for each in execution.compiled.rules if isinstance(each, Rule | Facts))
    return list(dict.fromkeys(name for each in rules for name in names_of(each)))


def _read(db: Database, options: CommandLine) -> Program:
    """Parses the texts of a command line into one program; raises the errors of all of them
    together."""
    statements: list[Statement] = []
    errors: list[Error] = []
    texts = [(name, None) for name in options.files]
    for name, text in (*texts, *(("<command line>", text) for text in options.commands)):
        try:
            called, source = _read_file(db, name) if text is None else (name, text)
            # On the command line, a body without `?-` is a query.
            program = db.workspace.parse(source, called, bare=text is not None)
            statements += program.statements
        except Error as error:
            errors += error.all
    if errors:
        errors[0].others = tuple(errors[1:])
        raise errors[0]
    return Program(tuple(statements))


def _read_file(db: Database, name: str) -> tuple[str, str]:
    if name == "-":
        try:
            return "<stdin>", sys.stdin.buffer.read().decode("utf-8-sig").replace("\r\n", "\n")
        except UnicodeDecodeError:
            raise DataError("cannot read stdin: it is not UTF-8 text") from None
    if not os.path.exists(name) and ("?-" in name or "(" in name):
        raise UsageError(f"there is no file {name!r}", hint="to run a program text, use -c")
    return name, read_text(name, db.workspace.files)
