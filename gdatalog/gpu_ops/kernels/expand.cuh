// Load balancing: of which row each entry of a tile is, where rows have lists of any lengths.
//
// `ends` are the lengths, summed up. A block finds the rows of its tile first, so that each entry
// searches among these alone, whose ends are in the first cache.
#pragma once
#include "compact.cuh"
#include "search.cuh"

// The first and the last row of a tile's entries; all threads of a block ask.
template <class E, class S>
DEVICE void rows_of_tile(E ends, i64 rows, i64 size, i64 tile, S span) {
    const i64 first = tile * TILE, behind = first + TILE < size ? first + TILE : size;
    if (thread_of_block() == 0) span[0] = upper_bound(ends, 0, rows, first);
    if (thread_of_block() == 32) span[1] = upper_bound(ends, 0, rows, behind - 1);
    block_sync();
}

// The row of an entry of the tile.
template <class E, class S>
DEVICE i64 row_of(E ends, S span, i64 entry) {
    return upper_bound(ends, span[0], span[1], entry);
}
