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


def chunk_rows(levels: int, spare: int, largest: int = LARGEST_CHUNK) -> int:
    """How many rows each of so many levels may have at once, if every level is full.

    `spare`: free bytes; chunks of more than `largest` rows are no faster.
    """
    return max(SMALLEST_CHUNK, min(largest, spare // SHARE // (levels * BYTES_PER_ROW)))


def levels_of(plan: RulePlan) -> int:
    """How many levels hold a chunk of rows at the same time, at most."""
    most, wide = 0, (Join, Generate, Branch)
    for join in plan.joins:
        most = max(most, len([step for step in all_steps(join.steps) if isinstance(step, wide)]))
    return 1 + most
