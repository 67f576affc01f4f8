"""Counts of patterns on a device: lists that are too short, halves by degree, frequent patterns."""

from __future__ import annotations

import pytest

from gdatalog.gpu_ops.device import Gpu
from gdatalog.plan.join_plan import Term
from tests.cuda_host import HostDriver, needs_compiler
from tests.test_candidates import STAR, database, wheel
from tests.test_frequent import drawn_graph, opened
from tests.test_gpu_tallies import device_of
from tests.test_local_counts import counted, terms
from tests.test_split_by_degree import SHAPES, core, halves
from tests.tuned import tune

__all__ = ["terms"]  # a fixture

pytestmark = [
    needs_compiler,
    pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]


def test_lists_that_are_too_short() -> None:
    with database(wheel(6, 6), least=float("inf")) as plain, database(wheel(6, 6)) as db:
        db.workspace.device = Gpu(HostDriver())
        text = f"n(count()) <- {STAR}, E(b, c)."
        expected = plain.query(text).fetchall()
        assert db.query(text, strategy="lftj").fetchall() == expected != [(0,)]


def test_frequent_patterns() -> None:
    rows, labels = drawn_graph(12, 24, 2)
    for measure in ("mni", "instances"):
        with opened(rows, labels) as here, opened(rows, labels) as there:
            there.workspace.device = Gpu(HostDriver())
            wanted = here.frequent(2, 2, measure=measure)  # type: ignore[arg-type]
            for strategy in ("levelwise", "lftj"):
                there.workspace.force(strategy=strategy)
                found = there.frequent(2, 2, measure=measure)  # type: ignore[arg-type]
                assert found.drop(columns="pattern").equals(wanted.drop(columns="pattern"))


@pytest.mark.parametrize(
    ("shape", "number", "again"),
    [
        ("two wedges of an edge", 3, False), ("house", 8, False),
        pytest.param("two wedges of an edge", 5, True, marks=pytest.mark.slow),
        pytest.param("bowtie", 10, True, marks=pytest.mark.slow),
        pytest.param("pentagon", 13, False, marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_halves_by_degree(
    shape: str, number: int, again: bool, terms: list[Term], monkeypatch: pytest.MonkeyPatch
) -> None:
    if again:  # light halves are split again
        tune(monkeypatch, algebra_split=0, algebra_split_again=1e-9)
    rows = core(40, 10)
    expected = counted(SHAPES[shape], rows, "never")
    terms.clear()
    assert counted(SHAPES[shape], rows, "split", device_of(number)) == expected
    assert halves(terms) == (True, True)
