"""The options of the command line, as Click reads them: their help, and errors in them.

Most command lines are read without Click (`options.py`), whose import takes as long as they run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from gdatalog.distribution import VERSION
from gdatalog.errors import UsageError, meant
from gdatalog.options import FORMS, STRATEGIES
from gdatalog.shell.options import FORMATS, chosen
from gdatalog.shell.program import CommandLine

HELP = """Run Datalog programs; without FILES and -c, start an interactive prompt.

\b
  gdatalog                                an interactive prompt
  gdatalog -c '?- x in {1, 2}, x > 1.'    a program from the command line
  gdatalog a.dl b.dl -F facts -D out      several files as one program
  gdatalog - < rules.dl                   a program from stdin
  gdatalog x.gdb                          a prompt over a saved database
  gdatalog x.gdb a.dl                     a program over it
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
    return CommandLine.from_options(given)


def read(args: Sequence[str]) -> CommandLine | None:
    """The options of a command line; None after --help and --version. Raises for wrong ones."""
    try:
        # Click only parses: it would catch Ctrl-C and broken pipes of a run.
        options = command.main(list(args), prog_name="gdatalog", standalone_mode=False)
    except click.ClickException as problem:
        raise misused(problem) from None
    return options if isinstance(options, CommandLine) else None


def misused(problem: click.ClickException) -> UsageError:
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
