"""Statistics of groups: compiled code gives exactly what NumPy gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdatalog.cpu_ops import group_statistics
from gdatalog.cpu_ops.group_statistics import Groups, correlation, quantile, variance
from gdatalog.storage.keys import float_to_key, key_to_float
from tests.cases import cases


def drawn(seed: int, count: int, kind: Any, far: bool, nulls: bool) -> Any:
    random = np.random.default_rng(seed)
    group = [
        random.integers(-3, (20, 1 << 50)[far], count) // (1, 1 << 47)[far],
        random.integers(0, 3, count).astype(np.int32),
    ]
    ints = (random.integers(-40, 40, count) << random.integers(0, (20, 55)[far])).astype(kind)
    floats = float_to_key(random.normal(1e3, 1, count).round(random.integers(0, 9)))
    return group, random.random(count) < (0.4 if nulls else 2), ints, floats


def found(group: Any, there: Any, ints: Any, floats: Any) -> Any:
    groups = Groups(group, there, None)

    def between(low: Any, high: Any, share: Any) -> Any:
        return key_to_float(low) * (1 - share) + key_to_float(high) * share

    with np.errstate(all="ignore"):
        pairs = [
            quantile(groups, floats, 0.3, between),
            quantile(groups, ints, 0.9, lambda low, high, share: np.stack([low, high])),
            variance(groups, (floats, True)),
            variance(groups, (ints, False)),
            correlation(groups, (ints, False), (floats, True)),
        ]
    assert len(groups.keys[0]) == len(groups.present)
    return [*groups.keys, *(np.where(there, values, 0)[..., groups.present]
                            for values, there in pairs)]  # fmt: skip


@settings(max_examples=cases(40), deadline=None)
@given(
    st.integers(0, 1 << 30), st.integers(1, 300), st.sampled_from([np.int32, np.int64]),
    st.booleans(), st.booleans(),
)  # fmt: skip
def test_compiled_code_agrees(seed: int, count: int, kind: Any, far: bool, nulls: bool) -> None:
    data = drawn(seed, count, kind, far, nulls)
    plain = found(*data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(group_statistics, "COMPILED", 1)
        compiled = found(*data)
    for one, other in zip(plain, compiled, strict=True):
        assert one.dtype == other.dtype and np.array_equal(one, other, equal_nan=True)
    group, _, _, _ = data
    assert [*zip(*(key.tolist() for key in plain[:2]), strict=True)] == sorted(
        {*zip(*(column.tolist() for column in group), strict=True)}
    )


@pytest.mark.parametrize("order", ["equal", "ascending", "descending", "few"])
def test_no_order_of_values_is_selected_wrongly(
    order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_statistics, "COMPILED", 1)
    count = 2000
    values = {
        "equal": np.full(count, 7),
        "ascending": np.arange(count),
        "descending": -np.arange(count),
        "few": np.random.default_rng(1).integers(0, 3, count),
    }[order]
    groups = Groups([np.arange(count) % 2], np.ones(count, dtype=np.bool_), None)
    for place in (0, 1, 500, 998, 999):
        lower, upper = groups.at_places(values, np.full(2, place))
        for group in range(2):
            ordered = np.sort(values[group::2])
            assert lower[group] == ordered[place] and upper[group] == ordered[min(place + 1, 999)]
