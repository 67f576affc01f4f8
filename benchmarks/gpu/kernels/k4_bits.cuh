// Four-cliques by recoding: the edges among a vertex's neighbours become rows of bits, and what is
// left are ANDs and counts of bits. Row j has bit k where the j-th neighbour is joined to the
// k-th, k > j.
//
// `k4_few` serves vertices with at most LANES neighbours behind them: a team to a vertex, each lane
// keeps a row in a register. `k4_many` serves the others: a block to a vertex, rows in shared memory
// where they fit, else in `room`; there LANES is 32. A row's words are an odd number, so that lanes
// that read one word of as many rows do so in as many banks.
#include "meet.cuh"

KERNEL(k4_few)
(ARRAY(const i32) offsets, ARRAY(const i32) targets, ARRAY(const i32) vertices, i64 count,
 i64 grain, ARRAY(i64) counter, ARRAY(i64) total, ARRAY(i64) ends) {
    const Team team = tile_here<LANES>();
    i64 found = 0;
    Items items = items_of(count, grain);
    while (more(team, items, counter)) {
        const i32 a = vertices[items.at], start = offsets[a], n = offsets[a + 1] - start;
        const i32 value = team.rank < n ? targets[start + team.rank] : 0;
        u32 row = 0u;
        for (i32 j = 0; j < n; j += 1) {
            const i32 b = from_rank(team, value, j);
            const bool joined = team.rank > j && team.rank < n &&
                                has(targets, offsets[b], offsets[b + 1], value);
            const u32 votes = ballot(team, joined);
            if (team.rank == j) row = votes;
        }
        for (i32 k = 1; k < n; k += 1) {
            const u32 other = from_rank(team, row, k);
            if (row >> k & 1u) found += bits_of(row & other);
        }
    }
    finish(team, found, total, ends);
}

// The rows of a vertex's neighbours, and how many cliques they make: this lane's part of them.
template <class A, class R>
DEVICE i64 recoded(Team team, A offsets, A targets, i32 start, i32 n, R rows) {
    const int warp = thread_of_block() / 32, warps = threads_of_block() / 32;
    const i32 words = (n + 31) >> 5, stride = words | 1;
    for (i32 j = warp; j < n; j += warps) {
        const i32 b = targets[start + j], first = offsets[b], end = offsets[b + 1];
        for (i32 w = j >> 5; w < words; w += 1) {
            const i32 k = 32 * w + team.rank;
            const bool joined = k > j && k < n && has(targets, first, end, targets[start + k]);
            const u32 votes = ballot(team, joined);
            if (team.rank == 0) rows[j * stride + w] = votes;
        }
    }
    block_sync();
    i64 found = 0;
    for (i32 j = warp; j < n; j += warps) {
        for (i32 w = j >> 5; w < words; w += 1) {
            if (!(rows[j * stride + w] >> team.rank & 1u)) continue;
            const i32 k = 32 * w + team.rank;
            for (i32 u = w; u < words; u += 1)
                found += bits_of(rows[j * stride + u] & rows[k * stride + u]);
        }
    }
    block_sync();
    return found;
}

#define NEAR_ROWS (4 * SHORT)

KERNEL(k4_many)
(ARRAY(const i32) offsets, ARRAY(const i32) targets, ARRAY(const i32) vertices, i64 count,
 i64 longest, ARRAY(u32) room, ARRAY(i64) counter, ARRAY(i64) total, ARRAY(i64) ends) {
    SHARED(u32, near, NEAR_ROWS * ((NEAR_ROWS + 31) / 32 | 1));
    SHARED(i64, next, 1);
    const Team team = tile_here<LANES>();
    const i64 words = longest * ((longest + 31) / 32 | 1);
    const auto far = slice(room, block_of_grid() * words, words);
    i64 found = 0;
    for (;;) {
        if (thread_of_block() == 0) next[0] = atomic_add(counter, 0, 1);
        block_sync();
        const i64 item = next[0];
        if (item >= count) break;
        const i32 a = vertices[item], start = offsets[a], n = offsets[a + 1] - start;
        if (n <= NEAR_ROWS)
            found += recoded(team, offsets, targets, start, n, near);
        else
            found += recoded(team, offsets, targets, start, n, far);
    }
    finish(team, found, total, ends);
}
