"""Groups with dense keys: the compiled pass gives what the array operations give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gdatalog as gd
from gdatalog.cpu_ops.expressions import Scope
from gdatalog.engine import scans
from gdatalog.engine.device import CPU
from gdatalog.executors import gather
from gdatalog.executors.gather import Gathering
from gdatalog.limits import Limits
from gdatalog.plan.join_plan import Gather, Slot
from gdatalog.storage.keys import float_to_key
from gdatalog.storage.symbols import SymbolTable
from tests.cases import cases

INT, FLOAT, TEXT = Slot("i", "int"), Slot("f", "float"), Slot("t", "symbol")
KINDS = [
    ("count", ()), ("sum", (INT,)), ("mean", (INT,)), ("min", (INT,)), ("max", (INT,)),
    ("sum", (FLOAT,)), ("mean", (FLOAT,)), ("min", (FLOAT,)), ("max", (FLOAT,)),
    ("any_value", (INT,)),
]  # fmt: skip
SPECS = [Gather(kind, of, f"a{at}", "int") for at, (kind, of) in enumerate(KINDS)]


def gathering(specs: Any = SPECS) -> Gathering:
    return Gathering(specs, CPU.ops, Scope(SymbolTable()), Limits(chunk=64))


def finished(whole: Gathering) -> Any:
    """Each group's aggregates, or what is wrong."""
    try:
        keys, values = whole.finish()
    except Exception as error:
        return str(error)
    width = len(keys)
    rows = list(zip(*(column.tolist() for column in (*keys, *values)), strict=True))
    found = {row[:width]: row[width:] for row in rows}
    assert len(found) == len(rows)
    return found


def chunk(random: Any, wide: bool, low: int, spread: int) -> tuple[Any, int, Any]:
    size = int(random.integers(1, 50))
    keys = low + random.integers(0, spread, size), random.integers(-2, 3, size)
    most = 62 if wide else 30
    ints = random.integers(-(1 << most), 1 << most, size) >> random.integers(0, most, size)
    floats = random.integers(-(1 << 20), 1 << 20, size) / 1024  # whose sums are exact
    kind = np.int64 if wide else np.int32
    columns = {"i": ints.astype(kind), "f": float_to_key(floats)}
    return (keys[0].astype(kind), keys[1].astype(np.int32)), size, columns


@settings(max_examples=cases(40), deadline=None)
@given(
    st.integers(0, 1 << 30),
    st.lists(
        st.tuples(st.booleans(), st.sampled_from([0, -7, 40, 3000]), st.sampled_from([1, 9, 900])),
        min_size=1, max_size=6,
    ),
    st.sampled_from([0, 2, 2, 2]),
)  # fmt: skip
def test_it_agrees_with_array_operations(seed: int, chunks: Any, width: int) -> None:
    """Whatever comes: keys that outgrow the table, columns of other dtypes, groups put together."""
    whole, tables, parts = gathering(), gathering(), gathering()
    tables.expected = gather.FOLDED
    random = np.random.default_rng(seed)
    for wide, low, spread in chunks:
        keys, size, columns = chunk(random, wide, low, spread)
        keys = keys[:width]
        whole.add(keys, size, columns, None)
        tables.add(keys, size, columns, None)
        part = gathering()
        part.expected = gather.FOLDED
        part.add(keys, size, columns, None)
        assert (spread > 200 and keys) or part.table is not None
        parts.join(part)
    assert finished(whole) == finished(tables) == finished(parts)


def test_sums_of_floats_are_in_the_order_of_rows() -> None:
    random = np.random.default_rng(3)
    keys, values = random.integers(0, 50, 4000), random.normal(size=4000)
    whole = gathering([Gather("sum", (FLOAT,), "s", "float")])
    whole.expected = gather.FOLDED
    for start in range(0, 4000, 300):
        part = slice(start, start + 300)
        columns = {"f": float_to_key(values[part])}
        whole.add((keys[part],), len(keys[part]), columns, None)
    expected = dict.fromkeys(range(50), 0.0)
    for key, value in zip(keys.tolist(), values.tolist(), strict=True):
        expected[key] += value
    ((groups,), (sums,)) = whole.finish()
    assert dict(zip(groups.tolist(), sums.tolist(), strict=True)) == {
        key: float_to_key(np.array([value])).item() for key, value in expected.items()
    }


@pytest.mark.parametrize("values", [[1 << 62, 1 << 62], [-(1 << 63), -1]])
def test_a_sum_beyond_64_bits_is_an_error(values: list[int]) -> None:
    whole = gathering([Gather("sum", (INT,), "s", "int")])
    whole.expected = gather.FOLDED
    whole.add((np.array([4, 4]),), 2, {"i": np.array(values)}, None)
    assert f"the sum {sum(values)} does not fit into 64 bits" in finished(whole)


def test_texts_are_compared_by_rank_without_a_table() -> None:
    whole = gathering([Gather("min", (TEXT,), "m", "symbol")])
    whole.expected = gather.FOLDED
    assert whole.totals is None


def test_rows_that_are_many_are_put_into_a_table() -> None:
    whole = gathering([Gather("count", (), "n", "int")])
    keys = np.arange(gather.FOLDED // 4 + 1) % 7
    for _ in range(4):
        assert whole.table is None
        whole.add((keys,), len(keys), {}, None)
    assert whole.table is not None and whole.nbytes > 0
    assert finished(whole) == {
        (group,): (4 * count,) for group, count in enumerate(np.bincount(keys).tolist())
    }


def test_sums_are_the_same_on_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of a scan have tables of their own, which are added in order."""
    random = np.random.default_rng(2)
    monkeypatch.setattr(gather, "FOLDED", 1000)
    monkeypatch.setattr(scans, "PART", 500)
    count = 6000
    columns = {"g": random.integers(0, 90, count), "x": random.normal(size=count) * 1e9}
    found = []
    for threads in (1, 3):
        with gd.connect(device="cpu", threads=threads) as db:
            db.load("t", columns, row_id="row")
            text = "r(g, sum(x), mean(x), count(), max(x)) <- t(g = g, x = x), x > -2e9."
            found.append(db.query(text).sorted().fetchall())
    assert found[0] == found[1] and len(found[0]) == 90
    (group, total, mean, many, most), *_ = found[0]
    kept = columns["x"][(columns["g"] == group) & (columns["x"] > -2e9)]
    assert (many, most) == (len(kept), kept.max())
    assert total == pytest.approx(kept.sum()) and mean == total / many


@pytest.mark.parametrize("bits", [19, 30])
def test_means_are_rounded_once(bits: int) -> None:
    random = np.random.default_rng(bits)
    high, low = random.integers(-(1 << bits), 1 << bits, 300), random.integers(0, 1 << 32, 300)
    counts = random.integers(1, 1000, 300)
    rows = zip(high.tolist(), low.tolist(), counts.tolist(), strict=True)
    exact = [((h << 32) + lo) / n for h, lo, n in rows]
    assert CPU.ops.means(high, low, counts).tolist() == exact
