"""On a real GPU (`pytest -m gpu`): what no host can show.

The host's own tests of kernels, `test_gpu_*.py`, run there too: `on_gpu.py`.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread, Timer
from time import perf_counter
from typing import Any

import numpy as np
import pytest

import gdatalog as gd
from gdatalog.gpu_ops.cupy_driver import CupyDriver
from gdatalog.gpu_ops.sources import whole
from tests import on_gpu
from tests import test_engine_oracle as oracle
from tests.corners import CORNERS, Example
from tests.examples import EXAMPLES
from tests.oracle_values import canonical

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

ROOT = Path(__file__).resolve().parent.parent
KERNELS = whole("""#include "tile.cuh"
KERNEL(add_up)(ARRAY(const i64) values, ARRAY(i64) total, i64 count, double factor) {
    const Tile<32> t = tile_here<32>();
    i64 mine = 0;
    for (i64 i = thread_of_grid(); i < count; i += threads_of_grid()) mine += values[i];
    mine = sum(t, mine);
    if (t.rank == 0) atomic_add(total, 0, (i64)((double)mine * factor));
}
KERNEL(spin)(ARRAY(i64) control, i64 at, i64 most) {
    const i64 end = nanoseconds() + most;
    while (load_relaxed(control, at) == 0 && nanoseconds() < end) pause(1000);
}
KERNEL(astray)(ARRAY(i64) out) { out[(i64)1 << 40] = 1; }
""")


@pytest.fixture(autouse=True)
def usable() -> None:
    if on_gpu.reason():
        pytest.skip(on_gpu.reason())


@pytest.fixture
def db() -> Iterator[gd.Database]:
    with gd.connect(device="cuda") as db:
        yield db


# ------------------------------------------------------------------------------- the driver


def test_a_kernel_runs() -> None:
    driver = CupyDriver()
    kernel = driver.kernels(KERNELS, ["add_up"], "a test")["add_up"]
    values = driver.xp.arange(100_000)
    total = driver.xp.zeros(1, dtype=np.int64)
    kernel.launch(64, 256, [values, total, len(values), 2.0])
    driver.synchronize()
    assert int(total[0]) == 99_999 * 100_000
    took = kernel.resources
    assert 0 < took.registers < 256 and took.spilled == 0 and took.shared == 0
    assert kernel.resident(256) % driver._processors == 0 and kernel.resident(256) > 0
    assert driver.free_memory() > 1 << 26


def test_a_kernel_that_runs_is_asked_for_an_end() -> None:
    driver = CupyDriver()
    kernel = driver.kernels(KERNELS, ["spin"], "a test")["spin"]
    control = driver.xp.zeros(32, dtype=np.int64)
    kernel.launch(kernel.resident(256), 256, [control, 16, 20_000_000_000])
    started, polls = perf_counter(), []

    def poll() -> None:
        polls.append(1)
        if perf_counter() - started > 0.2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        driver.wait(poll, control, (16,), 7, driver.reading([]))
    assert perf_counter() - started < 10.0
    driver.synchronize()
    assert int(control[16]) == 7 and len(polls) > 10


def test_what_does_not_compile_is_told() -> None:
    with pytest.raises(gd.DeviceError) as caught:
        CupyDriver().kernels(KERNELS.replace("mine +=", "yours +="), ["add_up"], "p(x).")
    assert 'identifier "yours" is undefined' in str(caught.value)
    assert "a kernel of `p(x).` does not compile" in str(caught.value)


def test_what_goes_astray_is_told() -> None:
    """In a process of its own, for its GPU is lost to it afterwards."""
    text = (
        "import gdatalog as gd\n"
        "from tests.test_on_gpu import KERNELS, CupyDriver\n"
        "driver = CupyDriver()\n"
        "kernel = driver.kernels(KERNELS, ['astray'], 'a test')['astray']\n"
        "try:\n"
        "    kernel.launch(1, 32, [driver.xp.zeros(4, dtype='int64')])\n"
        "    driver.wait(lambda: None, None, (), 0, driver.reading([]))\n"
        "except gd.DeviceError as error:\n"
        "    print(error)\n"
    )
    done = _python("-c", text)
    assert "failed on the GPU: cudaErrorIllegalAddress" in done.stdout, done.stderr


def test_kernels_are_kept(tmp_path: Path) -> None:
    text = (
        "import gdatalog as gd\n"
        "print(gd.query('p(x) <- E(x, y), E(y, _).', {'E': [(1, 2), (2, 3)]}, device='cuda'))"
    )
    for _ in range(2):
        done = _python("-c", text, GDATALOG_CACHE=str(tmp_path))
        assert "1 row" in done.stdout, done.stderr
        assert list(tmp_path.glob("code-*/cuda-*"))


def test_no_query_compiles_a_kernel_of_cupys(tmp_path: Path) -> None:
    text = (
        "import gdatalog as gd\n"
        "from tests.test_gpu_arrays import QUERIES\n"
        "edges = [(x, y) for x in range(60) for y in range(60) if (x * x + 3 * y) % 5 < 2]\n"
        "for strategy in ('auto', 'levelwise'):\n"
        "    with gd.connect(device='cuda') as db:\n"
        "        db['E'] = edges\n"
        "        for query in QUERIES:\n"
        "            assert db.query(query, strategy=strategy).to_cupy()\n"
    )
    done = _python("-W", "ignore", "-c", text, CUPY_CACHE_DIR=str(tmp_path / "kernels"))
    assert done.returncode == 0, done.stderr
    assert not list((tmp_path / "kernels").glob("*"))


def _python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != "CUPY_CACHE_DIR"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**kept, **environment},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


# ------------------------------------------------------------------------------- a user's view


def test_auto_takes_it_for_large_work() -> None:
    with gd.connect() as db:
        db["E"] = [(1, 2), (2, 3), (1, 3)]
        text = "n(count()) <- E(x, y), E(y, z), E(x, z)."
        assert str(db.explain(text)).startswith("on cpu,")
        assert " s on cpu, " in str(db.profile(text)) and db.device == "cpu"
        edges = {(x, (x * x + y * y * y) % 3000) for x in range(3000) for y in range(120)}
        db["E"] = sorted(edges)
        expected = gd.query(text, {"E": sorted(edges)}, device="cpu").fetchall()
        assert str(db.explain(text)).startswith("on cuda:0 (large work runs on the GPU),")
        assert db.query(text).fetchall() == expected
        profile = str(db.profile(text))
        assert profile.count(" s on cuda:0, ") == 1 and "on the CPU" not in profile
        assert db.device == "cpu and cuda:0"
    with pytest.raises(gd.DeviceError, match="there is no cuda:99"):
        gd.connect(device="cuda:99")


def test_the_doctor_is_content() -> None:
    found = {finding.name: finding for finding in gd.doctor().findings}
    for name in ("GPU driver", "GPU", "CuPy", "GPU compiler", "a kernel"):
        assert found[name].cure is None, found[name]
    told = {name: finding.found for name, finding in found.items()}
    assert told["GPU query"].startswith("works, in ")
    assert told["compiled GPU query"].startswith("works, in ")
    assert told["device"] == "cpu, and cuda:0 for large work (a GPU is there)"


def test_a_small_query_of_auto_does_not_start_cuda() -> None:
    text = (
        "import sys, gdatalog as gd\n"
        "db = gd.connect()\n"
        "db['E'] = [(1, 2), (2, 3)]\n"
        "print(len(db.query('p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z). ?- p(x, y).')))\n"
        "print(db.device, [m for m in sys.modules if m.startswith(('cupy', 'gdatalog.gpu_ops'))])"
    )
    done = _python("-c", text)
    assert done.stdout == "3\ncpu []\n", done.stderr


def test_from_another_thread(db: gd.Database) -> None:
    db["E"] = [(1, 2), (2, 3)]
    found: list[Any] = []
    thread = Thread(target=lambda: found.extend(db.query("?- E(x, y), E(y, z).").fetchall()))
    thread.start()
    thread.join()
    assert found == [(1, 2, 3)]


# ------------------------------------------------------------------------------- answers


WAYS: dict[str, Callable[[Any], None]] = {
    "breadth-first": lambda space: _set(space, "levelwise"),
    "breadth-first, in chunks": lambda space: _set(space, "levelwise", chunk=3),
    "a thread": lambda space: _set(space, "lftj", tile=1),
    "8 lanes": lambda space: _set(space, "lftj", tile=8),
    "32 lanes": lambda space: _set(space, "lftj", tile=32),
    "as it chooses": lambda space: None,
}


def _set(workspace: Any, strategy: str, chunk: int | None = None, tile: int = 0) -> None:
    workspace.chunk_rows = chunk
    workspace.force(strategy=strategy, tile=tile)


# Each example in one way, the slow ones in all: every rule is compiled anew for every tile.
# `test_gpu_walks.py` has them too.
CASES = [
    pytest.param(example, way, id=f"{example}, {way}", marks=() if quick else pytest.mark.slow)
    for number, example in enumerate(CORNERS + EXAMPLES)
    for at, way in enumerate(WAYS)
    for quick in [number % len(WAYS) == at]
]


@pytest.mark.parametrize(("example", "way"), CASES)
def test_example(example: Example, way: str) -> None:
    if example.fails:
        with pytest.raises(gd.EvaluationError):
            _answers(example.program, example.data, oracle._heads(example), way)
        return
    found = _answers(example.program, example.data, set(example.expected), way)
    assert {name: canonical(rows) for name, rows in found.items()} == {
        name: canonical(rows) for name, rows in example.expected.items()
    }


def _answers(text: str, data: oracle.Data, names: set[str], way: str) -> oracle.Relations:
    with gd.connect(device="cuda") as db:
        WAYS[way](db.workspace)
        for name, (types, rows) in data.items():
            db.load(name, oracle.frame(types, rows))
        db.run(text)
        found = {name: db.relations[name].fetchall() for name in names}
    return {name: {tuple(map(oracle.plain, row)) for row in rows} for name, rows in found.items()}


PATTERNS = {
    "triangles": "n(count()) <- E(a,b), E(b,c), E(a,c), a < b < c.",
    "4-cliques": "n(count()) <- E(a,b), E(a,c), E(a,d), E(b,c), E(b,d), E(c,d), a < b < c < d.",
    "4-cycles": "n(count()) <- E(a,b), E(b,c), E(c,d), E(d,a), distinct(a, b, c, d).",
    "of each vertex": "n(a, count(), max(c)) <- E(a,b), E(b,c), E(a,c).",
    "lists": "n(a, b, c) <- E(a,b), E(b,c), E(a,c), a < b < c.",
    "witnesses": "n(a) <- E(a,b), E(b,c), !E(a,c), a != c.",
}


@pytest.fixture(scope="module")
def edges() -> np.ndarray[Any, Any]:
    """A symmetric graph with a few hubs, so that lists are of all lengths."""
    random = np.random.default_rng(7)
    pairs = (random.random((60_000, 2)) ** 3 * 3000).astype(np.int64)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return np.unique(np.concatenate([pairs, pairs[:, ::-1]]), axis=0)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_graph_with_hubs(pattern: str, edges: np.ndarray[Any, Any]) -> None:
    """All blocks work, tasks are shared, and the answer is the CPU's."""
    with gd.connect(device="cpu") as db:
        db["E"] = edges
        expected = sorted(db.query(PATTERNS[pattern], strategy="levelwise").fetchall())
    for way in WAYS:
        with gd.connect(device="cuda") as db:
            WAYS[way](db.workspace)
            if db.workspace.chunk_rows is not None:
                db.workspace.chunk_rows = 100_000
            db["E"] = edges
            assert sorted(db.query(PATTERNS[pattern]).fetchall()) == expected, way


