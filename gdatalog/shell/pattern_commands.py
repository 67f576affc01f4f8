"""The commands `gdatalog count` and `gdatalog frequent`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Literal, TypeVar

import click

from gdatalog.database import Database
from gdatalog.errors import UsageError
from gdatalog.records import replace
from gdatalog.shell.arguments import misused
from gdatalog.shell.editor.terminal import heeding
from gdatalog.shell.messages import say
from gdatalog.shell.program import opened
from gdatalog.shell.progress_line import ProgressLine

F = TypeVar("F", bound=Callable[..., object])
PatternRows = Iterable[tuple[object, object]]

COUNT = """Count the occurrences of patterns in a file of edges, each once.

\b
  gdatalog count --pattern house graph.csv
  gdatalog count --pattern clique4 --pattern path5 --induced graph.parquet

\b
Patterns: clique4, path5, cycle4, star3, biclique2_3 with any numbers, and
those of papers: house, q10, P1 to P22, G0 to G29, cuts5_1 to cuts7_11.
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
    db = opened(connection)
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


def run(args: Sequence[str]) -> None:
    """Runs one of the commands, with its options."""
    about = {"count": count, "frequent": frequent}[args[0]]
    name = f"gdatalog {about.name}"
    try:
        asked = about.main(list(args[1:]), prog_name=name, standalone_mode=False)
    except click.ClickException as problem:
        raise misused(problem) from None
    if callable(asked):
        asked()
