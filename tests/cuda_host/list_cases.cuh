// Kernels that do many cases of lists.cuh in one launch, each by one tile: of 32 lanes,
// for which tests put other numbers too. A and B are types.
#include "lane_lists.cuh"

// A case of two lists: [alo, ahi) and [blo, bhi), and where in `out` there is room for the shorter.
KERNEL(meet_32)(ARRAY(const A) va, ARRAY(A) own, ARRAY(const B) vb, ARRAY(const i64) cases,
                i64 count, ARRAY(A) out, ARRAY(i64) found) {
    const Tile<32> t = tile_here<32>();
    for (i64 c = tile_of_grid<32>(); c < count; c += tiles_of_grid<32>()) {
        const auto at = slice(cases, 6 * c, 6);
        const i64 a = at[1] - at[0], b = at[3] - at[2];
        const auto mine = slice(found, 4 * c, 4);
        const auto room = slice(out, at[4], a < b ? a : b);
        // Without the first value; by each lane, all that was written; then with it, to the same
        // place, which some may be reading yet.
        i64 seen = intersect(t, va, at[0] + (a > 0 ? 1 : 0), at[1], vb, at[2], at[3], room);
        for (i64 k = seen - 1; k >= 0; k--) seen = seen * 31 % 1000003 + room[k] % 1000;
        const i64 n = intersect(t, va, at[0], at[1], vb, at[2], at[3], room);
        if (!all(t, seen == from_rank(t, seen, 0))) mine[0] = -1;
        const i64 share = count_common(t, va, at[0], at[1], vb, at[2], at[3]);
        const i64 first = at[5]; // in place, in an array that starts before the list
        const auto buffer = slice(own, first, at[1] - first);
        const i64 kept = intersect(t, buffer, at[0] - first, at[1] - first, vb, at[2], at[3],
                                   buffer);
        const i64 common = sum(t, share);
        const i64 leapt = count_leapfrog(va, at[0], at[1], vb, at[2], at[3]);
        if (t.rank == 0) {
            mine[0] += n;
            mine[1] = common;
            mine[2] = kept;
            mine[3] = leapt;
        }
    }
}

// A case of a list [lo, hi) and a key.
KERNEL(search_32)(ARRAY(const A) values, ARRAY(const i64) cases, i64 count, ARRAY(i64) found) {
    const Tile<32> t = tile_here<32>();
    for (i64 c = tile_of_grid<32>(); c < count; c += tiles_of_grid<32>()) {
        const i64 lo = cases[3 * c], hi = cases[3 * c + 1], key = cases[3 * c + 2];
        const auto list = slice(values, lo, hi - lo);
        const i64 results[] = {
            lower(values, lo, hi, key),     upper(values, lo, hi, key),
            find(values, lo, hi, key),      has(values, lo, hi, key),
            seek(values, lo, hi, key),      lower(t, values, lo, hi, key),
            upper(t, values, lo, hi, key),  find(t, values, lo, hi, key),
            has(t, values, lo, hi, key),    parent_of(list, hi - lo, key),
            parent_of(t, list, hi - lo, key),
        };
        for (int k = 0; k < 11; k++) {
            const bool same = all(t, results[k] == from_rank(t, results[k], 0));
            if (t.rank == 0) found[11 * c + k] = same ? results[k] : -2;
        }
    }
}

// Cases of two lists, as above, one for each lane; every fifth lane has none. With positions of 64
// bits, and of 32.
KERNEL(each_32)(ARRAY(const A) va, ARRAY(const B) vb, ARRAY(const i64) cases, i64 count,
                ARRAY(i64) found) {
    const Tile<32> t = tile_here<32>();
    const i64 lanes = threads_of_grid() / tiles_of_grid<32>();
    for (i64 c = tile_of_grid<32>() * lanes; c < count; c += threads_of_grid()) {
        const bool yes = c + t.rank < count && (c + t.rank) % 5 != 4;
        const auto at = slice(cases, 6 * (yes ? c + t.rank : c), 6);
        const i64 n = count_common_of_each(t, yes, va, at[0], at[1], vb, at[2], at[3]);
        const i64 same = count_common_of_each(t, yes, va, (i32)at[0], (i32)at[1], vb, (i32)at[2],
                                              (i32)at[3]);
        if (c + t.rank < count) found[c + t.rank] = n != same ? -1 : yes ? n : -n;
    }
}

// The parent of each position, looked for from that of the tile's first position on.
KERNEL(parents_32)(ARRAY(const A) offsets, i64 n_offsets, i64 count, ARRAY(i64) found) {
    const Tile<32> t = tile_here<32>();
    const i64 lanes = threads_of_grid() / tiles_of_grid<32>();
    for (i64 at = tile_of_grid<32>() * lanes; at < count; at += threads_of_grid()) {
        const i64 first = parent_of(t, offsets, n_offsets, at), mine = at + t.rank;
        if (mine < count) found[mine] = parent_near(t, offsets, first, n_offsets, mine);
    }
}

// Cases of two lists, one for each lane, of which many have the same second list, as in `each_32`.
// Counts the common values of as many cases as a tile has lanes.
KERNEL(held_32)(ARRAY(const i32) va, ARRAY(const i32) vb, ARRAY(const i64) cases, i64 count,
                ARRAY(i64) found) {
    const Tile<32> t = tile_here<32>();
    SHARED(i32, all_held, HELD_SLOTS * (64 / 32));
    const i64 lanes = threads_of_grid() / tiles_of_grid<32>();
    const auto held = slice(all_held, thread_of_block() / lanes * HELD_SLOTS, HELD_SLOTS);
    Held now = {0, 0, 0};
    for (i64 c = tile_of_grid<32>() * lanes; c < count; c += threads_of_grid()) {
        const bool yes = c + t.rank < count && (c + t.rank) % 5 != 4;
        const auto at = slice(cases, 4 * (yes ? c + t.rank : c), 4);
        const i64 n = count_common_held(t, yes, va, (i32)at[0], (i32)at[1], vb, (i32)at[2],
                                        (i32)at[3], held, now);
        const i64 all = sum(t, n);
        if (t.rank == 0) found[c / lanes] = all;
    }
}
