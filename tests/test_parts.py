"""Sets of rows that tell what is new: in parts, by bits."""

from __future__ import annotations

import numpy as np
import pytest

from gdatalog.engine.fixpoint import maintained, row_bitmap
from gdatalog.storage.relation import Relation

pytestmark = pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")


@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("bits", [3, 40])
def test_rows_are_found_in_a_set(width: int, bits: int) -> None:
    rng = np.random.default_rng(width * bits)
    top = 1 << bits
    for count in (0, 1, 50, 6000):
        drawn = [rng.integers(-top, top, count) for _ in range(width)]
        names, types = tuple("abc"[:width]), ("int",) * width
        asked = [rng.integers(-top, top, 300) for _ in range(width)]
        if count:
            asked = [np.append(a, d[:100]) for a, d in zip(asked, drawn, strict=True)]
        there = set(zip(*(column.tolist() for column in drawn), strict=True))
        expected = [row in there for row in zip(*(c.tolist() for c in asked), strict=True)]
        relation = Relation.from_rows(names, types, drawn, count)  # type: ignore[arg-type]
        assert relation.holds(tuple(asked)).tolist() == expected
        relation.keys  # noqa: B018  sorts them
        assert relation.holds(tuple(asked)).tolist() == expected


def test_bits_take_rows_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintained, "MANY", 0)
    x, y = (side.ravel() for side in np.meshgrid(np.arange(-50, 50), np.arange(100)))
    some = (x + y) % 2 == 0
    relation = Relation.from_rows(("x", "y"), ("int", "int"), [x[some], y[some]], int(some.sum()))
    bits = maintained.bitmap_of(relation.store)
    assert bits is not None and bits.space.holds((x, y))
    assert not bits.space.holds((x, y + 1000))
    assert bits.news((x, y)).tolist() == (~some).tolist()
    assert not bits.news((x, y)).any()
    for column, other in ((0, 1), (1, 0)):
        found = bits.rows_with(column, np.array([-60, 7, 9]))
        assert found is not None
        assert set(found[column].tolist()) == {7, 9}
        wanted = [range(100), range(-50, 50)][column]
        assert sorted(found[other].tolist()) == sorted(2 * [*wanted])
    monkeypatch.setattr(row_bitmap, "MOST_TESTED_BITS", 10)
    assert bits.rows_with(0, np.array([7])) is None
    monkeypatch.setattr(maintained, "MANY", 1 << 40)
    assert maintained.bitmap_of(relation.store) is None
