"""Counts that become signed sums, on a device: the same numbers as the CPU's enumeration."""

from __future__ import annotations

from itertools import pairwise, product
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gdatalog as gd
from gdatalog.engine.exact_counts import CountOverflow
from gdatalog.gpu_ops.device import Gpu
from tests import test_engine_oracle as oracle
from tests.cases import share
from tests.cuda_host import HostDriver, needs_compiler
from tests.oracle_values import canonical
from tests.test_algebra import drawn_count
from tests.test_keyed_counts import FAN, HEADS, WHEEL, answered, two_ways
from tests.tuned import tune

pytestmark = [
    needs_compiler,
    pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning"),
]

STRATEGIES = ("levelwise", "lftj")


def run(
    text: str,
    data: Any,
    strategy: str,
    number: int,
    memory: int | None = None,
    algebra: str = "always",
) -> Any:
    """The answer of the device, whose joins are sums wherever they can be."""
    with gd.connect(device="cpu", memory_limit=memory) as db:
        db.workspace.device = Gpu(HostDriver(seed=number % 100, blocks=1))
        db.workspace.force(algebra=algebra, strategy=strategy)
        return canonical(oracle.answers(db, text, data, {"n"})["n"])


@pytest.mark.slow
@share(1)
@given(st.integers(0, 2**32))
def test_drawn_counts(number: int) -> None:
    text, data = drawn_count(number)
    with gd.connect(device="cpu") as db:
        db.workspace.force(algebra="never", strategy="levelwise")
        expected = canonical(oracle.answers(db, text, data, {"n"})["n"])
    assert run(text, data, STRATEGIES[number % 2], number) == expected


EDGES = [(a, b) for a, b in product(range(12), repeat=2) if a != b and (a * b + a + b) % 3]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    "head", ["n(count())", "n(v1, count())", "n(v0, v1, sum(v2))"], ids=["all", "by one", "sums"]
)
def test_chains(head: str, strategy: str) -> None:
    body = ", ".join(f"E({a}, {b})" for a, b in pairwise(["v0", "v1", "v2", "v3", "v4"]))
    text = f"{head} <- {body}, distinct(v0, v1, v2, v3)."
    data = {"E": (("int", "int"), EDGES)}
    with gd.connect(device="cpu") as db:
        db["E"] = EDGES
        db.workspace.force(algebra="never")
        expected = canonical(db.query(text).fetchall())
    assert run(text, data, strategy, 3) == expected


@pytest.mark.parametrize("algebra", ["quotients", "suffixes"])
@pytest.mark.parametrize("head", HEADS)
def test_keys_inside_cycles(head: str, algebra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are filled below a variable that is no key; or lists are counted last."""
    tune(monkeypatch, algebra_loops=0)
    body = FAN if algebra == "quotients" else WHEEL
    text, data = head.format(body) + ".", two_ways(Random(5), 12, 0.5)
    found = run(text, data, "lftj", 3, algebra=algebra)
    assert {tuple(row) for row in found} == answered(text, data, "never")


def test_joins_that_do_not_fit_are_not_sums() -> None:
    """Where memory is short rules run in cells, or on the CPU."""
    edges = [(a, b) for a, b in product(range(60), repeat=2) if a != b]
    text = "n(count()) <- E(a, b), E(b, c), E(c, d), distinct(a, b, c, d)."
    with gd.connect(device="cpu", memory_limit=20_000) as db:
        db.workspace.device = Gpu(HostDriver(blocks=1), 20_000)
        db["E"] = edges
        assert db.query(text).fetchall() == [(60 * 59 * 58 * 57,)]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_counts_beyond_64_bits_are_exact(strategy: str) -> None:
    clique = [(a, b) for a, b in product(range(20), repeat=2) if a != b]
    body = ", ".join(f"E(x{at}, x{at + 1})" for at in range(17))
    with gd.connect(device="cpu") as db:
        db.workspace.device = Gpu(HostDriver(blocks=1))
        db.workspace.force(algebra="always", strategy=strategy)
        db["E"] = clique
        with pytest.raises(CountOverflow) as raised:
            db.query(f"n(count()) <- {body}.").fetchall()
    assert raised.value.exact == 20 * 19**17
