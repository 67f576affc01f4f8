"""Orders of variables that are found once: for bodies of the same shape, over relations about as
large; and how many plans a program takes."""

from __future__ import annotations

import gc
import re
from collections import Counter
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

import gdatalog as gd
from gdatalog.engine import draft, replanning, rule_plans
from gdatalog.engine.operators import incremental
from gdatalog.parser import parse
from gdatalog.plan.join_plan import RulePlan, Version
from gdatalog.planner.check import CheckedRule
from gdatalog.planner.check.validity import check_with
from gdatalog.planner.order import sampling
from gdatalog.planner.order.order_cache import Orders
from gdatalog.planner.order.plan_inputs import PlanInputs
from gdatalog.planner.rule import plan_rule
from gdatalog.planner.statistics import Assumed, RelationStatistics
from gdatalog.settings import Thresholds
from gdatalog.storage.degrees import AdjacencyLists
from tests.orders import skewed

ARITIES = {"A": 1, "E": 2, "F": 2, "T": 3, "U": 3, "W": 4}


def drawn(random: Random) -> str:
    """A rule over the relations above."""
    names = [f"v{at}" for at in range(random.randrange(2, 8))]
    atoms = []
    for at in range(random.randrange(2, 7)):
        name = random.choice(list(ARITIES))
        args = [random.choice(names[: at + 3]) for _ in range(ARITIES[name])]
        if random.random() < 0.2:
            args[-1] = str(random.randrange(5))
        atoms.append(f"{name}({', '.join(args)})")
    held = sorted(set(re.findall(r"v\d", ", ".join(atoms)))) or ["v0"]
    if held == ["v0"]:
        atoms.append("A(v0)")
    a, b = random.choice(held), random.choice(held)
    more = [f"{a} < 40", f"{a} != {b}", f"!F({a}, {b})", f"{a} + 1 = {b}", f"{a} <= {b}"]
    atoms += random.sample(more, random.randrange(3))
    head = random.choice(["count()", held[0], ", ".join(dict.fromkeys((b, a)))])
    return f"R({head}) <- {', '.join(atoms)}."


def renamed(text: str, random: Random | None) -> str:
    """A rule with other names for variables and relations; in another order, if at random."""
    others = [f"other{at}" for at in range(9)]
    if random is not None:
        random.shuffle(others)
    text = re.sub(r"\bv(\d)\b", lambda found: others[int(found[1])], text)
    return re.sub(r"\b([AEFTUW])\(", r"Other\1(", text)


def planned(text: str, sizes: dict[str, RelationStatistics], orders: Orders) -> RulePlan:
    """The plan of a rule, as it follows new rows where it reads `T`."""
    names = sorted(ARITIES)
    data = "".join(
        f".decl {kind}{name}({', '.join(f'c{at}: int' for at in range(ARITIES[name]))})\n"
        for name in names
        for kind in ("", "Other")
    )
    checked = check_with([], parse(data + text, "drawn").statements, {}, {}, {}, None, True)[0]
    (rule,) = (rule for each in checked.strata for rule in each.rules)

    def size(name: str, version: Version) -> RelationStatistics:
        return sizes[name[-1]]

    later = "T(" in text
    recursive = ("T", "OtherT") if later else ()
    return plan_rule(rule, rule.types, PlanInputs(size, orders), recursive, first=not later)


