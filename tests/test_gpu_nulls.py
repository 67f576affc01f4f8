"""Rules over nulls and optional bodies on a device, breadth-first and depth-first, against the
oracle."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

import gdatalog
from gdatalog.gpu_ops.device import Gpu
from tests import test_engine_oracle as oracle
from tests import test_gpu_levelwise, test_gpu_walks
from tests.cases import cases, share
from tests.cuda_host import HostDriver, needs_compiler
from tests.draw import Drawn, null_programs, optional_programs
from tests.test_null_rules import agrees

pytestmark = [
    needs_compiler,
    pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]
WAYS = {"levelwise": test_gpu_levelwise.run, "lftj": test_gpu_walks.run}
FEW = settings(share(1), max_examples=cases(3, 1))  # each is several kernels
RULES = """
x + 1, y <- f(_, y), t(_, x, _), y != 1.0.
g, sum(x), min(s) <- t(g, x, s).
x, y <- e(x, z), e(z, y).
g, x, coalesce(x, 0) * 2 <- t(g, x, _), !f(x, _).
"""


@pytest.mark.parametrize("strategy", WAYS)
def test_rules(strategy: str) -> None:
    with gdatalog.connect(device="cpu") as db:
        db.workspace.device, db.workspace.why = Gpu(HostDriver()), "a stand-in"
        db.workspace.force(strategy=strategy)
        agrees(RULES, db)


@pytest.mark.drawn
@pytest.mark.parametrize("strategy", WAYS)
@FEW
@given(null_programs())
def test_null_programs(strategy: str, drawn: Drawn) -> None:
    oracle.agrees_in(WAYS[strategy], drawn)


@pytest.mark.drawn
@pytest.mark.parametrize("strategy", WAYS)
@FEW
@given(optional_programs())
def test_optional_programs(strategy: str, drawn: Drawn) -> None:
    oracle.agrees_in(WAYS[strategy], drawn)
