"""Values that are far apart are looked up in a hash table, if there are many."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdatalog.storage import trie
from gdatalog.storage.trie import TrieLevel
from tests.cases import cases


@settings(max_examples=cases(40), deadline=None)
@given(
    st.sampled_from([(np.int32, 1 << 30), (np.int64, 1 << 62)]), st.integers(0, 1 << 30),
    st.integers(1, 200),
)  # fmt: skip
def test_it_finds_what_a_search_finds(kind: Any, seed: int, count: int) -> None:
    dtype, most = kind
    random = np.random.default_rng(seed)
    values = np.unique(random.integers(-most, most, count)).astype(dtype)
    level = TrieLevel(values, np.array([0, len(values)]))
    wanted = [random.choice(values, 90), random.integers(-most, most, 90)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trie, "SOUGHT", 100)
        for some in (*wanted, *(part.astype(np.int64) for part in wanted)):
            places = level.find(some)
            expected = np.where(np.isin(some, values), np.searchsorted(values, some), -1)
            assert places.tolist() == expected.tolist()
    assert level._table is not None or level.is_dense
    assert level.nbytes >= values.nbytes + (0 if level._table is None else level._table.nbytes)


def test_a_few_values_need_no_table() -> None:
    level = TrieLevel(np.arange(0, 1 << 20, 1 << 12), np.array([0, 256]))
    assert level.find(np.array([1 << 12, 5])).tolist() == [1, -1]
    assert level._table is None