def test_recursion(db: gd.Database) -> None:
    size = 2000
    db["E"] = [(n, n + 1) for n in range(size)] + [(size, 0)]
    assert len(db.query("r(y) <- y = 5 ; r(x), E(x, y).")) == size + 1
    text = "path(x, z) <- E(x, z), x < 60 ; path(x, y), E(y, z), z < 60."
    assert len(db.query(text)) == 60 * 59 // 2 + 1
    text = "d(y, min(n)) <- y = 0, n = 0 ; d(x, m), E(x, y), n = m + 1."
    assert dict(db.query(text).fetchall()) == {n: n for n in range(size + 1)}


def test_arrays_go_in_and_out_without_the_host(db: gd.Database) -> None:
    import cupy

    db["E"] = cupy.array([[1, 2], [2, 3], [2, 4]])
    found = db.query("p(x, z) <- E(x, y), E(y, z).")
    columns = found.to_cupy()
    assert all(isinstance(column, cupy.ndarray) for column in columns.values())
    assert sorted(zip(*(c.tolist() for c in columns.values()), strict=True)) == [(1, 3), (1, 4)]
    assert cupy.from_dlpack(columns["z"]).sum() == 7
    db["P"] = {name: column + 1 for name, column in columns.items()}
    assert sorted(db["P"].fetchall()) == [(2, 4), (2, 5)]


