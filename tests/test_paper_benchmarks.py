"""The tables of papers, on tiny graphs: all of them run, and every count is that of brute force."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gdatalog as gd
from benchmarks.gpu.clocks import Clocked
from benchmarks.graphs import Graph
from benchmarks.papers import __main__ as papers_main
from benchmarks.papers import bench, cuts, gamma, kudu, t_dfs, wu
from benchmarks.papers.__main__ import main, without_pages
from benchmarks.papers.bench import Bench, driver_of
from benchmarks.papers.report import NO_TIME, PAPERS, Row, in_lines, line, page, read, tables
from gdatalog import patterns
from gdatalog.gpu_ops.cupy_driver import CupyDriver
from gdatalog.gpu_ops.device import Gpu
from gdatalog.gpu_ops.group import DeviceGroup
from tests.cuda_host import HostDriver, needs_compiler
from tests.cuda_host.pages import HostMemory

ROWS = {"wu": 12, "cuts": 17, "t_dfs": 6, "gamma": 7, "kudu": 12}  # at the least


def shown(text: str) -> list[list[str]]:
    """The rows of tables, without heads."""
    cells = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [row for row in cells if row[0] not in ("work", "---")]


@pytest.mark.parametrize("paper", PAPERS)
def test_a_paper_runs(paper: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main([paper, "--small", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    rows = shown(out)
    assert len(rows) >= ROWS[paper] and (tmp_path / "README.md").read_text() == out[:-1]
    ways = {"brute force", "the loop", "all embeddings of some", "one process"}
    checked = [row for row in rows if "a loop on one thread" not in row[0] and " by " not in row[0]]
    assert all(ways & set(row) for row in checked)


def on_host(device: str, *, pages: bool = True, **told: Any) -> gd.Database:
    """A database of a GPU that is not there, with clocks, or of several."""
    db = gd.connect(device="cpu", **{**told, "timeout": None})
    if device != "cpu" and "cluster" not in told:
        drivers = [HostDriver(number=number) for number in range(1 + device.count(","))]
        if not pages:
            drivers[0].virtual = HostMemory(0)
        one = Gpu(Clocked(drivers[0]), told.get("memory_limit"))
        db.workspace.device = DeviceGroup(drivers) if drivers[1:] else one
        db.workspace.tune(cell_bytes=1000, shared_from=0)
    return db


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("paper", PAPERS)
def test_on_a_gpu(
    paper: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(t_dfs, "LABELS", (4,))  # each pattern is a kernel of its own
    monkeypatch.setattr(kudu, "WORKERS", ())
    monkeypatch.setattr(gamma, "DEVICES", gamma.DEVICES[:2])
    asked = [paper, "--small", "--device", "cuda", "--out", str(tmp_path)]
    assert main(asked, on_host) == 0
    rows = shown(capsys.readouterr().out)
    works = "\n".join(row[0] for row in rows)
    assert not [row for row in rows if "stopped" in row[1] or "Error" in row[1]]
    for told in ON_A_GPU[paper]:
        assert told in works


ON_A_GPU = {
    "wu": [wu.PAIRWISE, wu.LFTJ, wu.WARP, wu.CPU, "64 bits", "case 3", "breadth-first by one lane"],
    "cuts": ["lanes to a subtree", "blocks", "rows of a chunk", "level 5"],
    "t_dfs": [
        "P12, ",
        "looks each 0.1 ms",
        "half of the rest",
        "a time limit of 0.1 ms",
        "a new kernel after 1 ms",
        "1/16 of whole stacks",
    ],
    "gamma": [*gamma.WAYS, *gamma.DEVICES[:2], "counted first", "4,096 rows", *gamma.PARTS],
    "kudu": ["4-motifs", "clique5"],
}


@needs_compiler
def test_what_is_left_is_for_new_kernels() -> None:
    host = Bench(device="cuda", connect=on_host)
    graph, pattern = bench._made("a graph", 40, 300), patterns.named("P6")
    with host.database(graph) as db, t_dfs.new_kernels():
        host.fill()
        db.workspace.force(algebra="never", strategy="lftj", tile=32)
        db.workspace.tune(tile_shares_after=1)
        assert db.count(pattern) == bench.brute(pattern, graph)
        launches, _ = driver_of(db).take()
    assert launches > 1


def test_a_run_keeps_other_papers_results(tmp_path: Path) -> None:
    for paper in ("t_dfs", "wu", "t_dfs"):
        assert main([paper, "--small", "--out", str(tmp_path)]) == 0
    assert [run.paper for run in read(tmp_path)] == ["wu", "t_dfs"]
    text = (tmp_path / "README.md").read_text()
    assert text.index("## Wu et al. (2014), on cpu") < text.index("## T-DFS (2024), on cpu")
    # A GPU's counts are compared with those of the CPU, whose run stays.
    assert main(["t_dfs", "--small", "--device", "cuda", "--minutes", "0", "--out", str(tmp_path)],
                lambda device, **told: gd.connect(device="cpu")) == 0  # fmt: skip
    assert [run.kind for run in read(tmp_path)] == ["cpu", "cpu", "cuda"]
    assert NO_TIME in (tmp_path / "README.md").read_text()
    larger = Bench(known={("table", "P1, a small graph"): 5})
    graph = Bench(small=True).graph("")
    with larger.database(graph) as db:
        row = larger.counted("table", patterns.named("P1"), graph, db)
    assert row.trouble == "WRONG: 5 by the CPU"


def test_a_run_goes_on_where_another_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that has been measured is not measured again, and rows printed elsewhere are added."""
    asked = ["wu", "--small", "--go-on", "--lines", "--out"]
    assert main([*asked, str(tmp_path / "a"), "--minutes", "0"]) == 0
    assert main([*asked, str(tmp_path / "a"), "--table", "none"]) == 0
    assert not capsys.readouterr().out  # no time, no table: nothing was measured
    assert NO_TIME in (tmp_path / "a" / "README.md").read_text()
    assert main([*asked, str(tmp_path / "b")]) == 0
    begin, *_, end = capsys.readouterr().out.splitlines(keepends=True)
    lines = tmp_path / "lines"
    lines.write_text(f"started\n{begin}{end}{end[:99]}")
    assert main(["--merge", str(lines), "--out", str(tmp_path / "c")]) == 0
    (run,) = read(tmp_path / "c")
    whole = {row.key: row for row in read(tmp_path / "b")[0].rows}
    assert len(run.rows) == 2 and all(whole[row.key] == row for row in run.rows)
    (told,) = in_lines(end)
    told.rows[0].trouble = NO_TIME  # as if it had not been measured there: what is here stays
    lines.write_text(line(told))
    assert main(["--merge", str(lines), "--out", str(tmp_path / "c")]) == 0
    assert read(tmp_path / "c")[0].rows == run.rows
    told.rows[0].trouble, told.machine["cores"] = "", 999  # another machine measures the last row
    lines.write_text(line(told))
    assert main(["--merge", str(lines), "--out", str(tmp_path / "c")]) == 0
    first, last = read(tmp_path / "c")[0].rows
    assert first.more["on"].endswith("cores") and "on" not in last.more
    assert main([*asked, str(tmp_path / "b")]) == 0
    assert not [line for line in capsys.readouterr().out.splitlines() if wu.FIGURE in line]
    assert whole == {row.key: row for row in read(tmp_path / "b")[0].rows}


