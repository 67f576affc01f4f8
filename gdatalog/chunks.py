"""How many rows a join processes at once."""

from __future__ import annotations

from gdatalog.plan.effects import all_steps
from gdatalog.plan.join_plan import Branch, Generate, Join, RulePlan

# What a level holds for each row of a chunk: positions, values, parents, packed pairs and masks
# while it is searched, and the gathered columns afterwards.
BYTES_PER_ROW = 160
LARGEST_CHUNK = 1 << 17  # larger chunks are no faster: they exceed the caches
SMALLEST_CHUNK = 256
SHARE = 8  # chunks take at most this part of the free memory


def chunk_rows(plan: RulePlan, spare: int, largest: int = LARGEST_CHUNK) -> int:
    """How many rows each level of this plan may have at once, if every level is full.

    `spare`: free bytes; chunks of more than `largest` rows are no faster.
    """
    return max(SMALLEST_CHUNK, min(largest, spare // SHARE // (levels_of(plan) * BYTES_PER_ROW)))


def levels_of(plan: RulePlan) -> int:
    """How many levels hold a chunk of rows at the same time, at most."""
    wide = (Join, Generate, Branch)
    steps = (all_steps(join.steps) for join in plan.joins)
    return 1 + max((sum(isinstance(s, wide) for s in each) for each in steps), default=0)