PROFILED = (
    "p(a, b, c) <- E(a, b), E(b, c), E(a, c), a < b.",
    "n(count()) <- E(a, b), E(a, c), E(b, c), E(a, d), E(b, d), E(c, d), distinct(a, b, c, d).",
    "n(a, count(), max(d)) <- E(a, b), E(b, c), !E(c, a), E(c, d).",
    "p(a, b) <- E(a, b), a < 9. p(a, c) <- p(a, b), E(b, c), c != a.",
)


@pytest.mark.parametrize("text", PROFILED)
def test_a_profile_counts_what_a_cpu_counts(text: str, db: gd.Database) -> None:
    random = np.random.default_rng(1)
    edges = random.integers(0, 600, (9_000, 2))
    found = []
    with gd.connect(device="cpu") as cpu:
        for each in (cpu, db):
            each["E"] = edges
            # Which lists are recoded, and which are too short for it, depends on the device.
            each.workspace.force(intersect="plain", split="always", dead_variables="never")
            profile = each.profile(text, strategy="lftj")
            steps = [
                (type(step).__name__, str(getattr(step, "variable", "")), run.seen[id(step)])
                for run in profile.runs
                for join in run.plan.joins
                for step in join.steps
                if id(step) in run.seen
            ]
            found.append([(*what, seen.rows_out, seen.tried) for *what, seen in steps])
            assert len(steps) > 2 and min(seen.rows_out for *_, seen in steps) > 0
            found.append(sorted(profile.result.fetchall()))
    assert found[:2] == found[2:]


