"""Runs the papers' tables; prints them, and writes them to docs/benchmarks/papers if all ran."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path

import gdatalog as gd
from benchmarks.machine import machine, named, rough
from benchmarks.papers.bench import Bench, Row, markdown

PAPERS = ("wu", "cuts", "t_dfs", "gamma", "kudu")
OUT = Path(__file__).resolve().parents[2] / "docs" / "benchmarks" / "papers"
_HEAD = """# The tables of papers

The work of Wu et al. (2014), cuTS, T-DFS, GAMMA and Kudu by gdatalog, at the scale that fits one
machine, on {device}.
`{command}` repeats it on yours. Figures of the papers are of other machines,
and are not here.

*cold*: from data in memory to the answer, with planning, compilation and indexes; *warm*: the best
of the runs after that. *MiB*: by how much memory grew, at the most, while it was first asked.
*checked by*: the second way by which the count was found; "enumeration" is the same engine without
sums of simpler counts. Runs were stopped after {cap:g} s.

{rough}
{machine}
"""


def main(
    arguments: Sequence[str] | None = None, connect: Callable[..., gd.Database] = gd.connect
) -> int:
    parser = ArgumentParser(prog="python -m benchmarks.papers", description=__doc__)
    parser.add_argument("papers", nargs="*", metavar="paper", help=f"{', '.join(PAPERS)}; or all")
    parser.add_argument("--small", action="store_true", help="tiny graphs: to see that all runs")
    parser.add_argument("--full", action="store_true", help="larger graphs too")
    parser.add_argument("--device", default="cpu", help="cpu (default), cuda, cuda:N")
    parser.add_argument("--cap", type=float, default=20.0, help="seconds after which a run stops")
    parser.add_argument("--out", type=Path, help="the folder of the report")
    options = parser.parse_args(arguments)
    if unknown := set(options.papers) - set(PAPERS):
        parser.error(f"no paper {', '.join(sorted(unknown))}; there are {', '.join(PAPERS)}")
    try:
        connect(device=options.device).close()
    except gd.DeviceError as reason:
        print(f"no benchmark on {options.device}: {reason}", file=sys.stderr)
        return 0
    bench = Bench(options.small, options.full, options.device, options.cap, connect)
    rows: list[Row] = []
    facts = machine()
    for name in options.papers or PAPERS:
        run: Callable[[Bench], Iterator[Row]] = import_module(f"benchmarks.papers.{name}").run
        for row in run(bench):
            rows.append(row)
            shown = row.trouble or f"{row.answer} (cold {row.cold or 0:.3g} s)"
            print(f"{row.table}: {row.work}: {shown}", file=sys.stderr)
    told = ", ".join(f"{key}: {value}" for key, value in facts.items())
    command = ["python -m benchmarks.papers", *(["--full"] if options.full else [])]
    command += [f"--device {options.device}"] if options.device != "cpu" else []
    command += [f"--cap {options.cap:g}"] if options.cap != parser.get_default("cap") else []
    report = "\n".join([
        _HEAD.format(
            command=" ".join(command),
            device=named(facts) if options.device == "cpu" else f"{options.device}, {named(facts)}",
            rough=rough(facts),
            machine=told + ".",
            cap=options.cap,
        ).rstrip(),
        *markdown(rows),
    ])  # fmt: skip
    print(report)
    out = options.out or (
        None if options.papers or options.small or options.device != "cpu" else OUT
    )
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "README.md").write_text(report + "\n", encoding="utf-8")
    return 1 if any(row.trouble.startswith("WRONG") for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
