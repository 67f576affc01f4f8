"""Names of columns: after the heads of rules, and as heads name them."""

from __future__ import annotations

import pytest

import gdatalog as gd
from gdatalog.parser import format_node, parse
from tests.oracle import answers

DATA = 'e(1, "a", 5). e(1, "b", 6). e(2, "a", 7).\n'


@pytest.mark.parametrize(
    ("rules", "columns"),
    [
        ('p(x, cat(y, "!"), n + 1) <- e(x, y, n).', ("x", 'cat(y, "!")', "n + 1")),
        ("p(x, x, 7, n*2, n*2) <- e(x, _, n).", ("x", "x_2", "c2", "n * 2", "n * 2_2")),
        ("p(x, sum(n), 2 * sum(n), count(), count()) <- e(x, _, n).",
         ("x", "sum_n", "2 * sum(n)", "count", "count_2")),
        ("p(x, 0) <- e(x, _, _). p(a, b) <- e(a, _, b).", ("a", "b")),
        ("p(x, n + 1) <- e(x, _, n). p(x, 0) <- e(x, _, _).", ("x", "n + 1")),
        ("p(x, total = sum(n)) <- e(x, _, n).", ("x", "total")),
        ("p(who = x, most = n) <- e(x, _, n). p(most = 1, who = x) <- e(x, _, _).",
         ("who", "most")),
        ("p(x, n) <- e(x, _, n). p(n = x, x = 3) <- e(x, _, _).", ("x", "n")),
        (".decl p(a: int, b: int)\np(b = x, a = n) <- e(x, _, n).", ("a", "b")),
    ],
)  # fmt: skip
def test_names(rules: str, columns: tuple[str, ...]) -> None:
    found = gd.connect().query(DATA + rules)
    assert tuple(found.columns) == columns
    assert len(set(columns)) == len(columns)


def test_heads_match_by_name() -> None:
    rules = (
        "p(who = x, total = n) <- e(x, _, n), x > 1. p(total = n, who = x) <- e(x, _, n), x < 2."
    )
    assert gd.connect().query(DATA + rules).sorted().fetchall() == [(1, 5), (1, 6), (2, 7)]
    rules = "p(x, big = max(n)) <- e(x, _, n), n > 5. p(x, big = max(n)) <- e(x, _, n)."
    assert gd.connect().query(DATA + rules).sorted().fetchall() == [(1, 6), (2, 7)]
    db = gd.connect()
    db.run(DATA + "p(x, total = n) <- e(x, _, n).")
    db.run("p(total = 9, x = 0) <- e(_, _, 7).")
    assert db["p"].sorted().fetchall() == [(0, 9), (1, 5), (1, 6), (2, 7)]
    assert tuple(db.relations.schema("p").columns) == ("x", "total")


def test_a_named_head_is_printed_as_it_was() -> None:
    text = 'p(x, total = sum(n), "a b" = max(n)) <- e(x, _, n), f("not" = n, in = 3).'
    assert format_node(parse(text)).strip() == text
    assert (
        format_node(parse('.decl t("a b": int, c: float)'))
        .strip()
        .endswith('("a b": int, c: float)')
    )


def test_atoms_name_columns() -> None:
    db = gd.connect()
    db["ord"] = {"id": [1, 2, 3], "Order ID": [7, 8, 8], "amount": [5, 6, 9]}
    db.run('big(account = i, total = sum(a)) <- ord(amount = a, "Order ID" = i).')
    assert db["big"].columns == ("account", "total")
    asked = {
        "?- big(total = t, account = 8).": [(15,)],
        "?- ord(x, amount = 5).": [(1,)],
        "ord(id = 2).": [()],
        "?- ord(id = x), !big(total = x, account = _).": [(1,), (2,), (3,)],
        '?- n = count : { ord("Order ID" = 8) }, m = max a : ord(amount = a).': [(2, 9)],
        'p("a b" = x, "not" = n + 1) <- big(x, n), n < 9. q(x) <- p("not" = x).': [(6,)],
        "p(x, sum(n)) <- big(x, n), x = 8. ?- p(sum_n = y).": [(15,)],
    }
    for text, rows in asked.items():
        assert db.query(text).sorted().fetchall() == rows, text
    assert db.query('p("a b" = x, "not" = 1) <- ord(x, _, _).').columns == ("a b", "not")
    with pytest.raises(gd.Error, match="did you mean `amount`"):
        db.query("?- ord(ammount = a).")
    with pytest.raises(gd.Error, match="a fact names no columns"):
        db.run("p(a = 1).")


def test_the_oracle_agrees_on_names() -> None:
    text = """
        .decl e(src: int, w: int, dst: int)
        e(1, 5, 2). e(2, 6, 3). e(1, 7, 3).
        p(to = y, from = x) <- e(dst = y, src = x).
        q(n = count(), x = x) <- p(from = x), !p(to = x), e(x, dst = z), z in {2, 3}.
        ?- p(from = x), q(x = x, n = m)."""
    program = parse(text)
    ((columns, rows),) = answers(program, {}, {})
    found = gd.connect().query(text)
    assert found.columns == columns == ("x", "m")
    assert set(found.fetchall()) == rows == {(1, 4)}


@pytest.mark.parametrize(
    ("rules", "message", "hint"),
    [
        ("p(who = x, n = n) <- e(x, _, n). p(whoo = x, n = n) <- e(x, _, n).",
         "2:36: name error: `p` has no column `whoo`", "did you mean `who`?"),
        ("p(who = x) <- e(x, _, _). p(c = x) <- e(x, _, _).",
         "2:29: name error: `p` has no column `c`", "its columns are `who`"),
        ("p(who = x, who = 3) <- e(x, _, _).",
         "2:12: name error: the column `who` of `p` is given twice", ""),
        ("p(x, x = 3) <- e(x, _, _).", "2:6: name error: the column `x` of `p` is given twice", ""),
        ("p(a = x, b = n) <- e(x, _, n). p(a = x) <- e(x, _, _).",
         "2:32: name error: this head leaves out `b` of `p`", "each head of a relation gives all"),
        ("p(a = x, 3) <- e(x, _, _).",
         "2:10: syntax error: an argument without a name follows one with a name",
         "arguments by their place come first"),
        ("?- e(c = 1).", "2:6: name error: `e` has no column `c`", "did you mean `c2`?"),
        ("?- e(c9 = 1, c9 = 1).", "2:6: name error: `e` has no column `c9`", ""),
        ("?- e(1, c0 = 1).", "2:9: name error: the column `c0` of `e` is given twice", ""),
        ("?- contains(a = 1).", "2:13: name error: the arguments of a function have no names",
         "by their place"),
        ("p(x) <- e(x, y, _), y = cat(a = y).",
         "2:29: syntax error: the arguments of a function have no names", "in atoms and heads"),
    ],
)  # fmt: skip
def test_what_is_wrong(rules: str, message: str, hint: str) -> None:
    with pytest.raises(gd.Error) as caught:
        gd.connect().query(DATA + rules)
    assert str(caught.value).startswith(f"<query>:{message}")
    assert hint in str(caught.value)
