"""What nulls and `optional` mean, by the oracle: answers worked out by hand."""

from __future__ import annotations

import pytest

from gdatalog.parser import parse
from tests.oracle import evaluate, ordered_answers

FACTS = """
person(1, "ann"). person(2, "bob"). person(3, null).
likes(1, 2). likes(1, 3). likes(2, null).
kind(2, "x"). kind(2, "y").
"""
ANSWERS = {
    # a null joins with nothing, and no comparison with one holds
    "p(a, n) <- likes(a, b), person(b, n).": {(1, "bob"), (1, None)},
    "p(a) <- likes(a, b), b < 9.": {(1,)},
    "p(a) <- likes(a, b), b != 2.": {(1,)},
    "p(a) <- likes(a, b), !(b != 2).": {(1,), (2,)},
    "p(a) <- likes(a, b), b = null.": {(2,)},
    "p(a) <- likes(a, null).": {(2,)},
    "p(a) <- likes(a, b), b != null.": {(1,)},
    "p(a) <- likes(a, b), !b = null.": {(1,)},
    "p(a) <- person(a, _), !likes(a, null).": {(1,), (3,)},
    "p(a) <- likes(a, b), !person(b, _).": {(2,)},
    "p(a) <- likes(a, b), b in {2, 3}.": {(1,)},
    "p(a) <- likes(a, b), !b in {2, 3}.": {(2,)},
    "p(a) <- likes(a, b), !distinct(a, b).": {(2,)},
    # so an expression of an atom has a value where one of its variables is solved for
    "p(a, c) <- likes(a, b), person(b - c, _).": {(1, 1), (1, 0), (1, -1), (1, 2)},
    "p(a, c) <- likes(a, c + 1).": {(1, 1), (1, 2), (2, None)},
    "p(n) <- n = count : { likes(a, c + 1) ; likes(a, c) }.": {(4,)},
    # functions, but one, of a null are null
    "p(a, c) <- likes(a, b), c = b + 1.": {(1, 3), (1, 4), (2, None)},
    "p(a, coalesce(b, 0)) <- likes(a, b).": {(1, 2), (1, 3), (2, 0)},
    "p(x) <- likes(_, b), x + 1 = b.": {(1,), (2,), (None,)},
    'p(a) <- person(a, n), !contains("n", n).': {(2,), (3,)},
    # aggregates skip nulls; groups compare them as equal
    "p(b, count()) <- likes(_, b).": {(2, 1), (3, 1), (None, 1)},
    "p(a, count(), sum(b), min(b)) <- likes(a, b).": {(1, 2, 5, 2), (2, 1, 0, None)},
    "p(count_distinct(b), mean(b)) <- likes(_, b).": {(2, 2.5)},
    "p(a, m) <- person(a, _), m = max b : { likes(a, b) }.": {(1, 3), (2, None)},
    # optional: the matches, else nulls
    "p(a, b) <- person(a, _), optional likes(a, b).": {(1, 2), (1, 3), (2, None), (3, None)},
    "p(a, count()) <- person(a, _), optional likes(a, _).": {(1, 2), (2, 1), (3, 1)},
    "p(a, count()) <- person(a, _), optional { likes(a, b), kind(b, _) }.":
        {(1, 2), (2, 1), (3, 1)},
    "p(a, k) <- person(a, _), optional { likes(a, b), optional kind(b, k) }.":
        {(1, "x"), (1, "y"), (1, None), (2, None), (3, None)},
    "p(a) <- person(a, _), optional likes(a, b), b = null.": {(2,), (3,)},
    "p(a) <- person(a, _), optional likes(a, b), !kind(b, _).": {(1,), (2,), (3,)},
    "p(a, b) <- person(a, _), b = 3, optional likes(a, b).": {(1, 3), (2, 3), (3, 3)},
    "p(a, b) <- person(a, _), optional { likes(a, b), b > 2 }.": {(1, 3), (2, None), (3, None)},
    "p(n) <- n = count : { person(a, _), optional likes(a, _) }.": {(4,)},
    "p(a, n) <- person(a, _), optional likes(a, b), n = count : { kind(b, _) }.":
        {(1, 2), (1, 0), (2, 0), (3, 0)},
    "p(a, k) <- person(a, _), n = count : { likes(a, _) }, optional { kind(n, k) }.":
        {(1, "x"), (1, "y"), (2, None), (3, None)},
}  # fmt: skip


@pytest.mark.parametrize("rule", ANSWERS)
def test_oracle(rule: str) -> None:
    assert evaluate(parse(FACTS + rule), {}, {})["p"] == ANSWERS[rule]


@pytest.mark.parametrize(
    ("order", "expected"),
    [("b", [(1, 2), (1, 3), (2, None)]), ("b desc", [(1, 3), (1, 2), (2, None)])],
)
def test_nulls_are_last(order: str, expected: list[tuple[int | None, ...]]) -> None:
    (answer,) = ordered_answers(parse(f"{FACTS}?- likes(a, b) order by {order}."), {}, {})
    assert answer == (("a", "b"), expected)


def test_named_heads_leave_nullable_columns_out() -> None:
    text = ".decl p(a: int, b: int?)\np(a = a) <- person(a, _)."
    assert evaluate(parse(FACTS + text), {}, {})["p"] == {(1, None), (2, None), (3, None)}
