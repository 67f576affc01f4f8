"""What an order of variables costs when it is run: for tests that compare orders.

`work` counts the values that the breadth-first executor tries at all levels, for the order that
the planner chooses or for one that is forced on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from unittest.mock import patch

import numpy as np

import gdatalog as gd
from gdatalog.plan.effects import all_steps
from gdatalog.plan.join_plan import Join, JoinPlan, Step
from gdatalog.planner.order.order_cache import Orders
from gdatalog.planner.order.search_space import Order

# Undirected edges between vertices 0 to 5.
PATTERNS = {
    "triangle": "01 02 12",
    "C4": "01 12 23 30",
    "K4": "01 02 03 12 13 23",
    "K5": "01 02 03 04 12 13 14 23 24 34",
    "P1": "01 02 03 12 13",
    "P3": "01 02 03 04 12 13 14 23",
    "house": "01 02 04 12 13 34",
    "q10": "01 02 03 12 13 25 34",
}


def variables(pattern: str) -> list[str]:
    return [f"v{at}" for at in sorted(set(PATTERNS[pattern]) - {" "})]


def counted(pattern: str, distinct: bool = True) -> str:
    """A rule that counts a pattern's embeddings in a graph E."""
    atoms = [f"E(v{a}, v{b})" for a, b in PATTERNS[pattern].split()]
    if distinct:
        atoms.append(f"distinct({', '.join(variables(pattern))})")
    return f"n(count()) <- {', '.join(atoms)}."


def skewed(vertices: int, edges: int, seed: int, power: float = 0.45) -> list[tuple[int, int]]:
    """A symmetric graph of which few vertices have many edges, whatever their numbers."""
    random = np.random.default_rng(seed)
    ends = (vertices * random.power(power, size=(2, 4 * edges))).astype(np.int64)
    ends = random.permutation(vertices)[vertices - 1 - ends]
    found = list(dict.fromkeys((int(a), int(b)) for a, b in ends.T if a < b))[:edges]
    return sorted({*found, *((b, a) for a, b in found)})


def plan_of(data: Mapping[str, Any], text: str, **params: Any) -> JoinPlan:
    """The plan of the last rule's one join, over data that nothing has been asked of."""
    with gd.connect() as db:
        for name, rows in data.items():
            db[name] = rows
        rule = db.explain(text, params or None).strata[-1].rules[-1]
        (join,) = rule.plan.joins
        return join


def order_of(steps: Sequence[Step]) -> list[str]:
    """The variables that joins bind, in their order."""
    return [step.variable for step in all_steps(tuple(steps)) if isinstance(step, Join)]


def work(
    data: Mapping[str, Any], text: str, forced: Sequence[str] | None = None
) -> tuple[int, tuple[str, ...]]:
    """How many values are tried to answer, and in which order variables were bound."""
    choose = Orders.best
    if forced is not None:
        # A vertex that is found by its rank has a name of its own.
        rank = {name + end: at for at, name in enumerate(forced) for end in ("", "'")}
        choose = lambda *_: Order(rank)  # noqa: E731
    with patch.object(Orders, "best", choose), gd.connect() as db:
        for name, rows in data.items():
            db[name] = rows
        profile = db.profile(text, strategy="levelwise")
    tried, order = 0, []
    for run in profile.runs:
        for join in run.plan.joins:
            for step in all_steps(join.steps):
                if isinstance(step, Join):
                    order.append(step.variable)
                    tried += run.seen[id(step)].tried if id(step) in run.seen else 0
    return tried, tuple(order)