def test_processes_that_compile_ahead_share_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each row is asked by one of them, which tells its cold time and writes no report."""
    colds: list[dict[tuple[str, str], float]] = []
    merged = "benchmarks.papers.__main__._colds"
    real = papers_main._colds
    monkeypatch.setattr(merged, lambda text: colds.append(real(text)) or colds[-1])
    asked = ["t_dfs", "--small", "--out", str(tmp_path)]
    assert main([*asked, "--ahead", "2"]) == 0
    (run,) = read(tmp_path)
    one, other = colds
    assert one.keys().isdisjoint(other)
    assert {row.key: row.cold for row in run.rows} == one | other
    assert all(row.checked and row.warm for row in run.rows)


def test_the_published_page_shows_its_results() -> None:
    there = papers_main.OUT
    assert (there / "README.md").read_text(encoding="utf-8") == page(read(there))


def test_indexes_can_be_read_without_pages() -> None:
    driver = CupyDriver.__new__(CupyDriver)
    driver._virtual = {}
    without_pages(driver)
    assert driver.page == 0


def test_ids_of_64_bits_stay_such() -> None:
    graph = wu.wu(np, 300, 3)
    for bits in (32, 64):
        with gd.connect(device="cpu") as db:
            wu.load(db, graph, np, bits, False)
            assert {keys.dtype.itemsize for keys in db.workspace.catalog.stored["E"].keys} == {
                bits // 8
            }


def test_table_1_of_cuts_has_the_words_of_all_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a clique of six: 6, 30, 120, 360 and 720 partial matches."""
    u, v = np.triu_indices(6, 1)
    six = Graph("email-Enron", u, v)
    found = list(cuts._table_1(Bench(), six))
    assert [row.answer for row in found] == [6, 30, 120, 360, 720]
    assert [row.more["as a tree"] for row in found] == ["12", "72", "312", "1,032", "2,472"]
    assert all(row.trouble.startswith("WRONG") for row in found)  # not that graph's words


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
    monkeypatch.setattr(kudu, "WORKERS", ())
    assert main(["kudu", "--small"]) == 1
    assert "WRONG: 7 by brute force" in capsys.readouterr().out
    small = Bench(small=True)
    with small.database(small.graph("")) as db:
        row = Row("table", "work")
        row = small.timed(row, db, lambda db: db.query("n(count()) <- E(x, _).", timeout=1e-9))
    assert row.trouble == "stopped after 20 s" and row.answer is None
    assert "| work | stopped after 20 s |" in "\n".join(tables([row]))


def test_a_fault_is_told_and_the_next_row_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    small = Bench(small=True)
    with small.database(small.graph("")) as db:
        row = small.timed(Row("table", "work"), db, lambda db: [][1])
        other = small.timed(Row("table", "other"), db, lambda db: db.count(patterns.clique(3)))
    assert row.trouble == "FAILED: IndexError('list index out of range')" and other.answer
    assert "IndexError" in capsys.readouterr().err


def test_a_count_is_checked_by_enumeration() -> None:
    larger = Bench()
    graph = Bench(small=True).graph("")
    with larger.database(graph) as db:
        row = larger.counted("table", patterns.cycle(4), graph, db)
    assert row.checked == "enumeration" and not row.trouble and row.answer > 0
