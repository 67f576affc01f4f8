"""The command `gdatalog count`: how often patterns occur in a file of edges."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from gdatalog.engine.knobs import parse_seconds, parse_threads
from gdatalog.opening import connect
from gdatalog.records import dataclass
from gdatalog.shell.messages import say
from gdatalog.shell.progress import ProgressLine
from gdatalog.shell.stopping import heeding

HELP = """Count patterns in a file of edges, each occurrence once.

\b
  gdatalog count --pattern house graph.csv
  gdatalog count --pattern clique4 --pattern path5 --induced graph.parquet

\b
Patterns: clique4, path5, cycle4, star3, biclique2_3 with any numbers, and
those of papers: house, q10, P1 to P7, G0 to G29, cuts5_1 to cuts7_11.
"""


def asks_to_count(args: Sequence[str]) -> bool:
    """Whether a command line is this command's: else `count` is the name of a file.

    >>> asks_to_count(["count", "--pattern", "house", "graph.csv"]), asks_to_count(["count"])
    (True, False)
    """
    rest = args[1:]
    told = any(arg.partition("=")[0] in ("--pattern", "--help", "-h") for arg in rest)
    return args[:1] == ["count"] and told


@click.command(help=HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("file")
@click.option("--pattern", "patterns", metavar="NAME", multiple=True, required=True,
              help="What to count; may be given several times.")  # fmt: skip
@click.option("--labels", metavar="FILE", help="A file of vertices and their labels.")
@click.option("--induced", is_flag=True, help="Only where no other edges are between them.")
@click.option("--directed", is_flag=True, help="Edges go from their first column to the second.")
@click.option("--device", metavar="DEVICE", default="auto", help="auto, cpu, cuda, cuda:N.")
@click.option("--memory-limit", metavar="SIZE", help="What a query may hold, as in 8GiB.")
@click.option("--timeout", metavar="SECONDS", help="How long it may take.")
@click.option("-j", "threads", metavar="N", help="Threads; else one for each core.")
def command(**given: object) -> Counting:
    return Counting(**given)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Counting:
    """What the command line says."""

    file: str
    patterns: tuple[str, ...]
    labels: str | None
    induced: bool
    directed: bool
    device: str
    memory_limit: str | None
    timeout: str | None
    threads: str | None

    def run(self) -> None:
        """Prints a line for each pattern: its name, a tab, how often it occurs."""
        from gdatalog.patterns import named

        patterns = [named(name) for name in self.patterns]
        db = connect(
            device=self.device,
            memory_limit=self.memory_limit,
            timeout=None if self.timeout is None else parse_seconds(self.timeout),
            threads=parse_threads(self.threads),
        )
        db._workspace.on_caution = lambda caution: say(caution.format())
        watch = db._workspace.watch
        with db, heeding(watch), ProgressLine(sys.stderr, watch)("count"):
            db.load("E", self.file)
            if self.labels is not None:
                db.load("L", self.labels)
            counts = db.count(patterns, induced=self.induced, directed=self.directed)
        for pattern, count in zip(patterns, counts, strict=True):
            print(f"{pattern.name}\t{count}")
