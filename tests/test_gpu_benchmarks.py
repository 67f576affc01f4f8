"""What the GPU's benchmark stands on, run without one; no figure is judged here."""

from __future__ import annotations

import re
from itertools import combinations
from math import comb
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gdatalog as gd
from benchmarks import several_gpus
from benchmarks.gpu import __main__ as program
from benchmarks.gpu import breakdown, cells, counts, machine, sectors
from benchmarks.gpu.clocks import Clocked, under_half
from benchmarks.gpu.forced import NEVER, Forced, NoGpu, Ours, device_of, gpu_driver
from benchmarks.gpu.hand import KERNELS, TEAMS, Hand
from benchmarks.gpu.made import Edges, oriented, rmat, wu
from benchmarks.gpu.report import ratios
from benchmarks.gpu.setting import Setting
from benchmarks.gpu.sort_merge import SortMerge
from benchmarks.patterns import P1, P3, clique
from benchmarks.records import Case, Figure
from gdatalog.errors import Error
from gdatalog.gpu_ops.device import Gpu
from gdatalog.gpu_ops.group import DeviceGroup
from tests import data
from tests.cuda_host import HostDriver, needs_compiler

Pairs = set[tuple[int, int]]


@pytest.fixture(scope="module")
def driver() -> Clocked:
    return Clocked(HostDriver(seed=3))


def made(xp: Any, pairs: Pairs) -> Edges:
    u, v = np.array(sorted(pairs), dtype=np.int32).T
    return Edges("made", xp.asarray(np.ascontiguousarray(u)), xp.asarray(np.ascontiguousarray(v)))


def dense(vertices: int, share: float, seed: int) -> Pairs:
    random = np.random.default_rng(seed)
    return {pair for pair in combinations(range(vertices), 2) if random.random() < share}


def cliques(pairs: Pairs, size: int) -> int:
    near = {v: {b for a, b in pairs if a == v} for v in range(1 + max(max(p) for p in pairs))}

    def grown(among: set[int], more: int) -> int:
        return 1 if more == 0 else sum(grown(among & near[v], more - 1) for v in among)

    return grown(set(near), size)


def p3s(pairs: Pairs) -> int:
    """For each edge: the edges among what both its ends are joined to, times the others there."""
    near: dict[int, set[int]] = {}
    for a, b in pairs:
        near.setdefault(a, set()).add(b)
        near.setdefault(b, set()).add(a)
    total = 0
    for a, b in pairs:
        both = near[a] & near[b]
        total += sum((c, d) in pairs for c in both for d in both) * (len(both) - 2)
    return total


# ---------------------------------------------------------------------------------------- graphs


@pytest.mark.parametrize(
    ("make", "edges"),
    [
        (lambda xp: wu(xp, 2_000, 3), 2_000),
        (lambda xp: wu(xp, 2_000, 4), 2_000),
        (lambda xp: rmat(xp, 9, 2_000), 2_000),
    ],
)
def test_graphs_are_the_same_by_numpy_and_on_the_device(make: Any, edges: int) -> None:
    xp = HostDriver().xp
    there, here = make(xp), make(np)
    assert there.name == here.name
    for side in ("u", "v"):
        assert getattr(there, side).dtype == np.int32
        assert np.array_equal(xp.asnumpy(getattr(there, side)), getattr(here, side))
    assert len(here.u) == edges and (here.u < here.v).all()
    assert len(set(zip(here.u.tolist(), here.v.tolist(), strict=True))) == edges


def test_draws_are_spread() -> None:
    graph = wu(np, 10_000, 3)  # of as many vertices
    ends = np.concatenate([graph.u, graph.v])
    assert 4_500 < ends.mean() < 5_500 and ends.max() < 10_000
    skewed = rmat(np, 10, 5_000)
    degrees = np.bincount(np.concatenate([skewed.u, skewed.v]))
    assert degrees.max() > 10 * degrees.mean()


