"""Depth-first on a device that is not there: kernels of plans, run by g++, against the oracle.

A number chooses the tile, how soon tasks are shared, how many rows the pool has room for, and how
the threads take turns: so nearly every walk is cut off, goes on elsewhere, and is put together.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

import gdatalog
from gdatalog.gpu_ops import walk
from gdatalog.gpu_ops.device import Gpu
from gdatalog.gpu_ops.tiles import TILES
from gdatalog.parser import parse
from tests import test_engine_oracle as oracle
from tests.corners import CORNERS, Example
from tests.cuda_host import HostDriver, needs_compiler
from tests.draw import Drawn, aggregate_programs, graph_programs, programs, string_programs
from tests.examples import EXAMPLES
from tests.oracle_values import canonical
from tests.reduce import reduced
from tests.test_depth_first import HEADS, PATTERNS, TESTS, graph

pytestmark = [
    needs_compiler,
    pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

# Every drawn program is several kernels, each compiled for it alone.
FEW = settings(oracle.share(1), max_examples=12)
LIMITS = (0, -1, 300)  # at every chance, never, after a few atomics
INTERSECT = ("auto", "auto", "plain")


def run(text: str, data: oracle.Data, defined: set[str], number: int) -> oracle.Relations:
    """The answers, depth-first."""
    driver = HostDriver(seed=number % 1000, blocks=1 + number % 2, races=number % 4 == 1)
    device = Gpu(driver)
    device.walks.tuning = replace(
        device.walks.tuning,
        limit=LIMITS[number % len(LIMITS)],
        grain=(0, 1, 7, 64)[number // 2 % 4],
        pool_rows=(1, 1 << 14)[number // 3 % 2],
    )
    with gdatalog.connect(device="cpu") as db, pytest.MonkeyPatch.context() as patch:
        patch.setattr(walk, "BLOCK_ROWS", (32, 256)[number % 2])
        db._workspace.device = device
        db._workspace.strategy = "lftj"
        db._workspace.tile = TILES[number % len(TILES)]
        db._workspace.intersect = INTERSECT[number % len(INTERSECT)]
        for name, (types, rows) in data.items():
            db.load(name, oracle.frame(types, rows))
        db.run(text)
        found = {name: db.relations[name].fetchall() for name in defined}
    for name, rows in found.items():
        assert len(rows) == len(set(rows)), f"{name} is not a set: {rows}"
    return {name: {tuple(map(oracle.plain, row)) for row in rows} for name, rows in found.items()}


def agrees(drawn: Drawn) -> None:
    def fails(smaller: Drawn) -> str | None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(oracle, "run", lambda t, d, names, _: run(t, d, names, drawn.seed))
            return oracle.difference(smaller, None, sql=False)

    if fails(drawn):
        small = reduced(drawn, fails)
        pytest.fail(f"{fails(small)}\nnumber {drawn.seed}\n{small}")


@pytest.mark.slow
@FEW
@given(programs())
def test_programs(drawn: Drawn) -> None:
    agrees(drawn)


@pytest.mark.slow
@FEW
@given(graph_programs())
def test_graph_programs(drawn: Drawn) -> None:
    agrees(drawn)


@pytest.mark.slow
@FEW
@given(aggregate_programs())
def test_aggregate_programs(drawn: Drawn) -> None:
    agrees(drawn)


@pytest.mark.slow
@FEW
@given(string_programs())
def test_string_programs(drawn: Drawn) -> None:
    agrees(drawn)


@pytest.mark.parametrize(
    ("number", "example"),
    [
        pytest.param(at, example, id=str(example), marks=() if at % 9 == 0 else pytest.mark.slow)
        for at, example in enumerate(CORNERS + EXAMPLES)
    ],
)
def test_example(example: Example, number: int) -> None:
    if example.fails:
        with pytest.raises(gdatalog.EvaluationError):
            run(example.program, example.data, oracle._heads(example), number)
        return
    found = run(example.program, example.data, set(example.expected), number)
    assert {name: canonical(rows) for name, rows in found.items()} == {
        name: canonical(rows) for name, rows in example.expected.items()
    }


@pytest.mark.parametrize("mirror", [False, True], ids=["directed", "symmetric"])
@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param(name, marks=() if name in ("K4", "K5") else pytest.mark.slow)
        for name in PATTERNS
    ],
)
def test_patterns(pattern: str, mirror: bool) -> None:
    """Two heads of each pattern, with other tests for each."""
    body = PATTERNS[pattern]
    start = 3 * len(pattern) + mirror
    for number in (start, start + 13):
        head, tests = HEADS[number % len(HEADS)], TESTS[number // 2 % len(TESTS)]
        edges = graph(number, mirror)
        text = f"{head} <- {body}{tests}."
        data: oracle.Data = {name: (("int", "int"), list(rows)) for name, rows in edges.items()}
        types = dict.fromkeys(data, ("int", "int"))
        expected = oracle.evaluate(parse(text), {n: set(rows) for n, rows in edges.items()}, types)
        found = run(text, data, {"n"}, number)
        assert canonical(found["n"]) == canonical(expected["n"]), (text, edges, number)
