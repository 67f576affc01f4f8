"""What planning one rule takes, in CPU time: wide atoms, stars, chains, and bodies of many atoms.

Nothing is run. Statistics of the relations are there already, from the first time.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from statistics import median
from time import process_time
from typing import Any
from unittest.mock import patch

import numpy as np

import gdatalog as gd
from benchmarks.records import Case, Figure, at_most
from benchmarks.setting import Setting
from gdatalog.engine import draft
from gdatalog.planner.order.order_cache import Orders
from gdatalog.planner.order.plan_inputs import PlanInputs
from gdatalog.records import replace

_NOTE = "CPU seconds of planning alone; a machine that others use may need twice as much"


def run(setting: Setting) -> Iterator[Case]:
    times = 1 if setting.small else 5
    for what, body, limit in shapes():
        seconds = planned(body, times)
        case = Case("planning", what, [Figure("ours", seconds, runs=times)], notes=(_NOTE,))
        if limit is not None:
            case.asks = [at_most(what, "a clock", seconds, limit)]
        yield case


def shapes() -> Iterator[tuple[str, str, float | None]]:
    """Heads and bodies with `{}` for the rule's name, and the seconds that each may take."""
    wide = names("a", 100)
    tests = ", ".join(f"a{at} > {at}" for at in range(5))
    yield "an atom of 100 columns, 5 filters", f"{{}}({wide}) <- F100({wide}), {tests}.", 0.002
    for points, limit in ((8, 0.05), (20, 0.05)):
        keys = [f"k{at}" for at in range(points)]
        dimensions = ", ".join(f"E{at % 4}({key}, a{at})" for at, key in enumerate(keys))
        body = f"F{points}({', '.join(keys)}), {dimensions}"
        yield f"a star of {points}", f"{{}}({names('a', points)}) <- {body}, a0 = 3.", limit
    for atoms in (18, 60):
        yield f"a chain of {atoms}", f"{{}}(x0, x{atoms}) <- {chain(atoms)}.", 0.05
    yield "a chain of 60, counted", f"{{}}(count()) <- {chain(60)}.", 0.05
    for atoms, variables, limit in ((50, 40, 0.05), (200, 60, 0.2)):
        what = f"{atoms} atoms over {variables} variables"
        yield what, f"{{}}(x0, x1, x2) <- {drawn(atoms, variables)}.", limit
    clique = ", ".join(f"E0(x{a}, x{b})" for b in range(12) for a in range(b))
    yield "a clique of 12", f"{{}}(count()) <- {clique}.", None
    yield "a cycle of 40", f"{{}}(x0) <- {chain(39)}, E0(x39, x0).", None
    yield "40 parts", "{}(x0) <- " + ", ".join(f"E0(x{at}, y{at})" for at in range(40)) + ".", None
    compared = ", ".join(f"x{at % 20} != {at}" for at in range(300))
    yield "300 comparisons", f"{{}}(x0) <- {chain(20)}, {compared}.", None
    negated = ", ".join(f"!E{at % 4}(x{at % 20}, {at})" for at in range(60))
    yield "60 negations", f"{{}}(x0) <- {chain(20)}, {negated}.", None
    counted = ", ".join(
        f"n{at} = count : {{{{ E0(x{at % 20}, _) }}}}, n{at} > 1" for at in range(40)
    )
    yield "40 aggregates", f"{{}}(x0) <- {chain(20)}, {counted}.", None
    either = " ; ".join(f"E1(y, z), z > {at}" for at in range(40))
    yield "40 alternatives", f"{{}}(x, z) <- E0(x, y), ({either}).", None


def names(letter: str, count: int) -> str:
    return ", ".join(f"{letter}{at}" for at in range(count))


def chain(atoms: int) -> str:
    return ", ".join(f"E{at % 4}(x{at}, x{at + 1})" for at in range(atoms))


def drawn(atoms: int, variables: int) -> str:
    random = Random(1)
    every = [f"x{at}" for at in range(variables)]
    near = [
        f"E0({random.choice(every[max(0, at - 6) : at])}, {every[at]})"
        for at in range(1, variables)
    ]
    more = ["E{}({}, {})".format(at % 4, *random.sample(every, 2)) for at in range(atoms)]
    return ", ".join([*near, *more][:atoms])


def planned(text: str, times: int) -> float:
    """The CPU seconds that planning a rule takes, the statistics there."""
    spent = 0.0
    plan_rule = draft.plan_rule

    def timed(rule: Any, types: Any, inputs: PlanInputs, *args: Any, **options: Any) -> Any:
        nonlocal spent
        started = process_time()
        try:
            inputs = replace(inputs, orders=Orders())  # none was found before
            return plan_rule(rule, types, inputs, *args, **options)
        finally:
            spent += process_time() - started

    seen = []
    with patch.object(draft, "plan_rule", timed), gd.connect(device="cpu") as db:
        for name, table in _data().items():
            db[name] = table
        for number in range(times + 1):
            spent = 0.0
            db.explain(text.format(f"R{number}"))  # another rule each time, so that it is planned
            seen.append(spent)
    return median(seen[1:])


def _data() -> dict[str, dict[str, Any]]:
    random = np.random.default_rng(1)
    found = {
        f"F{width}": {f"c{at}": random.integers(0, 10, 1000) for at in range(width)}
        for width in (8, 20, 100)
    }
    for at in range(4):
        found[f"E{at}"] = {name: random.integers(0, 100, 300 * (at + 1)) for name in "ab"}
    return found