def test_a_graph_in_the_order_of_degrees() -> None:
    pairs = dense(30, 0.3, seed=1)
    graph = oriented(np, made(np, pairs))
    lists = [
        graph.targets[a:b].tolist() for a, b in zip(graph.offsets, graph.offsets[1:], strict=False)
    ]
    degree = np.diff(graph.all_offsets)
    assert sum(map(len, lists)) == len(pairs)
    assert graph.longest == max(map(len, lists))
    for x, behind in enumerate(lists):
        assert behind == sorted(set(behind))
        assert all(y > x and degree[y] >= degree[x] for y in behind)
    assert graph.sources.tolist() == [x for x, behind in enumerate(lists) for _ in behind]
    assert sorted(degree) == sorted(np.bincount(np.array(sorted(pairs)).ravel()))


# ------------------------------------------------------------------------------- other people's way


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize(
    ("kernel", "lanes"), [("triangles", 8), ("k4", 16), ("p3", 32), ("k4_bits", 32)]
)
def test_kernels_by_hand_count_right(driver: Clocked, kernel: str, lanes: int) -> None:
    count = {"triangles": lambda p: cliques(p, 3), "p3": p3s}.get(kernel, lambda p: cliques(p, 4))
    complete = set(combinations(range(41), 2))  # rows of two words, in the room
    for pairs in (dense(40, 0.4, seed=2), dense(90, 0.03, seed=3), {(0, 1)}, complete):
        graph = oriented(driver.xp, made(driver.xp, pairs))
        hand = Hand(kernel, graph, driver, lanes, threads=64, short=6)
        assert hand.count() == count(pairs)
    if kernel != "p3":
        assert hand.count() == comb(41, 3 if kernel == "triangles" else 4)
    assert under_half(driver.xp.asnumpy(hand.ends()), 1.0) is not None


@pytest.mark.slow
@needs_compiler
@data.needs(data.graph_path("ca-GrQc"))
def test_kernels_by_hand_count_what_rules_count(driver: Clocked) -> None:
    setting = Setting(driver, HostDriver)
    edges = setting.graph("ca-GrQc")
    ours = setting.ours(edges, gpu=False)
    for kernel, pattern in (("k4_bits", clique(4)), ("p3", P3)):
        graph = setting.oriented(edges)
        found = Hand(kernel, graph, driver).count()
        text = pattern.rule() if pattern is not P3 else pattern.distinct_rule()
        assert found == ours.count(text, Forced()) // (4 if pattern is P3 else 1)
    setting.forget()


@pytest.mark.slow
@needs_compiler
def test_what_finds_no_room_to_be_shared_is_counted_once() -> None:
    """Hubs' lists, tasks that are shared all the time, and a queue of few tiles."""
    driver = Clocked(HostDriver(blocks=2))
    graph = rmat(driver.xp, 8, 1_500)
    there, here = Ours(graph, device_of(driver), driver.xp), Ours(graph, None, driver.xp)
    text = clique(4).rule()
    wanted = here.count(text, Forced())
    for limit in (0, 2_000, NEVER):
        assert there.count(text, Forced(tile=32, time_limit=limit)) == wanted
    assert there.count(text, Forced(tile=4)) == wanted
    lanes = [re.findall(r"enum \{ LANES = (\d+) \}", one.source) for one in driver.compiled]
    assert [found for found in lanes if found] == [["32"], ["4"]]  # and not one for both
    there.close()
    here.close()


@pytest.mark.slow
@needs_compiler
@data.needs(data.graph_path("ca-GrQc"))
def test_rules_count_on_a_device_what_they_count_elsewhere() -> None:
    """A graph of hubs, and tasks that are shared all the time."""
    driver = HostDriver()
    driver.patience *= 10
    setting = Setting(Clocked(driver), HostDriver)
    edges = setting.graph("ca-GrQc")
    there, here = (setting.ours(edges, gpu) for gpu in (True, False))
    for text, forced in (
        (P1.distinct_rule(), Forced(tile=32, time_limit=20_000)),
        (clique(5).rule(), Forced(tile=8)),
    ):
        assert there.count(text, forced) == here.count(text, Forced())
    setting.forget()


def test_pairwise_joins_count_right(driver: Clocked) -> None:
    for pairs in (dense(40, 0.4, seed=4), dense(60, 0.05, seed=5), {(0, 1)}):
        edges = made(driver.xp, pairs)
        for size in (3, 4):
            for chunk in (50, 1 << 20):
                joins = SortMerge(driver, edges, size, chunk)
                assert joins.count() == cliques(pairs, size)
        assert "sort" in joins.phases.seconds or len(pairs) == 1


# --------------------------------------------------------------------------------------- figures


