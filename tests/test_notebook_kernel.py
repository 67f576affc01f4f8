"""The magics in a kernel, by the messages that front-ends send: what only a kernel has."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ipykernel", reason="needs ipykernel, of the extra `dev`")
pytest.importorskip("jupyter_client", reason="needs jupyter_client, of the extra `dev`")

from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager

ROOT = Path(__file__).resolve().parent.parent
WAIT = 120  # seconds, for a machine that is busy
LONG = """n(i) <- i = range(0, 20000).
?- n(x), n(y), n(z), x * y % 7 = z + 9.
"""


class ThisPython(KernelManager):
    @property
    def kernel_spec(self) -> KernelSpec:
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=[*argv, "--log-level=ERROR"], display_name="Python 3")


class Kernel:
    """A kernel, and what a front-end asks of it."""

    def __init__(self, folder: Path) -> None:
        self.manager = ThisPython(connection_file=str(folder / "kernel.json"))
        self.manager.start_kernel(
            env={**os.environ, "PYTHONPATH": str(ROOT), "IPYTHONDIR": str(folder)}
        )
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=WAIT)

    def messages(self, code: str, cell_id: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
        """Runs a cell; gives what the kernel sends, until it is idle."""
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
        message = self.client.session.msg("execute_request", content)
        message["metadata"]["cellId"] = cell_id
        self.client.shell_channel.send(message)
        while True:
            answer = self.client.get_iopub_msg(timeout=WAIT)
            if answer["parent_header"].get("msg_id") != message["header"]["msg_id"]:
                continue
            kind, content = answer["msg_type"], answer["content"]
            if kind == "status" and content["execution_state"] == "idle":
                return
            if kind not in ("status", "execute_input"):
                yield kind, content

    def run(self, code: str, cell_id: str = "") -> list[tuple[str, dict[str, Any]]]:
        return list(self.messages(code, cell_id))

    def complete(self, code: str) -> list[str]:
        asked = self.client.complete(code, len(code))
        while True:
            answer = self.client.get_shell_msg(timeout=WAIT)
            if answer["parent_header"].get("msg_id") == asked:
                return list(answer["content"]["matches"])

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    kernel = Kernel(tmp_path_factory.mktemp("kernel"))
    try:
        assert kernel.run("%load_ext gdatalog") == []
        yield kernel
    finally:
        kernel.close()


def test_answers_and_errors(kernel: Kernel) -> None:
    ((kind, content),) = kernel.run('%%datalog\nlikes("ann", "bob").', "one")
    assert kind == "execute_result" and "<table" in content["data"]["text/html"]
    ((kind, content),) = kernel.run("%%datalog\np(x) <- liks(x, _).", "two")
    assert kind == "error" and content["ename"] == "NameResolutionError"
    assert [line.strip() for line in content["traceback"]][1:] == [
        "2 | p(x) <- liks(x, _).",
        "|         ^^^^^^^^^^",
        "hint: did you mean `likes`?",
    ]
    # the cell is known again by its id, whatever its text
    ((kind, content),) = kernel.run('%%datalog\nlikes("cid", "dan").', "one")
    assert "cid" in content["data"]["text/plain"] and "ann" not in content["data"]["text/plain"]
    assert kernel.complete("%%datalog\n?- lik") == ["likes("]


def interrupted(kernel: Kernel, code: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Runs a cell and interrupts it when the bar is there; gives all bars, and what is told."""
    bars: list[dict[str, Any]] = []
    told: list[str] = []
    for kind, content in kernel.messages(code):
        if kind == "display_data":
            kernel.manager.interrupt_kernel()
        if kind in ("display_data", "update_display_data"):
            bars.append(content)
        else:
            assert kind == "error" and content["ename"] == "KeyboardInterrupt", content
            told += content["traceback"]
    return bars, told


def test_a_long_query_has_a_bar_and_can_be_interrupted(kernel: Kernel) -> None:
    bars, told = interrupted(kernel, f"%%datalog --strategy levelwise\n{LONG}")
    first, *_, gone = bars
    assert "<progress" in first["data"]["text/html"]
    assert re.search(r"\d s\b|%", first["data"]["text/plain"])
    assert len({bar["transient"]["display_id"] for bar in bars}) == 1
    assert gone["data"] == {"text/plain": "", "text/html": ""}
    assert len(told) == 1
    assert re.fullmatch(r"interrupted.* after .* s; the database is as it was", told[0])
    # nothing of the cell is kept, and the next one runs; when Python asks it has the bar too
    ((_, content),) = kernel.run("db = %datalog_db\nsorted(db)")
    assert content["data"]["text/plain"] == "['likes']"
    bars, told = interrupted(kernel, f"db.query({LONG!r}, strategy='levelwise')")
    assert "<progress" in bars[0]["data"]["text/html"] and not bars[-1]["data"]["text/html"]
    assert "Traceback" in "".join(told)
