"""What stands in for CuPy has CuPy's manners: compared with CuPy itself where it is installed."""

from __future__ import annotations

import importlib.util
import inspect
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.cuda_host import cupy_names
from tests.cuda_host.arrays import COUNTER
from tests.cuda_host.stand_in import xp

needs_cupy = pytest.mark.skipif(
    importlib.util.find_spec("cupy") is None, reason="CuPy is not installed"
)


def ints(*values: int, dtype: str = "int64") -> Any:
    return xp.asarray(np.array(values, dtype=dtype))


# ------------------------------------------------------------------------------ names, by CuPy


@needs_cupy
@pytest.mark.parametrize("name", cupy_names.SIGNATURES)
def test_parameters_are_cupys(name: str) -> None:
    import cupy

    assert (
        " ".join(inspect.signature(getattr(cupy, name)).parameters) == (cupy_names.SIGNATURES[name])
    )


@needs_cupy
def test_names_are_cupys() -> None:
    import cupy

    for name in cupy_names.UFUNCS.split():
        assert isinstance(getattr(cupy, name), cupy.ufunc)
    for name in cupy_names.SAME.split():
        assert getattr(cupy, name) is getattr(np, name)
    for name in vars(xp).keys() - {"plain"}:
        assert hasattr(cupy, name)
    for name in ("result_type", "can_cast", "array", "asarray", "asnumpy"):
        theirs = inspect.signature(getattr(cupy, name)).parameters
        assert list(theirs) == list(inspect.signature(getattr(xp, name)).parameters)


@needs_cupy
def test_arrays_have_what_cupys_have() -> None:
    import cupy

    own = {"get_view", "read", "scatter"}
    mine = {name for name in dir(xp.ndarray) if not name.startswith("_")} - own
    assert mine <= set(dir(cupy.ndarray))
    special = {name for name in vars(xp.ndarray) if re.fullmatch("__.*__", name)}
    assert special - {"__annotations__", "__weakref__"} <= set(dir(cupy.ndarray))
    for name in cupy_names.METHODS.split():
        said = getattr(cupy.ndarray, name).__doc__.splitlines()[0]
        parameters = said.partition("(self")[2].partition(")")[0] + ","
        theirs = re.findall(r"(\w+)(?:=[^,]*)?,", parameters)
        known = set(cupy_names.SIGNATURES[name].split()) | {"min", "max"}  # of clip
        assert set(theirs) <= known


# ------------------------------------------------------------------------------------- refused

REFUSED: dict[str, Callable[[Any, Any], Any]] = {
    "an operand of NumPy": lambda xp, a: a + np.arange(3),
    "an operand of NumPy, first": lambda xp, a: np.arange(3) + a,
    "in place": lambda xp, a: a.__iadd__(np.arange(3)),
    "compared": lambda xp, a: a == np.arange(3),
    "a list": lambda xp, a: a * [1, 2, 3],
    "in a ufunc": lambda xp, a: xp.minimum(a, np.arange(3)),
    "in a function": lambda xp, a: xp.searchsorted(a, np.arange(3)),
    "in where": lambda xp, a: xp.where(a > 1, a, np.arange(3)),
    "among arrays": lambda xp, a: xp.concatenate((a, np.arange(3))),
    "stacked": lambda xp, a: xp.stack([a, np.arange(3)]),
    "lists as arrays": lambda xp, a: xp.concatenate((a, [1])),
    "first of a function": lambda xp, a: xp.cumsum(np.arange(3)),
    "a list for a function": lambda xp, a: xp.sum([1, 2]),
    "as an index": lambda xp, a: a[np.arange(2)],
    "as a mask": lambda xp, a: a[np.array([True, False, True])],
    "assigned": lambda xp, a: a.__setitem__(slice(None), np.arange(3)),
    "assigned at an index": lambda xp, a: a.__setitem__(np.arange(3), 1),
    "a list assigned": lambda xp, a: a.__setitem__(slice(None), [1, 2, 3]),
    "by itself to NumPy": lambda xp, a: np.asarray(a),
    "into NumPy": lambda xp, a: np.zeros(3).__setitem__(slice(None), a),
    "a function that CuPy lacks": lambda xp, a: np.block([[a, a]]),
    "a method of a ufunc of NumPy": lambda xp, a: np.add.reduce(a),
    "objects": lambda xp, a: xp.asarray(np.array([1, "a"], dtype=object)),
    "texts": lambda xp, a: xp.asarray(["a"]),
    "made texts": lambda xp, a: a.astype("U3"),
    "a range as far as the device says": lambda xp, a: range(a[0]),
    "a slice as far as the device says": lambda xp, a: a[: a[0]],
    "a size that the device says": lambda xp, a: xp.zeros(a[1]),
    "a range of the device": lambda xp, a: xp.arange(a[0]),
    "a hash": lambda xp, a: hash(a),
    "least of what is given": lambda xp, a: a.max(initial=0),
    "a sum with a start": lambda xp, a: xp.sum(a, initial=0),
    "where of a sum": lambda xp, a: a.sum(where=a > 1),
    "repeats by an array": lambda xp, a: xp.repeat(a, a),
    "keys that are not stacked": lambda xp, a: xp.lexsort((a, a)),
    "a scalar searched": lambda xp, a: xp.searchsorted(a, 1),
    "searched by way of floats": lambda xp, a: xp.searchsorted(a, a.astype(xp.uint64)),
    "another sort": lambda xp, a: xp.sort(a, kind="quicksort"),
    "scattered into int64": lambda xp, a: xp.add.at(a, a, 1),
    "a wrong index": lambda xp, a: a[a + 1],
    "two values for one place": lambda xp, a: a.__setitem__(xp.asarray(np.array([1, 0, 1])), a),
    "too long a shift": lambda xp, a: a << 64,
    "a shift back": lambda xp, a: a >> xp.asarray(np.array([1, 2, -1])),
    "the truth of many": lambda xp, a: bool(a),
    "the item of many": lambda xp, a: int(a),
    "an unknown argument of a ufunc": lambda xp, a: xp.add(a, a, order="C"),
    "an array made by hand": lambda xp, a: xp.ndarray(3),
}


