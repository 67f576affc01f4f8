// Searches for values, each in a list of its own or all in one list; and finds the rows of tiles.
//
// The including source defines these types. VALUE: of the lists' values. OFFSET: of the lists'
// starts. PARENT: of the lists' numbers. SOUGHT: of the values to search for. PLACE: of the
// positions found (-1 if absent).
#include "search.cuh"

#ifndef VALUE
#define VALUE i32
#endif
#ifndef OFFSET
#define OFFSET i64
#endif
#ifndef PARENT
#define PARENT i64
#endif
#ifndef SOUGHT
#define SOUGHT i32
#endif
#ifndef PLACE
#define PLACE i64
#endif

KERNEL(find_in)(ARRAY(const VALUE) values, ARRAY(const OFFSET) offsets,
                ARRAY(const PARENT) parents, ARRAY(const SOUGHT) sought, ARRAY(PLACE) found,
                i64 size) {
    for (i64 at = thread_of_grid(); at < size; at += threads_of_grid()) {
        const i64 parent = parents[at];
        found[at] = (PLACE)find_within(values, offsets[parent], offsets[parent + 1], sought[at]);
    }
}

// Where a value would stand in its list; after an equal one if `after`.
KERNEL(bound_in)(ARRAY(const VALUE) values, ARRAY(const OFFSET) offsets,
                 ARRAY(const PARENT) parents, ARRAY(const SOUGHT) sought, ARRAY(i64) found,
                 i64 after, i64 size) {
    for (i64 at = thread_of_grid(); at < size; at += threads_of_grid()) {
        const i64 parent = parents[at], lo = offsets[parent], hi = offsets[parent + 1];
        const i64 key = sought[at];
        found[at] = after ? upper_bound(values, lo, hi, key) : lower_bound(values, lo, hi, key);
    }
}

KERNEL(find_sorted)(ARRAY(const VALUE) values, ARRAY(const SOUGHT) sought, ARRAY(PLACE) found,
                    i64 length, i64 size) {
    for (i64 at = thread_of_grid(); at < size; at += threads_of_grid())
        found[at] = (PLACE)find_within(values, 0, length, sought[at]);
}

KERNEL(find_dense)(ARRAY(const i32) index, ARRAY(const SOUGHT) sought, ARRAY(PLACE) found,
                   i64 least, i64 length, i64 size) {
    for (i64 at = thread_of_grid(); at < size; at += threads_of_grid())
        found[at] = (PLACE)find_indexed(index, least, length, sought[at]);
}

// The rows in which tiles begin: cuts[tile] is the row of the tile's first entry, cuts[tiles] the last row.
KERNEL(partition)(ARRAY(const i64) ends, ARRAY(i64) cuts, i64 rows, i64 size, i64 tiles) {
    for (i64 tile = thread_of_grid(); tile <= tiles; tile += threads_of_grid())
        cuts[tile] = tile < tiles ? upper_bound(ends, 0, rows, tile * TILE) : rows - 1;
}
