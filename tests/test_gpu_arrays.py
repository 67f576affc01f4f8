"""The array module of a device gives what NumPy's functions give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gdatalog as gd
from benchmarks.gpu.sectors import gathered, touched
from gdatalog.gpu_ops.array_module import ArrayModule
from gdatalog.gpu_ops.device import Gpu
from tests.cuda_host import HostDriver, needs_compiler

pytestmark = needs_compiler

SIZES = (0, 1, 5, 1500)
RANDOM = np.random.default_rng(1)


OWN = HostDriver(seed=3, blocks=3, own_arrays=True)


@pytest.fixture
def xp() -> ArrayModule:
    made: ArrayModule = OWN.xp
    return made


def columns(size: int) -> dict[str, np.ndarray[Any, Any]]:
    """Columns of each type that queries have. `z` has a zero, `p` only positive numbers."""
    small = RANDOM.integers(-9, 9, size)
    return {
        "i": small.astype(np.int32),
        "j": RANDOM.integers(-(2**62), 2**62, size),
        "k": small.astype(np.int64),
        "p": np.arange(1, size + 1),
        "u": RANDOM.integers(0, 2**64, size, dtype=np.uint64),
        "f": RANDOM.normal(size=size) * 3,
        "g": np.where(small % 3 == 0, np.nan, small + 0.5),
        "b": small > 0,
        "c": small % 2 == 0,
        "s": small.astype(np.int8),
        "r": np.sort(small),
        "at": RANDOM.permutation(size),
    }


Columns = dict[str, Any]
TWO: tuple[Callable[[Any, Columns], Any], ...] = (
    lambda xp, c: c["i"] + c["i"],
    lambda xp, c: c["i"] + c["j"] * 3,
    lambda xp, c: 7 - c["j"],
    lambda xp, c: c["k"] // 4 + c["k"] % 4,
    lambda xp, c: (c["k"] // -3, c["k"] % -3, c["j"] // c["p"]),
    lambda xp, c: (c["u"] // np.uint64(3), c["u"] >> np.uint64(7), c["u"] > np.uint64(1 << 63)),
    lambda xp, c: (c["j"] >> 5, c["j"] << 3, c["j"] & 255, c["j"] | 1, c["j"] ^ c["k"], ~c["j"]),
    lambda xp, c: (c["b"] & c["c"], c["b"] | c["c"], c["b"] ^ c["c"], ~c["b"], 1 - c["b"]),
    lambda xp, c: (c["i"] < c["k"], c["i"] <= 3, c["i"] > c["j"], c["i"] >= 0, c["i"] == c["k"]),
    lambda xp, c: (c["f"] < 0.5, c["g"] != c["g"], xp.isnan(c["g"]), c["f"] == c["f"]),
    lambda xp, c: (xp.minimum(c["i"], c["k"]), xp.maximum(c["j"], 0), xp.maximum(c["f"], c["g"])),
    lambda xp, c: (-c["j"], abs(c["i"]), xp.absolute(c["f"]), -c["f"]),
    lambda xp, c: (c["f"] / 3.0, c["k"] / c["p"], c["f"] * c["i"], c["f"] + 1, 2.5 * c["k"]),
    lambda xp, c: (xp.floor(c["f"]), xp.ceil(c["f"]), xp.trunc(c["f"]), xp.sqrt(abs(c["f"]))),
    lambda xp, c: (xp.exp(c["f"]), xp.log(abs(c["f"])), xp.power(abs(c["f"]), c["f"]), c["f"] ** 2),
    lambda xp, c: xp.fmod(c["f"], c["p"].astype(np.float64)),
    lambda xp, c: (xp.where(c["b"], c["i"], 5), xp.where(c["b"], 0.5, c["f"]), c["j"][c["at"]]),
    lambda xp, c: (xp.where(c["b"], 1, 2), xp.where(c["c"], c["i"], c["j"]), c["f"][c["b"]]),
    lambda xp, c: (c["f"].astype(np.int64), c["i"].astype(np.float64), c["j"].astype(np.int32)),
    lambda xp, c: (c["i"].astype(bool), c["b"].astype(np.int64), c["s"].astype(np.int64)),
    lambda xp, c: (c["j"].view(np.uint64) >> np.uint64(1), c["s"].astype(np.float64)),
    lambda xp, c: (xp.cumsum(c["k"]), xp.cumsum(c["b"]), xp.diff(c["j"]), xp.sort(c["j"])),
    lambda xp, c: (c["k"].sum(), c["f"].astype(np.int64).sum(), c["b"].any(), c["b"].all()),
    lambda xp, c: (xp.argsort(c["k"], kind="stable"), xp.lexsort(xp.stack([c["k"], c["j"]]))),
    lambda xp, c: (xp.searchsorted(c["r"], c["k"]), xp.searchsorted(c["r"], c["i"], side="right")),
    lambda xp, c: xp.searchsorted(xp.sort(c["f"]), c["f"], side="right"),
    lambda xp, c: (xp.unique(c["k"]), *xp.unique(c["i"], return_counts=True)),
    lambda xp, c: xp.unique(c["k"], return_inverse=True),
    lambda xp, c: (np.sum(c["k"]), np.minimum(c["k"], 2), np.cumsum(c["i"])),
    lambda xp, c: (xp.bincount(c["at"], minlength=9), xp.bincount(c["k"] + 9, minlength=20)),
    lambda xp, c: (xp.concatenate([c["i"], c["j"], c["k"]]), xp.stack([c["k"], c["p"]])[1]),
    lambda xp, c: (xp.append(c["i"], c["k"]), xp.clip(c["k"], 0, 4), c["k"][::3]),
    lambda xp, c: (xp.flatnonzero(c["s"]) + xp.int64(0), xp.flatnonzero(c["b"]) * xp.int64(1)),
    lambda xp, c: xp.broadcast_to(xp.full(1, 4), (9,)),
    lambda xp, c: (c["k"][::2] + c["k"][::2], c["f"].copy(), xp.ascontiguousarray(c["i"][::2])),
    lambda xp, c: xp.broadcast_arrays(c["p"], xp.arange(1)),
    lambda xp, c: (xp.arange(5), xp.arange(3, 9, dtype=np.int32), xp.full(4, -1), xp.ones(3)),
    lambda xp, c: (xp.zeros_like(c["i"]), xp.full(2, 2.5), xp.zeros((2, 3), dtype=np.int64)),
)  # fmt: skip


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("computed", TWO)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_functions(xp: Any, size: int, computed: Callable[[Any, Columns], Any]) -> None:
    given = columns(size)
    with np.errstate(all="ignore"):
        wanted = computed(np, given)
    found = computed(xp, {name: xp.asarray(column) for name, column in given.items()})
    wanted, found = (
        each if isinstance(each, tuple | list) else (each,) for each in (wanted, found)
    )
    for a, b in zip(wanted, found, strict=True):
        assert isinstance(b, xp.ndarray)
        _same(np.asarray(a), b.get())


def _same(wanted: np.ndarray[Any, Any], found: np.ndarray[Any, Any]) -> None:
    assert wanted.shape == found.shape
    if wanted.shape:  # sums and the like are of 64 bits
        assert wanted.dtype == found.dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("size", (1, 700, 9000))
def test_reductions(xp: Any, size: int) -> None:
    for name, column in columns(size).items():
        there = xp.asarray(column)
        if name not in ("f", "g"):
            assert there.min().item() == column.min() and there.max().item() == column.max(), name
        if column.dtype.kind == "f":
            assert np.isclose(there.sum().item(), column.sum(), equal_nan=True)
            assert there.sum().tobytes() == xp.asarray(column).sum().tobytes()
        elif name != "u":
            assert there.sum().item() == column.sum(), name
    amounts = xp.asarray(np.full(size, 2**62))
    assert np.isclose(float(amounts.sum(dtype=np.float64)), size * 2.0**62)


def test_assignments(xp: Any) -> None:
    for size in SIZES[1:]:
        given = columns(size)
        made = {name: xp.asarray(column) for name, column in given.items()}
        for c in (given, made):
            c["k"][c["b"]] = 7
            c["j"][c["at"]] = c["i"]
            c["i"][1:] = c["i"][:-1].copy()
            c["i"][:1] = 3
            c["f"][c["c"]] = c["k"][c["c"]]
            c["p"][-1] = -5
            c["p"] += c["k"]
            c["r"] <<= 2
            c["b"] |= c["c"]
            c["b"][c["at"][:1]] = False
            c["s"].fill(4)
            c["u"][0] = 2**63
        for name, column in given.items():
            _same(column, made[name].get())


def test_what_is_refused(xp: Any) -> None:
    with pytest.raises(ValueError, match="arrays of"):
        xp.arange(3) + xp.arange(4)
    with pytest.raises(ValueError, match="of no entries"):
        xp.arange(0).max()
    with pytest.raises(TypeError, match="power of ints"):
        xp.power(xp.arange(3), 3)


QUERIES = (
    "t(x, y, z) <- E(x, y), E(y, z), E(x, z), x < y < z.",
    "n(x, count()) <- E(x, y), E(y, _).",
    "s(x, sum(y * z), max(z), min(y)) <- E(x, y), E(y, z).",
    "m(y, mean(x)) <- E(x, y). ?(y, a) <- m(y, a), a > 3.0.",
    "f(x, sqrt(to_float(y)) / 2.0, exp(to_float(x) / 9.0)) <- E(x, y), y >= 0.",
    "o(x, y) <- E(x, y), !E(y, x).",
    "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z).",
    "d(x, min(c)) <- E(0, x), c = 1. d(y, min(c + 1)) <- d(x, c), E(x, y).",
    "q(x * y + 3, x - y, x % 4, x / 3) <- E(x, y).",
    "c(count()) <- E(x, y), E(y, z), E(z, w), E(w, x).",
)


@pytest.mark.parametrize("text", QUERIES)
@pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")
def test_queries(text: str) -> None:
    """Breadth-first, and in whichever way a GPU takes."""
    edges = [(x, y) for x in range(9) for y in range(9) if (x * x + 3 * y) % 5 < 2]
    found = []
    for driver, strategy in ((None, None), (OWN, "levelwise"), (OWN, "auto")):
        with gd.connect(device="cpu") as db:
            db["E"] = edges
            if driver is not None:
                db.workspace.device = Gpu(driver)
                db.workspace.force(strategy=strategy)
            rows = db.query(text).fetchall()
            found.append(sorted(tuple(round(value, 9) for value in row) for row in rows))
    assert found[0] and found[0] == found[1] == found[2]


def test_rows_are_grouped_by_their_shortest_list() -> None:
    """Where each of two lists is the longer one for half of the rows."""
    hubs = [(hub, x) for hub in range(2) for x in range(2, 60)]
    edges = sorted({*hubs, *((x, hub) for hub, x in hubs), *((x, x + 1) for x in range(2, 60))})
    text = "n(a, count(), max(c)) <- E(a, b), E(b, c), E(a, c)."
    found = []
    for driver in (None, OWN):
        with gd.connect(device="cpu") as db:
            db["E"] = edges
            if driver is not None:
                db.workspace.device = Gpu(driver)
            db.workspace.force(strategy="levelwise")
            found.append(sorted(db.query(text).fetchall()))
    assert found[0] and found[0] == found[1]


def test_sectors_are_counted_on_the_device(xp: Any) -> None:
    positions = RANDOM.integers(0, 400, 500)
    there = xp.asarray(positions)
    wanted = gathered(np, positions, 8), touched(np, positions, 400, 8)
    assert wanted == (gathered(xp, there, 8), touched(xp, there, 400, 8))
