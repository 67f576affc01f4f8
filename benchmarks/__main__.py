"""Runs the benchmarks; prints a Markdown table and writes it to docs/benchmarks."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from pathlib import Path

from benchmarks import loading, patterns, recursion, startup
from benchmarks.measure import Row
from benchmarks.tables import machine, markdown

SUITES = {
    "start": startup.run,
    "patterns": patterns.run,
    "loading": loading.run,
    "recursion": recursion.run,
}
OUT = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"


def main() -> int:
    parser = ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="suite", help=f"{', '.join(SUITES)}; or all")
    parser.add_argument("--out", type=Path, help=f"default: {OUT.name}, if all suites run")
    options = parser.parse_args()
    unknown = set(options.suites) - SUITES.keys()
    if unknown:
        parser.error(f"no suite {', '.join(sorted(unknown))}; there are {', '.join(SUITES)}")
    facts = machine()
    rows: list[Row] = []
    for name in options.suites or SUITES:
        for row in SUITES[name]():
            ratio = "" if row.ratio is None else f"{row.ratio:.2f}x {row.peer}"
            print(f"{row.what}: {row.seconds:.3f} s {ratio}", file=sys.stderr, flush=True)
            rows.append(row)
    report = markdown(rows, facts)
    print(report)
    out = options.out or (None if options.suites else OUT)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "README.md").write_text(report)
        data = {"machine": facts, "rows": [row.to_dict() for row in rows]}
        (out / "results.json").write_text(json.dumps(data, indent=1) + "\n")
    return 1 if any(row.met is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