def test_sectors_are_those_that_positions_lie_in() -> None:
    positions = np.random.default_rng(6).integers(0, 900, 1000)
    for itemsize in (4, 8):
        sectors_of = [
            {p * itemsize // 32 for p in positions[at : at + 32]} for at in range(0, 1000, 32)
        ]
        assert sectors.gathered(np, positions, itemsize) == sum(map(len, sectors_of))
        assert sectors.touched(np, positions, 900, itemsize) == len(set().union(*sectors_of))
    assert sectors.gathered(np, np.arange(320), 4) == sectors.streamed(320, 4) == 40


def test_the_share_of_time_in_which_few_blocks_work() -> None:
    ends = [1_000, 2_000, 3_000, 10_000]
    assert under_half(ends, 16e-6) == pytest.approx(0.5)
    assert under_half([5, 5, 5], 1.0) == 0.0
    assert under_half([0, 0], 1.0) is None


def events(times: list[float]) -> Any:
    """What clocks ask of CuPy: events that are recorded at these times, in milliseconds."""
    left = iter(times)

    def event() -> Any:
        made = SimpleNamespace(at=None)
        made.record = lambda: setattr(made, "at", next(left))
        return made

    return SimpleNamespace(Event=event, get_elapsed_time=lambda a, b: b.at - a.at)


def test_on_a_gpu_events_are_the_clocks() -> None:
    kernel = SimpleNamespace(launch=lambda *args: None, resources=None)
    driver: Any = SimpleNamespace(
        xp=SimpleNamespace(cuda=events([1.0, 3.5, 4.0, 4.5])),
        kernels=lambda source, names, told: dict.fromkeys(names, kernel),
        synchronize=lambda: None,
    )
    clocks = Clocked(driver)
    found = clocks.kernels("", ["survivors", "other"], "a test")
    for name in ("survivors", "other"):
        found[name].launch(1, 32, [])
    assert clocks.take() == (2, pytest.approx(0.003))
    assert clocks.by_part == {"compact": 0.0025, "other": 0.0005}
    assert clocks.take() == (0, 0.0)


def test_a_gpu_is_named() -> None:
    properties = {"name": b"Some GPU", "multiProcessorCount": 7, "totalGlobalMem": 8 << 30}
    runtime = SimpleNamespace(
        getDevice=lambda: 0,
        getDeviceProperties=lambda number: properties,
        driverGetVersion=lambda: 12_040,
        runtimeGetVersion=lambda: 12_090,
    )
    xp = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime), __version__="14.0")
    told = machine.facts(SimpleNamespace(xp=xp))
    assert told["GPU"] == "Some GPU" and told["GPU memory GiB"] == 8 and told["SMs"] == 7


# ---------------------------------------------------------------------------------------- suites


