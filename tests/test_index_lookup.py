"""Look-ups by one index: their rows are those of a filter, whatever the keys, cuts and columns."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

import gdatalog as gd
from gdatalog.engine.rules import index_lookup
from gdatalog.engine.rules.index_lookup import IndexLookup

Row = tuple[int, int, int]
Params = dict[str, Any]
# A query, and which rows of T it keeps (with the values of its parameters), as which columns.
CASES: list[tuple[str, Any]] = [
    ("?- T($k, y, z).", lambda a, b, c, k, m: a == k and (b, c)),
    ("?- T($k, y, $m).", lambda a, b, c, k, m: a == k and c == m and (b,)),
    ("?- T($k, y, _), y < $m.", lambda a, b, c, k, m: a == k and b < m and (b,)),
    ("?- T($k, y, _), y <= $m.", lambda a, b, c, k, m: a == k and b <= m and (b,)),
    ("?- T($k, y, z), y > $m.", lambda a, b, c, k, m: a == k and b > m and (b, c)),
    ("?- T($k, y, z), y >= $m.", lambda a, b, c, k, m: a == k and b >= m and (b, c)),
    ("?- T($k, y, z), y > $m, y < $k.", lambda a, b, c, k, m: a == k and m < b < k and (b, c)),
    ("q(z, $m, y) <- T($k, y, z).", lambda a, b, c, k, m: a == k and (c, m, b)),
    ("?- T($k, $m, z).", lambda a, b, c, k, m: a == k and b == m and (c,)),
    ("?- T($k, $m, $k).", lambda a, b, c, k, m: a == k and b == m and c == k and ()),
]


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of rows of the look-ups."""
    seen: list[int] = []
    rows = IndexLookup.rows

    def watched(*args: Any) -> Any:
        made = rows(*args)
        seen.append(-1 if made is None else made[1])
        return made

    monkeypatch.setattr(IndexLookup, "rows", watched)
    return seen


@pytest.mark.parametrize("scale", [1, 100_000, 10**12])
@pytest.mark.parametrize("few", [False, True])
def test_rows_are_those_of_a_filter(
    scale: int, few: bool, found: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    if few:  # as if two rows were too many for it
        monkeypatch.setattr(index_lookup, "MOST_FOUND", 1)
    random = Random(scale)
    rows: set[Row] = {
        (random.randrange(5) * scale, random.randrange(5) * scale, random.randrange(5) * scale)
        for _ in range(60)
    }
    with gd.connect(device="cpu") as db:
        db["T"] = list(rows)
        for text, keeps in CASES:
            for k in (0, scale, 4 * scale, 5 * scale, -1, 2**40 + 1):
                for m in (0, 2 * scale, 7, -(2**45)):
                    params = {"k": k, "m": m} if "$m" in text else {"k": k}
                    kept = [keeps(*row, k, m) for row in rows]
                    expected = sorted({row for row in kept if row is not False})
                    result = db.query(text, params)
                    assert sorted(result.fetchall()) == expected, (text, params)
                    some = db.query(text, params, limit=2).fetchall()
                    assert set(some) <= set(expected)
                    assert len(some) == min(len(expected), 2)
    assert len(found) > 100 and (-1 in found) is few


def test_texts_and_floats(found: list[int]) -> None:
    with gd.connect(device="cpu") as db:
        db["S"] = [(f"t{x}", x / 2, x % 3) for x in range(9)]
        for _ in range(3):
            assert db.query("?- S($t, x, y).", {"t": "t4"}).fetchall() == [(2.0, 1)]
            assert not db.query("?- S($t, x, y).", {"t": "unknown"})
            assert db.query("?- S(t, $x, y).", {"x": 1}).fetchall() == [("t2", 2)]
            assert len(db.query("?- S(t, x, $y), x > $x.", {"x": 1.5, "y": 0})) == 1
    assert len(found) > 6


def test_an_answer_does_not_hold_the_index() -> None:
    with gd.connect(device="cpu") as db:
        db["E"] = [(x % 3, x) for x in range(300)]
        for _ in range(3):
            result = db.query("?- E($x, y).", {"x": 1})
        (column,) = result._relation.keys
        assert column.base is None and len(column) == 100


# A rule, and the groups of the rows of T that it counts (with a parameter).
COUNTED: list[tuple[str, Any]] = [
    ("g(a, count()) <- T(a, _, _).", lambda a, b, c, k: (a,)),
    ("g(count(), 7, b) <- T(_, b, _).", lambda a, b, c, k: (7, b)),
    ("g(b, count()) <- T($k, b, _).", lambda a, b, c, k: a == k and (b,)),
    ("g(b, a, count()) <- T(a, b, _).", lambda a, b, c, k: (b, a)),
    ("g(b, count(), count()) <- T(_, b, _), b > $k.", lambda a, b, c, k: b > k and (b,)),
]


@pytest.mark.parametrize(("text", "group"), COUNTED)
def test_counts_of_groups_are_those_of_an_index(text: str, group: Any, found: list[int]) -> None:
    random = Random(1)
    rows = [*{tuple(random.randrange(6) for _ in range(3)) for _ in range(90)}]
    with gd.connect(device="cpu") as db:
        db["T"] = rows
        for k in (2, 3, 99, 2):
            for new in ([], [(2, 9, 9), (2, 9, 8), (7, 0, 0)]):  # rows of groups in two parts
                db.insert("T", new)
                rows += new
                groups = [group(*row, k) for row in {*rows}]
                counted = Counter(each for each in groups if each is not False)
                expected = sorted(sorted((*each, n)) for each, n in counted.items())
                if text.count("count()") == 2:
                    expected = sorted(sorted((*each, n, n)) for each, n in counted.items())
                for _ in range(3):
                    answer = db.query(text, {"k": k} if "$k" in text else {}).fetchall()
                    assert sorted(map(sorted, answer)) == expected
    assert len(found) >= 8
