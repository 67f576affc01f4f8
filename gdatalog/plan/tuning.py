"""The thresholds by which the planner and the engine choose how a query is computed."""

from __future__ import annotations

from gdatalog.records import dataclass


@dataclass(frozen=True, slots=True)
class Tuning:
    """Thresholds, in rows where nothing else is said. Tests give others, to reach every branch.

    A number belongs here if it chooses a strategy, an executor, a plan, an index, or how
    duplicates are eliminated. Other constants stay in their modules: what an operation costs, the
    rows that a kernel takes at once, sizes of buffers, limits of formats, when the runs of a
    growing relation are merged, and time-outs. So do thresholds of `storage`, `cpu_ops` and
    `gpu_ops`, which work on arrays and know no query.
    """

    # The executor of a join. Loops pay from the device's `worth` on.
    overrun: float = 10  # breadth-first stops after so many times the rows from which loops pay
    overrun_counted: int = 50_000  # breadth-first runs of fewer rows do not count towards that
    index_scans: int = 32  # a column that was scanned so often gets an index
    narrowed_from: int = 100_000  # larger relations are filtered by a join before they are indexed
    narrowed_share: float = 0.5  # the share of a relation's rows that a filter may leave
    looked_up_share: int = 16  # a scan replaces a missing index for one value per so many rows

    # How the rows of a join are made distinct.
    groups_from: int = 64  # groups, from which on duplicates are eliminated group by group
    group_bitmap_bits: int = 23  # bits of a group's keys: wider keys are hashed
    step_bitmap_bits: int = 20  # bits of the keys that are made distinct before the last step
    marked_from: int = 1 << 20  # breadth-first answers of so many rows go into a bitmap
    marked_bytes: int = 1 << 27  # ... of so many bytes at most
    sorted_from: int = 1 << 14  # sorted blocks of so many rows in all are merged at once
    sorted_stretch: int = 4  # ... if so many rows on average follow each other in one block

    # Dictionary codes for sparse keys.
    coded_from: int = 10_000  # smaller relations keep their keys
    coded_ratio: int = 16  # relations so many times smaller than others use their dictionary
    coded_reads: int = 4  # how often an encoded relation is expected to be read

    # Rounds of a recursive stratum, and what takes over from them.
    rounds_most: int = 1_000_000  # rounds look at so many rows before a compiled fixpoint starts
    partitioned_from: int = 2_000  # inputs of so many rows start a partitioned fixpoint at once
    in_place_from: int = 2_000  # the same for best values that are improved in place
    worklist_rounds: int = 64  # a linear recursion of so many rounds goes over to a worklist
    worklist_round_rows: int = 10_000  # ... if a round has fewer rows on average
    loops_soon_from: float = 100_000.0  # a rule's rounds look at so many rows, then loops compile
    loops_from: float = 300_000.0  # ... and after so many they wait for these loops
    loops_from_round: int = 200_000  # ... and at so many in the round that they are in
    loops_looked_each: float = 50_000.0  # rows that loops look at, for each further thread
    loops_given_each: int = 1 << 14  # rows that they follow, for each further thread
    replanned_from: float = 1e6  # rows that a rule looks at before it is planned again
    replanned_shift: float = 16.0  # ... if a relation has so many times more rows, or fewer
    replanned_times: float = 3  # ... and so often at most, in an evaluation

    # How the new rows of a fixpoint are told from the known ones.
    new_rows_sorted: int = 1 << 13  # smaller relations are sorted
    bitmap_bytes: int = 1 << 25  # bytes: a smaller bitmap is used for any number of rows
    bitmap_bytes_each: int = 16  # bytes: a larger bitmap has at most so many for each row
    stamps_most: int = 1 << 26  # possible rows of a partition: more are hashed
    byte_stamps_most: int = 1 << 20  # possible rows of a partition: more have stamps of 32 bits
    direct_groups_most: int = 1 << 27  # possible groups of best values: more are hashed

    # Rounds on a device.
    device_from: int = 1_000_000  # rules look at so many rows on the CPU before the device is used
    device_from_turn: int = 100_000  # ... if each turn of a rule looks at so many
    bitmap_rounds_from: int = 20_000  # inputs of so many rows start rounds with bitmaps at once
    bitmap_room_share: int = 4  # bitmaps take one part in so many of the device's memory
    tiles_from: int = 50_000  # smaller partitioned fixpoints run on the device in any case
    tiles_busy: int = 128  # larger ones if so many tiles have work

    # Joins and fixpoints on several devices.
    shared_from: float = 5e7  # expected rows to look at, from which on several devices share them
    shared_inputs_from: int = 100_000  # the same for the inputs of a partitioned fixpoint
    shared_values_from: int = 50_000  # ... if so many values keep the tiles of all devices busy
    shared_piece: float = 2e9  # expected rows of one piece; each device has one at least
    shared_pieces: int = 8  # ... and so many at most

    # Rules whose indexes do not fit a device.
    cell_bytes: int = 1 << 28  # one more cell costs as much as it does to copy so many bytes

    # Views that are updated from the rows that have come.
    news_most: int = 1_000  # so many new rows are always followed
    news_share: float = 0.3  # more are followed if they are no larger share of a relation
    news_derived_most: int = 10_000  # so many derived rows are always added
    news_breadth_first: int = 100_000  # so many new rows are followed without loops
    news_statistics_most: int = 1_000_000  # larger relations are planned without their statistics

    # What workers of a cluster do.
    spread_from: float = 1e8  # a rule that looks at so many rows is spread over workers
    spread_gpus_from: float = 2e6  # the same where each worker has a GPU
    spread_never: float = 1e5  # one that looks at fewer is not; in between it is tried here first
    partitions_spread_from: int = 20_000_000  # the same for a partitioned fixpoint's rounds here
    rounds_spread_from: int = 200_000_000  # the same for rounds whose rows are exchanged
    rounds_spread_threads: int = 4  # ... with so many times the threads that are here
    fetched_bytes: int = 1 << 26  # bytes: larger answers, and inputs of rules, stay on workers
    fetched_share: int = 4  # inputs of fixpoints stay there above such a part of the memory limit

    # Magic sets.
    magic_sets_from: int = 50_000  # views over fewer rows are evaluated in full, if not recursive
    magic_sets_values: int = 1_000  # values that are asked for, where their number is unknown
    magic_sets_share: float = 0.25  # of a column's values: up to it magic sets pay
    magic_sets_share_found: float = 0.5  # ... and the share that is found to be asked for

    # Orders of variables.
    ordered_exactly: int = 8  # variables: of so many all orders are compared, of more the best
    walked_from: int = 2_000  # values tried, for each set of variables: orders by samples pay
    grouped_from: int = 100_000  # rows of a head, from which on its first column may come first
    grouped_least: int = 64  # ... if there are so many groups
    grouped_rows_most: int = 1 << 17  # ... of no more rows on average
    algebra_from: float = 1e6  # counts of so many rows to look at may become signed sums
    algebra_term: float = 1e5  # what each term of a sum costs besides
    algebra_halves: float = 1e9  # counts of so many rows may be twice those of one order
    algebra_walks: int = 5  # ... of so many variables, walks tell how many rows these are
    algebra_rows: int = 1_000  # ... where a relation has so many
    degree_skew: float = 1.2  # how many times more neighbours lie above by key than by degree


DEFAULT = Tuning()
