"""The tables of papers, on tiny graphs: all of them run, and every count is that of brute force."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gdatalog as gd
from benchmarks.papers import bench, kudu, t_dfs
from benchmarks.papers.__main__ import PAPERS, main
from benchmarks.papers.bench import Bench, Row, markdown
from gdatalog import patterns
from gdatalog.gpu_ops.device import Gpu
from tests.cuda_host import HostDriver, needs_compiler

ROWS = {"wu": 4, "cuts": 10, "t_dfs": 10, "gamma": 7, "kudu": 6}  # at the least


def shown(text: str) -> list[list[str]]:
    """The rows of tables, without heads."""
    cells = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [row for row in cells if row[0] not in ("work", "---")]


@pytest.mark.parametrize("paper", PAPERS)
def test_a_paper_runs(paper: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main([paper, "--small", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    rows = shown(out)
    assert len(rows) >= ROWS[paper] and (tmp_path / "README.md").read_text() == out
    checked = [row for row in rows if "a loop on one thread" not in row[0]]
    ways = {"brute force", "the loop", "all embeddings of some"}
    assert all(ways & set(row) for row in checked)


@needs_compiler
@pytest.mark.slow
def test_on_a_gpu(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(t_dfs, "LABELS", (4,))  # each pattern is a kernel of its own

    def connect(**told: Any) -> gd.Database:
        db = gd.connect(device="cpu", timeout=None)
        db.workspace.device = Gpu(HostDriver())
        return db

    assert main(["t_dfs", "--small", "--device", "cuda"], connect) == 0
    out = capsys.readouterr().out
    assert "T-DFS: the time limit" in out and "P2, a small graph, 0.1 ms" in out


def test_without_a_gpu_nothing_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    def connect(**told: Any) -> gd.Database:
        raise gd.DeviceError("there is none")

    assert main(["--device", "cuda"], connect) == 0
    assert "no benchmark on cuda: " in capsys.readouterr().err


def test_wrong_and_stopped_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "brute", lambda *args: 7)
    monkeypatch.setattr(kudu, "brute", lambda *args: 7)
    assert main(["kudu", "--small"]) == 1
    assert "WRONG: 7 by brute force" in capsys.readouterr().out
    small = Bench(small=True)
    with small.database(small.graph("")) as db:
        row = Row("table", "work")
        row = small.timed(row, db, lambda db: db.query("n(count()) <- E(x, _).", timeout=1e-9))
    assert row.trouble == "stopped after 20 s" and row.answer is None
    assert "| work | stopped after 20 s |" in "\n".join(markdown([row]))


def test_a_count_is_checked_by_enumeration() -> None:
    larger = Bench()
    graph = Bench(small=True).graph("")
    with larger.database(graph) as db:
        row = larger.counted("table", patterns.cycle(4), graph, db)
    assert row.checked == "enumeration" and not row.trouble and row.answer > 0