def sizes_of(random: Random) -> dict[str, RelationStatistics]:
    found: dict[str, RelationStatistics] = {}
    for name, arity in ARITIES.items():
        rows = random.choice([10, 300, 5000, 100_000])
        found[name] = Assumed(rows, max(1, rows // random.choice([1, 3, 20])), arity)
    return found


@pytest.mark.parametrize("seed", range(60))
def test_a_plan_by_an_order_that_was_found_is_that_which_is_made_anew(seed: int) -> None:
    random = Random(seed)
    text, sizes, orders = drawn(random), sizes_of(random), Orders()
    first = planned(text, sizes, orders)
    assert first == planned(text, sizes, Orders())
    searched = orders.searched
    other = renamed(text, None)
    assert planned(other, sizes, orders) == planned(other, sizes, Orders())
    assert planned(text, sizes, orders) == first
    assert orders.searched == searched
    shuffled = renamed(text, random)
    assert planned(shuffled, sizes, orders) == planned(shuffled, sizes, Orders())


def test_sizes_count_in_powers_of_four() -> None:
    text = "R(v0, v2) <- E(v0, v1), F(v1, v2), T(v2, v3, v0), v3 < 40."
    sizes: dict[str, RelationStatistics] = {
        name: Assumed(600, 100, arity) for name, arity in ARITIES.items()
    }
    orders = Orders()
    first = planned(text, sizes, orders)
    assert orders.searched == len(first.joins)
    about = sizes | {"E": Assumed(900, 120, 2)}
    assert planned(text, about, orders) == first and orders.searched == len(first.joins)
    for others in (Assumed(9000, 100, 2), Assumed(600, 600, 2)):
        searched = orders.searched
        assert planned(text, sizes | {"E": others}, orders).joins
        assert orders.searched > searched


def test_what_was_used_last_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gdatalog.planner.order.order_cache.MOST_KEPT_ORDERS", 2)
    orders = Orders()
    sizes: dict[str, RelationStatistics] = {
        name: Assumed(600, 100, arity) for name, arity in ARITIES.items()
    }
    texts = [f"R(v0) <- E(v0, v1), F(v1, {at})." for at in range(3)]
    texts = [texts[0], "R(v0) <- E(v0, v1), F(v0, v1).", "R(v0) <- E(v0, v1), A(v1)."]
    for text in (texts[0], texts[1], texts[0], texts[2], texts[0]):
        planned(text, sizes, orders)
    assert orders.searched == 3
    planned(texts[1], sizes, orders)
    assert orders.searched == 4


def test_data_that_change_a_little_are_planned_for_without_a_search() -> None:
    random = Random(1)
    pairs = sorted({(random.randrange(60), random.randrange(60)) for _ in range(500)})
    text = "q(a, c) <- E(a, b), E(b, c), F(c, a), a < 30."
    with gd.connect(device="cpu") as db:
        db["E"], db["F"] = pairs, [(b, a) for a, b in pairs]
        orders = db.workspace.compiler.orders
        db.query(text)
        searched = orders.searched
        assert searched
        for at in range(3):
            db.insert("E", [(at, 100 + at), (100 + at, at + 1)])
            db.insert("F", [(at + 1, at)])
            now = {*pairs, *((x, 100 + x) for x in range(at + 1))}
            now |= {(100 + x, x + 1) for x in range(at + 1)}
            back = {(b, a) for a, b in pairs} | {(x + 1, x) for x in range(at + 1)}
            paths = {(a, d) for a, b in now if a < 30 for c, d in now if b == c}
            assert set(db.query(text).fetchall()) == paths & {(a, c) for c, a in back}
        assert orders.searched == searched
        db["E"] = [(x, x + 1) for x in range(3000)]  # as large as that, another order may be better
        assert db.query(text).fetchall() is not None
        assert orders.searched > searched


def test_relations_of_one_shape_have_orders_of_their_own() -> None:
    """As many rows, and as many values in each column; but few of F's are in E, and all of G's."""
    with gd.connect(device="cpu") as db:
        db["E"] = [(x % 300, x) for x in range(900)]
        db["F"] = [(x if x < 3 else 1000 + x, x % 300) for x in range(900)]
        db["G"] = [(x, x % 300) for x in range(900)]
        orders = db.workspace.compiler.orders
        assert len(db.query("q(x, z) <- E(x, y), F(y, z).")) == 3
        searched = orders.searched
        assert len(db.query("q(x, z) <- E(x, y), G(y, z).")) == 300
        assert orders.searched > searched


class plans_made:
    """Within, the rules for which plans are made, and whether for the first round."""

    def __enter__(self) -> list[tuple[CheckedRule, bool]]:
        made: list[tuple[CheckedRule, bool]] = []

        def making(rule: CheckedRule, *args: Any, **options: Any) -> RulePlan:
            made.append((rule, options.get("first", True)))
            return rule_plans.plan_rule(rule, *args, **options)

        modules = draft, replanning, incremental
        self._patches = [patch.object(module, "plan_rule", making) for module in modules]
        for each in self._patches:
            each.start()
        return made

    def __exit__(self, *args: object) -> None:
        for each in self._patches:
            each.stop()


RECURSIVE = """
p(x, y) <- E(x, y).
p(x, z) <- p(x, y), q(y, v), E(v, w), F(w, z).
q(x, y) <- F(x, y).
q(x, z) <- q(x, y), p(y, v), F(v, w), E(w, z).
"""


def test_searches_over_one_graph_share_samples() -> None:
    """A body of another shape takes the samples of the parts that it has in common, whatever its
    variables are called, and has the estimates that it would have alone."""
    path = "n(count()) <- E(a, b), E(b, c), E(c, d), E(d, a)."
    longer = "m(count()) <- E(p, q), E(q, r), E(r, s), E(s, p), E(s, t), E(t, u)."
    edges = skewed(3_000, 30_000, 1)
    counts, plans = [], []
    for texts in [longer], [path, longer]:
        with gd.connect(device="cpu") as db:
            db["E"] = edges
            for text in texts:
                with patch.object(sampling, "_even", wraps=sampling._even) as even:
                    plans.append(str(db.explain(text)))
                counts.append(even.call_count)
    assert plans[0] == plans[2]
    alone, before, after = counts
    assert alone > after > 0 < before


def test_how_many_plans_a_fixpoint_makes() -> None:
    """Each rule is planned once for all rows, and once for new ones; and again a few times."""
    edges = [(x, (x + at) % 60) for x in range(60) for at in (1, 7)]
    with gd.connect(device="cpu") as db, plans_made() as made:
        db["E"], db["F"] = edges, edges[::3]
        db.query(RECURSIVE + "?- p(x, y).")
    assert max(times_each(made).values()) == 1
    with gd.connect(device="cpu") as db, plans_made() as again:
        db.workspace.tune(replanned_from=-1, replanned_shift=1.0)
        db["E"], db["F"] = edges, edges[::3]
        db.query(RECURSIVE + "?- p(x, y).")
    assert 1 < max(times_each(again).values()) <= 1 + Thresholds().replanned_times


def times_each(made: list[tuple[CheckedRule, bool]]) -> Counter[tuple[int, bool]]:
    return Counter((id(rule), first) for rule, first in made)


def test_samples_hold_no_dropped_relation() -> None:
    """Those of walks that begin in a relation which stays."""
    some = [(x, (x * x + y) % 900) for x in range(900) for y in range(4)]
    rows = sorted({*some, *((y, x) for x, y in some)})

    def lists() -> int:
        return sum(isinstance(each, AdjacencyLists) for each in gc.get_objects())

    with gd.connect(device="cpu") as db:
        db.workspace.tune(walked_from=1)
        db["E"] = rows
        gc.collect()
        gc.freeze()  # only what is made from here on is counted
        gc.disable()
        try:
            found = []
            for name in ("F", "G", "H"):
                db[name] = rows
                db.explain(f"n(a, b, c, d) <- E(a, b), {name}(b, c), E(c, d).")
                walked = lists()
                del db[name]
                found.append((walked, lists()))
        finally:
            gc.enable()
    assert found[0] == found[1] == found[2] and found[0][0] > found[0][1]
