"""How long a user waits for the first answer: whole processes, and reading long programs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from os import environ
from pathlib import Path
from statistics import median

from benchmarks.keys import typed
from benchmarks.measure import once
from benchmarks.records import Case, Figure, at_most
from benchmarks.setting import Setting

ROOT = Path(__file__).resolve().parents[1]
_CLI = "gdatalog.shell.start"
CONNECT = "import gdatalog; gdatalog.connect()"
TINY = """
edge(1, 2). edge(2, 3). edge(3, 4). edge(4, 5). edge(5, 6).
path(x, y) <- edge(x, y).
path(x, z) <- path(x, y), edge(y, z).
?- path(1, y).
"""
_CACHED = "files are in the system's cache; the very first start after a boot takes longer"


def run(setting: Setting) -> Iterator[Case]:
    times = 1 if setting.small else 5
    python = _seconds(["-c", "pass"], times)
    imported = _seconds(["-c", "import gdatalog"], times)
    yield _case("import gdatalog", imported, 0.1, beyond=python)
    if sys.platform != "win32":
        programs = sorted((ROOT / "queries").glob("*.dl"))
        yield from _processes(*((1, programs[:1]) if setting.small else (20, programs)))
    program = ROOT / "queries" / "triangles.dl"
    if program.exists():
        arguments = [str(program), "-F", str(program.parent), "-D", "-"]
        yield _command("gdatalog queries/triangles.dl", arguments, 1.0, times)
    if sys.platform != "win32":
        yield from _prompt(times)
    scale = 100 if setting.small else 1
    facts = "".join(f"edge({at}, {at * 7 % 1000}).\n" for at in range(100_000 // scale))
    yield _facts("100,000 facts in a text", facts, 0.6)
    rules = "".join(
        f'r{at}(x, z+{at}) <- E{at}(x, y), E(y, z), !F(x, _), G(z, "a"), x < y < z.\n'
        for at in range(10_000 // scale)
    )
    yield _parsing("parsing 10,000 rules", rules, 10.0)


def _processes(times: int, programs: Sequence[Path]) -> Iterator[Case]:
    """The seconds of CPU of whole processes, in turns with `import numpy`: a loaded machine changes
    their ratio little. Compiled code and plans are those of a run before."""
    cases: dict[str, tuple[list[str], float]] = {
        "import gdatalog": (["-c", "import gdatalog"], 0.3),
        CONNECT: (["-c", CONNECT], 1.0),
        "gdatalog -c '?- 1 < 2.'": (["-m", "gdatalog", "-c", "?- 1 < 2."], 1.7),
        "gdatalog, five facts and two rules": (["-m", "gdatalog", "-c", TINY], 2.0),
    }
    for program in programs:
        arguments = [str(program), "-F", str(program.parent), "-D", "-"]
        cases[f"gdatalog queries/{program.name}"] = (["-m", "gdatalog", *arguments], 3.0)
    numpy = "import numpy"
    runs = {numpy: ["-c", numpy], **{what: arguments for what, (arguments, _) in cases.items()}}
    spent: dict[str, list[float]] = {what: [] for what in runs}
    for turn in range(times + 1):
        for what, arguments in runs.items():
            seconds = _cpu_seconds(arguments)
            if turn:  # the first compiles modules, and fills the caches
                spent[what].append(seconds)
    whole = median(spent[numpy])
    for what, (_, most) in cases.items():
        seconds = median(spent[what])
        case = Case("start", f"{what}: seconds of CPU", [Figure("ours", seconds)], notes=(_CACHED,))
        case.asks = [at_most(what, "`import numpy`", seconds, most * whole)]
        yield case


def _prompt(times: int) -> Iterator[Case]:
    """The prompt, the engine that comes behind it, and what somebody types."""
    seen = [typed() for _ in range(times + 1)][1:]
    yield _case("gdatalog, to the first prompt", median(one.prompt for one in seen), 0.4)
    told = [typed("x", ["--device", "cpu"]) for _ in range(times)]
    yield _case("gdatalog --device cpu, to the first prompt", median(t.prompt for t in told), 0.4)
    yield _case("gdatalog, to the engine behind it", median(one.engine for one in seen), 1.5)
    keys = [seconds for one in seen for seconds in one.keys]
    yield _case("a key at the prompt, median", median(keys), 0.01)
    yield _case("a key at the prompt, the slowest", max(keys), 0.1)


def _facts(what: str, text: str, limit: float) -> Case:
    """From the text of a program to the rows of its relation."""
    import gdatalog

    with gdatalog.connect(device="cpu") as db:
        db.query("?- 1 < 2.")  # imports the engine

        def work() -> int:
            db.run(text)
            return len(db["edge"])

        seconds, _ = once(work)
    return _case(what, seconds, limit)


def _parsing(what: str, text: str, limit: float) -> Case:
    from gdatalog.parser import parse

    seconds, _ = once(lambda: parse(text))
    return _case(what, seconds, limit)


def _command(what: str, arguments: Sequence[str], limit: float, times: int) -> Case:
    return _case(
        what, _seconds(["-c", f"from {_CLI} import main; main()", *arguments], times), limit
    )


def _case(what: str, seconds: float, limit: float, beyond: float = 0.0) -> Case:
    case = Case("start", what, [Figure("ours", seconds)], notes=(_CACHED,))
    against = "Python itself" if beyond else "a clock"
    case.asks = [at_most(what, against, seconds - beyond, limit)]
    return case


def _cpu_seconds(arguments: Sequence[str]) -> float:
    """What a process took of all cores."""
    from resource import RUSAGE_CHILDREN, getrusage

    # Compiled modules are kept, whatever the environment says of those who develop.
    env = {name: value for name, value in environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = getrusage(RUSAGE_CHILDREN)
    command = [sys.executable, *arguments]
    subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True)
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _seconds(arguments: Sequence[str], times: int) -> float:
    command = [sys.executable, *arguments]

    def work() -> None:
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)

    work()
    return median(once(work)[0] for _ in range(times))
