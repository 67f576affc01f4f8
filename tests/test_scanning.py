"""Rules of one atom scan their relation: against the oracle, and what a plan and a profile say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given

import gdatalog as gd
from gdatalog.engine import scans
from gdatalog.errors import EvaluationError
from gdatalog.executors import gather
from gdatalog.parser import parse
from tests import test_engine_oracle as oracle
from tests.cases import share
from tests.corners import CORNERS, Example
from tests.draw import Drawn, aggregate_programs, programs, relational_programs, string_programs
from tests.examples import EXAMPLES
from tests.oracle import evaluate
from tests.oracle_values import canonical

pytestmark = pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")


def run(text: str, data: oracle.Data, defined: set[str], number: int) -> oracle.Relations:
    """The answers of scans; the number chooses threads, the rows of chunks and parts, and from how
    many rows on groups have a table."""
    with gd.connect(device="cpu", threads=1 + number % 2) as db:
        db.workspace.force(scans="always")
        db.workspace.chunk_rows = (1, 3, 100)[number % 3]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(scans, "PART", (1, 2, 7, 1 << 20)[number % 4])
            patch.setattr(gather, "FOLDED", (1 << 60, 1)[number % 2])
            return oracle.answers(db, text, data, defined)


@pytest.mark.drawn
@share(12)
@given(programs())
def test_programs(drawn: Drawn) -> None:
    oracle.agrees_in(run, drawn)


@pytest.mark.drawn
@share(10)
@given(relational_programs())
def test_relational_programs(drawn: Drawn) -> None:
    oracle.agrees_in(run, drawn)


@pytest.mark.drawn
@share(15)
@given(aggregate_programs())
def test_aggregate_programs(drawn: Drawn) -> None:
    oracle.agrees_in(run, drawn)


@pytest.mark.drawn
@share(8)
@given(string_programs())
def test_string_programs(drawn: Drawn) -> None:
    oracle.agrees_in(run, drawn)


@pytest.mark.parametrize("example", CORNERS + EXAMPLES, ids=str)
def test_example(example: Example) -> None:
    for number in (0, 5):
        if example.fails:
            with pytest.raises(EvaluationError):
                run(example.program, example.data, oracle._heads(example), number)
            continue
        found = run(example.program, example.data, set(example.expected), number)
        assert {name: canonical(rows) for name, rows in found.items()} == {
            name: canonical(rows) for name, rows in example.expected.items()
        }


# ------------------------------------------------------------------------------- larger tables


ROWS = 50_000


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    random = np.random.default_rng(3)
    return pd.DataFrame({
        "k": random.permutation(ROWS),
        "j": random.integers(-20, 20, ROWS),
        "v": random.normal(size=ROWS).round(3),
        "s": random.choice(["oak", "elm", "ash", "yew"], ROWS),
    })  # fmt: skip


@pytest.fixture
def db(table: pd.DataFrame) -> gd.Database:
    found = gd.connect(threads=2)
    found["f"] = table
    return found


def indexes(db: gd.Database) -> int:
    return len(db.workspace.stored["f"]._tries)


def rows(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.drop_duplicates().to_numpy().tolist()))


@pytest.mark.parametrize("part", [1000, 7001, 1 << 20])
def test_filters_projections_and_groups(
    db: gd.Database, table: pd.DataFrame, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scans, "PART", part)
    few = table[(table.v > 2.5) & (table.j != 3)]
    assert sorted(db.query("?- f(k, j, v, s), v > 2.5, j != 3.").fetchall()) == rows(few)
    assert sorted(db.query("p(j, s) <- f(_, j, v, s), v < 0.0.").fetchall()) == rows(
        table[table.v < 0][["j", "s"]]
    )
    assert sorted(db.query("p(k + 1) <- f(k, 7, _, _).").fetchall()) == [
        (k + 1,) for k in sorted(table.k[table.j == 7])
    ]
    asked = "g(s, sum(k), count(), min(v), max(s), count_distinct(j)) <- f(k, j, v, s), j > 0."
    some = table[table.j > 0].groupby("s")
    assert sorted(db.query(asked).fetchall()) == [
        (s, int(g.k.sum()), len(g), g.v.min(), s, g.j.nunique()) for s, g in some
    ]
    assert db.query("n(sum(v)) <- f(_, _, v, _).").fetchall() == [(pytest.approx(table.v.sum()),)]
    assert indexes(db) == 0


@pytest.mark.parametrize("text", ["n(count()) <- f(_, _, _, _).", "n(1) <- f(_, _, _, _)."])
def test_a_body_that_binds_nothing_asks_how_many_rows_there_are(db: gd.Database, text: str) -> None:
    assert "only if f has rows" in str(db.explain(text))
    assert db.query(text).fetchall() == [(ROWS if "count" in text else 1,)]
    assert "for each row of f" in str(db.explain("n(count()) <- f(_, 3, _, _)."))


def test_threads_add_floats_in_one_order(
    table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scans, "PART", 3000)
    found = set()
    for threads in (1, 2, 5):
        with gd.connect(threads=threads) as db:
            db["f"] = table
            found.add(tuple(sorted(db.query("g(j, sum(v)) <- f(_, j, v, _).").fetchall())))
    assert len(found) == 1


def test_a_few_rows_stop_the_scan(db: gd.Database, table: pd.DataFrame) -> None:
    looked: list[int] = []
    whole = scans.Scan._frontier

    def frontier(self: scans.Scan, rows: range) -> Any:
        looked.append(len(rows))
        return whole(self, rows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scans.Scan, "_frontier", frontier)
        found = db.query("?- f(k, j, v, s), v > 0.0.", limit=5).fetchall()
    assert len(found) == 5 and set(found) <= set(map(tuple, table.to_numpy().tolist()))
    assert sum(looked) <= scans.FIRST


def test_rows_that_come_twice_are_counted_once() -> None:
    db = gd.connect()
    frame = pd.DataFrame({"a": np.arange(20_000) % 100, "b": np.arange(20_000) % 300})
    db["f"] = frame
    assert db.query("n(count(), sum(b)) <- f(_, b).").fetchall() == [
        (300, int(np.arange(300).sum()))
    ]
    assert len(db.query("?- f(a, b), b > 1.")) == 298


def test_sums_that_leave_64_bits_and_computations_that_fail() -> None:
    db = gd.connect()
    large = (1 << 62) + np.arange(20_000)
    db["f"] = pd.DataFrame({"a": np.arange(20_000), "b": large})
    with pytest.raises(EvaluationError, match=f"the sum {int(sum(map(int, large)))} does not fit"):
        db.query("n(sum(b)) <- f(_, b).")
    assert db.query("n(sum(c)) <- f(a, b), c = b - 4611686018427387904.").fetchall() == [
        (sum(range(20_000)),)
    ]
    with pytest.raises(EvaluationError, match="division by zero"):
        db.query("p(b / a) <- f(a, b).")
    assert len(db.query("p(a, b / a) <- f(a, b), a != 0.")) == 19_999
    with pytest.raises(EvaluationError, match="division by zero"):
        db.query("p(b / a) <- f(a, b).", limit=1)


def test_an_index_that_is_there_is_used(db: gd.Database, table: pd.DataFrame) -> None:
    text = "?- f(k, $j, v, s)."
    assert "scan" in str(db.explain(text, {"j": 3}))
    expected = len(table[table.j == 3])
    for _ in range(db.workspace.settings.thresholds.index_scans + 1):
        assert len(db.query(text, {"j": 3})) == expected
    assert indexes(db) == 1
    assert "scan" not in str(db.explain(text, {"j": 3}))
    assert len(db.query(text, {"j": 3})) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "index"),
    [("g(j, count()) <- f(_, j, _, _).", True), ("g(k) <- f(k, _, _, _).", False)],
)
def test_groups_that_are_asked_for_again_and_again_get_an_index(
    db: gd.Database, table: pd.DataFrame, text: str, index: bool
) -> None:
    """If they are far fewer than the rows, which stay the same."""
    table = table.copy()

    def groups() -> list[tuple[int, ...]]:
        counts = table.j.value_counts() if index else table.k.drop_duplicates()
        return sorted(counts.items()) if index else sorted((k,) for k in counts.tolist())

    for _ in range(db.workspace.settings.thresholds.index_scans + 1):
        assert sorted(db.query(text).fetchall()) == groups()
    assert ("scan" not in str(db.explain(text))) == index and indexes(db) == index
    db.run('f(-1, 7, 0.5, "new").')
    table.loc[len(table)] = {"k": -1, "j": 7, "v": 0.5, "s": "new"}
    assert "scan" in str(db.explain(text))
    assert sorted(db.query(text).fetchall()) == groups()


def test_what_explain_and_profile_tell(db: gd.Database, table: pd.DataFrame) -> None:
    text = "q(k) <- f(k, _, v, _), v > 1.0."
    plan = str(db.explain(text))
    assert "scan: about 50,000 rows to look at" in plan
    assert "for each row of f, of which it reads k, v" in plan
    told = str(db.profile(text))
    assert "50,000" in told and f"{int((table.v > 1).sum()):,}" in told


@pytest.mark.parametrize("strategy", ["lftj", "levelwise"])
def test_a_forced_strategy_reads_indexes(db: gd.Database, strategy: Any) -> None:
    assert len(db.query("p(j) <- f(_, j, _, _).", strategy=strategy)) == 40
    assert indexes(db) > 0


def test_a_memory_limit_holds(table: pd.DataFrame) -> None:
    db = gd.connect(memory_limit="64MiB", temp_directory="", threads=2)
    db["f"] = pd.DataFrame({"k": np.arange(3_000_000, dtype=np.int32)})
    with pytest.raises(gd.MemoryLimitError, match="answers"):
        db.query("p(k, k * 3, k * 5, k * 7) <- f(k).")
    assert db.query("n(sum(k * 3)) <- f(k).").fetchall() == [(3 * sum(range(3_000_000)),)]


def test_what_a_thread_has_no_memory_for_is_scanned_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scans, "PART", 1 << 16)
    keys, values = np.arange(1 << 18) * 7 % (1 << 17), np.arange(1 << 18)
    with gd.connect(device="cpu", memory_limit="18MiB", threads=2) as db:
        db["f"] = pd.DataFrame({"k": keys, "v": values})
        found = db.query("g(k, count(), sum(v)) <- f(k, v). n(count(), sum(s)) <- g(_, _, s).")
        assert found.fetchall() == [(1 << 17, sum(range(1 << 18)))]


JOINED = [
    "p(a, b, c, d, e, k, v) <- wide(a, b, c, d, e), few(b, k, v).",
    "p(a, b, c, d, e, v) <- wide(a, b, c, d, e), few(b, _, v), other(v, e).",
    "p(a, b, c, d, e) <- wide(a, b, c, d, e), few(b, _, _), !other(a, _).",
    "p(a, b, c, d, e, w) <- wide(a, b, c, d, e), few(b, k, k), other(c, w).",
    "p(a, b, c, d, e, k, v) <- wide(a, b, c, d, e), optional few(b, k, v).",
]


@pytest.mark.parametrize("text", JOINED)
def test_rows_that_are_copied_are_looked_up_in_other_relations(text: str) -> None:
    """The relation whose rows the head has whole gets no index; its nulls join with nothing."""
    rng = np.random.default_rng(len(text))

    def drawn(count: int, *most: int) -> list[tuple[int, ...]]:
        made = zip(*(rng.integers(0, up, count).tolist() for up in most), strict=True)
        return list(dict.fromkeys(made))

    wide: list[Any] = drawn(120, 9, 7, 5, 3, 200)
    if "optional" in text:
        wide = [(a, None if b == 3 else b, c, d, e) for a, b, c, d, e in wide]
    data = {"wide": wide, "few": drawn(20, 7, 4, 4), "other": drawn(20, 6, 90)}
    kinds = {name: ("int",) * len(rows[0]) for name, rows in data.items()}
    wanted = evaluate(parse(text), data, kinds)["p"]
    assert wanted
    for number in range(4):
        with gd.connect(device="cpu", threads=1 + number % 2) as db:
            db.workspace.force(scans="always")
            db.workspace.chunk_rows = (2, 100)[number // 2]
            for name, rows in data.items():
                db.load(name, rows)
            assert "for each row of wide" in str(db.explain(text))
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(scans, "PART", 50)
                found = db.query(text)
            assert set(found.fetchall()) == wanted and len(found) == len(wanted)


def test_joins_of_narrow_rows_or_of_ranges_read_indexes(db: gd.Database) -> None:
    db.load("wide", [tuple(range(at, at + 5)) for at in range(300)])
    db["few"] = [(1, 2), (2, 3)]
    db.workspace.force(scans="always")
    for text in (
        "p(a, b, c, d, v) <- wide(a, b, c, d, _), few(b, v).",
        "p(a, b, c, d, e, v) <- wide(a, b, c, d, e), few(b, v), c < 7.",
        "p(a, v, w) <- few(a, v), few(v, w).",
        "n(count()) <- wide(a, b, c, d, e), few(b, v).",
    ):
        assert "for each row" not in str(db.explain(text)), text
