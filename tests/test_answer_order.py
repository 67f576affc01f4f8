"""Answers in order: `order by`, `limit` and `offset` of queries."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest

import gdatalog as gd
from gdatalog.parser import format_node, parse
from gdatalog.shell.output import Output
from gdatalog.storage import ordered
from tests.oracle import ordered_answers

FACTS = 'time("oslo", 3). time("rome", 5). time("bern", 5). time("lima", 1). time("bonn", 4).\n'
CASES = {
    "?- time(city, m) order by m desc, city.": None,
    "?- time(city, m) order by m limit 2 offset 1.": None,
    "?- time(city, m) order by m desc offset 3.": None,
    "?- time(city, m), m > 1 order by city desc limit $n.": {"n": 2},
    '?- time order by "c1" desc limit $n offset 1.': {"n": 9},
    "?- time(city, m) order by m limit 0.": None,
    "?- time(city, limit), order = limit % 3 order by order desc, limit limit 4.": None,
}


@pytest.mark.parametrize("text", CASES)
def test_the_oracle_agrees(text: str) -> None:
    params = CASES[text] or {}
    ((columns, rows),) = ordered_answers(parse(FACTS + text), {}, {}, params)
    db = gd.connect()
    db.run(FACTS)
    for _ in range(3):  # bound when it is asked again
        found = db.query(text, params)
        assert found.fetchall() == rows
        assert found.df().values.tolist() == [[*row] for row in rows]
        assert not columns or found.columns == columns
    assert [format_node(each) for each in parse(text).statements] == [text]


def test_every_form_keeps_the_order(tmp_path) -> None:
    db = gd.connect()
    db.run(FACTS)
    r = db.query("time(city, m) order by m desc, city limit 3")
    rows = [("bern", 5), ("rome", 5), ("bonn", 4)]
    assert r.limit == 3 and r.fetchall() == [*r] == r.fetchmany(9) == rows
    assert r.to_arrow().to_pylist() == [dict(zip(r.columns, row, strict=True)) for row in rows]
    assert "3 rows (limit 3)" in repr(r) and "3 rows (limit 3)" in r._repr_html_()
    assert re.findall("[a-z]{4}", repr(r))[1:4] == [city for city, _ in rows]
    r.to_csv(tmp_path / "r.csv")
    assert (tmp_path / "r.csv").read_text() == "city,m\nbern,5\nrome,5\nbonn,4\n"
    for form in ("box", "tsv", "markdown", "json"):
        stream = io.StringIO()
        Output(stream, form).answer("?1", r)
        assert re.findall("bern|rome|bonn", stream.getvalue()) == [city for city, _ in rows]
    assert db.query("?- time(c, m) order by m.", limit=2).fetchall() == [("lima", 1), ("oslo", 3)]
    few = db.query("?- time(c, m) order by m limit 2.", max_rows=2)
    assert len(few) == 2 and len(db.query("?- time(c, m) limit 2.")) == 2
    with pytest.raises(gd.RowLimitError):
        db.query("?- time(c, m) order by m limit 3.", max_rows=2)


def test_prepared_limits_are_ints() -> None:
    db = gd.connect()
    db.run(FACTS)
    q = db.prepare("?- time(c, m), m > $k order by c limit $n offset $from.")
    assert dict(q.params) == {"k": "int", "n": "int", "from": "int"}
    assert q({"k": 1, "n": 2, "from": 1}).fetchall() == [("bonn", 4), ("oslo", 3)]
    assert q({"k": 3, "n": 1, "from": 0}).fetchall() == [("bern", 5)]
    with pytest.raises(gd.UsageError, match="a number of rows cannot be negative: -1"):
        q({"k": 1, "n": -1, "from": 1})


def test_explain_says_how_rows_are_ordered() -> None:
    db = gd.connect()
    db.run(FACTS)
    ordered = "the answer is ordered by m desc, c: "
    text = "?- time(c, m) order by m desc, c"
    assert f"{ordered}all rows are sorted" in str(db.explain(f"{text} offset 1."))
    assert f"{ordered}a scan finds the first rows" in str(db.explain(f"{text} limit 10."))


def test_first_rows_are_those_of_a_sort(monkeypatch) -> None:
    monkeypatch.setattr(ordered, "STRETCH", 64)
    rng = np.random.default_rng(1)
    texts = np.array(["b", "a", "d", "c"])
    for count in (1, 5, 40, 300):
        n, m = rng.integers(0, 6, 1000), rng.integers(-300, 300, 1000)
        db = gd.connect()
        db.load(
            "t",
            {"id": range(1000), "n": n, "s": texts[rng.integers(0, 4, 1000)], "m": m, "f": m / 2},
        )
        rows = db["t"].fetchall()
        for by, key in {
            "n desc, s": lambda r: (-r[1], r[2], r[0]),
            "s, f desc": lambda r: (r[2], -r[4], r[0]),
            "m": lambda r: (r[3], r[0]),
        }.items():
            found = db.query(f"?- t order by {by} limit {count} offset 2.").fetchall()
            assert found == sorted(rows, key=key)[2 : count + 2], by


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("?- time(c, m) order by mm.", "1:24: name error: the answer has no column `mm`\n"),
        ("?- time(c, m) order by m + 1.", "`?- ..., k = m + 1 order by k`"),
        ('?- time("oslo", 3) limit 1.', "an answer that is yes or no has no order"),
        ("?- time(c, m) limit 2 order by m.", "`order by` comes first"),
        ("?- time(c, m) limit 2 limit 3.", "`limit` is given twice"),
        ("?- time(c, m) limit 2.5.", "`limit` takes a whole number"),
        ("?- time(c, m) limit m.", "as in ?- p(x) order by x limit 10."),
        ("?- time(c, m) order m.", "`by` and columns follow"),
        ("p(c) <- time(c, _) order by c.", "only answers are ordered"),
        ("?- time(c, m) limit $n.", "the parameter `$n` has no value"),
    ],
)
def test_what_is_wrong(text: str, message: str) -> None:
    db = gd.connect()
    db.run(FACTS)
    with pytest.raises(gd.Error) as caught:
        db.query(text)
    assert message in str(caught.value)
    with pytest.raises(gd.Error, match="a limit is an int"):
        db.query("?- time(c, m) limit $n.", {"n": "two"})
    with pytest.raises(gd.Error, match="only the answer of a query has an order"):
        db.run("time(c, m) order by m.")
