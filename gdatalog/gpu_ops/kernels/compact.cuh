// Compaction in one pass: entries that a block keeps are written after those of earlier tiles.
//
// Blocks take tiles of TILE entries by number. A block publishes how many entries of its tile it
// keeps. Then it looks back over earlier tiles, from the nearest on, until one has the sum of all
// tiles up to it (Merrill and Garland's decoupled look-back). A block takes a tile's number only
// once it runs, so a block only waits for running blocks. The state is one array of zeros: [0]
// tiles taken, [1] entries kept in the end, [2 + tile] what a tile has published.
#pragma once
#include "prelude.cuh"

#define THREADS 256  // of a block
#define EACH 4       // entries of a thread in a tile: THREADS apart
#define TILE (THREADS * EACH)
#define WARPS (THREADS / 32)
// Flags of a tile's word: its own count is known, or the sum of all tiles up to it.
#define OWN ((u64)1 << 62)
#define WHOLE ((u64)2 << 62)

// Takes the next tile for this block; called by all of its threads.
template <class A>
DEVICE i64 next_tile(A state) {
    SHARED(i64, taken, 1);
    block_sync();
    if (thread_of_block() == 0) taken[0] = atomic_add(state, 0, 1);
    block_sync();
    return taken[0];
}

// How many entries earlier tiles keep; called by all lanes of one warp.
template <class A>
DEVICE i64 kept_before(A state, i64 tile) {
    const u32 all = 0xFFFFFFFFu;
    const int lane = thread_of_block() & 31;
    i64 before = 0;
    for (i64 end = tile; end > 0;) {
        const i64 other = end - 1 - lane;
        const u64 word = other < 0 ? WHOLE : (u64)load_relaxed(state, 2 + other);
        const u32 told = warp_ballot(all, word != 0), whole = warp_ballot(all, word >= WHOLE);
        const int nearest = lowest_bit(whole);
        const u32 needed = nearest < 0 ? all : (2u << nearest) - 1u;
        if ((told & needed) != needed) {
            pause(100);
            continue;
        }
        i64 mine = needed >> lane & 1u ? (i64)(word & (OWN - 1)) : 0;
        for (int lanes = 16; lanes > 0; lanes /= 2) mine += warp_shuffle_xor(all, mine, lanes);
        before += mine;
        if (nearest >= 0) break;
        end -= 32;
    }
    return before;
}

// The position of each entry that this thread keeps; `end` is the number of tiles.
template <class K, class T, class A>
DEVICE void places_of_kept(K keep, T to, A state, i64 tile, i64 end) {
    SHARED(i64, counts, EACH * WARPS);
    SHARED(i64, base, 1);
    const u32 all = 0xFFFFFFFFu;
    const int lane = thread_of_block() & 31, warp = thread_of_block() >> 5;
    int rank[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const u32 votes = warp_ballot(all, keep[i]);
        rank[i] = bits_of(votes & ((1u << lane) - 1u));
        if (lane == 0) counts[i * WARPS + warp] = bits_of(votes);
    }
    block_sync();
    if (warp == 0) {  // 32 counts, one for each lane
        const i64 own = counts[lane];
        i64 sum = own;
        for (int by = 1; by < 32; by *= 2) {
            const i64 other = warp_shuffle_up(all, sum, by);
            if (lane >= by) sum += other;
        }
        const i64 total = warp_shuffle(all, sum, 31);
        if (lane == 0) store_relaxed(state, 2 + tile, (i64)((tile ? OWN : WHOLE) | (u64)total));
        const i64 before = kept_before(state, tile);
        if (lane == 0 && tile) store_relaxed(state, 2 + tile, (i64)(WHOLE | (u64)(before + total)));
        if (lane == 0 && tile + 1 == end) state[1] = before + total;
        if (lane == 0) base[0] = before;
        counts[lane] = sum - own;
    }
    block_sync();
#pragma unroll
    for (int i = 0; i < EACH; i++) to[i] = base[0] + counts[i * WARPS + warp] + rank[i];
}
