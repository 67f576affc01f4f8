"""The settings: what users may choose, and the thresholds by which the engine decides.

`python -m tests.settings_page --write` makes docs/settings.md of this file.
"""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal

from gdatalog.records import dataclass, replace

Strategy = Literal["auto", "lftj", "levelwise"]
Applied = Literal["auto", "always", "never"]
Algebra = Literal["auto", "always", "never", "quotients", "suffixes", "split"]
Dedup = Literal["auto", "sort", "bitmap", "hash"]
Intersect = Literal["auto", "leapfrog", "merge", "mark", "recode", "plain"]
Lanes = Literal[0, 1, 2, 4, 8, 16, 32]
HostIndexes = Literal["auto", "cells", "pages"]
Duplicates = Literal["warn", "error"]
Spreading = Literal["auto", "never", "replicate", "partition"]
Seconds = float | None  # None: no limit
Size = int | None  # bytes; None: the default
Threads = int  # 0: one per core


def cores() -> int:
    """The number of cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Numbers by which the engine decides, in rows unless stated otherwise. Tests override them, to
    reach every branch.

    A number belongs here if it chooses a strategy, an executor, a plan, an index, or a way to
    deduplicate. Other constants stay in their modules: costs of operations, limits on the effort of
    a search, rows that a kernel takes at once, sizes of buffers and caches, limits of formats, when
    the runs of a growing relation are merged, and time-outs. So do thresholds of `storage`,
    `codegen` and `cpu_ops`, which work on arrays and know no query.
    """

    # The executor of a join.
    loops_worth: float = 50_000.0  # expected rows from which compiled loops pay, after some 40 ms
    kernels_worth: float = 1e6  # the same for kernels of a GPU, after some 400 ms
    kernel_runs: int = 16  # runs of a small join on a GPU before its kernel is compiled meanwhile
    overrun: float = 10  # breadth-first stops at this multiple of the rows from which loops pay
    overrun_counted: int = 50_000  # shorter breadth-first runs do not count towards that
    scanned_from: int = 1 << 14  # a rule of one atom scans larger relations, without an index
    index_scans: int = 32  # scans of columns before they get an index
    narrowed_from: int = 100_000  # larger relations are filtered by a join before they are indexed
    narrowed_share: float = 0.5  # greatest share of a relation's rows that a filter may leave
    looked_up_share: int = 16  # rows per value sought, up to which a scan replaces a missing index

    # How the rows of a join are made distinct.
    groups_from: int = 64  # groups, from which on duplicates are eliminated group by group
    group_bitmap_bits: int = 23  # bits of a group's keys: wider keys are hashed
    step_bitmap_bits: int = 20  # bits of the keys that are made distinct before the last step
    unmarked_most: int = 4096  # so many rows of a level are made distinct without a bitmap
    marked_from: int = 1 << 20  # rows of a breadth-first answer, from which on a bitmap is used
    marked_bytes: int = 1 << 27  # ... and the greatest size of the bitmap, in bytes
    sorted_from: int = 1 << 14  # rows of sorted blocks that are merged at once
    sorted_stretch: int = 4  # ... if runs within one block have this mean length

    # Dictionary codes for sparse keys.
    coded_from: int = 10_000  # smaller relations keep their keys
    coded_ratio: int = 16  # relations smaller than others by this factor use their dictionary
    coded_reads: int = 4  # how often an encoded relation is expected to be read

    # Rounds of a recursive stratum, and what takes over from them.
    rounds_most: int = 1_000_000  # rows read by rounds before a compiled fixpoint starts
    partitioned_from: int = 2_000  # rows of inputs that start a partitioned fixpoint at once
    in_place_from: int = 2_000  # the same for best values that are improved in place
    partitioned_rounds: int = 256  # small rounds after which a partitioned fixpoint starts
    worklist_rounds: int = 64  # rounds after which a linear recursion becomes a worklist
    worklist_round_rows: int = 10_000  # ... if a round has fewer rows on average
    loops_soon_from: float = 100_000.0  # rows read by a rule's rounds before its loops are compiled
    loops_from: float = 300_000.0  # ... and before rounds wait for these loops
    loops_from_round: int = 200_000  # ... and in the current round
    loops_looked_each: float = 50_000.0  # rows that loops look at, for each further thread
    loops_given_each: int = 1 << 14  # rows that they follow, for each further thread
    replanned_from: float = 1e6  # rows that a rule looks at before it is planned again
    replanned_shift: float = 16.0  # ... if a relation has grown or shrunk by this factor
    replanned_times: float = 3  # ... and at most so often in an evaluation

    # Recursive rules that are split at a dead variable.
    dead_variables_share: float = 0.75  # greatest expected share of the work that remains
    dead_variables_left: float = 0.9  # greatest share of a variable's values that a test leaves

    # Deduplication of new rows in a fixpoint.
    new_rows_sorted: int = 1 << 13  # smaller relations are sorted
    bitmap_bytes: int = 1 << 25  # bytes: a smaller bitmap is used for any number of rows
    bitmap_bytes_each: int = 16  # bytes for each row: the greatest size of larger bitmaps
    stamps_most: int = 1 << 26  # possible rows of a partition: more are hashed
    byte_stamps_most: int = 1 << 20  # possible rows of a partition: more have stamps of 32 bits
    direct_groups_most: int = 1 << 27  # possible groups of best values: more are hashed

    # Rounds on a device.
    device_from: int = 1_000_000  # rows that rules read on the CPU before the device is used
    device_from_turn: int = 100_000  # ... if a run of a rule reads this many; or kernels are ready
    compiled_rounds_from: int = 10_000  # expected rows before recursion, if kernels are compiled
    bitmap_rounds_from: int = 20_000  # rows of inputs that start rounds with bitmaps at once
    bitmap_room_share: int = 4  # the device's memory divided by this: room for bitmaps
    tiles_from: int = 50_000  # smaller partitioned fixpoints run on the device in any case
    tiles_busy: int = 128  # larger ones if this many tiles have work

    # How tiles of a GPU, groups of its threads, share the work of compiled loops.
    # Nanoseconds after which a tile checks whether others wait for a part of its task. 0: it shares
    # whenever it can; negative: never.
    tile_shares_after: int = 250_000
    tile_grain: int = 0  # units that a tile takes at once; 0: depends on their total
    pool_rows: int = 1 << 22  # rows of the pool of results at first
    pool_rows_most: int = 1 << 28  # greatest number of them, since draining it takes memory, too
    grid_blocks: int = 0  # blocks of threads; 0: as many as are resident

    # What a GPU runs under device="auto": seconds and rates, by which the strata of a program are
    # placed together. `python -m benchmarks.gpu constants` measures them; these are of an H200.
    gpu_from: float = 5e6  # rows that the cores are spared to look at, from which the GPU is used
    gpu_opening: float = 0.5  # ... and seconds, in a process that runs a single program
    gpu_rule: float = 1e-3  # seconds before the first row of a stratum
    gpu_launch: float = 1e-5  # seconds of a launch
    gpu_rows: float = 1e10  # rows that a GPU looks at in a second
    gpu_new_rows: float = 2e9  # rows that its rounds tell from known ones in a second
    gpu_array_rows: float = 2e9  # rows of its array operations in a second
    gpu_indexed: float = 2.5e8  # values of indexes that it builds in a second
    gpu_copy: float = 5e-5  # seconds before the first byte of a copy
    gpu_bus: float = 7e9  # bytes that are copied to or from it in a second
    core_turn: float = 2.5e-4  # seconds of a rule's turn on the CPU
    core_rows: float = 3e7  # rows that a core looks at in a second
    core_new_rows: float = 1e7  # rows that the CPU's rounds tell from known ones in a second
    core_indexed: float = 4e7  # values of indexes that a core builds in a second
    array_rows: float = 2.5e8  # rows of array operations in a second on the CPU
    gpu_bytes: int = 1 << 20  # data of so many bytes on a GPU stays there, and opens it

    # Joins and fixpoints on several devices.
    shared_from: float = 2e8  # expected rows read, from which on devices share a join
    shared_bytes: float = 2e8  # ... which is as much again for so many bytes of indexes to copy
    shared_inputs_from: int = 100_000  # the same for the inputs of a partitioned fixpoint
    shared_values_from: int = 50_000  # ... if there are this many values, to keep all tiles busy
    shared_piece: float = 2e9  # expected rows of one piece; each device has at least one
    shared_pieces: int = 8  # ... and at most so many

    # Rules whose indexes do not fit a device.
    cell_bytes: int = 1 << 28  # the cost of a cell, in bytes of copying

    # Views that are updated from the rows that have come.
    news_most: int = 1_000  # this many new rows are always followed
    news_share: float = 0.3  # more are followed up to this share of the relation
    news_derived_most: int = 10_000  # this many derived rows are always added
    news_breadth_first: int = 100_000  # up to this many new rows are followed breadth-first
    news_statistics_most: int = 1_000_000  # larger relations are planned without their statistics

    # What workers of a cluster do.
    spread_from: float = 1e8  # rows read by a rule, from which on it is spread over workers
    spread_gpus_from: float = 2e6  # the same where each worker has a GPU
    spread_never: float = 1e5  # fewer are not spread; in between, the rule is tried here first
    partitions_spread_from: int = 20_000_000  # the same for a partitioned fixpoint's rounds here
    rounds_spread_from: int = 200_000_000  # the same for rounds that exchange rows
    rounds_spread_threads: int = 4  # ... if the workers have this many times the local threads
    fetched_bytes: int = 1 << 26  # bytes: larger answers, and inputs of rules, stay on workers
    fetched_share: int = 4  # memory limit divided by this: larger inputs of fixpoints stay there

    # Magic sets.
    magic_sets_from: int = 50_000  # views over fewer rows are evaluated in full, if not recursive
    magic_sets_values: int = 1_000  # demanded values, if the number of all values is unknown
    magic_sets_share: float = 0.25  # greatest demanded share of a column's values
    magic_sets_share_found: float = 0.5  # ... and the greatest measured share
    part_asked: int = 4_096  # rows that a question for a part of a view counts as, beside its own
    whole_view_asked: int = 8  # questions that the evaluation of a whole view counts as
    whole_view_share: int = 4  # ... which reads at most so many times the rows of the questions

    # Orders of variables.
    ordered_exactly: int = 8  # variables: up to this number the search is exhaustive
    # Values tried, doubled for each variable: then sampling pays. 0: always; less: even for two
    # variables, for directed relations, and beside tables whose rows are assumed.
    walked_from: int = 2_000
    grouped_from: int = 100_000  # rows of a head, from which on its first column may come first
    grouped_least: int = 64  # ... if there are this many groups
    grouped_rows_most: int = 1 << 17  # ... with at most so many rows on average
    algebra_from: float = 1e6  # rows read by a count that may become a signed sum
    algebra_term: float = 1e5  # fixed cost of each term of a sum
    algebra_halves: float = 1e9  # rows read by a count that may become two equal halves
    algebra_peaks: float = 2e8  # rows read by a count that may have tables by peaks
    algebra_split: float = 1e10  # rows read by a sum that may be split by degree
    algebra_split_gain: float = 3.0  # ... if it costs this many times more than the split one
    algebra_split_again: float = 1.5  # ... and again if it costs this many times more than that
    algebra_beside: float = 1e9  # values tried by a count that may have tables for pairs of values
    algebra_loops: float = 1e8  # values tried by a count by key that may loop over other variables
    tally_share: int = 4  # tables of counts take at most the free memory divided by this
    tally_tiles: int = 256  # tiles of a GPU that must have room for tables
    team_unit: float = 1 << 14  # rows of a unit that all tiles of a GPU's block take together
    algebra_walks: int = 5  # variables, from which on samples estimate a count's rows
    algebra_rows: int = 1_000  # ... if a relation has this many rows
    degrees_from: float = 50_000.0  # rows read, from which on lists that are too short are skipped
    degree_skew: float = 1.2  # least skew (`EdgeStatistics.skew`) for degree order


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a database.

    "auto" leaves a choice to the engine, by expected cost; "always" applies an optimisation
    wherever it is possible, "never" disables it.

    >>> import gdatalog as gd
    >>> gd.connect(settings={"magic_sets": "never", "timeout": 30}).settings.timeout
    30.0
    """

    strategy: Annotated[
        Strategy,
        "How rules run: depth-first in compiled loops (lftj), or breadth-first, one variable at a "
        "time, with array operations (levelwise).",
    ] = "auto"
    threads: Annotated[Threads, "Threads of compiled loops. auto: one for each core."] = 0
    timeout: Annotated[Seconds, "Time limit of a call, in seconds."] = None
    memory_limit: Annotated[Size, "Memory limit of a query. auto: most of the machine's."] = None
    temp_limit: Annotated[
        Size,
        "Limit of all temporary files. auto: 16 times the memory limit, at most half of the "
        "free space.",
    ] = None
    magic_sets: Annotated[
        Applied, "Evaluate only the part of a view that the constants of a query need."
    ] = "auto"
    algebra: Annotated[
        Algebra,
        "Rewrite counts and sums as signed sums of cheaper ones. quotients, suffixes and split "
        "force one kind.",
    ] = "auto"
    split: Annotated[
        Applied,
        "Evaluate a recursion separately for each value of a column that its rules leave "
        "unchanged, in compiled loops.",
    ] = "auto"
    dead_variables: Annotated[
        Applied, "Split a recursive rule where a variable is used for the last time."
    ] = "auto"
    dedup: Annotated[
        Dedup,
        "How a recursion finds which derived rows are new: sorted runs, a bitmap, a hash set.",
    ] = "auto"
    encode: Annotated[
        Applied, "Evaluate rules on dictionary codes, if keys are spread over a wide range."
    ] = "auto"
    scans: Annotated[
        Applied, "Scan the relation of a rule with a single atom, without an index."
    ] = "auto"
    intersect: Annotated[
        Intersect,
        "How compiled loops intersect lists. plain: leapfrog or merge, as fits, as on a GPU "
        "always.",
    ] = "auto"
    tile: Annotated[
        Lanes, "Lanes of a GPU that share a subtree of a join. auto: by the lengths of lists."
    ] = 0
    hand_over: Annotated[
        Applied,
        "Where a level of a breadth-first join has more rows than a chunk, the others go on "
        "depth-first. auto: on a GPU, if no strategy is chosen.",
    ] = "auto"
    host_indexes: Annotated[
        HostIndexes,
        "How a GPU reads indexes that do not fit its memory: cell by cell, or in place, page by "
        "page.",
    ] = "auto"
    spread: Annotated[
        Spreading,
        "Run on the workers of a cluster: with a copy of each relation on each worker (replicate), "
        "or a part (partition).",
    ] = "auto"
    duplicates: Annotated[
        Duplicates,
        "Equal rows in data that is loaded, inserted or read: dropped with a warning, or an error. "
        "row_id=True keeps them.",
    ] = "warn"
    thresholds: Thresholds = Thresholds()

    def __repr__(self) -> str:
        """The settings that differ from their defaults."""
        usual = Settings()
        own = {name: getattr(self, name) for name in self.__match_args__ if name != "thresholds"}
        changed = [f"{name}={v!r}" for name, v in own.items() if v != getattr(usual, name)]
        return f"Settings({', '.join(changed)})"

    def tuned(self, **thresholds: Any) -> Settings:
        """The same with other thresholds."""
        return replace(self, thresholds=replace(self.thresholds, **thresholds))

    @property
    def workers(self) -> int:
        """The number of threads."""
        return self.threads or cores()
