"""How long a user waits for the first answer: whole processes, and reading long programs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from benchmarks.measure import Row, once
from gdatalog.parser import parse

ROOT = Path(__file__).resolve().parents[1]
_CLI = "gdatalog.shell.cli"
_TRAP = "files are in the system's cache; the very first start after a boot takes longer"


def run() -> Iterator[Row]:
    python = _seconds(["-c", "pass"])
    imported = _seconds(["-c", "import gdatalog"])
    yield Row(
        "start",
        "import gdatalog",
        imported,
        "",
        None,
        wanted=f"at most 0.25 s more than Python itself ({python:.3f} s)",
        met=imported - python <= 0.25,
        trap="NumPy and the engine are imported with their first use: the next row pays for them",
    )
    program = ROOT / "queries" / "triangles.dl"
    yield _command("gdatalog -c '?- 1 < 2.'", ["-c", "?- 1 < 2."], 0.6)
    if program.exists():
        arguments = [str(program), "-F", str(program.parent), "-D", "-"]
        yield _command("gdatalog queries/triangles.dl", arguments, 1.0)
    facts = "".join(f"edge({at}, {at * 7 % 1000}).\n" for at in range(100_000))
    yield _parsing("parsing 100,000 facts", facts, 5.0)
    rules = "".join(
        f'r{at}(x, z+{at}) <- E{at}(x, y), E(y, z), !F(x, _), G(z, "a"), x < y < z.\n'
        for at in range(10_000)
    )
    yield _parsing("parsing 10,000 rules", rules, 10.0)


def _parsing(what: str, text: str, at_most: float) -> Row:
    seconds, _ = once(lambda: parse(text))
    wanted = f"under {at_most:g} s"
    return Row(
        "start", what, seconds, "", None, wanted=wanted, met=seconds < at_most, trap="one run"
    )


def _command(what: str, arguments: Sequence[str], at_most: float) -> Row:
    seconds = _seconds(["-c", f"from {_CLI} import main; main()", *arguments])
    wanted = f"under {at_most:g} s"
    return Row("start", what, seconds, "", None, wanted=wanted, met=seconds < at_most, trap=_TRAP)


def _seconds(arguments: Sequence[str]) -> float:
    command = [sys.executable, *arguments]

    def work() -> None:
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)

    work()
    return median(once(work)[0] for _ in range(5))
