"""Heads with functions that depend on the order of rows."""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gdatalog as gd
from gdatalog.cpu_ops import ordered_groups
from gdatalog.parser import format_node, parse
from tests.oracle import evaluate
from tests.oracle_values import canonical

pytestmark = pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")

HEADS = [
    "r(g, x, row_number(order by x desc))",
    "r(g, x, n, row_number(partition by g order by n desc, x) - 1)",
    "r(x, n % 3, n = x + rank(partition by 1 order by n % 3))",
    "r(g, x, n, a = dense_rank(partition by g order by n), b = rank(order by s, n), s = s)",
    "r(x, n, n - lag(n partition by 1 order by x), lead(s order by x), s)",
    "r(x, n, lag(n, 0 order by x), lead(n, x order by x, n), running_sum(n order by x desc))",
    "r(g, total = sum(n), best = rank(order by total desc, g))",
    "r(s, count(), row_number(order by count(), s) + count())",
    "r(f, running_sum(f order by x), x, g)",
    "r(g, top(2, x by n desc))",
    "r(g, 7, top(3, s by n, x desc), sum(n) + 1)",
    "r(top($k, x by s))",
    "r(g, arg_max(x, n), arg_min(s, n + x), count())",
    'r(g, string_agg(s, ", " order by n desc))',
    'r(n % 2, string_agg(cat(s, "!"), $text), max(x) - n % 2)',
    "r(g, median(n), quantile(f, 0.25), count())",
    "r(g, mode(s), 2 * stddev(f))",
    "r(x, var(n), corr(n, f))",
    "r(g, m = median(f), k = row_number(partition by 1 order by m))",
    "r(n % 2, mode(x))",
    "r(arg_max(f, x), row_number(partition by 1 order by count()))",
]
PARAMS = {"k": 3, "text": "/"}


