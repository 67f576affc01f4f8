// Building blocks of a level's expansion: searches in sorted lists, compaction, load balancing.
#pragma once
#include "prelude.cuh"

// ---------------------------------------------------------------------------------------- searches
//
// One thread searches for each value.
//
// Neighbouring threads of a warp usually search one list for ascending values, so their first
// probes are at the same places, and their last ones close together.

// The first position in [lo, hi) whose value is not less than the key.
template <class A>
DEVICE i64 lower_bound(A values, i64 lo, i64 hi, i64 key) {
    while (lo < hi) {
        const i64 middle = lo + ((hi - lo) >> 1);
        if ((i64)values[middle] < key)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo;
}

// The first position in [lo, hi) whose value is greater than the key.
template <class A>
DEVICE i64 upper_bound(A values, i64 lo, i64 hi, i64 key) {
    while (lo < hi) {
        const i64 middle = lo + ((hi - lo) >> 1);
        if ((i64)values[middle] <= key)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo;
}

// The key's position in [lo, hi); -1 if absent.
template <class A>
DEVICE i64 find_within(A values, i64 lo, i64 hi, i64 key) {
    const i64 at = lower_bound(values, lo, hi, key);
    return at < hi && (i64)values[at] == key ? at : -1;
}

// The key's position in a list with an index of all values from `least` on; -1 if absent.
template <class A>
DEVICE i64 find_indexed(A index, i64 least, i64 size, i64 key) {
    // Unsigned, because the distance of two ints may not fit into one.
    const u64 at = (u64)key - (u64)least;
    return at < (u64)size ? (i64)index[(i64)at] : -1;
}

// -------------------------------------------------------------------------- compaction in one pass
//
// Entries that a block keeps are written after those of earlier tiles.
//
// Blocks take tiles of TILE entries by number. A block publishes how many entries of its tile it
// keeps. Then it looks back over earlier tiles, from the nearest on, until one has the sum of all
// tiles up to it (Merrill and Garland's decoupled look-back). A block takes a tile's number only
// once it runs, so a block only waits for running blocks. The state is one array of zeros: [0]
// tiles taken, [1] entries kept in the end, [2 + tile] what a tile has published.

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

// The number of entries that earlier tiles keep; called by all lanes of one warp.
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

// ---------------------------------------------------------------------------------- load balancing
//
// Finds the row of each entry, for rows with lists of any lengths.
//
// `ends` is the running sum of the lengths. First, one thread for each tile finds the row in which
// the tile begins. Then a thread for each entry searches the rows of its tile, whose ends are in
// the L1 cache.

// The row of an entry of the tile. With a single tile there are no cuts.
template <class E, class C>
DEVICE i64 row_of(E ends, C cuts, i64 rows, i64 tile, i64 tiles, i64 entry) {
    if (tiles == 1) return upper_bound(ends, 0, rows - 1, entry);
    return upper_bound(ends, cuts[tile], cuts[tile + 1], entry);
}
