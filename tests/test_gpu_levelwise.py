"""Breadth-first on a device that is not there: `gpu_ops` and its kernels against the oracle.

g++ runs the kernels, and a stand-in for CuPy holds the arrays. Drawn programs are run in one
piece or in chunks of a few rows, by turns.
"""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import pytest

import gdatalog
from gdatalog.engine import stratum_run
from gdatalog.engine.metrics import RuleRun
from gdatalog.executors.expansion import FrontierExpansion
from gdatalog.gpu_ops.device import Gpu
from gdatalog.gpu_ops.kernels import Kernels
from gdatalog.records import replace
from tests import test_engine_oracle as oracle
from tests.cases import share
from tests.corners import CORNERS, Example
from tests.cuda_host import HostDriver, needs_compiler, stand_in
from tests.cuda_host.arrays import COUNTER
from tests.draw import MANY, Drawn, check_drawn
from tests.examples import EXAMPLES
from tests.oracle_values import canonical

pytestmark = [
    needs_compiler,
    pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

CHUNKS = (None, 3, 17, 1)
DEVICE = Gpu(HostDriver())  # kernels are compiled once for all


def run(text: str, data: oracle.Data, defined: set[str], number: int) -> oracle.Relations:
    """The answers; the number chooses the rows of a chunk, and whether array operations expand
    levels, as they do while kernels are compiled."""
    with gdatalog.connect(device="cpu") as db, pytest.MonkeyPatch.context() as patch:
        if number % 2:
            patch.setattr(Kernels, "soon", lambda *given: False)
        db.workspace.device = DEVICE
        db.workspace.force(strategy="levelwise")
        db.workspace.chunk_rows = CHUNKS[number % len(CHUNKS)]
        return oracle.answers(db, text, data, defined)


def agrees(drawn: Drawn) -> None:
    oracle.agrees_in(run, drawn)


@pytest.mark.drawn
@pytest.mark.parametrize("profile", MANY)
def test_programs(profile: str) -> None:
    check_drawn(profile, share(1), agrees)


def test_what_may_leave_62_bits_is_the_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[str | None] = []
    real = stratum_run.run_rule

    def noted(plan: Any, inputs: Any, *more: Any) -> Any:
        report = RuleRun(plan)
        found = real(plan, replace(inputs, report=report), *more)
        reports.append(report.left)
        return found

    monkeypatch.setattr(stratum_run, "run_rule", noted)
    data = {"A": (("int",), [(x,) for x in range(1300)])}
    many = ", ".join(f"A({name})" for name in "abcdef")
    found = run(
        f"n(count()) <- {many}, a >= 0. m(count()) <- A(a), A(b), a >= 0.", data, {"n", "m"}, 0
    )
    assert found == {"n": {(1300**6,)}, "m": {(1300**2,)}}
    assert sorted(map(str, reports)) == ["None", "counts or sums may leave 62 bits"]


def round_trips(body: str, edges: list[tuple[int, int]], chunk: int | None = None) -> int:
    """How often the host waits for the device while it counts what a body matches."""
    with gdatalog.connect(device="cpu") as db:
        db.workspace.device = DEVICE
        db.workspace.force(strategy="levelwise")
        db.workspace.chunk_rows = chunk
        db["E"] = edges
        program = f"n(count()) <- {body}. ?- n(c)."
        db.query(program).fetchall()  # the tries are there now
        db["F"] = edges  # what has been evaluated is forgotten
        COUNTER.reset()
        db.query(program).fetchall()
        return COUNTER.synchronisations


def test_a_level_waits_only_for_rows_beyond_a_chunk() -> None:
    """Where all rows that there may be have room, the only wait is for the count: as often for
    longer paths as for shorter ones."""
    if DEVICE.driver.xp is not stand_in.xp:
        pytest.skip("only what stands in for CuPy counts how often it is waited for")
    edges = [(a, b) for a in range(30) for b in range(30) if (a * 7 + b * 11) % 5 == 0]
    names = "abcdefg"
    paths, cliques, pieces = [], [], []
    for count in range(3, 6):
        path = [f"E({a}, {b})" for a, b in pairwise(names[:count])]
        paths.append(round_trips(", ".join([*path, f"{names[count - 1]} != a"]), edges))
        clique = ", ".join(f"E({a}, {b})" for a, b in combinations(names[:count], 2))
        cliques.append(round_trips(clique, edges))
        pieces.append(round_trips(clique, edges, 150))
    assert len({*paths}) == 1 and cliques[:2] == [1, 1], (paths, cliques)
    assert all(fewer < more for fewer, more in pairwise(pieces))


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("example", CORNERS + EXAMPLES, ids=str)
def test_example(example: Example, number: int) -> None:
    if example.fails:
        with pytest.raises(gdatalog.EvaluationError):
            run(example.program, example.data, oracle._heads(example), number)
        return
    found = run(example.program, example.data, set(example.expected), number)
    assert {name: canonical(rows) for name, rows in found.items()} == {
        name: canonical(rows) for name, rows in example.expected.items()
    }


def test_roots_that_are_dense_and_others_have_kernels_of_their_own() -> None:
    """Both have keys of 32 bits, and levels that are the same otherwise."""
    for step in (1, 100_000):
        pairs = [(step * x, step * y) for x, y in combinations(range(9), 2)]
        some = [step * y for y in range(1, 8)]
        with gdatalog.connect(device="cpu") as db:
            db.workspace.device = DEVICE
            db.workspace.force(strategy="levelwise", encode="never")
            db["E"], db["U"] = pairs, [(y,) for y in some]
            found = db.query("t(x, y) <- E(x, y), U(x), U(y).").fetchall()
            assert set(found) == {(x, y) for x, y in pairs if {x, y} <= {*some}}


def test_rows_that_read_the_same_meet_their_lists_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their lists are those of an earlier frontier, whose columns are read through its rows."""
    met: list[bool] = []
    real = FrontierExpansion._shared

    def noted(self: FrontierExpansion, *given: Any) -> Any:
        lists = real(self, *given)
        met.append(lists is not None)
        return lists

    monkeypatch.setattr(FrontierExpansion, "_shared", noted)
    pairs = [*combinations(range(12), 2)]
    with gdatalog.connect(device="cpu") as db:
        db.workspace.device = DEVICE
        db.workspace.force(strategy="levelwise")
        for name in "ABCD":
            db[name] = pairs
        found = db.query("p(w, x, y, z) <- A(w, x), A(x, y), B(x, y), C(x, z), D(x, z).")
        wanted = {(*two, y, z) for two in pairs for x, y in pairs for _, z in pairs if two[1] == x}
        wanted = {row for row in wanted if row[1] < row[3]}
        assert set(found.fetchall()) == wanted and any(met)
