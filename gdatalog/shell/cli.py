"""The command line: options, dispatch and exit codes.

Exit codes: 0 success (also without answers), 1 an error in the program or its data, 2 wrong
options, 3 out of device, memory or time, 130 interrupted, 143 terminated. Answers go to stdout,
everything else to stderr.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar, cast

import click

from gdatalog.cancellation import AS_IT_WAS, Watch, interrupt_message
from gdatalog.database import Database
from gdatalog.distribution import VERSION
from gdatalog.errors import DeviceError, Error, RowLimitError, TimeLimitError, UsageError, meant
from gdatalog.opening import connect
from gdatalog.options import FORMS, STRATEGIES, parse_seconds, parse_threads
from gdatalog.records import replace
from gdatalog.shell import ProgressLine, say, say_error, say_unexpected
from gdatalog.shell.editor import SIGNALLED, give_back, heeding
from gdatalog.shell.options import FORMATS, chosen
from gdatalog.shell.output import Output
from gdatalog.shell.program import PROFILE_FORMS, CommandLine, read_parameters, run_job
from gdatalog.user_settings import parse_settings

if TYPE_CHECKING:
    from concurrent.futures import Future

    from gdatalog.shell.editor.prompt import Prompt

    # A prompt that was drawn before the engine was imported, its first input, and its database.
    BegunPrompt = tuple[Prompt, str, Future[Database]]

# The options of `connect`, by name.
CONNECTION = (
    "device", "cluster", "memory_limit", "temp_directory", "temp_limit", "timeout", "untrusted",
    "threads", "strategy", "settings",
)  # fmt: skip
DONE, WRONG, USAGE, RESOURCES, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 130, 143
CONNECTING = 0.3  # seconds until the progress line appears

HELP = """Run Datalog programs; without FILES and -c, start an interactive prompt.

\b
  gdatalog                                an interactive prompt
  gdatalog -c '?- x in {1, 2}, x > 1.'    a program from the command line
  gdatalog a.dl b.dl -F facts -D out      several files as one program
  gdatalog - < rules.dl                   a program from stdin
  gdatalog count --pattern house e.csv    the occurrences of a pattern
  gdatalog frequent --help                frequent patterns

\b
Answers go to stdout: a box on a terminal, otherwise tab-separated rows
with a header line. Everything else goes to stderr.
"""


class Among(click.Choice):  # type: ignore[type-arg]  # click has no type of choices in older versions
    """A choice of words; a wrong word is answered with a suggestion."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        return chosen(value, self.choices, param.opts[-1])