# ------------------------------------------------------------------------------- limits


@pytest.mark.parametrize("strategy", ["lftj", "levelwise"])
@pytest.mark.parametrize("by", ["interrupt", "signal"])
def test_a_long_query_is_stopped(strategy: Any, by: str, db: gd.Database) -> None:
    size = 1500
    db["K"] = np.argwhere(~np.eye(size, dtype=bool))
    text = "n(count()) <- " + ", ".join(
        f"K({a}, {b})" for at, a in enumerate("abcdefg") for b in "abcdefg"[at + 1 :]
    )
    text += ", a < b < c < d < e < f < g."
    db.query("n(count()) <- K(a, b).")  # loaded, indexed
    stop = db.interrupt if by == "interrupt" else lambda: os.kill(os.getpid(), signal.SIGINT)
    timer = Timer(2.0, stop)
    started = perf_counter()
    timer.start()
    try:
        with pytest.raises((gd.Interrupted, KeyboardInterrupt)):
            db.query(text, strategy=strategy)
    finally:
        timer.cancel()
    assert perf_counter() - started < 20.0
    assert db.query("n(count()) <- K(a, b).").fetchall() == [(size * (size - 1),)]


def test_indexes_make_room_for_each_other(db: gd.Database) -> None:
    """The pool has room for a few relations' indexes, and many are asked for."""
    import cupy

    pool = cupy.get_default_memory_pool()
    before, rows = pool.get_limit(), 2_000_000
    random = np.random.default_rng(1)
    try:
        pool.set_limit(pool.used_bytes() + (512 << 20))
        for number in range(10):
            pairs = random.integers(0, rows, (rows, 2))
            db[f"E{number}"] = pairs
            there, back = (pairs @ np.array(of) for of in ((rows, 1), (1, rows)))
            expected = len(np.intersect1d(there, back))
            text = f"n(count()) <- E{number}(x, y), E{number}(y, x)."
            assert db.query(text).fetchall() == [(expected,)]
    finally:
        pool.set_limit(size=before)


# ------------------------------------------------------------------------------- several GPUs


@pytest.fixture
def both() -> Iterator[gd.Database]:
    """On two GPUs, which share all that can be shared."""
    if on_gpu.gpus() < 2:
        pytest.skip(f"needs two GPUs; there is {on_gpu.gpus()}")
    with gd.connect(device="cuda:0,1") as db:
        db.workspace.tune(
            shared_from=0, shared_inputs_from=0, shared_values_from=0, shared_piece=1e6
        )
        yield db


GRAPH = np.random.default_rng(7).integers(0, 2_000, (60_000, 2))
SHARED = [
    "n(count()) <- E(a, b), E(b, c), E(a, c).",
    "t(a, b, c) <- E(a, b), E(b, c), E(a, c), a < b < c.",
    "t(a, count(), sum(c)) <- E(a, b), E(b, c), E(a, c).",
    "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z).",
    "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z). n(count()) <- p(_, _).",
]


@pytest.mark.parametrize("text", SHARED)
def test_two_gpus_give_what_one_gives(both: gd.Database, db: gd.Database, text: str) -> None:
    for each in (both, db):
        each["E"] = GRAPH
        each.workspace.force(strategy="lftj")
    assert sorted(both.query(text).fetchall()) == sorted(db.query(text).fetchall())
    told = re.sub(r"[\s│]+", " ", str(both.profile(text)))  # lines may end anywhere
    assert "on cuda:0 (" in told and "cuda:1 (" in told


def test_what_fills_one_gpu_is_an_error_and_the_next_query_works(both: gd.Database) -> None:
    """The copies of tries are there; what is left does not hold the rows."""
    both["E"] = GRAPH
    both.workspace.force(strategy="lftj")
    found = sorted(both.query(SHARED[1]).fetchall())
    import cupy

    other = both.workspace.device.others[0].driver
    pool = cupy.get_default_memory_pool()  # of the current device
    with other.use():
        pool.free_all_blocks()
        pool.set_limit(size=pool.total_bytes())
    with pytest.raises(gd.DeviceError, match="cuda:1 has no memory left"):
        both.query(SHARED[1])
    with other.use():
        pool.set_limit(size=0)
    assert sorted(both.query(SHARED[1]).fetchall()) == found
