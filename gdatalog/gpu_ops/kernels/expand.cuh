// Load balancing: finds the row of each entry, for rows with lists of any lengths.
//
// `ends` is the running sum of the lengths. First, one thread for each tile finds the row in which
// the tile begins. Then each entry searches the rows of its tile, whose ends are in the L1 cache.
#pragma once
#include "compact.cuh"
#include "search.cuh"

// cuts[tile] is the row of the tile's first entry, cuts[tiles] the last row.
KERNEL(partition)(ARRAY(const i64) ends, ARRAY(i64) cuts, i64 rows, i64 size, i64 tiles) {
    for (i64 tile = thread_of_grid(); tile <= tiles; tile += threads_of_grid())
        cuts[tile] = tile < tiles ? upper_bound(ends, 0, rows, tile * TILE) : rows - 1;
}

// The row of an entry of the tile. With a single tile there are no cuts.
template <class E, class C>
DEVICE i64 row_of(E ends, C cuts, i64 rows, i64 tile, i64 tiles, i64 entry) {
    if (tiles == 1) return upper_bound(ends, 0, rows - 1, entry);
    return upper_bound(ends, cuts[tile], cuts[tile + 1], entry);
}
