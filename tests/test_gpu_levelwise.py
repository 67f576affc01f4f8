"""Breadth-first on a device without one: the verbs and kernels of `gpu_ops` against the oracle."""

from __future__ import annotations

import pytest

import gdatalog
from gdatalog.gpu_ops.device import Gpu
from tests import test_engine_oracle as oracle
from tests.corners import CORNERS, Example
from tests.cuda_host import HostDriver, needs_compiler
from tests.examples import EXAMPLES
from tests.oracle_values import canonical

pytestmark = [
    needs_compiler,
    pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning"),
]


@pytest.fixture(scope="module")
def device() -> Gpu:
    return Gpu(HostDriver())


def run(
    device: Gpu, text: str, data: oracle.Data, defined: set[str], chunk: int | None
) -> oracle.Relations:
    with gdatalog.connect(device="cpu") as db:
        db._workspace.device = device
        db._workspace.strategy = "levelwise"
        db._workspace.chunk_rows = chunk
        for name, (types, rows) in data.items():
            db.load(name, oracle.frame(types, rows))
        db.run(text)
        found = {name: db.relations[name].fetchall() for name in defined}
    for name, rows in found.items():
        assert len(rows) == len(set(rows)), f"{name} is not a set: {rows}"
    return {name: {tuple(map(oracle.plain, row)) for row in rows} for name, rows in found.items()}


@pytest.mark.parametrize("chunk", [None, 3])
@pytest.mark.parametrize("example", CORNERS + EXAMPLES, ids=str)
def test_example(device: Gpu, example: Example, chunk: int | None) -> None:
    if example.fails:
        with pytest.raises(gdatalog.EvaluationError):
            run(device, example.program, example.data, oracle._heads(example), chunk)
        return
    found = run(device, example.program, example.data, set(example.expected), chunk)
    assert {name: canonical(rows) for name, rows in found.items()} == {
        name: canonical(rows) for name, rows in example.expected.items()
    }
