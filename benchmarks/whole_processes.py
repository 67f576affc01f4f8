"""A Datalog program as a whole process, ours or Soufflé's: its time, memory, and rows it gives."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer
from time import perf_counter
from typing import Any

from benchmarks.sides import THREADS

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 300.0  # seconds after which a process is stopped

Counts = Mapping[str, int]


@dataclass(slots=True)
class Ended:
    """A process that has ended: how long it ran, the most bytes that it held, what it gave.

    `peak` is at least what this process held when it began the other, some 50 MB: so Linux counts.
    `files`: seconds of reading, writing and opening a GPU, `evaluation`: of the program beside
    them, if it tells.
    """

    seconds: float
    peak: int
    err: str
    trouble: str = ""
    files: float | None = None
    evaluation: float | None = None
    counts: Counts = field(default_factory=dict)


def ours(
    program: Path, facts: Path, cache: str, device: str = "cpu", threads: int | None = THREADS
) -> Ended:
    """`--timing` tells what files and opening a GPU took, and the whole program without its
    process. `cache`: the folder of compiled code. `threads`: None: one for each core."""
    command = [sys.executable, "-m", "gdatalog", "--device", device, "--timing", "--no-warnings"]
    given = [] if threads is None else ["-j", str(threads)]
    ended = _process([*command, *given, program], facts, GDATALOG_CACHE=cache)
    told = re.findall(r"(?:loading|writing|opening the GPU) ([\d.]+) s", ended.err)
    ended.files = sum(map(float, told))
    if (total := re.search(r"^total: ([\d.]+) s", ended.err, re.MULTILINE)) is not None:
        ended.evaluation = float(total[1]) - ended.files
    return ended


def souffle_compiled(program: Path, facts: Path) -> Ended:
    """`program`: what Soufflé's compiler has made."""
    return _process([program, "-j", str(THREADS)], facts)


def souffle_interpreted(
    souffle: Path, program: Sequence[str | Path], facts: Path, profile: Path | None
) -> Ended:
    """`program`: a path, and options before it. With a profile, a file to write, it tells what
    reading and writing took."""
    telling: list[str | Path] = [] if profile is None else ["-p", profile]
    ended = _process([souffle, "-w", "-j", str(THREADS), *telling, *program], facts)
    if profile is not None and not ended.trouble:
        ended.files = files_of_profile(json.loads(profile.read_text()))
    return ended


def files_of_profile(profile: dict[str, Any]) -> float:
    """Seconds of reading and writing files that a profile of Soufflé's tells, in microseconds."""
    relations = profile["root"]["program"]["relation"].values()
    spans = [told[what] for told in relations for what in ("loadtime", "savetime") if what in told]
    return float(sum(span["end"] - span["start"] for span in spans)) / 1e6


def _process(command: Sequence[str | Path], facts: Path, **env: str) -> Ended:
    """Runs a program on its facts, in a process of its own, and counts what it gives."""
    # Compiled modules are kept, whatever the environment says of those who develop.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    # Soufflé's threads spin otherwise, and its times double beside any other work.
    path = os.pathsep.join([str(ROOT), *filter(None, [kept.get("PYTHONPATH")])])
    kept |= {"OMP_WAIT_POLICY": "passive", "PYTHONPATH": path, **env}
    with TemporaryDirectory(prefix="gdatalog-answers-") as given:
        folder = Path(given)
        answers = folder / "answers"
        answers.mkdir()
        whole = [*command, "-F", facts, "-D", answers]
        with (folder / "out").open("w+") as out, (folder / "err").open("w+") as err:
            began = perf_counter()
            child = subprocess.Popen(whole, cwd=ROOT, env=kept, stdout=out, stderr=err)
            timer = Timer(LIMIT, child.kill)
            timer.start()
            try:
                _, status, used = os.wait4(child.pid, 0)
            finally:
                timer.cancel()
            seconds = perf_counter() - began
            child.returncode = os.waitstatus_to_exitcode(status)
            peak = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        told, errors = ((folder / name).read_text(errors="replace") for name in ("out", "err"))
        ended = Ended(seconds, peak, errors, counts=_counts(told, answers))
        if child.returncode:
            lines = ended.err.strip().splitlines() or [f"exit status {child.returncode}"]
            why = next((line for line in lines if "error" in line.lower()), lines[-1])[-200:]
            late = seconds >= LIMIT
            ended.trouble = f"not done in {LIMIT:g} s" if late else f"failed: {why}"
    return ended


def _counts(out: str, answers: Path) -> dict[str, int]:
    """Rows of each relation: those that are told on stdout, and those that are written."""
    told = (line.partition("\t") for line in out.splitlines())
    found = {name: int(count) for name, _, count in told if count.isdecimal()}
    for file in answers.iterdir():
        with file.open("rb") as lines:
            found[file.stem] = sum(1 for _ in lines)
    return found
