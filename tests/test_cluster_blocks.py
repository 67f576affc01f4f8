"""Rules over a relation whose rows lie on workers, and stay there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gdatalog as gd
from gdatalog.cluster.joins import in_place
from gdatalog.cluster.pool.calls import Call
from gdatalog.cluster.rows import parquet_files
from gdatalog.cluster.rows.shuffle import columns_of
from gdatalog.errors import EvaluationError
from gdatalog.storage.on_device import KnownRows
from gdatalog.storage.remote import RemoteRows
from tests import pool_calls
from tests.clusters import Workers

pytestmark = pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")

TEXTS = [f"t{at}" for at in range(7)]


@pytest.fixture
def db(cluster: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[gd.Database]:
    """A database that has E in two files of several blocks each, some rows of them twice."""
    monkeypatch.setattr(parquet_files, "ROWS", 70)
    rng = np.random.default_rng(3)
    for number in range(2):
        x, y, w = rng.integers(0, 12, (3, 200))
        t = [TEXTS[at % 7] for at in x + y]
        table = pa.table({"x": x, "y": y, "w": w / 2, "t": t})
        pq.write_table(table, tmp_path / f"{number}.parquet", row_group_size=50)
    with gd.connect(cluster=cluster(2), device="cpu") as opened:
        opened.workspace.force(spread="partition")
        opened["E"] = str(tmp_path)
        opened["S"] = [(at, TEXTS[at % 7]) for at in range(0, 12, 2)]
        yield opened


@pytest.fixture
def near(db: gd.Database, tmp_path: Path) -> gd.Database:
    """The same, without a cluster."""
    found = gd.connect(device="cpu")
    found["E"] = str(tmp_path)
    found["S"] = db["S"].fetchall()
    return found


def rows_of(db: gd.Database) -> RemoteRows:
    rows = db.workspace.stored["E"].remote
    assert rows is not None
    return rows


IN_PLACE = [
    "r(x, y) <- E(x, y, _, _), x < 3.",
    "r(x) <- E(x, y, _, _), x < 3, y = 7.",
    "r(x, t) <- E(x, x, _, t).",
    'r(x, y, w) <- E(x, y, w, "t3").',
    'r(x) <- E(x, _, w, t), w > 2.5, t != "t1", starts_with(t, "t").',
    "r(z, w) <- E(x, y, w, _), z = x * y + 1, z % 3 = 1.",
    "r(count()) <- E(x, y, _, _), y = 7.",
    "r(count()) <- E(x, y, _, _), x < y.",
    "r(count()) <- E(3, _, _, _).",
    "r(x, count()) <- E(x, _, _, _).",
    "r(t, count(), sum(y), mean(w), min(t), max(w)) <- E(_, y, w, t).",
    "r(count_distinct(x), max(y), min(t)) <- E(x, y, _, t), x != y.",
    "r(any_value(x)) <- E(x, 5, _, _), x = 4.",
    "r(count()) <- E(x, y, _, _), S(x, t).",
    "r(y, u, count()) <- E(x, y, _, t), S(x, u), !S(_, t).",
    "r(x) <- E(x, y, _, _), S(y, _); E(x, _, _, t), S(x, t).",
    "r(y, max(x)) <- E(x, y, _, _), S(x, _); E(y, x, _, _), x < 5.",
    "r(x, n) <- E(x, _, w, t), w < 1.0, n = count : { S(z, t), z > x }.",
    "r() <- E(3, y, _, _), S(y, _).",
    "r(x, u) <- E(x, _, _, t), u = cat(t, t), x < 4.",
    "r(i) <- E(x, 3, _, _), i = range(0, x).",
]


@pytest.mark.parametrize("text", IN_PLACE)
def test_blocks_are_worked_on_where_they_lie(db: gd.Database, near: gd.Database, text: str) -> None:
    told = db.profile(text)
    assert "each of which reads the rows of E that it has" in str(told), told
    assert "each of which reads the rows of E that it has" in str(db.explain(text))
    assert db.query(text).sorted().fetchall() == near.query(text).sorted().fetchall()
    assert rows_of(db).unfetched


def test_how_many_rows_there_are_is_asked_of_no_row(db: gd.Database, near: gd.Database) -> None:
    text = "r(count()) <- E(_, _, _, _)."
    assert db.query(text).fetchall() == near.query(text).fetchall()
    assert rows_of(db).unfetched


def test_only_the_columns_that_are_asked_for_are_read(
    db: gd.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = rows_of(db).parts[0].value
    read = columns_of({"read": part["read"], "texts": part["texts"].file.value()}, (1,))
    assert len(read) == 1
    (y,) = pq.read_table(tmp_path / "0.parquet", columns=["y"]).slice(0, len(read[0]))
    assert read[0].tolist() == y.to_pylist()
    asked: list[object] = []
    monkeypatch.setattr(
        pq.ParquetFile, "read_row_groups", lambda *_, columns: asked.append(columns)
    )
    with pytest.raises(AttributeError):
        part["read"].table((1, 3))
    assert asked == [["y", "t"]]


def test_a_block_that_is_too_much_is_cut(
    db: gd.Database, near: gd.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = in_place.BlockCells._run

    def hard(self: in_place.BlockCells, block: in_place.PartRange) -> Call:
        made = call(self, block)
        return made if block.rows < 5 else replace(made, function=pool_calls.hard)

    monkeypatch.setattr(in_place.BlockCells, "_run", hard)
    text = "r(y, count()) <- E(x, y, _, _), S(x, _)."
    assert db.query(text).sorted().fetchall() == near.query(text).sorted().fetchall()


def test_a_computation_that_fails_is_told_of(db: gd.Database) -> None:
    with pytest.raises(EvaluationError, match="division by zero"):
        db.query("r(z) <- E(x, y, _, _), y > 3, z = 1 / (x - x).")


def test_a_few_rows_of_many(db: gd.Database) -> None:
    found = db.query("r(x, y) <- E(x, y, _, _), x != y.").head(5).fetchall()
    assert len(found) == 5 and all(x != y for x, y in found)


# ------------------------------------------------------------------- data with rules of their own

SEEDED = [
    "E(x, y, 0.5, t) <- S(x, t), y = x + 1.",
    'E(20, 1, 2.0, "t0"). E(0, 0, 0.0, "t0").',
    'E(20, 1, 2.0, "t0"). E(x, y, 0.5, t) <- S(x, t), y = x + 1.',
    "E(x, z, 0.0, t) <- E(x, y, w, t), E(y, z, w, t), x < 3.",
    'E(x, z, 0.0, t) <- E(x, y, _, _), S(y, t), z = (x + y) % 13. E(99, 5, 0.0, "t1").',
]


@pytest.mark.parametrize("text", SEEDED)
def test_data_of_a_relation_that_has_rules_stay_where_they_are(
    db: gd.Database, near: gd.Database, text: str
) -> None:
    asked = text + " r(x, y, w, t) <- E(x, y, w, t), x > 1."
    assert db.query(asked).sorted().fetchall() == near.query(asked).sorted().fetchall()
    assert rows_of(db).unfetched


def test_closures_begin_with_data_that_lie_on_workers(
    db: gd.Database, near: gd.Database, tmp_path: Path
) -> None:
    pairs = np.array([(at, at + step) for at in range(0, 80) for step in (3, 5)] * 2)
    os.makedirs(tmp_path / "P")
    table = pa.table({"x": pairs[:, 0], "y": pairs[:, 1], "d": pairs[:, 0] % 4})
    pq.write_table(table, tmp_path / "P" / "0.parquet", row_group_size=50)
    for each in (db, near):
        each.load("P", str(tmp_path / "P"), columns=["x", "y"])
        each.load("D", str(tmp_path / "P"), columns=["x", "d"])
    for text in (
        "P(x, z) <- P(x, y), P(y, z). r(x, y) <- P(x, y), x < 9.",
        "P(x, z) <- P(x, y), S(y, _), z = x - 1, z > 0. r(count()) <- P(x, y).",
        "P(x, y) <- Q(x, y). Q(y, x) <- P(x, y). r(count()) <- Q(x, y).",
        "D(y, min(d)) <- D(x, e), P(x, y), d = e + 1. r(x, d) <- D(x, d).",
    ):
        assert db.query(text).sorted().fetchall() == near.query(text).sorted().fetchall(), text
        assert all(db.workspace.stored[name].remote.unfetched for name in ("P", "D")), text


@pytest.mark.parametrize(
    "text",
    [
        "r(count()) <- F(x, y), F(y, z).",
        "r(y, count(), sum(x)) <- F(x, y), F(y, z), x < z.",
        "r(count()) <- E(x, y, _, _), E(y, _, _, _).",
    ],
)
def test_rows_that_are_there_twice_count_once(
    db: gd.Database, near: gd.Database, tmp_path: Path, text: str
) -> None:
    for each in (db, near):
        each.load("F", str(tmp_path), columns=["x", "y"])
    assert db.query(text).sorted().fetchall() == near.query(text).sorted().fetchall()
    assert db.workspace.stored["F"].remote.known == KnownRows.NOTHING  # nobody compared all rows
