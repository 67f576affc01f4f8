"""SIGTERM and SIGHUP end the command line as Ctrl-C does: nothing is left half written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gdatalog.shell import cli

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")

ENDLESS = "n(0).\nn(x + 1) <- n(x), x < 1000000000000.\n"
WRITTEN = "a(x) <- x = range(0, 30000).\n.output p\np(x, y) <- a(x), a(y).\n"


def ended_by(
    number: signal.Signals, text: str, options: list[str], begun: Callable[[int], bool]
) -> tuple[int, str]:
    """Sends a signal to a program once it has `begun`; returns its exit code, and stderr."""
    Path("p.dl").write_text(text)
    command = [sys.executable, "-m", "gdatalog", *options, "p.dl"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        while not begun(process.pid):
            assert process.poll() is None, process.stderr and process.stderr.read()
            time.sleep(0.01)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
        return process.returncode, said
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_while_writing(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def writes(_: int) -> bool:
        return any(tmp_path.glob("out/.gdatalog-*.tmp"))

    code, said = ended_by(number, WRITTEN, ["-D", "out"], writes)
    assert code == 128 + number and not os.listdir("out")
    assert said.splitlines()[-1].startswith(
        "interrupted" if number == signal.SIGINT else "terminated"
    )


def test_while_spilling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("temp").mkdir()

    def spills(process: int) -> bool:
        folder = Path(f"/proc/{process}/fd")
        links = (os.readlink(link) for link in list(folder.iterdir()) if link.is_symlink())
        return any(str(tmp_path / "temp") in link for link in links)

    options = ["--memory-limit", "64MiB", "--temp-directory", "temp", "-D", "out"]
    code, _ = ended_by(signal.SIGTERM, WRITTEN, options, spills)
    assert code == 143 and not os.listdir("temp") and not any(tmp_path.glob("out/*"))


def test_while_evaluating(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def evaluates(process: int) -> bool:
        # the handler is there: SIGTERM is among the signals that the process catches
        status = Path(f"/proc/{process}/status").read_text()
        caught = int(status.partition("SigCgt:")[2].split()[0], 16)
        return bool(caught >> (signal.SIGTERM - 1) & 1)

    code, said = ended_by(signal.SIGTERM, f"{ENDLESS}?- n(x).", [], evaluates)
    assert code == cli.TERMINATED and said.splitlines()[-1] == "terminated"
