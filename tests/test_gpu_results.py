"""Answers that stay on a device until somebody asks for them; data that comes from one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gdatalog as gd
from gdatalog.gpu_ops import trie_cache
from gdatalog.gpu_ops.device import Gpu
from gdatalog.storage import row_store, statistics
from tests import test_engine_oracle as oracle
from tests import test_gpu_levelwise as levelwise
from tests.corners import CORNERS, Example
from tests.cuda_host import HostDriver, needs_compiler
from tests.cuda_host.arrays import COUNTER
from tests.cuda_host.stand_in import xp as stand_in
from tests.examples import EXAMPLES
from tests.oracle_values import canonical

EDGES = [(a, b) for a in range(6) for b in range(6) if a != b and (a + b) % 3]
TRIANGLES = "tr(x,y,z) <- E(x,y), E(y,z), E(x,z), x < y < z."
pytestmark = [needs_compiler, pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")]
xp = HostDriver().xp
counted = pytest.mark.skipif(xp is not stand_in, reason="a GPU does not count copies")


@pytest.fixture
def db() -> Iterator[gd.Database]:
    with gd.connect(device="cpu") as made:
        made.workspace.device = Gpu(HostDriver())
        made.workspace.force(strategy="levelwise")  # however long it takes
        yield made


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of the arrays that have been copied to the host."""
    lengths: list[int] = []
    if xp is not stand_in:
        return lengths  # a GPU does not count them
    whole = xp.ndarray.get

    def get(self: Any, *args: Any, **kwargs: Any) -> Any:
        lengths.append(len(self))
        return whole(self, *args, **kwargs)

    monkeypatch.setattr(xp.ndarray, "get", get)
    return lengths


def triangles() -> set[tuple[int, ...]]:
    edges = set(EDGES)
    return {
        (x, y, z) for x, y in edges for z in range(6) if x < y < z and {(y, z), (x, z)} <= edges
    }


def test_answers_are_sorted_by_named_columns_on_the_device(db: gd.Database) -> None:
    db["E"] = EDGES
    found = db.query(TRIANGLES)
    rows = sorted(triangles())
    down = found.sorted(["z", "x"], descending=[True, False])
    assert down.fetchall() == sorted(rows, key=lambda row: (-row[2], row[0], row[1]))
    assert found.sorted("y")[1:3].fetchall() == sorted(rows, key=lambda row: row[1])[1:3]


@counted
def test_a_column_or_a_row_alone_is_copied(db: gd.Database, fetched: list[int]) -> None:
    db["E"] = EDGES
    found = db.query(TRIANGLES)
    count = len(triangles())
    assert found.shape == (count, 3) and len(found[1:]) == count - 1 and fetched == []
    assert sorted(found["y"].tolist()) == sorted(row[1] for row in triangles())
    assert fetched == [count]
    assert found[0] in triangles()
    assert fetched == [count, 1, 1, 1]


@counted
def test_rows_are_copied_when_they_are_asked_for_and_once(
    db: gd.Database, fetched: list[int]
) -> None:
    db["E"] = EDGES
    found = db.query(TRIANGLES)
    count = len(triangles())
    assert len(found) == count and bool(found) and found.columns == ("x", "y", "z")
    assert fetched == []
    assert set(found.fetchall()) == triangles()
    assert fetched == [count] * 3
    found.df()
    found.to_arrow()
    assert len(found.sorted().fetchall()) == count
    assert fetched == [count] * 3


@counted
def test_only_rows_that_are_shown_are_copied(db: gd.Database, fetched: list[int]) -> None:
    db["E"] = EDGES
    found = db.query("two(x, z) <- E(x, y), E(y, z).")
    shown = found.format(4)
    assert sum(fetched) == 8 < 2 * len(found)
    assert shown.splitlines()[3:5] == found.sorted().format(4).splitlines()[3:5]
    assert found.head(2).fetchall() == found.fetchall()[:2]


def test_a_second_query_copies_nothing_to_the_device(db: gd.Database) -> None:
    db["E"] = EDGES
    len(db.query(TRIANGLES))
    COUNTER.reset()
    assert len(db.query(TRIANGLES)) == len(triangles())
    assert len(db.query("back(y, x) <- E(x, y).")) == len(EDGES)
    assert COUNTER.uploads == 0


@counted
def test_a_rule_reads_what_another_has_made_where_it_lies(
    db: gd.Database, fetched: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "FETCHED", 0)
    db["E"] = EDGES
    db.run("two(x, z) <- E(x, y), E(y, z). three(x, z) <- two(x, y), E(y, z), x != z.")
    COUNTER.reset()
    two = {(x, z) for x, y in EDGES for w, z in EDGES if y == w}
    three = {(x, z) for x, y in two for w, z in EDGES if y == w and x != z}
    found = db.query("?- three(x, z).")
    assert len(found) == len(three)
    # Only what the planner counts comes back: how many values stand in how many rows.
    assert COUNTER.uploads == 2 and max(fetched) < 10
    assert set(found.fetchall()) == three


