// Sums and optima by group. GROUP is the type of a group's number.
#include "tile.cuh"

#ifndef GROUP
#define GROUP i64
#endif

// Adds the amounts (or 1 each) of rows to their groups' totals. A thread takes `each` consecutive
// rows and adds once for each run of a group, because rows are often in order.
KERNEL(sum_ints)(ARRAY(const GROUP) groups, ARRAY(const i64) amounts, ARRAY(i64) totals, i64 given,
                 i64 each, i64 size) {
    const i64 step = threads_of_grid() * each;
    for (i64 start = thread_of_grid() * each; start < size; start += step) {
        const i64 end = start + each < size ? start + each : size;
        i64 group = groups[start];
        u64 sum = 0;  // wraps
        for (i64 at = start; at < end; at++) {
            const i64 mine = groups[at];
            if (mine != group) {
                atomic_add(totals, group, (i64)sum);
                group = mine;
                sum = 0;
            }
            sum += given ? (u64)amounts[at] : 1u;
        }
        atomic_add(totals, group, (i64)sum);
    }
}

// The least value of each group. `best` starts with the greatest int.
KERNEL(best_values)(ARRAY(const GROUP) groups, ARRAY(const i64) values, ARRAY(i64) best, i64 each,
                    i64 size) {
    const i64 step = threads_of_grid() * each;
    for (i64 start = thread_of_grid() * each; start < size; start += step) {
        const i64 end = start + each < size ? start + each : size;
        i64 group = groups[start], least = values[start];
        for (i64 at = start + 1; at < end; at++) {
            const i64 mine = groups[at], value = values[at];
            if (mine != group) {
                atomic_min(best, group, least);
                group = mine;
                least = value;
            } else if (value < least) {
                least = value;
            }
        }
        atomic_min(best, group, least);
    }
}

// The first row of each group with the group's least value.
KERNEL(best_rows)(ARRAY(const GROUP) groups, ARRAY(const i64) values, ARRAY(const i64) best,
                  ARRAY(i64) rows, i64 size) {
    for (i64 at = thread_of_grid(); at < size; at += threads_of_grid()) {
        const i64 group = groups[at];
        if (values[at] == best[group]) atomic_min(rows, group, at);
    }
}

// The sums of consecutive lists of doubles, each by one warp, and always in the same order.
KERNEL(sum_doubles)(ARRAY(const i64) starts, ARRAY(const double) amounts, ARRAY(double) totals,
                    i64 lists) {
    const Tile<32> t = tile_here<32>();
    for (i64 list = tile_of_grid<32>(); list < lists; list += tiles_of_grid<32>()) {
        double mine = 0.0;
        for (i64 at = starts[list] + t.rank; at < starts[list + 1]; at += 32) mine += amounts[at];
        const double whole = sum(t, mine);
        if (t.rank == 0) totals[list] = whole;
    }
}
