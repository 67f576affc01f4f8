"""Whether no two of many rows are equal, where memory has no room to sort them.

Their hashes are written to a file, each stretch of rows divided into parts by the hashes' highest
bits. Equal rows are in the same part, and one part after the other fits into memory. That takes 8
bytes a row and one pass over the rows, where sorting them would write all columns twice.
"""

from __future__ import annotations

import numpy as np

from gdatalog.account import Account
from gdatalog.cancellation import watching, working_space
from gdatalog.storage.duplicates import row_numbers
from gdatalog.storage.rows import Columns, firsts
from gdatalog.storage.spill import Spill
from gdatalog.storage.table import Array
from gdatalog.storage.threads import cores, spread

STRETCH = 1 << 20  # rows that are hashed at a time, at the most
HASHING, SORTING = 48, 24  # bytes that a row takes while it is hashed, and its hash while sorted
SHARE = 4  # what is at hand takes such a part of the spare memory
MOST_BITS = 12  # of a hash that tell its part


def all_differ(rows: Columns, account: Account, spill: Spill) -> bool:
    """Whether no two rows are equal; False also if two hashes are equal by chance, and if rows are
    so many that their parts are too large."""
    count, spare = len(rows[0]), account.spare() // SHARE
    most = max(spill.run, spare // (SORTING * cores()))
    bits = min(MOST_BITS, max(0, (count // most).bit_length()))
    if count >> bits > most:
        return False
    stretch = max(spill.run, min(STRETCH, spare // HASHING))
    hashes, bounds = spill.column(np.int64), []
    for start in range(0, count, stretch):
        watching().poll()
        part = tuple(column[start : start + stretch] for column in rows)
        with working_space("looking for duplicates", HASHING * len(part[0])):
            numbers, ends = _divided(row_numbers(part), bits)
            hashes.append(numbers)
            bounds.append(start + ends)
    column = hashes.finish()

    def differ(number: int) -> bool:
        mine = np.concatenate([column[ends[number] : ends[number + 1]] for ends in bounds])
        mine.sort()
        return bool(firsts(mine).all())

    with working_space("looking for duplicates", cores() * SORTING * (count >> bits)):
        return all(spread(differ, range(1 << bits), True))


def _divided(numbers: Array, bits: int) -> tuple[Array, Array]:
    """Numbers by their highest bits, and where those of each part begin, and the last ones end."""
    if not bits:
        return numbers, np.array([0, len(numbers)])
    parts = (numbers.view(np.uint64) >> np.uint64(64 - bits)).astype(np.uint16)
    counts = np.bincount(parts, minlength=1 << bits)
    return numbers[np.argsort(parts, kind="stable")], np.append(0, np.cumsum(counts))
