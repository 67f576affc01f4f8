"""The memory budget: the effective limit, and the size of chunks within it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gdatalog.calls import Limits
from gdatalog.errors import MemoryLimitError
from gdatalog.plan.effects import all_steps
from gdatalog.plan.nodes import Branch, Generate, Join, RulePlan

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
    return 1 + max(
        (
            sum(isinstance(step, (Join, Generate, Branch)) for step in all_steps(join.steps))
            for join in plan.joins
        ),
        default=0,
    )


@contextmanager
def accounted(limits: Limits, device: str) -> Iterator[None]:
    """Within this context, the thread charges the memory that it holds to these limits.

    A relation that does not fit returns its charges, because the next one may be small.
    """
    watch, before = limits.watch, limits.watch.account
    watch.account = limits.account
    try:
        with limits.account.restoring(MemoryLimitError):
            yield
    except MemoryLimitError:
        raise
    except MemoryError as error:
        if device == "cpu":
            raise
        raise MemoryLimitError(
            f"{device} has not enough memory for this: {error}",
            hint='another process may hold some; or run on the CPU, device="cpu"',
        ) from error
    finally:
        watch.account = before