@click.command(help=HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("files", nargs=-1)
@click.option("-c", "commands", metavar="TEXT", multiple=True, help="Run this program text.")
@click.option("-F", "facts", metavar="FOLDER", default=".", help="Where `.input R` reads R.facts.")
@click.option(
    "-D", "out", metavar="FOLDER", default=".", help="Where `.output R` writes R.csv; - is stdout."
)
@click.option(
    "-M", "params", metavar="NAME=VALUE", multiple=True, help='A value for $NAME; "..." is text.'
)
@click.option(
    "-I", "include", metavar="FOLDER", multiple=True, help="Another folder that .include searches."
)
@click.option(
    "--device", metavar="DEVICE", default="auto", help="auto, cpu, cuda, cuda:N, cuda:N,M."
)
@click.option("--cluster", metavar="WHERE", help="Workers: a Dask scheduler's address, or local.")
@click.option("--memory-limit", metavar="SIZE", help="Memory limit per query, such as 8GiB.")
@click.option("--temp-directory", metavar="FOLDER", help="Folder for data beyond the memory limit.")
@click.option("--temp-limit", metavar="SIZE", help="Limit of these files, such as 64GiB.")
@click.option(
    "--timeout", metavar="SECONDS", help="Time limit per run, or per statement at the prompt."
)
@click.option(
    "--untrusted", is_flag=True, help="For programs you do not trust: no files, strict limits."
)
@click.option("-j", "threads", metavar="N", help="Number of threads (default: all cores).")
@click.option("--strategy", type=Among(STRATEGIES), default="auto", help="Execution strategy.")
@click.option(
    "--set", "settings", metavar="NAME=VALUE", multiple=True, help="A setting: docs/settings.md."
)
@click.option(
    "--format",
    "form",
    metavar="FORMAT",
    type=Among((*FORMATS, *(form for form in FORMS if form not in FORMATS))),
    help=f"Format of answers: {', '.join(FORMATS)}; of plans: {', '.join(FORMS)}.",
)
@click.option("--limit", type=int, metavar="N", help="Maximum number of rows per answer.")
@click.option("--explain", is_flag=True, help="Print the plans without evaluating them.")
@click.option("--passes", is_flag=True, help="With --explain: the rules after each pass.")
@click.option("--profile", is_flag=True, help="Print rows and time of each step.")
@click.option("--of", metavar="PART", help="The part of a plan to show in full.")
@click.option("--timing", is_flag=True, help="Print the time of each answer, on stderr.")
@click.option("--bail", is_flag=True, help="Stop at the first error.")
@click.option("--no-warnings", is_flag=True, help="Print no warnings.")
@click.option("--doctor", is_flag=True, help="Check the installation on this machine.")
@click.option(
    "--clear-cache", is_flag=True, help="Delete compiled code, then check as --doctor does."
)
@click.version_option(VERSION, message="gdatalog %(version)s")
def command(**given: Any) -> CommandLine:
    connection = {name: given.pop(name) for name in CONNECTION}
    return CommandLine(connection=connection, **given)


def start(options: CommandLine, begun: BegunPrompt | None = None) -> int:
    """Runs the program or the prompt that the options ask for; returns the exit code."""
    if options.doctor or options.clear_cache:
        from gdatalog.shell.doctor import doctor

        cluster = options.connection["cluster"]
        found = doctor(clear_cache=options.clear_cache, cluster=cluster)
        print(found)
        return DONE if found.well else WRONG
    asked = bool(options.files or options.commands)
    if (options.explain or options.profile) and not asked:
        raise UsageError("--explain and --profile need a program: name a file, or give one with -c")
    if options.explain and options.profile:
        raise UsageError("--explain evaluates nothing, so --profile has nothing to report")
    if options.of is not None and not (options.explain or options.profile):
        raise UsageError("--of selects a part of a plan: add --explain or --profile")
    if options.passes and not options.explain:
        raise UsageError("--passes shows how a plan was made: add --explain")
    forms = FORMS if options.explain else (*FORMATS, *PROFILE_FORMS * options.profile)
    if options.form is not None and options.form not in forms:
        what = "plans of --explain" if options.explain else "answers"
        other = ", or with --explain any of " + ", ".join(FORMS)
        other += ", and with --profile " + ", ".join(PROFILE_FORMS)
        other = "" if options.explain or options.profile else other
        raise UsageError(
            f"{what} have no format {options.form!r}", hint=f"one of {', '.join(forms)}{other}"
        )
    if options.limit is not None and options.limit < 0:
        raise UsageError(f"a limit cannot be negative: {options.limit}")
    if options.files.count("-") > 1:
        raise UsageError("stdin (-) can be read once only")
    params = read_parameters(options.params)
    db = _connect(options.connection) if begun is None else begun[2].result()
    db.workspace.on_caution = lambda caution: None if options.no_warnings else say(caution.format())
    if not asked:
        return _interact(db, params, options, begun)
    of_plan = options.explain or options.profile_form is not None
    output = Output(sys.stdout, None if of_plan else options.form)
    output.limit = options.limit
    with heeding(db.workspace.watch), db.call():
        failed = run_job(db, options, params, output)
    return max(map(exit_code, failed), default=DONE)


def connected(args: Sequence[str]) -> Database:
    """Opens the database for a command line that starts a prompt."""
    options: CommandLine = command.main(list(args), prog_name="gdatalog", standalone_mode=False)
    return _connect(options.connection)


def _connect(given: Mapping[str, Any]) -> Database:
    """Opens the database that options of `connect` ask for."""
    threads, timeout = given["threads"], given["timeout"]
    line = ProgressLine(sys.stderr, Watch(), CONNECTING)
    with nullcontext() if given.get("cluster") is None else line("connecting to the cluster"):
        limit = None if timeout is None else parse_seconds(timeout)
        settings = parse_settings(given.get("settings", ()))
        own = {name: value for name, value in given.items() if name not in ("settings", "strategy")}
        own.update(threads=parse_threads(threads), timeout=limit)
        if given.get("strategy", "auto") != "auto":
            if "strategy" in settings:
                raise UsageError("strategy is given twice", hint="--strategy and --set both set it")
            settings["strategy"] = given["strategy"]
        return connect(**own, settings=settings)


def _interact(
    db: Database, params: Mapping[str, object], options: CommandLine, begun: BegunPrompt | None
) -> int:
    from gdatalog.shell.repl import Repl

    interactive = sys.stdin.isatty()
    spaced = not (interactive and sys.stdout.isatty())
    output = Output(sys.stdout, options.form, spaced=spaced)
    output.timed = not spaced
    output.limit = options.limit
    repl = Repl(db, output, options.folders, params, interactive=interactive, bail=options.bail)
    repl.timer = options.timing
    if options.no_warnings:
        db.workspace.on_caution = lambda caution: None
    failed = repl.loop() if begun is None else repl.loop(*begun[:2])
    return DONE if interactive else max(map(exit_code, failed), default=DONE)


def exit_code(error: BaseException) -> int:
    """The exit code for an error of a program. A `UsageError` there is an error in the program."""
    resources = (DeviceError, MemoryError, TimeLimitError, RowLimitError)
    return RESOURCES if isinstance(error, resources) else WRONG


def run(args: Sequence[str] | None = None, begun: BegunPrompt | None = None) -> int:
    """Runs a command line and returns its exit code; never raises."""
    try:
        # Click only parses the options: it would catch Ctrl-C and broken pipes of a run. After
        # --help and --version it returns no options.
        given = sys.argv[1:] if args is None else args
        if about := pattern_command(given):
            name = f"gdatalog {about.name}"
            asked = about.main(given[1:], prog_name=name, standalone_mode=False)
            if callable(asked):
                asked()
            sys.stdout.flush()
            return DONE
        options = command.main(given, prog_name="gdatalog", standalone_mode=False)
        code = start(options, begun) if isinstance(options, CommandLine) else DONE
        sys.stdout.flush()
        return code
    except click.ClickException as problem:
        say_error(_misused(problem))
        return USAGE
    except KeyboardInterrupt as error:
        say(interrupt_message(error).removesuffix(AS_IT_WAS))
        return INTERRUPTED
    except SystemExit as ended:  # by a signal
        say("terminated")
        return cast(int, ended.code)
    except BrokenPipeError:
        _drop_output()  # the reader of our answers closed the pipe
        return DONE
    except Error as error:
        say_error(error)
        return USAGE if isinstance(error, UsageError) else exit_code(error)
    except OSError as error:
        _drop_output()
        say(f"error: cannot write answers: {error.strerror or error}")
        return WRONG
    except MemoryError:
        say("error: the machine is out of memory\n  hint: set a lower --memory-limit")
        return RESOURCES
    except Exception as error:
        say_unexpected(error)
        return WRONG


def _misused(problem: click.ClickException) -> UsageError:
    """Turns Click's message about options into ours."""
    context = getattr(problem, "ctx", None)
    asked = command if context is None else context.command
    hint = f"{'gdatalog' if context is None else context.command_path} --help lists the options"
    if isinstance(problem, click.NoSuchOption):
        known = [name for option in asked.params for name in option.opts if name[:2] == "--"]
        close = meant(problem.option_name, [*known, "--help"])
        hint = f"did you mean {close}?" if close else hint
        return UsageError(f"there is no option {problem.option_name}", hint=hint)
    return UsageError(problem.format_message().rstrip("."), hint=hint)


def _drop_output() -> None:
    """Sends the remaining output to /dev/null; otherwise Python would write it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main(begun: BegunPrompt | None = None) -> NoReturn:
    """Runs the command line and exits. `begun`: the prompt that is already drawn, with its first
    input."""
    # Characters outside the terminal's encoding are escaped; the parser reports invalid stdin.
    for stream, errors in (
        (sys.stdout, "backslashreplace"),
        (sys.stderr, "backslashreplace"),
        (sys.stdin, "surrogateescape"),
    ):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=errors)
    code = run(begun=begun)
    if code > SIGNALLED:
        with suppress(OSError):
            sys.stdout.flush()
        give_back()
        os._exit(code)  # does not wait for a compilation in the background
    sys.exit(code)


# --------------------------------------------- `gdatalog count` and `gdatalog frequent`

F = TypeVar("F", bound=Callable[..., object])
PatternRows = Iterable[tuple[object, object]]

COUNT = """Count the occurrences of patterns in a file of edges, each once.

\b
  gdatalog count --pattern house graph.csv
  gdatalog count --pattern clique4 --pattern path5 --induced graph.parquet

\b
Patterns: clique4, path5, cycle4, star3, biclique2_3 with any numbers, and
those of papers: house, q10, P1 to P7, G0 to G29, cuts5_1 to cuts7_11.
"""


FREQUENT = """Find the frequent patterns of a file of edges.

\b
  gdatalog frequent --edges 3 --support 100 --labels labels.csv graph.csv
  gdatalog frequent --edges 2 --support 5 --measure instances graph.csv

\b
Prints a line per pattern: its support, a tab, its drawing. The labels file
has columns of vertices and labels. The support "mni" is the smallest number
of vertices in one position of the pattern, "instances" its occurrences.
"""

_OWN_OPTIONS = {"count": {"--pattern"}, "frequent": {"--support", "--edges", "--measure"}}


def pattern_command(args: Sequence[str]) -> click.Command | None:
    """The subcommand of a command line, or None. A first word that is also the name of an existing
    file is that file, unless an option of the subcommand follows.

    >>> pattern_command(["count", "graph.csv"]).name
    'count'
    >>> pattern_command(["count.dl", "--pattern"]), pattern_command([])
    (None, None)
    """
    if not args or args[0] not in _OWN_OPTIONS:
        return None
    options = _OWN_OPTIONS[args[0]] | {"--help", "-h"}
    given = any(arg.partition("=")[0] in options for arg in args[1:])
    if Path(args[0]).exists() and not given:
        return None
    return {"count": count, "frequent": frequent}[args[0]]


_OPTIONS = (
    click.argument("file"),
    click.option("--columns", metavar="A,B",
                 help="The two columns of edges; without a header column0,column1."),
    click.option("--labels", metavar="FILE", help="A file of vertices and their labels."),
    click.option("--directed", is_flag=True, help="Edges are directed, first column to second."),
    click.option("--device", metavar="DEVICE", default="auto", help="auto, cpu, cuda, cuda:N."),
    click.option("--memory-limit", metavar="SIZE", help="Memory limit per query, such as 8GiB."),
    click.option("--timeout", metavar="SECONDS", help="Time limit."),
    click.option("-j", "threads", metavar="N", help="Number of threads (default: all cores)."),
)  # fmt: skip


def _on_a_graph(command: F) -> F:
    """Adds the options that both commands share."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command("count", help=COUNT, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--pattern", "patterns", metavar="NAME", multiple=True, required=True,
              help="Pattern to count; repeatable.")  # fmt: skip
