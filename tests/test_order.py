"""Orders of variables: the ones that are chosen are among the best, whatever the text's order."""

from __future__ import annotations

import random
import re
from itertools import islice, permutations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gdatalog as gd
from gdatalog.plan.effects import all_steps
from gdatalog.plan.join_plan import (
    Assign,
    Branch,
    Compact,
    Comparison,
    Constant,
    Filter,
    Join,
    JoinPlan,
    Slot,
)
from gdatalog.planner.order.cost import Estimates
from gdatalog.planner.statistics import Assumed
from gdatalog.storage.relation import Relation
from tests.cases import cases
from tests.orders import PATTERNS, counted, order_of, plan_of, skewed, variables, work
from tests.tuned import tune

pytestmark = pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")

HUBS = {"E": skewed(40, 90, seed=3)}
EVEN = {"E": skewed(40, 120, seed=4, power=1.0)}


@pytest.fixture(params=["formula", "walks"])
def estimates(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Orders by formulas alone, and by walks however little there is to do."""
    tune(monkeypatch, walked_from=10**12 if request.param == "formula" else 0)


# ------------------------------------------------------------------------------- good orders


@pytest.mark.usefixtures("estimates")
@pytest.mark.parametrize("data", [HUBS, EVEN], ids=["hubs", "even"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_are_looked_for_in_a_good_order(pattern: str, data: dict[str, Any]) -> None:
    text = counted(pattern)
    mine, _ = work(data, text)
    others = list(permutations(variables(pattern)))
    random.Random(1).shuffle(others)
    best = min(work(data, text, other)[0] for other in others[:24])
    assert mine <= 2 * best


def test_lists_are_reused_whatever_the_order() -> None:
    """A list that was made of another has been through all that the other has."""
    text, every = counted("P3"), variables("P3")
    with gd.connect() as db:
        db["E"] = HUBS["E"]
        (expected,) = db.query(text).fetchall()[0]
    for forced in islice(permutations(every), 0, None, 3):
        tried, order = work(HUBS, text, forced)
        assert tried and len(order) == len(every)
    assert expected > 0


def test_a_chain_starts_at_its_selective_end() -> None:
    chain = [(at, (7 * at) % 400) for at in range(400)]
    data = {
        "A": [(a, a % 2) for a in range(400)],  # a constant leaves half of them
        "B": chain,
        "C": [(b, (3 * a) % 400) for a, b in chain],
        "D": [(a, a % 200) for a in range(400)],  # two
    }
    text = "n(count()) <- A(w, {0}), B(w, x), C(x, y), D(y, {1})."
    assert order_of(plan_of(data, text.format(1, 5)).steps) == ["y", "x", "w"]
    data["A"], data["D"] = data["D"], data["A"]
    assert order_of(plan_of(data, text.format(5, 1)).steps) == ["w", "x", "y"]


@pytest.mark.usefixtures("estimates")
def test_a_star_starts_at_its_centre() -> None:
    plan = plan_of(HUBS, "p(x, a, b, c, d, e) <- E(x, a), E(b, x), E(x, c), E(x, d), E(x, e).")
    assert order_of(plan.steps)[0] == "x"


def test_a_chain_of_foreign_keys_starts_at_its_smallest_side() -> None:
    data = {
        "item": [(at % 2500, at) for at in range(10_000)],
        "orders": [(at, at % 500) for at in range(2500)],
        "customer": [(at, at % 25) for at in range(500)],
        "nation": [(at, at % 5) for at in range(25)],
    }
    text = "p(i, n) <- item(o, i), orders(o, c), customer(c, n), nation(n, 3)."
    assert order_of(plan_of(data, text).steps) == ["n", "c", "o", "i"]


def test_a_count_ends_with_the_look_up_of_a_key() -> None:
    """It is cheaper than a list of values, of which there is about one."""
    random = np.random.default_rng(1)
    data = {
        "knows": sorted({(a, b) for a, b in random.integers(0, 60, (3000, 2)).tolist()}),
        "comment": [(at, *row) for at, row in enumerate(random.integers(0, (60, 1200), (5000, 2)))],
        "post": [(at, writer) for at, writer in enumerate(random.integers(0, 60, 1800))],
    }
    text = "n(count()) <- knows(p, q), comment(_, p, m), post(m, q)."
    assert order_of(plan_of(data, text).steps)[:3] == ["p", "m", "q"]


def test_a_witness_is_looked_for_before_others_multiply() -> None:
    data = {**HUBS, "L": [(at,) for at in range(0, 40, 2)]}
    plan = plan_of(data, "h(x, z) <- E(x, y), L(y), E(x, z).")
    kinds = [type(step) for step in plan.steps]
    assert kinds == [Join, Branch, Join]
    assert order_of(plan.steps) == ["x", "y", "z"]


def test_counts_of_parts_multiply() -> None:
    """Once x and y are bound, what hangs on each is counted by itself."""
    plan = plan_of(HUBS, "n(count()) <- E(x, y), E(x, a), E(a, b), E(y, c), E(c, d), x < y.")
    (top,) = [step for step in plan.steps if isinstance(step, Join) and step.variable in "xy"][:1]
    branches = [step for step in all_steps(plan.steps) if isinstance(step, Branch)]
    assert top and branches and all(branch.mode == "count" for branch in branches)
    assert all(len(branch.reads) == 1 for branch in branches)
    assert work(HUBS, "n(count()) <- E(x, a), E(x, b), E(x, c), E(x, d), E(a, e).")[0] < 1000


def test_branches_come_the_cheap_and_selective_first() -> None:
    data = {**EVEN, "few": [(1, 2)], "many": [(a, b) for a in range(40) for b in range(40)]}
    plan = plan_of(data, "p(x, z) <- E(x, z), many(x, a), E(a, b), few(x, c), E(c, d), z > 0.")
    first, *_ = (step for step in plan.steps if isinstance(step, Branch))
    assert order_of(first.alternatives[0]) == ["c"]


# ------------------------------------------------------------------------------ what is expected


def brute(data: dict[str, Any], text: str) -> int:
    with gd.connect() as db:
        for name, rows in data.items():
            db[name] = rows
        return db.query(text).fetchall()[0][0]


@pytest.mark.usefixtures("estimates")
@pytest.mark.parametrize("data", [HUBS, EVEN], ids=["hubs", "even"])
@pytest.mark.parametrize("pattern", ["triangle", "C4", "P1"])
def test_what_is_expected_is_not_far_off(pattern: str, data: dict[str, Any]) -> None:
    text = counted(pattern)
    plan = plan_of(data, text)
    last = [step for step in plan.steps if isinstance(step, Join)][-1]
    exact = brute(data, text) / plan.orbit
    assert exact / 4 <= last.estimate <= exact * 4
    tried, _ = work(data, text)
    assert tried / 4 <= plan.cost <= tried * 4


def test_walks_over_little_data_see_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch, walked_from=0)
    data = {"E": skewed(14, 30, seed=2), "L": [(at,) for at in range(9)]}
    body = "E(x, y), E(y, z), E(x, z), x < y, L(z)"
    plan = plan_of(data, f"t(x, y, z) <- {body}.")
    last = [step for step in plan.steps if isinstance(step, Join)][-1]
    assert last.estimate == brute(data, f"n(count()) <- {body}.") > 0


def test_explain_tells_what_is_expected() -> None:
    with gd.connect() as db:
        db["E"] = [(a, b) for a in range(50) for b in range(50)]
        shown = str(db.explain("p(x, y) <- E(x, y), x < y."))
        assert re.search(r"x in E\{0 < 1\}\(\[x\], y\) +~49\n", shown)
        assert re.search(r"y in E\{0 < 1\}\(x, \[y\]\), cut to y > x +~1,200\n", shown)
        db["one"] = [(1,)]
        assert re.search(r"x in one\(\[x\]\) +~1\n", str(db.explain("p(x, 2) <- one(x).")))


def test_a_window_cuts_the_last_variable_on_both_sides() -> None:
    random = np.random.default_rng(0)
    times = random.integers(0, 10**15, 4000).view("M8[ns]")
    with gd.connect(device="cpu") as db:
        db["pay"] = pd.DataFrame({"a": random.integers(0, 20, 4000), "t": times})
        for head in ("n(count())", "n(a, count())"):
            text = f"{head} <- pay(a, t1), pay(a, t2), t1 <= t2 <= t1 + 12h."
            assert "t2 in pay(a, [t2]), cut to t2 >= t1, t2 <= t1 + 12h" in str(db.explain(text))


# ----------------------------------------------------------------------------- what must follow


def cuts(plan: JoinPlan, name: str) -> set[Comparison]:
    (step,) = (s for s in plan.steps if isinstance(s, Join) and s.variable == name)
    return set(step.cuts)


def test_constants_follow_along_chains_of_comparisons() -> None:
    data = {"A": [(at,) for at in range(2)], "B": [(at,) for at in range(90)]}
    plan = plan_of(data, "p(x, y) <- A(x), B(y), x < y, y <= 5, y < $k, x > -3.", k=7)
    assert order_of(plan.steps) == ["x", "y"]
    ops = {(op, str(getattr(bound, "value", bound))) for op, bound in cuts(plan, "x")}
    assert ("<", "5") in ops and (">", "-3") in ops
    assert any(op == "<" and not isinstance(bound, Constant) for op, bound in cuts(plan, "x"))
    # what is bound already says as much
    assert {op for op, _ in cuts(plan, "y")} == {">", "<=", "<"}


def test_a_limit_that_is_told_already_is_no_cut() -> None:
    data = {"A": [(at,) for at in range(9)], "B": [(at,) for at in range(90)]}
    plan = plan_of(data, "p(x, y) <- A(x), B(y), x <= y, y < 7, x < 4.")
    assert cuts(plan, "x") == {("<", Constant(4, "int"))}


# --------------------------------------------------------------------- the text does not matter

NAMES = ["E", "E", "F", "L", "W"]


@st.composite
def bodies(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    """Literals over some variables, which hang together; and the variables."""
    names = ["a", "b", "c", "d", "e"][: draw(st.integers(2, 5))]
    literals = []
    for at, name in enumerate(names[1:], 1):
        literals.append(
            f"{draw(st.sampled_from('EF'))}({names[draw(st.integers(0, at - 1))]}, {name})"
        )
    for _ in range(draw(st.integers(0, 4))):
        a, b = draw(st.permutations(names))[:2]
        literal = draw(
            st.sampled_from(
                [f"E({a}, {b})", f"F({b}, {a})", f"L({a})", f"W({a}, {b}, 3)", f"W({a}, _, {b})",
                 f"{a} < {b}", f"{a} != {b}", f"{a} < 9", f"!E({a}, {b})", f"{a} + 1 = {b}"]
            )
        )  # fmt: skip
        literals.append(literal)
    return literals, names


MORE: dict[str, Any] = {
    "E": skewed(60, 200, seed=7),
    "F": [(a, b) for a, b in skewed(60, 250, seed=8) if (a * b) % 3],
    "L": [(a,) for a in range(0, 60, 4)],
    "W": [(a, b, (a + b) % 7) for a, b in skewed(60, 100, seed=9)],
}


@pytest.mark.usefixtures("estimates")
@settings(
    max_examples=cases(30),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(bodies(), st.randoms(use_true_random=False), st.booleans())
def test_the_order_of_a_text_does_not_matter(
    body: tuple[list[str], list[str]], chance: random.Random, count: bool
) -> None:
    literals, names = body
    fresh = [f"x{at}" for at in chance.sample(range(9), len(names))]

    def rule(some: list[str], asked: str) -> str:
        head = "n(count())" if count else f"n({asked})"
        return f"{head} <- {', '.join(some)}."

    first = plan_of(MORE, rule(literals, names[0])).cost
    shuffled = chance.sample(literals, len(literals))
    table = {ord(name): new for name, new in zip(names, fresh, strict=True)}
    renamed = [literal.translate(table) for literal in shuffled]
    assert plan_of(MORE, rule(renamed, fresh[0])).cost == pytest.approx(first, rel=1e-6)


def test_relations_that_are_not_there_yet_are_assumed() -> None:
    size = Assumed(100, 10, 3)
    assert size.distinct(frozenset({0})) == 10 and size.distinct(frozenset({0, 1})) == 100
    assert size.degrees(0).powers[:3] == (10, 100, 1000) and size.degrees(0).most == 10
    assert size.sorting(1) == 0 and size.lists(0) is None and size.set() is None


def test_planning_leaves_no_index_behind() -> None:
    columns = list(np.array(HUBS["E"]).T)
    relation = Relation.from_rows(("a", "b"), ("int", "int"), columns, len(columns[0]))
    before = relation.trie_nbytes
    relation.statistics.degrees(1), relation.statistics.lists(0)
    assert relation.trie_nbytes == before == 0


# ------------------------------------------------------------------------ aggregates in bodies


def steps_of(data: dict[str, Any], text: str) -> list[str]:
    """The steps of a plan in short: what is joined or computed, `?` for a test."""
    short = {Branch: "aggregate", Filter: "?", Compact: "one row for each"}
    return [
        step.variable if isinstance(step, (Join, Assign)) else short[type(step)]
        for step in plan_of(data, text).steps
    ]


def test_an_aggregate_is_tested_right_behind_what_it_hangs_on() -> None:
    cycle = "E(x, y), E(y, z), E(z, w), E(w, x)"
    early = ["x", "aggregate", "n", "?", "y", "z", "w"]
    found = steps_of(HUBS, f"p(x, y, z, w) <- {cycle}, n = count : {{ E(x, _) }}, n < 0.")
    assert [step for step in found if step != "one row for each"] == early
    # Where it hangs on another variable, that comes first: then the test saves most.
    found = steps_of(HUBS, f"p(x, y, z, w) <- {cycle}, n = sum a : {{ E(z, a) }}, n < 0.")
    assert found[:4] == ["z", "aggregate", "n", "?"]
    # So where a witness is enough for the rest, or a number of it.
    for text in ("h(x)", "h(x, count())"):
        found = steps_of(HUBS, f"{text} <- {cycle}, E(x, v), n = count : {{ E(x, _) }}, n < 0.")
        assert found[:4] == ["x", "aggregate", "n", "?"]
    # It hangs on nothing.
    found = steps_of(HUBS, f"p(x, y, z, w) <- {cycle}, n = count : {{ E(_, _) }}, n < 0.")
    assert found[:3] == ["aggregate", "n", "?"]


def test_what_an_aggregate_gives_leads_on() -> None:
    cut = plan_of(HUBS, "p(x, y) <- E(x, y), n = count : { E(x, _) }, y < n.")
    (last,) = [step for step in cut.steps if isinstance(step, Join) and step.variable == "y"]
    assert last.cuts == (("<", Slot("n", "int")),)
    data = {**HUBS, "D": [(at, at % 3) for at in range(9)]}
    found = steps_of(data, "p(x, y, z, k) <- E(x, y), E(y, z), n = count : { E(x, _) }, D(n, k).")
    assert found[:3] == ["x", "aggregate", "n"]
    found = steps_of(data, "h(x) <- E(x, y), E(y, z), n = max a : { E(x, a) }, !D(n, x).")
    assert found[:3] == ["x", "aggregate", "n"]


def test_a_witness_that_cannot_be_there_is_not_looked_for_with_all_others() -> None:
    """The only neighbour of a leaf is the hub: no pair of the hub's neighbours makes up for it."""
    star = [(0, leaf) for leaf in range(1, 60)]
    data = {"E": star + [(leaf, hub) for hub, leaf in star], "L": [(at,) for at in range(1, 60)]}
    body = "E(b, a), E(a, c), E(a, d), E(b, e), distinct(a, b, c, d, e)"
    tried, _ = work(data, f"n(b) <- L(b), !({body}).")
    assert tried < 60 * 60 * 5


def test_witnesses_of_one_atom_are_looked_for_together() -> None:
    data = {"F": [(1, 2), (3, 4)], "G": [(5, 1), (4, 3)], "E": [(6, 7), (7, 5)]}
    body = "G(a, x), distinct(b, c, y, a), E(b, c)"
    with gd.connect(device="cpu") as db:
        for name, rows in data.items():
            db[name] = rows
        assert db.query(f"p(x) <- F(x, y), !({body}).").fetchall() == [(3,)]


def test_an_aggregate_that_tests_nothing_waits_for_the_fewest_rows() -> None:
    dear = "n = count : { E(x, a), E(a, b), E(b, _) }"
    data = {**HUBS, "L": [(at,) for at in range(40)], "F": [(at, at) for at in range(2)]}
    assert steps_of(data, f"p(x, k, n) <- L(x), F(x, k), {dear}.")[-2:] == ["aggregate", "n"]
    found = steps_of(data, f"p(x, y, z, n) <- L(x), E(x, y), E(y, z), {dear}.")
    assert found.index("aggregate") == found.index("x") + 1


def test_equal_rows_are_not_looked_for_where_a_value_can_be_told_from_another() -> None:
    found = steps_of(HUBS, "p(x, y, n) <- E(x, y), n = count : { E(x, _) }, n > 3.")
    assert found == ["x", "aggregate", "n", "?", "y"]


def test_many_aggregates_are_planned_without_looking_at_all_sets_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[int] = []
    rows = Estimates.rows
    monkeypatch.setattr(
        Estimates,
        "rows",
        lambda self, bound, path=0: looked.append(bound) or rows(self, bound, path),
    )
    some = ", ".join(f"n{k} = count : {{ E(x, _), E(_, {k}) }}, n{k} > {k}" for k in range(9))
    found = steps_of(HUBS, f"p(x, y, z) <- E(x, y), E(y, z), {some}.")
    assert found[:2] == ["x", "aggregate"] and len(set(looked)) < 500
