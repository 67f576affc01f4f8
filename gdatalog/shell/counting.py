"""The commands `gdatalog count` and `gdatalog frequent`: patterns in a file of edges."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from gdatalog.database import Database
from gdatalog.engine.session import parse_seconds, parse_threads
from gdatalog.opening import connect
from gdatalog.records import dataclass, replace
from gdatalog.shell import ProgressLine, say
from gdatalog.shell.editor import heeding

F = TypeVar("F", bound=Callable[..., Any])

HELP = """Count the occurrences of patterns in a file of edges, each once.

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


@click.command("count", help=HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--pattern", "patterns", metavar="NAME", multiple=True, required=True,
              help="Pattern to count; repeatable.")  # fmt: skip
@click.option("--induced", is_flag=True, help="Count induced occurrences only.")
@_on_a_graph
def count(patterns: tuple[str, ...], induced: bool, **given: Any) -> PatternCommand:
    def answer(db: Database, directed: bool, labels: str | None) -> Iterable[tuple[object, object]]:
        from gdatalog.patterns import named

        asked = [named(name) for name in patterns]
        counts = db.count(asked, induced=induced, directed=directed)
        return zip([pattern.name for pattern in asked], counts, strict=True)

    return PatternCommand("count", answer, **given)


@click.command("frequent", help=FREQUENT, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--edges", type=int, required=True, help="Maximum number of edges of a pattern.")
@click.option("--support", type=int, required=True, help="Minimum support of a frequent pattern.")
@click.option("--measure", type=click.Choice(["mni", "instances"]), default="mni",
              show_default=True, help="Definition of the support.")  # fmt: skip
@_on_a_graph
def frequent(edges: int, support: int, measure: Any, **given: Any) -> PatternCommand:
    def answer(db: Database, directed: bool, labels: str | None) -> Iterable[tuple[object, object]]:
        table = db.frequent(edges, support, measure=measure, labels=labels, directed=directed)
        return zip(table["support"], table["drawing"], strict=True)

    return PatternCommand("frequent", answer, **given)


@dataclass(frozen=True, slots=True)
class PatternCommand:
    """The parsed options of one of the two commands."""

    name: str
    answer: Callable[[Database, bool, str | None], Iterable[tuple[object, object]]]
    file: str
    labels: str | None
    directed: bool
    device: str
    memory_limit: str | None
    timeout: str | None
    threads: str | None

    def run(self) -> None:
        """Prints a line per pattern: two columns, separated by a tab."""
        db = connect(
            device=self.device,
            memory_limit=self.memory_limit,
            timeout=None if self.timeout is None else parse_seconds(self.timeout),
            threads=parse_threads(self.threads),
        )
        # Hints are about options of Python.
        db.workspace.on_caution = lambda caution: say(replace(caution, hint=None).format())
        watch = db.workspace.watch
        with db, heeding(watch), ProgressLine(sys.stderr, watch)(self.name):
            db.load("E", self.file)
            if self.labels is not None:
                db.load("L", self.labels)
            rows = self.answer(db, self.directed, None if self.labels is None else "L")
        for row in rows:
            print(*row, sep="\t")
