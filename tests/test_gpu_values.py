"""Values inside a device's loops, against the functions on columns."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdatalog.cpu_ops import functions
from gdatalog.gpu_ops.sources import whole
from gdatalog.storage.keys import float_to_key, key_to_float
from gdatalog.storage.symbols import SymbolTable
from gdatalog.values import FIRST_DAY, INT_MAX, INT_MIN, LAST_DAY
from tests.cuda_host import HostDriver, needs_compiler
from tests.printed import DAY, DECIMAL, INEXACT, MOST, VALUES

pytestmark = needs_compiler

Array = np.ndarray[Any, Any]
DRIVER: Final = HostDriver()
xp: Final = DRIVER.xp

# What of a device is which function of the language, on what.
OF_INTS: Final = {
    "plus": "+", "minus": "-", "times": "*", "divide": "/", "remainder": "%", "power": "^",
    "hour_of": "hour", "minute_of": "minute", "second_of": "second", "weekday_of": "weekday",
    "shift_left": "bshl", "shift_right": "bshr", "shift_right_unsigned": "bshru",
    "least_of": "min", "greatest_of": "max", "magnitude": "abs", "negative": "-", "year_of": "year",
    "month_of": "month", "day_of": "day",
}  # fmt: skip
OF_DATES: Final = {
    "year_of_date": "year",
    "month_of_date": "month",
    "day_of_date": "day",
    "weekday_of_date": "weekday",
}
OF_TWO_DATES: Final = {"later_date": "+", "between_dates": "-"}
OF_FLOATS: Final = {
    "real_remainder": "%", "real_power": "^", "least_of": "min", "greatest_of": "max",
    "magnitude": "abs", "floor_of": "floor", "ceil_of": "ceil", "root_of": "sqrt", "exp_of": "exp",
    "log_of": "log", "round_of": "round",
}  # fmt: skip
OF_SCALED: Final = ("floored", "rounded")  # decimals, divided by a power of ten
FAILS: Final = {"quotient_fails": "/", "power_fails": "^", "product_fails": "*!"}
OF_ONE: Final = {
    *OF_DATES,
    "magnitude", "negative", "year_of", "month_of", "day_of", "floor_of",
    "hour_of", "minute_of", "second_of", "weekday_of", "round_of", "ceil_of", "root_of",
    "exp_of", "log_of", "truncate", "key_of_float", "float_of_key",
}  # fmt: skip
# Of a float to an int, and the other way.
OTHERS: Final = {
    "truncate": ("double", "i64"),
    "key_of_float": ("double", "i64"),
    "float_of_key": ("i64", "double"),
}


def entry(name: str, kind: str, result: str) -> tuple[str, str]:
    """A kernel that does a function to columns, and its name."""
    kernel = f"do_{name}_of_{kind}"
    args = "a[i]" if name in OF_ONE else "a[i], b[i]"
    return kernel, (
        f"KERNEL({kernel})(ARRAY(const {kind}) a, ARRAY(const {kind}) b, "
        f"ARRAY({result}) out, i64 n) {{\n"
        "    for (i64 i = thread_of_grid(); i < n; i += threads_of_grid())\n"
        f"        out[i] = {name}({args});\n}}\n"
    )


@cache
def kernels() -> dict[str, Any]:
    entries = [entry(name, "i64", "i64") for name in (*OF_INTS, *OF_DATES)]
    entries += [entry(name, "i64", "i64") for name in (*FAILS, *OF_SCALED)]
    failing = [f"{name}_fails" for name in OF_TWO_DATES]
    entries += [entry(name, "i64", "i64") for name in (*failing, *OF_TWO_DATES, "first_day_of")]
    entries.append(entry("round_to", "double", "double"))
    entries += [entry(name, "double", "double") for name in OF_FLOATS]
    entries += [entry(name, *types) for name, types in OTHERS.items()]
    entries.append(("lengths", """
