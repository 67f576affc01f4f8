// Load balancing: of which row each entry is, where rows have lists of any lengths.
//
// `ends` are the lengths, summed up. The rows in which tiles begin are found first, a thread for
// each tile; then an entry searches among the rows of its tile, whose ends are in the first cache.
#pragma once
#include "compact.cuh"
#include "search.cuh"

// cuts[tile] is the row of the tile's first entry, cuts[tiles] the last row.
KERNEL(partition)(ARRAY(const i64) ends, ARRAY(i64) cuts, i64 rows, i64 size, i64 tiles) {
    for (i64 tile = thread_of_grid(); tile <= tiles; tile += threads_of_grid())
        cuts[tile] = tile < tiles ? upper_bound(ends, 0, rows, tile * TILE) : rows - 1;
}

// The row of an entry of the tile; if there is but one tile, nobody has cut the rows.
template <class E, class C>
DEVICE i64 row_of(E ends, C cuts, i64 rows, i64 tile, i64 tiles, i64 entry) {
    if (tiles == 1) return upper_bound(ends, 0, rows - 1, entry);
    return upper_bound(ends, cuts[tile], cuts[tile + 1], entry);
}
