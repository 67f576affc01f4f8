"""Arithmetic, comparisons and aggregates of decimals, against Python's own with all digits."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal, localcontext
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gdatalog as gd
from gdatalog.decimals import scale_of
from tests.cases import cases

pytestmark = pytest.mark.filterwarnings("ignore")

D = Decimal
MOST = 10**18
EXACT = Context(prec=200, rounding=ROUND_HALF_UP)
EDGES = (0, 1, -1, 5, 10, MOST - 1, 1 - MOST, MOST // 10, MOST // 10 - 1, 10**9, -(10**9))
KEYS = st.sampled_from(EDGES) | st.integers(1 - MOST, MOST - 1) | st.integers(-300, 300)
INTS = st.sampled_from((0, 1, -1, -(2**63), 2**63 - 1)) | st.integers(-(10**4), 10**4)
FUNCTIONS: dict[str, Any] = {
    "x + y": lambda x, y, n: x + y,
    "x - y": lambda x, y, n: x - y,
    "x * y": lambda x, y, n: x * y,
    "x + n": lambda x, y, n: x + n,
    "n * x": lambda x, y, n: n * x,
    "x * 1.5 - 2": lambda x, y, n: x * D("1.5") - 2,
    "-x": lambda x, y, n: -x,
    "abs(x)": lambda x, y, n: abs(x),
    "max(x, -x)": lambda x, y, n: max(x, -x),
    "floor(x)": lambda x, y, n: x.to_integral_value("ROUND_FLOOR"),
    "ceil(x)": lambda x, y, n: x.to_integral_value("ROUND_CEILING"),
    "to_decimal(x, 1)": lambda x, y, n: x.quantize(D("0.1")),
    "to_decimal(x, 7)": lambda x, y, n: x.quantize(D("0.0000001")),
    "to_decimal(n, 3)": lambda x, y, n: n,
    "to_decimal(to_string(x), 1)": lambda x, y, n: x.quantize(D("0.1")),
    "to_int(x)": lambda x, y, n: int(x),
    "to_string(x)": lambda x, y, n: f"{x:f}",
    "x / y": lambda x, y, n: float(x) / float(y) if y else None,
    "x % y": lambda x, y, n: x % y if y else None,
}
TESTS: dict[str, Any] = {
    "x < y": lambda x, y, n: x < y,
    "x <= y": lambda x, y, n: x <= y,
    "x = y": lambda x, y, n: x == y,
    "x != y": lambda x, y, n: x != y,
    "!(x = y)": lambda x, y, n: x != y,
    "y > x": lambda x, y, n: y > x,
    "x >= n": lambda x, y, n: x >= n,
    "n > y": lambda x, y, n: n > y,
    "n = y": lambda x, y, n: n == y,
    "x < 0.0005 <= y": lambda x, y, n: x < D("0.0005") <= y,
    "x = y < n": lambda x, y, n: x == y < n,
}


@settings(max_examples=cases(40, 6), deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), KEYS, KEYS, INTS, st.data())
def test_functions(one: int, other: int, a: int, b: int, n: int, data: Any) -> None:
    with localcontext(EXACT), gd.connect(device="cpu") as db:
        x, y = D(a).scaleb(-one), D(b).scaleb(-other)
        db.run(f".decl e(x: decimal(18, {one}), y: decimal(18, {other}), n: int)")
        db["e"] = [(x, y, n)]
        text = data.draw(st.sampled_from([*FUNCTIONS]))
        wanted = FUNCTIONS[text](x, y, n)
        for strategy in ("levelwise", "lftj"):
            query = f"r(z) <- e(x, y, n), z = {text}."
            try:
                ((found,),) = db.query(query, strategy=strategy).fetchall()
            except gd.EvaluationError as error:
                assert error.span is not None and error.hint
                if wanted is not None:  # something has too many digits
                    kind = db.query(query.replace("<-", "<- x < x,")).dtypes[0]
                    parts = [abs(part) for part in (x, y, D(n), x * D("1.5"), wanted)]
                    assert max(parts).scaleb(scale_of(kind)) >= MOST
                continue
            if isinstance(wanted, float):
                assert found == pytest.approx(wanted, rel=1e-15)
            else:
                assert found == wanted and type(found) in (type(wanted), Decimal)


@settings(max_examples=cases(40, 6), deadline=None)
@given(st.integers(1, 18), st.integers(1, 18), KEYS, KEYS, INTS, st.booleans(), st.data())
def test_comparisons(one: int, other: int, a: int, b: int, n: int, equal: bool, data: Any) -> None:
    with localcontext(EXACT), gd.connect(device="cpu") as db:
        x, y = D(a).scaleb(-one), D(b).scaleb(-other)
        if equal and abs(x) * 10**other < MOST and x == round(x, other):
            y = x
        db.run(f".decl e(x: decimal(18, {one}), y: decimal(18, {other}), n: int)")
        db["e"] = [(x, y, n)]
        for strategy in ("levelwise", "lftj"):
            for text in data.draw(st.lists(st.sampled_from([*TESTS]), min_size=3, max_size=3)):
                of = TESTS[text]
                answer = db.query(f"r() <- e(x, y, n), {text}.", strategy=strategy)
                assert bool(answer) == of(x, y, n), (text, x, y, n)


@settings(max_examples=cases(20, 6), deadline=None)
@given(st.integers(1, 18), st.lists(st.tuples(st.integers(0, 2), KEYS), min_size=1, unique=True))
def test_aggregates(scale: int, rows: list[tuple[int, int]]) -> None:
    with localcontext(EXACT), gd.connect(device="cpu") as db:
        values = [(group, D(key).scaleb(-scale)) for group, key in rows]
        db.run(f".decl e(g: int, x: decimal(18, {scale}))")
        db["e"] = values
        groups = {g: [x for other, x in values if other == g] for g, _ in values}
        query = "r(g, min(x), max(x), mean(x), count()) <- e(g, x)."
        found = {row[0]: row[1:] for row in db.query(query).fetchall()}
        for group, own in groups.items():
            least, greatest, mean, count = found[group]
            assert (least, greatest, count) == (min(own), max(own), len(own))
            assert mean == pytest.approx(float(sum(own) / len(own)), rel=1e-14)
        sums = {g: sum(own, D(0)) for g, own in groups.items()}
        if all(abs(total.scaleb(scale)) < MOST for total in sums.values()):
            assert dict(db.query("r(g, sum(x)) <- e(g, x).").fetchall()) == sums
        else:
            with pytest.raises(gd.EvaluationError, match="has more than 18 digits"):
                db.query("r(g, sum(x)) <- e(g, x).").fetchall()


def test_places_of_errors() -> None:
    with gd.connect(device="cpu") as db:
        db.run(".decl p(k: int, x: decimal(18, 2)) p(1, 9999999999999999.99).")
        db.run(".decl q(y: decimal(18, 12)) q(1.5). .decl f(z: float) f(1.5).")
        for text, at, message in [
            ("r(x + 0.01) <- p(_, x).", 3, "than 18 digits: x + 0.01 with x = 9999999999999999.99"),
            ("r(to_decimal(z, 17)) <- f(y), z = y * 10.0.", 3, "not a decimal of 18 digits"),
            ("r(z) <- p(_, x), q(y), z = x * y * y.", 28, "gives 26 digits after the point"),
            ("r(z) <- p(_, x), f(y), z = x + y.", 32, "to_decimal(..., 2)"),
            ("r(sqrt(x)) <- p(_, x).", 8, "`to_float(...)` makes a float of a decimal"),
            ("r(x) <- p(_, x), q(x).", 20, "decimal(18,12)"),
            (".decl s(t: decimal(18, 2)) s(x * x) <- p(_, x). ?- s(t).", 30, "to_decimal(..., 2)"),
            ("r(to_decimal(x, k)) <- p(k, x).", 17, "a number from 0 to 18"),
        ]:
            with pytest.raises(gd.Error) as caught:
                db.query(text).fetchall()
            assert message in str(caught.value)
            assert caught.value.span is not None and caught.value.span.column == at, text
        # a rule's type is known however late its operands' are
        db.run(".decl s(k: int, t: decimal(9, 4)) s(k, x * 0.01) <- p(k, x), x < 5.")
        assert db.query("r(z) <- z = u + t, s(_, t), u = t.").dtypes == ("decimal(18,4)",)
