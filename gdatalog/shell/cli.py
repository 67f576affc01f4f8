"""The command line: options, dispatch and exit codes.

Exit codes: 0 success (also without answers), 1 an error in the program or its data, 2 wrong
options, 3 out of device, memory or time, 130 interrupted, 143 terminated. Answers go to stdout,
everything else to stderr.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import TextIOWrapper
from typing import TYPE_CHECKING, NoReturn, cast

from gdatalog.cancellation import AS_IT_WAS, interrupt_message
from gdatalog.database import Database
from gdatalog.errors import DeviceError, Error, RowLimitError, TimeLimitError, UsageError
from gdatalog.options import FORMS
from gdatalog.shell.editor.terminal import SIGNALLED, give_back, heeding
from gdatalog.shell.messages import say, say_error, say_unexpected
from gdatalog.shell.options import FORMATS, asks_for_patterns, plain_command
from gdatalog.shell.output import Output
from gdatalog.shell.parameters import read_parameters
from gdatalog.shell.program import PROFILE_FORMS, CommandLine, opened, run_job

if TYPE_CHECKING:
    from concurrent.futures import Future

    from gdatalog.shell.editor.prompt import Prompt

    # A prompt that was drawn before the engine was imported, its first input, and its database.
    BegunPrompt = tuple[Prompt, str, Future[Database]]

DONE, WRONG, USAGE, RESOURCES, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 130, 143


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
    db = opened(options.connection) if begun is None else begun[2].result()
    db._adopt()  # the prompt opens it on another thread
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
    options = _options(args)
    assert options is not None
    return opened(options.connection)


def _options(args: Sequence[str]) -> CommandLine | None:
    """The options of a command line; None after --help and --version. Raises for wrong ones."""
    plain = plain_command(args)
    if plain is not None:
        return CommandLine.from_options(plain)
    from gdatalog.shell.arguments import read

    return read(args)


def _interact(
    db: Database, params: Mapping[str, object], options: CommandLine, begun: BegunPrompt | None
) -> int:
    from gdatalog.shell.conversation import holds
    from gdatalog.shell.repl import Repl

    interactive = sys.stdin.isatty()
    spaced = not (interactive and sys.stdout.isatty())
    output = Output(sys.stdout, options.form, spaced=spaced)
    output.timed = not spaced
    output.limit = options.limit
    repl = Repl(db, output, options.folders, params, interactive=interactive, bail=options.bail)
    repl.timer = options.timing
    saved = options.connection["database"]
    if saved is not None and interactive:
        say(f"{saved}: {holds(db)}; .save {shlex.quote(saved)} saves it again")
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
        given = sys.argv[1:] if args is None else args
        if asks_for_patterns(given):
            from gdatalog.shell import pattern_commands

            pattern_commands.run(given)
            sys.stdout.flush()
            return DONE
        options = _options(given)
        code = DONE if options is None else start(options, begun)
        sys.stdout.flush()
        return code
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