@pytest.mark.slow
@needs_compiler
def test_every_suite_runs(tmp_path: Path) -> None:
    driver = Clocked(HostDriver())
    setting = Setting(driver, HostDriver, small=True, budget=0.0)
    cases = program.run(setting, list(program.SUITES))
    assert setting.reasons == []
    program.write(cases, {"GPU": "none"}, setting.left_out, setting.reasons, tmp_path)
    told = [(c.what, f.side, f.trouble) for c in cases for f in c.figures if f.trouble]
    assert told == []
    assert {case.suite for case in cases} >= {"cliques", "random graphs", "compiling"}
    parts = {f.side for case in cases if case.suite == breakdown.SUITE for f in case.figures}
    assert {"sort", "merge", "the depth-first kernel"} < parts
    assert any(part.startswith("expand, case") for part in parts)
    report = (tmp_path / "README.md").read_text()
    assert report.startswith("# gdatalog on a GPU\n") and "Other people's numbers" in report
    assert report.index("## How many times as fast") < report.index("## How it was measured")
    assert "met**" not in report
    assert program.main(["--redraw", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "README.md").read_text() == report


def test_a_report_compares_what_gdatalog_chooses_with_the_cpu_and_with_kernels_by_hand() -> None:
    figures = [
        Figure("tile as chosen", 0.004, kernels=0.002, answer=5),
        Figure("tile 1", 0.001, kernels=0.0005, answer=5),
        Figure("by hand: k4, 8 lanes", 0.003, kernels=0.001, answer=5),
        Figure("by hand: k4, 16 lanes", 0.002, kernels=0.0015, answer=5),
        Figure("CPU, all cores", 0.02, answer=5),
        Figure("sort-merge", 0.001, answer=5),
    ]
    case = Case("cliques", "P2, G", figures)
    again = Case("tile 1 and the CPU", "P2, G", figures[:2])
    unlike = Case("random graphs", "K4, G", figures[1:])
    threads = [Figure("as chosen", 0.001), Figure("CPU, two threads", 0.1)]
    table = ratios([case, again, unlike, Case("recursion", "closure, G", threads)])
    assert [line for line in table if line.startswith("| ")][1:] == [
        "| --- | ---: | ---: | ---: | ---: |",
        "| P2, G | 5x | 0.25x | 0.5x | 4.00 |",
        "| closure, G | 100x (two threads) |  |  | 1.00 |",
    ]
    assert ratios([unlike]) == []


@pytest.fixture
def card() -> Clocked:
    try:
        return Clocked(gpu_driver())
    except (NoGpu, ImportError, RuntimeError, Error) as reason:
        pytest.skip(f"no GPU: {str(reason).strip()}")


@pytest.mark.gpu
def test_kernels_by_hand_count_right_on_a_gpu(card: Clocked) -> None:
    n = 400
    works: list[tuple[Pairs, tuple[int, int, int]]] = [
        (pairs, (cliques(pairs, 3), cliques(pairs, 4), p3s(pairs)))
        for pairs in (dense(180, 0.4, seed=8), dense(900, 0.02, seed=9))
    ]
    whole = comb(n, 3), comb(n, 4), comb(n, 2) * comb(n - 2, 2) * (n - 4)
    works.append((set(combinations(range(n), 2)), whole))
    for pairs, (triangles, k4s, p3) in works:
        edges = made(card.xp, pairs)
        graph = oriented(card.xp, edges)
        wanted = {"triangles": triangles, "k4": k4s, "k4_bits": k4s, "p3": p3}
        for lanes in TEAMS:
            for kernel in KERNELS:
                assert Hand(kernel, graph, card, lanes).count() == wanted[kernel]
        for size, count in ((3, triangles), (4, k4s)):
            assert SortMerge(card, edges, size, 1 << 20).count() == count


@pytest.mark.gpu
def test_every_suite_runs_on_a_gpu(card: Clocked) -> None:
    setting = Setting(card, gpu_driver, small=True, budget=0.0)
    cases = program.run(setting, list(program.SUITES))
    assert setting.reasons == []
    assert [(c.what, f.side, f.trouble) for c in cases for f in c.figures if f.trouble] == []
    assert machine.facts(card)["SMs"] > 0


@pytest.mark.gpu
def test_graphs_made_on_a_gpu_are_those_that_numpy_makes(card: Clocked) -> None:
    for make in (lambda xp: wu(xp, 50_000, 4), lambda xp: rmat(xp, 12, 20_000)):
        there, here = make(card.xp), make(np)
        assert np.array_equal(card.xp.asnumpy(there.u), here.u)
        assert np.array_equal(card.xp.asnumpy(there.v), here.v)


def test_without_a_gpu_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none() -> Any:
        raise program.NoGpu("there is no GPU here")

    monkeypatch.setattr(program, "gpu_driver", none)
    assert program.main([]) == 0
    assert "no benchmark on a GPU: there is no GPU here" in capsys.readouterr().err


@needs_compiler
@pytest.mark.slow
def test_one_gpu_beside_two(capsys: pytest.CaptureFixture[str]) -> None:
    """On devices that are not there: it runs, and answers are compared."""
    opened: list[dict[str, Any]] = []

    def connect(**told: Any) -> gd.Database:
        opened.append(told)
        if told.get("cluster") is not None:
            return gd.connect(device="cpu")
        db = gd.connect(device="cpu")
        drivers = [HostDriver(number=n) for n in range(1 + told["device"].count(","))]
        db.workspace.device = DeviceGroup(drivers) if drivers[1:] else Gpu(drivers[0])
        db.workspace.tune(shared_from=0, shared_inputs_from=0, shared_values_from=0)
        return db

    both = ["--devices", "cuda:0", "cuda:0,1", "--small", "--times", "1", "--only"]
    assert several_gpus.main([*both, "P4", "--dask", "cuda"], connect) == 0
    assert [told["device"] for told in opened] == ["cuda:0", "cuda:0,1", "cuda"]
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("P4, a small graph: ") and line.endswith("x)")
    assert "; cuda:0 " in line and ", cuda:0,1 " in line and ", through Dask " in line
    assert several_gpus.main([*both, "closure of usroads"], connect) == 0


def test_what_is_asked_of_two_gpus(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def seconds(one: float, two: float, four: float, dask: float) -> dict[str, float]:
        sides = "cuda:0", "cuda:0,1", "cuda:0,1,2,3", several_gpus.DASK
        return dict(zip(sides, (one, two, four, dask), strict=True))

    best = {work.name: seconds(1.0, 0.5, 0.25, 1.01) for work in several_gpus.WORKS}
    assert all(met for _, met in several_gpus.verdicts(best))
    best["P4"] = seconds(1.0, 1.6, 0.5, 1.03)
    best["closure of usroads"] = seconds(1.0, 0.7, 0.25, 1.0)
    missed = [told for told, met in several_gpus.verdicts(best) if not met]
    assert missed == [
        "the closures together, cuda:0,1: 1.67x, 1.8x was asked for",
        "P4, cuda:0,1: +600.0 ms beside cuda:0, at most +1 ms was asked for",
        "P4, through Dask: +30.0 ms beside cuda:0, at most +20 ms was asked for",
    ]
    counts = iter(range(100))
    monkeypatch.setattr(several_gpus, "seconds_of", lambda db, text: (next(counts), 0.5))
    monkeypatch.setattr(several_gpus, "all_devices", lambda: ["cpu", "auto"])
    assert several_gpus.main(["--small", "--only", "K5"]) == 1
    assert "the answers differ" in capsys.readouterr().out
    assert several_gpus.main(["--devices", "cuda:", "cpu"]) == 2


@pytest.mark.host
@needs_compiler
def test_counts_by_sums_beside_enumeration(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    edges = np.array(list(combinations(range(7), 2)))
    small = SimpleNamespace(columns=lambda: {"E": {"a": edges[:, 0], "b": edges[:, 1]}})
    monkeypatch.setattr(counts, "graph", lambda _: small)
    cases = [counts.Case("email-Enron", "P1", 1.0), counts.Case("none", "C4", 1.0)]
    monkeypatch.setattr(counts, "cases", lambda: cases)
    assert counts.main(["--times", "1", "--only", "C4"], HostDriver()) == 0
    assert "| none | C4 |" in capsys.readouterr().out
    assert counts.main(["--times", "1", "--only", "P1"], HostDriver()) == 1
    assert "WRONG" in capsys.readouterr().out  # not as many as that graph has


@pytest.mark.slow
@needs_compiler
def test_cells_beside_memory(capsys: pytest.CaptureFixture[str]) -> None:
    def connect(device: str, memory_limit: int | None = None) -> gd.Database:
        limit = {} if memory_limit is None else {"memory_limit": memory_limit}
        db = gd.connect(device="cpu", **limit)
        db.workspace.device = Gpu(HostDriver(), memory_limit)
        db.workspace.tune(cell_bytes=100)
        db.workspace.force(strategy="levelwise")
        db.workspace.chunk_rows = 64
        return db

    asked = ["--small", "--times", "1", "--share", "0.3", "--only", "triangles"]
    assert cells.main([*asked, "--way", "pages"], connect) == 0
    assert re.search(r" reading some \d.* in place with ", capsys.readouterr().out)
    recursion = ["--small", "--times", "1", "--share", "0.1", "--only"]
    for name in ("closure", "same generation"):
        assert cells.main([*recursion, name], connect) == 0
        assert " on the CPU with " in capsys.readouterr().out
    asked += ["--way", "cells"]
    assert cells.main(asked, connect) == 0
    link, made, told, met = capsys.readouterr().out.splitlines()
    assert link.endswith("/s to the device") and made.startswith("R-MAT, scale ")
    found = re.search(r" in (\d+) cells .* ([\d.]+ \w+) copied", told)
    assert found is not None and int(found[1]) > 1 and not found[2].startswith("0 ")
    assert "triangles in" in met
    assert cells.main(["--device", "cuda:"]) == 2
