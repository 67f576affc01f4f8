"""The passes of the planner, by level, in the order in which they run.

- `check`: a text becomes a checked program, or errors.
- `program`: the program is rewritten, before anything is known of its data.
- `answer`: a relation is asked for; the sizes of what it reads are known.
- `stratum`: the sizes of lower strata are known. An operator evaluates what a pass has made.
- `rule`: a rule becomes joins, aggregates and the head.
- `conjunction`: items are rewritten before their join is built.
- `join`: the steps of a join.

The lists of programs, rules, conjunctions and joins are what runs. A pass over an
answer or a stratum may be passed over, and is called by who evaluates its result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gdatalog.planner import conjunction, join, program, rule
from gdatalog.planner.check import program as checks
from gdatalog.planner.placement import place_strata
from gdatalog.planner.rewrite.dead_variables import split_at_dead_variables
from gdatalog.planner.rewrite.linear_closures import made_linear
from gdatalog.planner.rewrite.magic_sets import magic_program

PASSES: Mapping[str, Sequence[Callable[..., Any]]] = {
    "check": checks.PASSES,
    "program": program.PASSES,
    "answer": (magic_program, place_strata),
    "stratum": (made_linear, split_at_dead_variables),
    "rule": rule.PASSES,
    "conjunction": conjunction.PASSES,
    "join": join.PASSES,
}