KERNEL(lengths)(ARRAY(const i64) ranges, ARRAY(i64) out, i64 n) {
    for (i64 i = thread_of_grid(); i < n; i += threads_of_grid())
        out[i] = length_of(ranges[3 * i], ranges[3 * i + 1], ranges[3 * i + 2]);
}
"""))  # fmt: skip
    text = '#include "values.cuh"\n' + "".join(source for _, source in entries)
    return DRIVER.kernels(whole(text), [name for name, _ in entries], "tests of values")


def done(name: str, kind: str, result: type[Any], a: Array, b: Array) -> Array:
    out = xp.zeros(len(a), dtype=result)
    args = xp.asarray(a), xp.asarray(b), out, len(a)
    kernels()[f"do_{name}_of_{kind}"].launch(2, 32, args)
    return out.get()  # type: ignore[no-any-return]


def wanted(function: str, kind: str, name: str, a: Array, b: Array) -> tuple[Array, Array]:
    """What the function on columns gives, and where it does not fail."""
    given = (a,) if name in OF_ONE else (a, b)
    symbols = SymbolTable()
    found, failed = functions.call(function, given, kind, symbols, lambda *_: None)  # type: ignore[arg-type]
    return found, np.ones(len(a), bool) if failed is None else ~failed


@pytest.mark.parametrize(("name", "function"), FAILS.items())
def test_what_fails(name: str, function: str) -> None:
    powers = [value for base in range(2, 70) for power in (2, 3, 7, 21, 62, 63, 64)
              for value in (base, -base, power)]  # fmt: skip
    roots = [3_037_000_499, 3_037_000_500, 2_097_152, -2_097_152, -2_097_153]
    tens = [*VALUES[DECIMAL], *(10**at for at in range(19)), MOST // 7]
    for values in ([*INTS, 0], tens, [*powers, *roots, -1, INT_MIN, INT_MAX]):
        a, b = pairs(sorted(set(values)), np.int64)
        failed = functions.call(function, (a, b), "int", SymbolTable(), lambda *_: None)[1]
        assert failed is not None
        assert (done(name, "i64", np.int64, a, b) != 0).tolist() == failed.tolist()


def pairs(values: Any, dtype: type[Any]) -> tuple[Array, Array]:
    one, other = zip(*product(values, values), strict=True)
    return np.array(one, dtype=dtype), np.array(other, dtype=dtype)


def check_ints(name: str, a: Array, b: Array) -> None:
    expected, fine = wanted(OF_INTS[name], "int", name, a, b)
    got = done(name, "i64", np.int64, a, b)
    assert got[fine].tolist() == expected[fine].tolist()


def check_floats(name: str, a: Array, b: Array) -> None:
    expected, fine = wanted(OF_FLOATS[name], "float", name, a, b)
    got = done(name, "double", np.float64, a, b)[fine] + 0.0
    if OF_FLOATS[name] in INEXACT:
        np.testing.assert_array_max_ulp(got, expected[fine], maxulp=4)
    else:
        assert got.view(np.int64).tolist() == expected[fine].view(np.int64).tolist()


INTS: Final = sorted({*VALUES["int"], *VALUES["timestamp"]})
FLOATS: Final = [value + 0.0 for value in VALUES["float"]]  # a column has no -0.0


@pytest.mark.parametrize("name", OF_INTS)
def test_ints(name: str) -> None:
    check_ints(name, *pairs(INTS, np.int64))


@pytest.mark.parametrize("name", OF_FLOATS)
def test_floats(name: str) -> None:
    check_floats(name, *pairs(FLOATS, np.float64))


COLUMN: Final = st.lists(st.integers(INT_MIN, INT_MAX), min_size=40, max_size=40)


@settings(max_examples=4, deadline=None)
@given(a=COLUMN, b=COLUMN, bits=st.integers(0, 62))
def test_many_values(a: list[int], b: list[int], bits: int) -> None:
    ints, others = np.array(a), np.array(b) >> bits
    for name in OF_INTS:
        check_ints(name, ints, others)
    floats = [np.nan_to_num(column.view(np.float64)) + 0.0 for column in (ints, others)]
    for name in OF_FLOATS:
        check_floats(name, *floats)
        check_floats(name, ints.astype(np.float64), others.astype(np.float64))


def test_every_month() -> None:
    times = np.arange(-106_751, 106_752, 23) * DAY + 12_345
    for name in ("year_of", "month_of", "day_of", "hour_of", "weekday_of"):
        check_ints(name, times, times)
    for months in (1, 3, 12):
        found = done("first_day_of", "i64", np.int64, times, np.full_like(times, months))
        unit = next(unit for unit, many in functions.MONTHS.items() if many == months)
        assert (
            found.tolist()
            == wanted(f"date_trunc_{unit}", "timestamp", "year_of", times, times)[0].tolist()
        )
    days = np.arange(FIRST_DAY, LAST_DAY + 1, 317)
    for name, function in OF_DATES.items():
        found = done(name, "i64", np.int64, days, days)
        assert found.tolist() == wanted(function, "date", name, days, days)[0].tolist()


@pytest.mark.parametrize(("name", "function"), OF_TWO_DATES.items())
def test_arithmetic_of_dates(name: str, function: str) -> None:
    dates = np.array(VALUES["date"])
    others = np.array(VALUES["duration"]) if function == "+" else dates
    a, b = map(np.ravel, np.meshgrid(dates, others))
    expected, fine = wanted(function, "date", name, a, b)
    assert (done(f"{name}_fails", "i64", np.int64, a, b) == 0).tolist() == fine.tolist()
    assert done(name, "i64", np.int64, a, b)[fine].tolist() == expected[fine].tolist()


def test_rounding_to_digits() -> None:
    a, b = pairs(FLOATS, np.float64)
    for scale in (1.0, 100.0, 1e15):
        b[:] = scale
        found = done("round_to", "double", np.float64, a, b)
        assert found.tolist() == wanted("round_to", "float", "plus", a, b)[0].tolist()


# ------------------------------------------------------------------------------ floats and keys


def test_keys_of_floats() -> None:
    values = np.array([-0.0, *FLOATS])
    keys = done("key_of_float", "double", np.int64, values, values)
    assert keys.tolist() == float_to_key(values).tolist()
    back = done("float_of_key", "i64", np.float64, keys, keys)
    assert back.view(np.int64).tolist() == key_to_float(keys).view(np.int64).tolist()


def test_floats_as_ints() -> None:
    values = np.array([*FLOATS, float("nan"), 1.9, -1.9, 1e18 + 0.5])
    expected, _ = wanted("to_int", "float", "truncate", values, values)
    assert done("truncate", "double", np.int64, values, values).tolist() == expected.tolist()


def test_no_number_stays_none() -> None:
    none = float("nan")
    a, b = np.array([none, none, 1.0]), np.array([2.0, none, none])
    for name in ("least_of", "greatest_of"):
        assert np.isnan(done(name, "double", np.float64, a, b)).all()


# ------------------------------------------------------------------------- ranges, and failures


ENDS: Final = (0, 1, -1, 7, 10, -12, INT_MIN, INT_MIN + 1, INT_MAX, INT_MAX - 1, 2**51)


def length(start: int, stop: int, step: int) -> int:
    return 0 if step == 0 else min(max(0, -((start - stop) // step)), 2**50)


@pytest.mark.parametrize("name", OF_SCALED)
def test_scaled_ints(name: str) -> None:
    keys = [*VALUES[DECIMAL], 49, 50, 51, -49, -50, -51, 149, 150]
    a, b = (
        np.array(each) for each in zip(*product(keys, [10**at for at in range(19)]), strict=True)
    )
    expected, fine = wanted(name, DECIMAL, name, a, b)
    assert fine.all()
    assert done(name, "i64", np.int64, a, b).tolist() == expected.tolist()


def test_lengths_of_ranges() -> None:
    ranges = list(product(ENDS, repeat=3))
    out = xp.zeros(len(ranges), dtype=np.int64)
    kernels()["lengths"].launch(2, 32, [xp.asarray(np.array(ranges)), out, len(ranges)])
    assert out.get().tolist() == [length(*each) for each in ranges]


def test_what_fails_is_defined() -> None:
    """A division by zero, whose failure has been told elsewhere, gives 0 and no trap."""
    a = np.array([0, 5, INT_MIN])
    zeros = np.zeros(3, np.int64)
    for name in ("divide", "remainder"):
        assert done(name, "i64", np.int64, a, zeros).tolist() == [0, 0, 0]
