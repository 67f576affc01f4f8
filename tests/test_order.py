"""Orders of variables: the ones that are chosen are among the best, whatever the text's order."""

from __future__ import annotations

import random
from itertools import permutations
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gdatalog.planner import order as orders
from tests.orders import PATTERNS, counted, plan_of, skewed, variables, work

HUBS = {"E": skewed(40, 90, seed=3)}
EVEN = {"E": skewed(40, 120, seed=4, power=1.0)}


@pytest.fixture(params=["formula", "walks"])
def estimates(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Orders by formulas alone, and by walks however little there is to do."""
    monkeypatch.setattr(orders, "WALK", 10**12 if request.param == "formula" else 0)


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
    max_examples=40,
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