@click.option("--induced", is_flag=True, help="Count induced occurrences only.")
@_on_a_graph
def count(patterns: tuple[str, ...], induced: bool, **given: Any) -> Callable[[], None]:
    def answer(db: Database, directed: bool, labels: str | None) -> PatternRows:
        from gdatalog.patterns import named

        asked = [named(name) for name in patterns]
        counts = db.count(asked, induced=induced, directed=directed)
        return zip([pattern.name for pattern in asked], counts, strict=True)

    return partial(_print_patterns, "count", answer, **given)


@click.command("frequent", help=FREQUENT, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--edges", type=int, required=True, help="Maximum number of edges of a pattern.")
@click.option("--support", type=int, required=True, help="Minimum support of a frequent pattern.")
@click.option("--measure", type=click.Choice(["mni", "instances"]), default="mni",
              show_default=True, help="Definition of the support.")  # fmt: skip
@_on_a_graph
def frequent(
    edges: int, support: int, measure: Literal["mni", "instances"], **given: Any
) -> Callable[[], None]:
    def answer(db: Database, directed: bool, labels: str | None) -> PatternRows:
        table = db.frequent(edges, support, measure=measure, labels=labels, directed=directed)
        return zip(table["support"], table["drawing"], strict=True)

    return partial(_print_patterns, "frequent", answer, **given)


def _print_patterns(
    name: str,
    answer: Callable[[Database, bool, str | None], PatternRows],
    file: str,
    columns: str | None,
    labels: str | None,
    directed: bool,
    **connection: Any,
) -> None:
    """Prints a line per pattern: two columns, separated by a tab."""
    db = _connect(connection)
    # Hints are about options of Python.
    db.workspace.on_caution = lambda caution: say(replace(caution, hint=None).format())
    watch = db.workspace.watch
    with db, heeding(watch), ProgressLine(sys.stderr, watch)(name):
        named = [each.strip() for each in columns.split(",")] if columns else None
        db.load("E", file, columns=named)
        there = db["E"].columns
        if len(there) != 2:
            raise UsageError(
                f"edges have two columns, {file} has {len(there)}: {', '.join(there)}",
                hint=f"--columns {','.join(there[:2])} chooses two" if len(there) > 2 else None,
            )
        if labels is not None:
            db.load("L", labels)
        rows = answer(db, directed, None if labels is None else "L")
    for row in rows:
        print(*row, sep="\t")
