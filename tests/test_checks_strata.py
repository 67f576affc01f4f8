"""Strata: their order, aggregated heads, recursive min and max."""

from __future__ import annotations

import pytest

from gdatalog.parser.syntax import Const, HeadAggregate
from tests.tables import checked, said, schema, table

W = "w(1, 2, 3).\n"


@pytest.mark.parametrize(("program", "says"), table("strata"))
def test_says(program: str, says: str) -> None:
    assert said(program) == says


def strata(text: str) -> list[tuple[set[str], bool]]:
    return [(set(s.relations), s.recursive) for s in checked(text).strata]


def test_order() -> None:
    text = "top(x) <- mid(x), !low(x). low(x) <- e(x, _). mid(x) <- low(x). e(1, 2)."
    assert strata(text) == [({"low"}, False), ({"mid"}, False), ({"top"}, False)]


def test_recursion() -> None:
    text = """
        e(1, 2).
        even(0). odd(y) <- even(x), e(x, y). even(y) <- odd(x), e(x, y).
        path(x, y) <- e(x, y) ; path(x, z), e(z, y).
        none(x) <- e(x, _), !odd(x), !path(x, x).
    """
    assert strata(text) == [({"even", "odd"}, True), ({"path"}, True), ({"none"}, False)]


def test_relations_of_facts_alone_have_no_stratum() -> None:
    assert strata("e(1, 2). f(3).") == []


def test_a_long_chain_of_relations() -> None:
    text = "r0(1).\n" + "".join(f"r{at + 1}(x) <- r{at}(x).\n" for at in range(2000))
    assert len(strata(text)) == 2000


@pytest.mark.parametrize(
    "rules",
    [
        "d(1, 0). d(y, min(d + c)) <- d(x, d), w(x, y, c).",
        "d(1, 0). d(y, min(e)) <- d(x, d), w(x, y, c), e = d + c, e <= 10, d < c.",
        "d(1, 0). d(y, min(d - c)) <- d(x, d), w(x, y, c).",
        "d(1, 9). d(y, max(min(d, c))) <- d(x, d), w(x, y, c), d > 3.",
        "d(1, 0). d(y, min(2 * d + 1)) <- d(x, d), w(x, y, _).",
        "d(x, min(x)) <- w(x, _, _). d(x, min(c)) <- d(y, c), (w(x, y, _) ; w(y, x, _)).",
        "d(x, y, min(c)) <- w(x, y, c). d(x, z, min(a + b)) <- d(x, y, a), d(y, z, b).",
        "d(1, 0). d(y, min(d)) <- n(x, d), w(x, y, _). n(y, min(d + 1)) <- d(x, d), w(x, y, _).",
        "d(1, 0). d(y, min(c)) <- d(x, _), w(x, y, c).",
        "d(1, 0). d(y, min(d)) <- near(x), d(x, d), w(x, y, _). near(x) <- d(x, d), 3 > d.",
        "d(1, 0). d(y, min(0 - m)) <- m = 0 - d, d(x, d), w(x, y, _), m > -9.",
    ],
)
def test_recursive_min_and_max(rules: str) -> None:
    assert any(recursive for _, recursive in strata(W + rules))


def test_a_plain_rule_beside_a_min_takes_part_in_it() -> None:
    program = checked(W + "d(x, 0) <- w(x, _, _). d(y, min(c)) <- w(_, y, c). d(7, 1).")
    heads = [rule.head.args[1] for stratum in program.strata for rule in stratum.rules]
    assert heads[0] == HeadAggregate("min", (Const("int", 0),))
    assert len(program.facts["d"]) == 1


def test_data_beside_a_count() -> None:
    known = {"n": schema("n", x="int", c="int")}
    assert said(W + "n(x, count()) <- w(x, _, _).", known) == (
        "p.dl:2:1: not stratified: `n` has data, and a rule that aggregates by count\n"
        " 2 | n(x, count()) <- w(x, _, _).\n"
        "   | ^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  hint: define what is aggregated as a relation of its own, say `n_of(...)`, with as many "
        "rules as you need; then write one rule: `n(x, count()) <- n_of(...).`"
    )


def test_or_within_negations_and_aggregates_is_fine_below_a_count() -> None:
    text = "c(count()) <- w(x, _, _), !(x < 3 ; x > 5), 2 = count : { w(_, x, _) ; w(x, _, _) }."
    assert strata(W + text) == [({"c"}, False)]
