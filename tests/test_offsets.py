"""Keys as they are moved come back as they were."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdatalog.cluster.joins.buckets import Offsets

SMALL, LARGE = (-(2**31), 2**31 - 1), (-(2**63), 2**63 - 1)


@given(st.sampled_from([("<i4", SMALL), ("<i8", LARGE)]).flatmap(
    lambda told: st.tuples(st.just(told[0]), st.lists(st.integers(*told[1]), max_size=6))
))  # fmt: skip
def test_offsets(told: tuple[str, list[int]]) -> None:
    kind, values = told
    column = np.array(values, dtype=kind)
    moved = Offsets.of(column)
    assert moved.offsets.nbytes <= column.nbytes
    back = moved.keys()
    assert back.dtype == column.dtype and back.tolist() == values


@pytest.mark.parametrize(
    ("span", "size"), [(255, 1), (256, 2), (65_535, 2), (65_536, 4), (2**32, 8)]
)
def test_few_bytes(span: int, size: int) -> None:
    assert Offsets.of(np.array([-5, span - 5], dtype=np.int64)).offsets.itemsize == size