def rows_of(seed: int, count: int = 30) -> list[tuple[int, int, int, str, float]]:
    rng = random.Random(seed)
    texts = ("b", "a", "é", "c c")
    return [
        (rng.randrange(3), rng.randrange(5), rng.randrange(-3, 9), rng.choice(texts),
         rng.randrange(9) / 4)
        for _ in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize("head", HEADS)
def test_the_oracle_agrees(head: str, body: str = "e(g, x, n, s, f), d(x, _)") -> None:
    text = f"{head} <- {body}."
    program = parse(text)
    assert parse(format_node(program)) == program
    kinds = {"e": ("int", "int", "int", "symbol", "float"), "d": ("int", "int")}
    rows, others = rows_of(len(head)), [(0, 1), (0, 2), (1, 1), (3, 5), (4, 0)]
    used = {name: PARAMS[name] for name in PARAMS if f"${name}" in text}
    wanted = evaluate(program, {"e": rows, "d": others}, kinds, used)["r"]
    db = gd.connect()
    db.load("e", list(dict.fromkeys(rows)))
    db["d"] = others
    found = db.query(text, used)
    assert canonical(found.fetchall()) == canonical(wanted) and len(found) == len(wanted)
    assert wanted or "top(0" in head or re.search("corr|var|stddev", head)


@pytest.mark.parametrize(
    "head",
    [
        "r(g, median(f), stddev(f), count())",
        "r(corr(n, f), quantile(n, 0.3))",
        "r(g, top(2, n by f desc, x), mode(n))",
        "r(g, top(1, n % 2 by f))",
        'r(g, string_agg(s, "," order by f))',
    ],
)
@pytest.mark.parametrize("body", ["e(g, x, n, s, f)", "e(g, x, n, s, f), d(_, _)"])
def test_rows_of_an_atom_are_read_as_they_are(head: str, body: str) -> None:
    """A row counts once, whatever columns of it are read."""
    for atom in (body, body.replace("x", "_") if " x" not in head else body):
        test_the_oracle_agrees(head, atom)
    db = gd.connect()
    db["e"], db["d"] = rows_of(3), [(0, 1)]
    text = str(db.explain(f"{head} <- {body}."))
    assert ("over e\n" in text) == ("d(" not in body and "%" not in head)


def drawn_head(rng: random.Random) -> str:
    """A head over the variables of e, with one or two functions."""
    terms = rng.sample(["g", "x", "n", "s", "f", "n % 2", "x + n", "7"], rng.randint(1, 4))
    known = [term for term in terms if term.isalpha()]
    keys = [", ".join(f"{key}{rng.choice(('', ' desc', ' asc'))}" for key in some)
            for some in (rng.sample(known or ["1"], rng.randint(1, max(1, len(known))))
                         for _ in range(2))]  # fmt: skip
    parts = [f"partition by {rng.choice(terms)} " if rng.random() < 0.4 else "" for _ in keys]
    made = []
    for key, part in zip(keys, parts, strict=True):
        value = rng.choice([term for term in known if term != "s"] or ["1"])
        made += [
            rng.choice((
                f"row_number({part}order by {key})",
                f"{rng.choice(('rank', 'dense_rank'))}({part}order by {key})",
                f"{rng.choice(('lag', 'lead'))}({value}, {value} {part}order by {key})",
                f"running_sum({value} {part}order by {key})",
            ))
            if rng.random() < 0.6
            else rng.choice((
                f"top({rng.randint(0, 3)}, {rng.choice('gxns')} by {rng.choice('gxnsf')} desc)",
                f"{rng.choice(('arg_max', 'arg_min'))}({rng.choice('gxns')}, n - x)",
                f'string_agg(s, "," order by {rng.choice("gxnf")} desc)',
                f"{rng.choice(('median', 'stddev', 'var'))}({rng.choice(['x', 'f', 'x + n'])})",
                f"mode({rng.choice('gxnsf')})",
                "quantile(n, 0.9)",
                "corr(x, f)",
                "count() + 1",
            ))
        ]  # fmt: skip
    args = [*terms, *made[: rng.randint(1, 2)]]
    rng.shuffle(args)
    return f"r({', '.join(args)})"


@pytest.mark.parametrize("seed", range(40))
def test_drawn_heads(seed: int) -> None:
    rng = random.Random(seed)
    test_the_oracle_agrees(drawn_head(rng))


@pytest.mark.parametrize("seed", range(12))
def test_rows_that_cannot_be_first_are_not_sorted(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sample of rows bounds groups from above: of those with few rows or few items all stay."""
    monkeypatch.setattr(ordered_groups, "FILTERED_FROM", 1)
    sorted_rows: list[int] = []
    plain = ordered_groups._top_of_groups

    def counted(group: Any, item: Any, *rest: Any) -> Any:
        sorted_rows.append(len(item))
        return plain(group, item, *rest)

    monkeypatch.setattr(ordered_groups, "_top_of_groups", counted)
    rng, most = np.random.default_rng(seed), 1 + seed % 3
    length = 3000
    group = np.minimum(rng.integers(0, 20, length), rng.integers(0, 20, length))
    item = rng.integers(0, 40 if seed % 2 else length, length)
    keys = [rng.integers(-9, 9 if seed % 4 > 1 else 9999, length).astype(np.int32), -item]
    found = ordered_groups.top([group], item, item, keys, most)
    assert len(sorted_rows) == 2 and sum(sorted_rows) < length
    wanted = set()
    for number in range(20):
        places = np.flatnonzero(group == number).tolist()
        places.sort(key=lambda at: (keys[0][at], keys[1][at], item[at]))
        wanted |= {(number, int(x)) for x in list(dict.fromkeys(item[places]))[:most]}
    assert {(int(group[at]), int(item[at])) for at in found} == wanted
    assert len(found) == len(wanted)


def test_views_follow_their_data() -> None:
    db = gd.connect()
    db["e"] = {"g": ["a", "a", "b"], "x": [1, 2, 3], "n": [5, 7, 1]}
    db.run("r(g, x, n, place = row_number(partition by g order by n desc)) <- e(g, x, n).")
    db.run("best(g, who = top(1, x by n desc)) <- e(g, x, n).")
    db.run("both(x) <- best(who = x), r(x = x, place = 1).")
    assert db["r"].columns == ("g", "x", "n", "place")
    assert db["r"].sorted().fetchall() == [("a", 1, 5, 2), ("a", 2, 7, 1), ("b", 3, 1, 1)]
    assert db["both"].sorted().fetchall() == [(2,), (3,)]
    db.insert("e", [("a", 9, 9), ("c", 4, 4)])
    assert db["both"].sorted().fetchall() == [(3,), (4,), (9,)]
    assert list(db.relations) == ["best", "both", "e", "r"]
    for _ in range(3):
        assert db.query('?- best("a", x).').fetchall() == [(9,)]
        assert db.query("?- r(x = 9, place = n).").fetchall() == [(1,)]


def test_prepared_numbers() -> None:
    db = gd.connect()
    db["e"] = [(1, 5), (2, 7), (3, 6)]
    q = db.prepare("r(top($k, x by n desc)) <- e(x, n), n < $most. ?- r(x) order by x.")
    assert dict(q.params) == {"k": "int", "most": "int"}
    for k, most, rows in [(1, 9, [(2,)]), (2, 9, [(2,), (3,)]), (2, 7, [(1,), (3,)]), (0, 9, [])]:
        assert q(k=k, most=most).fetchall() == rows
    with pytest.raises(gd.UsageError, match="a number of rows cannot be negative: -1"):
        q(k=-1, most=9)


def test_explain_shows_where_rows_are_put_in_order() -> None:
    db = gd.connect()
    db["e"] = [(1, 5), (2, 7), (3, 6)]
    text = str(db.explain("r(x, n, row_number(partition by 1 order by n)) <- e(x, n)."))
    assert "in order: row_number(partition by term~2 order by n) over r~rows" in text


def test_a_top_of_many_rows_is_that_of_a_sort() -> None:
    rng = np.random.default_rng(3)
    item, score = rng.integers(0, 5000, 30_000), rng.integers(0, 1000, 30_000)
    db = gd.connect()
    db.load("e", {"id": np.arange(30_000), "x": item, "n": score})
    rows = sorted({(-n, x) for x, n in zip(item.tolist(), score.tolist(), strict=True)})
    wanted = list(dict.fromkeys(x for _, x in rows))[:500]
    found = db.query("r(top(500, x by n desc)) <- e(_, x, n).").fetchall()
    assert sorted(found) == sorted((x,) for x in wanted)


def test_sums_that_leave_64_bits() -> None:
    big = 2**63 - 1
    text = f"e({big}). e(-{big}). e(-5). r(x, running_sum(x order by x desc)) <- e(x)."
    assert gd.query(text).sorted().fetchall() == [(-big, -5), (-5, big - 5), (big, big)]
    with pytest.raises(gd.Error, match="a running sum does not fit into 64 bits"):
        gd.query("e(6). " + text)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_sums_without_a_value() -> None:
    inf = float("inf")
    text = "r(g, x, n, running_sum(x partition by g order by n)) <- e(g, x, n)."
    data = [(1, inf, 1), (1, 2.5, 2), (2, -inf, 1), (2, 1e308, 2)]
    found = gd.query(text, {"e": data}).sorted(["g", "n"])["running_sum"]
    assert found.tolist() == [inf, inf, -inf, -inf]
    for head in ("r(g, x, n, running_sum(x partition by 1 order by g, n))", "r(sum(x))"):
        with pytest.raises(gd.EvaluationError, match="sum of inf and -inf is not a number"):
            gd.query(f"{head} <- e(g, x, n).", {"e": data})


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("r(x, row_number()) <- e(x, n).", "`row_number` is written in another way"),
        ("r(x, top(n, x by n)) <- e(x, n).", "as in `top(3, x by score desc)`"),
        ("r(x, arg_max(x)) <- e(x, n).", "as in `arg_max(x, score)`"),
        ("r(x, row_number(order by n)) <- e(x, n).", "1:26: name error: `n` is not a term"),
        ("r(x, n) <- e(x, m), n = rank(order by m).", "`rank` is for heads"),
        ("r(x, arg_max(n, rank(order by x))) <- e(x, n).", "`arg_max` cannot hold `rank`"),
        ("r(x, abs(n order by x)) <- e(x, n).", "`abs` takes no order"),
        ('r(x, string_agg(n, ",")) <- e(x, n).', "`string_agg` takes symbol, but `n` is int"),
        ('r(x, n, running_sum(n order by x)) <- f(x, n).', "`running_sum` takes int or float"),
        ('r(n, lag(n, "" order by n)) <- e(_, n).', "`lag` takes two of one type"),
        ("r(x, rank(order by x)) <- e(x, _). r(1, 2).", "another fact beside the one"),
        ("r(x, top(1, n by n)) <- e(x, n). r(x, n) <- e(n, x).", "another rule beside the one"),
        ("r(x, rank(order by x)) <- e(x, _) ; e(_, x).", "cannot have `;`"),
        ("r(x, rank(order by x)) <- r(x, _), e(x, _).", "under the aggregate rank"),
        ("r(x, var(n)) <- e(x, n) ; e(n, x).", "a rule that aggregates by var cannot have `;`"),
        ("r(x, rank(order by x)) <- q(x).", "there is no relation `q`"),
        ("r(x, quantile(n, n)) <- e(x, n).", "as in `quantile(x, 0.9)`"),
        ("r(x, median(n)) <- f(x, n).", "`median` takes int or float, but `n` is symbol"),
        ("r(x, corr(x)) <- e(x, n).", "as in `corr(x, y)`"),
        ("r(x, m) <- e(x, n), m = median(n).", "in the head of a rule it is written `median(x)`"),
        ("r(x, percentile(n, 0.9)) <- e(x, n).", "did you mean `quantile`?"),
    ],
)  # fmt: skip
def test_what_is_wrong(rule: str, message: str) -> None:
    db = gd.connect()
    db["e"] = [(1, 2)]
    db["f"] = [(1, "a")]
    with pytest.raises(gd.Error) as caught:
        db.query(rule)
    assert message in str(caught.value)


def test_statistics_of_odd_groups() -> None:
    inf = float("inf")
    data = [(1, inf, 1), (1, inf, 2), (2, 0.1, 1), (2, 0.1, 2), (2, 0.1, 3), (3, 5.0, 1)]
    with gd.connect() as db:
        db["e"] = data
        for head, rows in [
            ("r(g, median(x))", [(1, inf), (2, 0.1), (3, 5.0)]),
            ("r(g, stddev(x))", [(2, 0.0), (3, None)]),  # not of one row
            ("r(g, corr(x, n))", [(2, None), (3, None)]),  # not of equal values
        ]:
            kept = ", g > 1" * ("median" not in head)
            assert db.query(f"{head} <- e(g, x, n){kept}.").sorted().fetchall() == rows
        with pytest.raises(gd.EvaluationError, match="a statistic of inf is not a number"):
            db.query("r(var(x)) <- e(g, x, _), g < 3.")
        with pytest.raises(gd.UsageError, match="a quantile is from 0 to 1"):
            db.query("r(quantile(x, 2)) <- e(_, x, _).")
        assert db.query("r(median(x), mode(x)) <- e(9, x, _).").fetchall() == []


def test_statistics_skip_nulls() -> None:
    frame = pd.DataFrame(
        {
            "g": [1, 1, 1, 2, 2, 3],
            "x": pd.array([1, None, 3, None, 5, None], dtype="Int64"),
            "y": [1.5, np.nan, 2.5, np.nan, 4.0, 1.0],
            "s": ["a", None, "b", "c", None, None],
        }
    )
    head = "r(g, median(x), quantile(y, 0.25), var(x), corr(x, y), mode(s), count())"
    with gd.connect() as db:
        db["e"] = frame
        found = db.query(f"{head} <- e(g, x, y, s).").df(sort=True).round(9)
        told = found.astype(object).where(found.notna(), None).to_numpy().tolist()
        assert told == [
            [1, 2.0, 1.75, 2.0, 1.0, "a", 3],
            [2, 5.0, 4.0, None, None, "c", 2],
            [3, None, 1.0, None, None, None, 1],
        ]
        found = db.query("r(g, median(y), stddev(x)) <- e(g, x, y, _), e(_, _, _, _).").df(
            sort=True
        )
        assert found["median"].tolist() == [2.0, 4.0, 1.0]  # each as often as the other


@pytest.mark.parametrize("row_id", [None, True])
def test_matches_of_columns_that_are_not_named(row_id: bool | None) -> None:
    frame = pd.DataFrame({"i": [1, 2, 3, 4], "g": [1, 1, 1, 2], "x": [3.0, 3.0, 9.0, 4.0]})
    frame = frame.drop(columns="i") if row_id else frame
    by_place = "e(g, x)" if row_id else "e(_, g, x)"
    with gd.connect() as db:
        db.load("e", frame, row_id=row_id)
        for body in (by_place, "e(g=g, x=x)", f"{by_place}, optional e(g=9)"):
            texts = 'string_agg(to_string(x), "+")'
            assert db.query(f"r(g, median(x), {texts}) <- {body}.").sorted().fetchall() == [
                (1, 3.0, "3.0+3.0+9.0"),
                (2, 4.0, "4.0"),
            ]
            found = db.query(f"r(median(x), count()) <- {body}, !e(g=_, x=100.0).").fetchall()
            assert found == [(3.5, 4)]
        assert db.query("r(median(x), count()) <- e(g=_, x=x), x < 5.0.").fetchall() == [(3.0, 3)]


def test_columns_are_named_as_their_terms_are_written() -> None:
    head = 'r(date_trunc("month", t), case(x < 2, 1, 3), round(y, 1), format("{}", x))'
    text = f"e(@2026-01-02T03:04:05, 1, 2.5). {head} <- e(t, x, y)."
    names = ('date_trunc("month", t)', "case(x < 2, 1, 3)", "round(y, 1)", 'format("{}", x)')
    assert gd.query(text).columns == names


def test_conditions_of_nulls() -> None:
    with gd.connect() as db:
        db["e"] = pd.DataFrame({"k": [1, 2, 3], "x": pd.array([1, None, 5], dtype="Int64")})
        for expr, wanted in [
            ("if(x > 2, 1, 0)", [0, 0, 1]),
            ("if(!(x > 2), 1, 0)", [1, 1, 0]),
            ("if(x = null, 9, x)", [1, 9, 5]),
            ("if((x != null, x < 3 ; k = 2), x, 0)", [1, None, 0]),
            ('case(x = null, "none", x > 2, "big", "small")', ["small", "none", "big"]),
            ("if(x > 2, 10 / (x - 1), k)", [1, 2, 2]),
        ]:
            for strategy in ("levelwise", "lftj"):
                found = db.query(f"r(k, {expr}) <- e(k, x).", strategy=strategy)
                assert [row[1] for row in found.sorted().fetchall()] == wanted, (expr, strategy)


def test_medians_of_times() -> None:
    times = pd.to_datetime(["2026-01-01", "2026-01-03", "2026-01-04"]).tz_localize("Europe/Berlin")
    with gd.connect() as db:
        db["e"] = pd.DataFrame({"x": [1, 1, 2], "t": times})
        found = db.query("r(x, median(t)) <- e(x, t).").df(sort=True)
        assert found["median"].tolist() == [times[0] + pd.Timedelta("1D"), times[2]]
        gaps = db.query("r(median(u - t), quantile(u - t, 0.25)) <- e(_, t), e(_, u).")
        assert gaps.fetchall() == [(pd.Timedelta(0), pd.Timedelta("-1D"))]


def test_cycles_are_shown_as_they_are_written() -> None:
    text = "r(x, rank(order by x)) <- q(x).\nq(x) <- r(x, _) ; e(x, _). e(1, 2)."
    with pytest.raises(gd.Error) as caught:
        gd.query(text)
    assert "`r` and `q` depend on each other through the aggregate rank" in str(caught.value)
    assert "~" not in str(caught.value)


def test_times_keep_their_zones() -> None:
    times = pd.to_datetime(["2026-01-01", "2026-01-03"]).tz_localize("Europe/Berlin")
    db = gd.connect()
    db["e"] = pd.DataFrame({"x": [1, 2], "t": times})
    text = 'r(top(1, t by x desc), lag = string_agg(to_string(x), "")) <- e(x, t).'
    assert db.query(text).df()["top"].tolist() == [times[1]]
    lagged = db.query("r(x, t, lag(t, t partition by 1 order by t)) <- e(x, t).").df(sort=True)
    assert lagged["lag"].tolist() == [times[0], times[0]]
    assert str(lagged["lag"].dtype) == "datetime64[ns, Europe/Berlin]"