# What CuPy may let pass, and what then may go wrong without a word.
STRICTER = {
    "a wrong index", "two values for one place", "too long a shift", "a shift back",
    "searched by way of floats", "a range of the device", "an array made by hand", "as an index",
    "as a mask", "assigned at an index", "a method of a ufunc of NumPy", "another sort",
    "a slice as far as the device says", "repeats by an array", "a scalar searched",
    "scattered into int64",
}  # fmt: skip
KINDS = (TypeError, ValueError, IndexError, NotImplementedError, OverflowError, AttributeError)


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what: str) -> None:
    a = xp.arange(3)
    with pytest.raises(KINDS):
        REFUSED[what](xp, a)
    assert a.get().tolist() == [0, 1, 2]


@pytest.fixture
def cupy() -> Any:
    cupy = pytest.importorskip("cupy")
    try:
        usable = cupy.cuda.is_available()
    except Exception as reason:  # whatever a half of an installation says
        pytest.skip(f"no GPU: {reason}")
    if not usable:
        pytest.skip("no GPU")
    return cupy


@pytest.mark.gpu
@pytest.mark.parametrize("what", [what for what in REFUSED if what not in STRICTER])
def test_cupy_refuses_it_too(cupy: Any, what: str) -> None:
    a = cupy.arange(3)
    with pytest.raises(KINDS):
        REFUSED[what](cupy, a)


def test_what_it_has_not() -> None:
    for name in ("append_at", "lookfor", "vectorise", "errstate", "setbufsize", "char", "object_"):
        assert not hasattr(xp, name)


# ---------------------------------------------------------------------------------- what works


def results(xp: Any) -> list[Any]:
    """Of all kinds of functions, on an array of 32 bits."""
    a = xp.asarray(np.array([2, 0, 1], dtype=np.int32))
    return [
        a + 1, 1 + a, a + np.int32(1), -a, a[0], a[1:], a[a], a[a > 1], a[None], a[::-1], a.sum(),
        a.max(), a.any(), xp.min(a), xp.cumsum(a), xp.where(a > 1, a, 0), xp.minimum(a, 2),
        np.minimum(a, 2), np.sort(a), xp.searchsorted(a, a), xp.unique(a), xp.stack([a[0], a[1]]),
        xp.array([a[0], a[1]]), a.T, a.reshape(1, 3), a.astype(bool), a.view("uint32"), a.copy(),
        xp.broadcast_to(a[0], 3), xp.zeros_like(a), xp.full(2, 7), xp.asarray(a), next(iter(a)),
        xp.lexsort(xp.stack([a, a])), xp.argsort(a), a.argsort(), xp.bincount(a), xp.diff(a),
        xp.repeat(a, 2), xp.isin(a, a), xp.concatenate(tup=(a, a)), xp.add.reduce(a),
        a // 2, a % 2, a / 2, a ** 2, a == 1, xp.sort(a, kind="stable"), xp.abs(-a), a << 3,
        xp.append(a, a), xp.count_nonzero(a), xp.argmax(a), xp.flip(a), xp.ones(2), a * 1.5,
        xp.arange(5), xp.promote_types("i4", "i8").type(3) + a, xp.any(a > 1, axis=0),
        *xp.nonzero(a), *xp.unique(a, return_inverse=True), *xp.broadcast_arrays(a, a[0]),
    ]  # fmt: skip


def test_results_are_of_the_device() -> None:
    assert all(type(one) is xp.ndarray for one in results(xp))
    a = xp.arange(3)
    assert a.sum().shape == () and a[0].ndim == 0


@pytest.mark.gpu
def test_results_are_cupys(cupy: Any) -> None:
    for mine, theirs in zip(results(xp), results(cupy), strict=True):
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
        assert np.array_equal(mine.get(), theirs.get())


