"""The knobs: settings that force choices which the engine otherwise makes."""

from __future__ import annotations

import os
from typing import Literal, get_args

from gdatalog.records import dataclass

Strategy = Literal["auto", "lftj", "levelwise"]
Dedup = Literal["auto", "sort", "bitmap", "hash"]
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)


def cores() -> int:
    """The number of cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class Knobs:
    """Forced choices. "auto" leaves a choice to the engine, by expected cost; "always" applies an
    optimisation wherever it is possible, "never" disables it.

    `strategy`: the executor. `threads`: the threads of compiled loops. `intersect`, for tests: one
    algorithm for intersecting lists, "leapfrog", "merge", "mark" or "recode"; "plain" excludes the
    last two. `tile`: the lanes of a GPU that share a subtree; 0: chosen by the lengths of lists.
    `dead_variables`: splitting rules where a variable is last used. `split`: partitioned recursion.
    `dedup`: the index that finds a fixpoint's new rows, sorted runs, a bitmap or a hash set.
    `magic_sets`: evaluating only what a query's constants need. `spread`: running on a cluster;
    "replicate" copies whole relations to each worker, "partition" gives each worker a part.
    `encode`: running strata on dictionary codes. `scans`: scanning the relation of a rule with one
    atom. `host_indexes`: reading indexes that stay on the host, in "cells" or by "pages".
    `algebra`: rewriting counts as signed sums of simpler ones; "quotients" and "suffixes" force one
    kind, "split" a split by degree.
    """

    strategy: Strategy = "auto"
    threads: int = 0  # 0: one per core
    intersect: str = "auto"
    tile: int = 0
    dead_variables: str = "auto"
    split: str = "auto"
    dedup: Dedup = "auto"
    magic_sets: str = "auto"
    spread: str = "auto"
    encode: str = "auto"
    scans: str = "auto"
    host_indexes: str = "auto"
    algebra: str = "auto"

    @property
    def workers(self) -> int:
        return self.threads or cores()