def test_answers_are_data_where_they_lie(db: gd.Database, fetched: list[int]) -> None:
    db["E"] = EDGES
    db["F"] = db.query("back(y, x) <- E(x, y), x < y.")
    db.insert("F", db.query("back(y, x) <- E(x, y), x > 4."))
    assert fetched == []
    expected = {(y, x) for x, y in EDGES if x < y or x > 4}
    assert len(db["F"]) == len(expected) and set(db["F"].fetchall()) == expected
    db.load("G", db["F"], columns=["a", "b"])
    assert db["G"].columns == ("a", "b") and set(db["G"].fetchall()) == expected


def test_a_budget_of_almost_nothing(db: gd.Database) -> None:
    db.workspace.device = device = Gpu(HostDriver(), 1)
    db["E"] = EDGES
    for _ in range(2):
        assert set(db.query(TRIANGLES).fetchall()) == triangles()
        found = db.query("path(x,z) <- E(x,z) ; path(x,y), E(y,z).")
        assert set(found.fetchall()) == {(x, z) for x in range(6) for z in range(6)}
    device.kept.shrink(0)
    assert device.kept.nbytes == 0


def test_a_device_that_is_full(db: gd.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    device = db.workspace.device
    db["E"] = EDGES

    def full(columns: Any) -> None:
        raise MemoryError("8 bytes")

    text = "path(x,z) <- E(x,z) ; path(x,y), E(y,z)."
    expected = set(db.query(text).fetchall())
    with monkeypatch.context() as patch:
        patch.setattr(device.ops, "concatenate", full)
        assert "on the CPU: its relations do not fit cuda:0" in str(db.profile(text))
        patch.setattr(device.kept, "hold", full)  # what no rule does
        with pytest.raises(gd.MemoryLimitError, match=r"cuda:0 has not enough memory.*8 bytes"):
            db.query("back(y, x) <- E(x, y).")
    assert set(db.query(text).fetchall()) == expected
    assert len(db.query(TRIANGLES)) == len(triangles())


def test_closing_lets_go_of_everything_but_answers() -> None:
    with gd.connect(device="cpu") as db:
        db.workspace.device = device = Gpu(HostDriver())
        db.workspace.force(strategy="levelwise")
        db["E"] = EDGES
        answers = db.query(TRIANGLES)
        shown, ordered, first = answers.format(4), answers.sorted(), answers.head(1)
        assert device.kept.nbytes > 0
    assert device.kept.nbytes == 0
    for found in (answers, ordered, first):
        store = found._relation.store
        assert store.on_host and store.on_device is None
        assert found._lying()[1] is None
    assert answers.format(4) == shown and len(answers) == len(triangles())
    assert set(answers.fetchall()) == triangles()
    assert ordered.fetchall() == sorted(triangles()) and first.fetchall() == answers.fetchall()[:1]


@pytest.mark.slow
@pytest.mark.parametrize("example", CORNERS + EXAMPLES, ids=str)
def test_examples_that_never_leave_the_device(
    example: Example, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few the rows are; and nothing is kept longer than it is used."""
    monkeypatch.setattr(statistics, "FETCHED", 0)
    monkeypatch.setattr(row_store, "SORTED_BELOW", 0)
    monkeypatch.setattr(trie_cache, "LONG", 0)
    monkeypatch.setattr(levelwise.DEVICE.kept, "limit", 1)
    names = oracle._heads(example)
    if example.fails:
        with pytest.raises(gd.EvaluationError):
            levelwise.run(example.program, example.data, names, 0)
        return
    found = levelwise.run(example.program, example.data, set(example.expected), 0)
    assert {name: canonical(rows) for name, rows in found.items()} == {
        name: canonical(rows) for name, rows in example.expected.items()
    }


# -------------------------------------------------------------------------------------- to_cupy

TYPED = pd.DataFrame(
    {
        "i": [3, -(1 << 40), 7],
        "f": [1.5, -2.0, 0.0],
        "b": [True, False, True],
        "t": pd.to_datetime(["2020-01-01", "1969-12-31", "2262-01-01"], utc=True),
        "s": ["pear", "apple", "fig"],
    }
)
DTYPES = {"i": "int64", "f": "float64", "b": "bool", "t": "int64", "s": "int32"}


@pytest.mark.parametrize("rows", [3, 0])
def test_columns_of_the_device(
    db: gd.Database, fetched: list[int], monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    db["R"] = TYPED.head(rows)
    found = db.query("q(i, f, b, t, s) <- R(i, f, b, t, s), i != 99.")
    monkeypatch.setitem(sys.modules, "cupy", xp)  # for rows that are nowhere
    COUNTER.reset()
    columns = found.to_cupy(codes=True)
    assert (COUNTER.uploads == 0 or not rows) and fetched == []
    assert list(columns) == list(found.columns)
    assert {name: str(column.dtype) for name, column in columns.items()} == DTYPES
    plain = getattr(xp, "raw", xp).ndarray
    assert all(isinstance(column, plain) or not rows for column in columns.values())
    frame = found.df()
    for name in ("i", "f", "b"):
        assert columns[name].get().tolist() == frame[name].tolist()
    assert columns["t"].get().tolist() == frame["t"].astype("int64").tolist()
    assert found.categories[columns["s"].get()].tolist() == frame["s"].tolist()


def test_arrays_are_the_same_each_time_and_the_users(db: gd.Database) -> None:
    db["E"] = EDGES
    found = db.query("q(x, y) <- E(x, y), x < y.")
    x = found.to_cupy()["x"]
    assert found.to_cupy()["x"] is x
    assert (
        x.__cuda_array_interface__["data"] == found.to_cupy()["x"].__cuda_array_interface__["data"]
    )
    before = sorted(found.fetchall())
    x[:] = 99
    assert sorted(found.fetchall()) == before
    assert sorted(db.query("q(x, y) <- E(x, y), x < y.").fetchall()) == before


def test_parts_and_sorted_answers_on_the_device(db: gd.Database, fetched: list[int]) -> None:
    db["E"] = EDGES
    found = db.query("two(x, z) <- E(x, y), E(y, z).")
    ordered = found.sorted().to_cupy()
    first = found.head(3).to_cupy()
    none = found.head(0).to_cupy()
    assert fetched == []
    rows = list(zip(ordered["x"].tolist(), ordered["z"].tolist(), strict=True))
    assert rows == found.sorted().fetchall()
    assert list(zip(first["x"].tolist(), first["z"].tolist(), strict=True)) == found.fetchall()[:3]
    assert [len(column) for column in none.values()] == [0, 0]


def test_symbols_are_no_arrays(db: gd.Database) -> None:
    db["R"] = TYPED
    found = db.query("q(s) <- R(_, _, _, _, s).")
    with pytest.raises(gd.DeviceError, match="'s' holds symbols") as caught:
        found.to_cupy()
    assert caught.value.hint is not None and "codes=True" in caught.value.hint


def test_answers_of_the_cpu_go_to_the_gpu_of_the_machine(
    db: gd.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    class CUDARuntimeError(RuntimeError):
        pass

    with gd.connect(device="cpu") as here:
        here["E"] = EDGES
        found = here.query("q(x, y) <- E(x, y), x < y.")
        runtime = SimpleNamespace(runtime=SimpleNamespace(CUDARuntimeError=CUDARuntimeError))
        cupy = SimpleNamespace(asarray=xp.asarray, cuda=runtime)
        monkeypatch.setitem(sys.modules, "cupy", cupy)
        columns = found.to_cupy()
        assert isinstance(columns["x"], xp.ndarray)
        assert columns["y"].get().tolist() == found.df()["y"].tolist()
        assert here.query("q() <- E(0, 1).").to_cupy() == {}

        def refuse(column: Any) -> None:
            raise CUDARuntimeError("cudaErrorNoDevice")

        cupy.asarray = refuse
        with pytest.raises(gd.DeviceError, match="needs a GPU: cudaErrorNoDevice"):
            found.head(1).to_cupy()
        monkeypatch.setitem(sys.modules, "cupy", None)
        with pytest.raises(gd.DeviceError, match="needs CuPy") as caught:
            found.head(1).to_cupy()
        assert caught.value.hint is not None and "--doctor" in caught.value.hint


# ------------------------------------------------------------------------------ data on a device


class Series:
    """Looks like cuDF's."""

    def __init__(self, values: Any, name: str | None = None) -> None:
        self.host = pd.Series(values, name=name)
        self.name = name

    __module__ = "cudf.core.series"
    dtype = property(lambda self: self.host.dtype)
    null_count = property(lambda self: int(self.host.isna().sum()))

    def __len__(self) -> int:
        return len(self.host)

    def astype(self, dtype: str) -> Series:
        return Series(self.host.astype(dtype), self.name)

    def to_cupy(self) -> Any:
        return xp.asarray(self.host.to_numpy())

    def to_pandas(self) -> Any:
        return self.host


class Frame:
    """Looks like cuDF's."""

    __module__ = "cudf.core.dataframe"

    def __init__(self, frame: pd.DataFrame) -> None:
        self.host = frame
        self.columns = list(frame.columns)

    def __len__(self) -> int:
        return len(self.host)

    def __getitem__(self, name: str) -> Series:
        return Series(self.host[name], name)

    def to_pandas(self) -> pd.DataFrame:
        return self.host


def test_arrays_of_the_device_stay_there(db: gd.Database, fetched: list[int]) -> None:
    edges = xp.asarray(np.array([*EDGES, EDGES[0]]))
    COUNTER.reset()
    db["E"] = edges
    edges[:] = 0  # what was loaded is ours
    assert len(db["E"]) == len(EDGES)
    db["F"] = {"a": edges[:2, 0].astype(xp.int32), "b": xp.arange(2) / 2}
    assert fetched == []
    assert db["F"].columns == ("a", "b") and db["F"].dtypes == ("int", "float")
    assert set(db.query(TRIANGLES).fetchall()) == triangles()
    assert COUNTER.uploads == 0
    assert set(db["F"].fetchall()) == {(0, 0.0), (0, 0.5)}


def test_what_is_inserted_comes_to_the_device(db: gd.Database, fetched: list[int]) -> None:
    db["E"] = xp.asarray(np.array(EDGES))
    db.insert("E", [(7, 8), EDGES[0]])
    assert len(db["E"]) == len(EDGES) + 1 and fetched == []
    path = db.query("path(x,z) <- E(x,z) ; path(x,y), E(y,z). ?- path(7, z).")
    assert path.fetchall() == [(8,)]
    db.run("E(8, 9).")
    assert set(db.query("?- E(x, y), x > 6.").fetchall()) == {(7, 8), (8, 9)}


def test_frames_of_the_device_stay_there(db: gd.Database, fetched: list[int]) -> None:
    frame = TYPED.drop(columns="s").assign(t=TYPED["t"].dt.tz_localize(None), n=[1, 2, 3])
    frame["n"] = frame["n"].astype("uint8")
    db["R"] = Frame(frame)
    found = db["R"]
    assert found.dtypes == ("int", "float", "bool", "timestamp", "int")
    assert not found._relation.store.on_host and fetched == []
    assert set(found.fetchall()) == set(frame.itertuples(index=False, name=None))
    db["S"] = Series([2.5, -0.0], "x")
    assert db["S"].columns == ("x",) and set(db["S"].fetchall()) == {(2.5,), (0.0,)}


def test_texts_and_times_with_a_zone_go_by_the_host(db: gd.Database) -> None:
    db["R"] = Frame(TYPED)
    assert db["R"].dtypes == ("int", "float", "bool", "timestamp", "symbol")
    assert set(db["R"].fetchall()) == set(TYPED.itertuples(index=False, name=None))
    assert set(db.query('q(i) <- R(i, _, _, _, s), s < "g".').fetchall()) == {(-(1 << 40),), (7,)}


@pytest.mark.parametrize(
    ("column", "told"),
    [
        (xp.asarray(np.array([1.0, np.nan])), "row 1"),
        (xp.asarray(np.array([1, 1 << 63], dtype=np.uint64)), "row 1"),
        (xp.asarray(np.array([1j])), "complex"),
        (Series(np.array(["0001-01-01"], dtype="datetime64[s]")), "1678"),
        (xp.zeros((2, 2, 2)), "dimensions"),
    ],
    ids=["nan", "large", "complex", "far", "cube"],
)
def test_errors_are_those_of_the_host(db: gd.Database, column: Any, told: str) -> None:
    with pytest.raises(gd.DataError, match=told) as there:
        db["R"] = {"x": column}
    with gd.connect(device="cpu") as other, pytest.raises(gd.DataError) as here:
        other["R"] = {"x": column}
    assert str(there.value) == str(here.value)


def test_deleted_rows_leave_the_device(db: gd.Database) -> None:
    db["E"] = EDGES
    assert set(db.query(TRIANGLES).fetchall()) == triangles()
    gone = [(a, b) for a, b in EDGES if a < 2]
    assert db.delete("E", gone).rows == len(gone)
    assert set(db.query(TRIANGLES).fetchall()) == {row for row in triangles() if row[0] > 1}


@pytest.mark.parametrize("values", [[1.5, None, -2.0], np.array(["2020", "NaT"], "datetime64[s]")])
def test_nulls_are_kept_as_on_the_host(db: gd.Database, values: Any) -> None:
    db["R"] = {"x": Series(values)}
    with gd.connect(device="cpu") as other:
        other["R"] = {"x": pd.Series(values)}
        for text in ("q(x) <- R(x).", "q(count(), max(x)) <- R(x).", "q(1) <- R(x), x = null."):
            found, wanted = db.query(text), other.query(text)
            assert set(found.fetchall()) == set(wanted.fetchall())