def test_types_are_numpys() -> None:
    a = ints(1, dtype="int32")
    assert (a + 1).dtype == np.int32
    assert (a + 0.5).dtype == np.float64
    assert (a + ints(1)).dtype == np.int64
    assert a.sum().dtype == xp.cumsum(a).dtype == np.int64
    assert xp.result_type(a, xp.int64) == np.int64
    assert xp.can_cast(a, xp.int64)
    with pytest.raises(OverflowError):
        a + 2**40


def test_parts_are_views() -> None:
    a = xp.arange(6)
    a[1:3][0] = 10
    a[5][...] = 50
    a.reshape(2, 3)[1, 0] = 30
    a[...] += 1
    a.view(xp.uint64)[:1] = xp.asarray(np.uint64(7))
    assert a.get().tolist() == [7, 11, 3, 31, 5, 51]
    assert xp.shares_memory(a, a[2:]) and not xp.shares_memory(a, a.copy())
    assert xp.asarray(a) is a and xp.asarray(a, dtype=a.dtype) is a


def test_assigning() -> None:
    a = xp.zeros(5, dtype=xp.int64)
    a[ints(1, 3)] = ints(10, 30)
    a[ints(2, 2)] = ints(7, 7)
    a[a == 0] = -1
    assert a.get().tolist() == [-1, 10, 7, 30, -1]
    b = xp.zeros(3, dtype=xp.uint64)
    xp.add.at(b, ints(0, 2, 0), 5)
    b.scatter_max(ints(1), 9)
    assert b.get().tolist() == [10, 9, 5]


def test_what_is_empty_is_not_zero() -> None:
    for a in (xp.empty(3), xp.empty((2, 2), dtype=xp.int32), xp.empty_like(xp.arange(3))):
        assert bool((a != 0).all())
    assert xp.empty(2, dtype=bool).tolist() == [True, True]
    assert xp.empty(0).size == 0 and int(xp.empty((), dtype=xp.uint8)) == 0xA5


def test_no_warnings() -> None:
    a = ints(0, 1)
    assert (a // 0).get().tolist() == [0, 0]
    assert xp.log(a)[0].item() == -np.inf
    assert bool(xp.isnan(xp.sqrt(a - 1))[0])


def test_there_and_back() -> None:
    given = np.arange(4)
    a = xp.asarray(given)
    a += 1
    assert given.tolist() == [0, 1, 2, 3]  # a copy went there
    back = a.get()
    assert type(back) is np.ndarray and type(xp.asnumpy(a)) is np.ndarray
    back[0] = 100
    assert a.tolist() == [1, 2, 3, 4]  # and back
    assert int(a[0]) == 1 and float(a[1]) == 2.0 and a[2].item() == 3 and bool(a[0])
    with pytest.raises(ValueError, match="mismatch"):
        a.set(np.zeros(4))


def test_arrays_of_other_libraries() -> None:
    a = xp.arange(8)[::2]
    other = SimpleNamespace(__cuda_array_interface__=a.__cuda_array_interface__)
    same = xp.asarray(other)
    same[1] = 70
    assert a.tolist() == [0, 70, 4, 6]
    assert xp.asarray(other, dtype=xp.int32).dtype == np.int32
    assert xp.arange(0).__cuda_array_interface__["data"] == (0, False)


WAITS: dict[str, tuple[int, Callable[[Any], Any]]] = {
    "int": (1, lambda a: int(a[0])),
    "bool": (1, lambda a: bool(a[0])),
    "float": (1, lambda a: float(a[0])),
    "item": (1, lambda a: a[0].item()),
    "get": (1, lambda a: a.get()),
    "tolist": (1, lambda a: a.tolist()),
    "asnumpy": (1, lambda a: xp.asnumpy(a)),
    "a mask": (1, lambda a: a[a > 0]),
    "a mask assigned to": (1, lambda a: a.__setitem__(a > 0, ints(1, 1))),
    "flatnonzero": (1, lambda a: xp.flatnonzero(a)),
    "nonzero": (1, lambda a: a.nonzero()),
    "where": (1, lambda a: xp.where(a > 0)),
    "unique": (1, lambda a: xp.unique(a)),
    "bincount": (1, lambda a: xp.bincount(a)),
    "three": (3, lambda a: [int(one) for one in a]),
    "scalars under a mask": (0, lambda a: a.__setitem__(a > 0, 1)),
    "where of three": (0, lambda a: xp.where(a > 0, a, 0)),
    "sums": (0, lambda a: a.sum() + xp.max(a)),
    "gathers": (0, lambda a: a[a]),
    "sizes": (0, lambda a: (len(a), a.shape, a.dtype)),
}


@pytest.mark.parametrize("what", WAITS)
def test_what_waits_is_counted(what: str) -> None:
    count, act = WAITS[what]
    a = xp.arange(3)
    COUNTER.reset()
    act(a)
    assert COUNTER.synchronisations == count


def test_what_goes_there_is_counted() -> None:
    COUNTER.reset()
    a = xp.asarray(np.arange(3))
    xp.array([1, 2])
    xp.asarray(a)
    xp.arange(3)
    a.set(np.arange(3))
    assert COUNTER.uploads == 3
