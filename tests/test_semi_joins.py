"""Relations without indexes are narrowed by a join's constants: never changing its answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gdatalog as gd
from gdatalog.storage import relation, row_store
from gdatalog.storage.selection import rows_among, rows_with
from tests.cases import cases, share
from tests.corners import CORNERS, Example
from tests.draw import Drawn, relational_programs
from tests.examples import EXAMPLES
from tests.oracle_values import canonical
from tests.test_engine_oracle import agrees, run
from tests.tuned import tune

pytestmark = pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")

PLAIN = [example for example in CORNERS + EXAMPLES if not example.fails]


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """However few rows there are, and however few are left out."""
    tune(monkeypatch, narrowed_from=0, narrowed_share=1.0)
    monkeypatch.setattr(relation, "SORTED_BELOW", 0)
    monkeypatch.setattr(row_store, "SORTED_BELOW", 0)
    yield


def shop(rows: int = 2000) -> dict[str, Any]:
    random = np.random.default_rng(1)
    orders = rows // 4
    return {
        "item": pd.DataFrame({
            "order": random.integers(0, orders, rows),
            "part": random.integers(0, 50, rows),
            "line": np.arange(rows),
        }),
        "orders": pd.DataFrame({
            "order": random.permutation(orders),
            "customer": random.integers(0, 100, orders),
        }),
        "customer": pd.DataFrame({
            "customer": np.arange(100),
            "nation": np.arange(100) % 25,
            "name": [f"c{at % 7}" for at in range(100)],
        }),
    }  # fmt: skip


def counted(frames: dict[str, Any], nation: int, part: int | None) -> int:
    whole = frames["item"].merge(frames["orders"]).merge(frames["customer"])
    whole = whole[whole.nation == nation]
    return len(whole if part is None else whole[whole.part == part])


@pytest.fixture
def db(always: None) -> gd.Database:
    found = gd.connect()
    for name, frame in shop().items():
        found[name] = frame
    return found


def indexes(db: gd.Database, name: str) -> int:
    return len(db.workspace.stored[name]._tries)


@pytest.mark.parametrize("strategy", ["levelwise", "lftj"])
def test_the_first_query_indexes_what_it_needs(db: gd.Database, strategy: Any) -> None:
    frames = shop()
    text = "n(count()) <- item(o, $p, _), orders(o, c), customer(c, $n, _)."
    for turn, (nation, part) in enumerate(((3, 7), (3, 7), (4, 9), (5, 1000), (1000, 5))):
        found = db.query(text, {"n": nation, "p": part}, strategy=strategy).fetchall()
        assert found == [(counted(frames, nation, part),)]
        assert (indexes(db, "item") > 0) == (turn > 0)
        assert (indexes(db, "orders") > 0) == (turn > 0)


def test_other_constants_of_a_first_query(db: gd.Database) -> None:
    frames = shop()
    text = "q(o, l) <- item(o, _, l), orders(o, c), customer(c, _, {name}), c < 50."
    found = db.query(text.format(name='"c3"')).fetchall()
    whole = frames["item"].merge(frames["orders"]).merge(frames["customer"])
    whole = whole[(whole.name == "c3") & (whole.customer < 50)]
    assert sorted(found) == sorted(zip(whole.order, whole.line, strict=True))
    assert db.query(text.format(name='"nobody"')).fetchall() == []


def test_comparisons_narrow_as_constants_do(db: gd.Database) -> None:
    frames = shop()
    whole = frames["item"].merge(frames["orders"])
    for text, params, kept in (
        ("l > 1900", {}, whole.line > 1900),
        ("1900 < l, l <= $most", {"most": 1950}, (whole.line > 1900) & (whole.line <= 1950)),
        ("l != 7, $most > c", {"most": 3}, (whole.line != 7) & (whole.customer < 3)),
        ("l > 5000", {}, whole.line > 5000),
    ):
        text = f"q(o, l, c) <- item(o, _, l), orders(o, c), {text}."
        found = db.query(text, params).fetchall()
        some = whole[kept]
        assert sorted(found) == sorted(zip(some.order, some.line, some.customer, strict=True))
    fresh = gd.connect()
    for name, frame in frames.items():
        fresh[name] = frame
    fresh.query("q(o, l, c) <- item(o, _, l), orders(o, c), l > 1900.")
    assert indexes(fresh, "item") == 0
    texts = 'q(c, l) <- item(o, _, l), orders(o, c), customer(c, _, s), s > "c5", l < 9.'
    named = whole.merge(frames["customer"])
    few = named[(named.name > "c5") & (named.line < 9)]
    assert sorted(db.query(texts).fetchall()) == sorted(zip(few.customer, few.line, strict=True))


def test_what_is_not_needed_by_every_binding_narrows_nothing(db: gd.Database) -> None:
    frames = shop()
    free = frames["customer"].nation != 3
    found = db.query("q(c) <- customer(c, _, _), !customer(c, 3, _).").fetchall()
    assert sorted(found) == [(c,) for c in frames["customer"].customer[free]]
    text = "q(c, n) <- customer(c, _, _), n = count : { orders(_, c), customer(c, 3, _) }."
    counts = frames["orders"].customer.value_counts()
    expected = [(c, 0 if c % 25 != 3 else int(counts.get(c, 0))) for c in range(100)]
    assert sorted(db.query(text).fetchall()) == expected
    text = "q(c) <- customer(c, n, _), (n = 3 ; orders(7, c))."
    seventh = frames["orders"].set_index("order").customer[7]
    assert sorted(db.query(text).fetchall()) == sorted({(3,), (28,), (53,), (78,), (seventh,)})


def test_rows_that_come_twice_are_counted_once(always: None) -> None:
    for text, expected in (
        ("n(count()) <- R(1, x, _).", 3),
        ("n(count()) <- R(1, x, _), S(x).", 2),
        ("n(x, count()) <- R(1, x, _), S(x).", 2),
    ):
        db = gd.connect()
        db["R"] = [(1, 2, 3), (1, 2, 3), (1, 2, 4), (1, 5, 4), (2, 2, 3)] * 3
        db["S"] = [(2,), (2,), (7,)]
        assert db.query(text).fetchall()[0][-1] == expected


@pytest.mark.slow
@pytest.mark.drawn
@share(20)
@given(relational_programs())
def test_programs(always: None, drawn: Drawn) -> None:
    agrees(drawn)


@pytest.mark.slow
@pytest.mark.parametrize("example", PLAIN, ids=str)
def test_example(always: None, example: Example) -> None:
    found = run(example.program, example.data, set(example.expected), None)
    assert {name: canonical(rows) for name, rows in found.items()} == {
        name: canonical(rows) for name, rows in example.expected.items()
    }


# ------------------------------------------------------------------------------------- passes

EXTREMES = [-(2**63), 2**63 - 1, -(2**31), 2**31 - 1, 2**40]
VALUES = st.integers(-5, 5) | st.sampled_from(EXTREMES)


@settings(max_examples=cases(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(VALUES, max_size=30), st.sets(VALUES, max_size=10), st.booleans())
def test_rows_among_values(found: list[int], values: set[int], narrow: bool) -> None:
    if narrow:
        found = [max(-(2**31), min(2**31 - 1, value)) for value in found]
    column = np.array(found, dtype=np.int32 if narrow else np.int64)
    among = np.array(sorted(values), dtype=np.int64)
    expected = [at for at, value in enumerate(found) if value in values]
    assert rows_among(column, among).tolist() == expected
    for value in sorted(values)[:3]:
        expected = [at for at, other in enumerate(found) if other == value]
        assert rows_with(column, value).tolist() == expected
