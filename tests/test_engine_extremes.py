"""Extremes: ints at the ends of 64 bits, counts and sums that do not fit, what is remembered."""

from __future__ import annotations

from pathlib import Path

import pytest

import gdatalog as gd

MIN, MAX = -(2**63), 2**63 - 1


def test_a_relation_beside_a_file_is_the_latest(tmp_path: Path) -> None:
    """Each insert makes another relation, which may lie where an old one lay."""
    file = tmp_path / "r.csv"
    file.write_text("a\n1\n")
    db = gd.connect()
    db.run(f'.decl R(a: int)\n.input R("{file}")')
    for number in range(10, 40):
        db.insert("R", [(number,)])
        assert db["R"].sorted().fetchall() == [(1,), *((n,) for n in range(10, number + 1))]
    read = db.workspace.cache  # nothing of what it was before is held
    assert len(read.files) == len(read.unions) == 1


def test_only_the_last_state_of_a_file_is_held(tmp_path: Path) -> None:
    file = tmp_path / "r.csv"
    db = gd.connect()
    for number in range(5):
        file.write_text("a\n" + f"{number}\n" * (number + 1))
        assert db.query(f'.input R("{file}")\n?- R(x).').fetchall() == [(number,)]
    assert len(db.workspace.cache.files) == 1


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ((MIN, MAX, 2**62), [MIN, -(2**62), 0, 2**62]),
        ((MAX, MIN, MIN), [-1, MAX]),
        ((MIN, MAX, MAX), [MIN, -1, MAX - 1]),
        ((MAX, MIN, 1), []),
        ((5, 5, -1), []),
    ],
)
def test_ranges_over_all_ints(bounds: tuple[int, int, int], expected: list[int]) -> None:
    result = gd.query("p(x) <- x = range({}, {}, {}).".format(*bounds))
    assert result.sorted().fetchall() == [(value,) for value in expected]


def test_many_endless_ranges_with_a_limit() -> None:
    data = {"E": [(number,) for number in range(10_000)]}
    with gd.connect() as db:
        db.load("E", data["E"])
        assert len(db.query("p(x, i) <- E(x), i = range(0, 1000000000000000000).", limit=5)) == 5


def test_marked_rows_of_32_and_of_64_bits() -> None:
    with gd.connect() as db:
        db.workspace.tune(marked_from=1)
        db.workspace.chunk_rows = 1
        db["A"], db["B"] = [(2**31 - 2,), (2**31 - 1,)], [(2**31,), (2**31 + 5,)]
        rows = db.query("p(x) <- A(x) ; B(x).").sorted().fetchall()
    assert rows == [(2**31 - 2,), (2**31 - 1,), (2**31,), (2**31 + 5,)]


def test_a_view_is_made_anew_for_an_equal_parameter_of_another_type() -> None:
    with gd.connect() as db:
        db["E"] = [(1, "1"), (2, "1.0"), (3, "true")]
        for value, row in ((1, 1), (1.0, 2), (True, 3)):
            db.run("v(y) <- E(y, s), s = to_string($p).", {"p": value})
            assert db["v"].fetchall() == [(row,)]


def test_facts_are_named_by_a_later_declaration() -> None:
    with gd.connect() as db:
        db.run("a(1).", name="facts")
        assert db["a"].columns == ("c0",)
        db.run(".decl a(number: int)", name="declaration")
        assert db["a"].columns == ("number",)


LISTS = [(b, i) for b in range(10) for i in range(100)]
NINE = ", ".join(f"R(b, _x{number})" for number in range(9))  # 10^18 bindings for each b


@pytest.mark.parametrize("chunk", [None, 1])
def test_counts_that_fit_each_by_itself(chunk: int | None) -> None:
    with gd.connect() as db:
        db.workspace.chunk_rows = chunk
        db["R"], db["A"] = LISTS, [(1,), (2,)]
        counts = db.query(f"n(b, count()) <- {NINE}.").sorted().fetchall()
        assert counts == [(b, 10**18) for b in range(10)]
        for text in (f"n(count()) <- {NINE}.", f"n(count()) <- A(_), {NINE}."):
            with pytest.raises(gd.EvaluationError, match="a count does not fit"):
                db.query(text)


def test_large_counts_of_different_rows_do_not_meet() -> None:
    data = {
        "R": [(2, 0), *((1, i) for i in range(100))],
        "S": [(1, 0), *((2, i) for i in range(100))],
    }
    atoms = [*(f"R(a, _r{number})" for number in range(9)), "S(a, _s)"]
    counts = gd.query(f"n(a, count()) <- {', '.join(atoms)}.", data).sorted()
    assert counts.fetchall() == [(1, 10**18), (2, 100)]


def test_a_sum_that_wraps_twice_is_an_error_too() -> None:
    """16 times 2^62, each 2^30 times: 2^96, of which nothing is left in 96 bits."""
    many = [(number,) for number in range(1 << 15)]
    data = {"A": [(2**62 + number,) for number in range(16)], "B": many, "C": many}
    with pytest.raises(gd.EvaluationError, match="does not fit into 64 bits"):
        gd.query("n(sum(x)) <- A(x), B(_), C(_).", data)
    assert gd.query("n(mean(x)) <- A(x), B(_), C(_).", data).fetchall() == [(float(2**62 + 8),)]


def test_views_that_are_replaced_are_not_held() -> None:
    with gd.connect() as db:
        db["E"] = [(1, 2)]
        for number in range(5):
            db.run(f"v{number}(x) <- E(x, _).", name="view")
            assert len(db[f"v{number}"]) == 1
        assert list(db.workspace.results) == [("v4",)]
