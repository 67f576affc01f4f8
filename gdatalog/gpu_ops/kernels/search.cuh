// Building blocks of a level's expansion: searches in sorted lists, sums, load balancing.
#pragma once
#include "lists.cuh"

// ------------------------------------------------------------------------------------ equal values
//
// Neighbouring threads of a warp usually search one list for ascending values, so their first
// probes are at the same places, and their last ones close together.

// The end of the run of equal values around a position, among so many: found by doubled steps.
template <class A>
DEVICE i64 run_end(A values, i64 at, i64 size) {
    const auto key = +values[at];
    i64 low = at + 1;
    for (i64 step = 1; low < size && +values[low] == key; step *= 2) low += step;
    const i64 high = low < size ? low : size;
    return upper(values, at + 1, high, key);
}

// Where that run begins.
template <class A>
DEVICE i64 run_begin(A values, i64 at) {
    const auto key = +values[at];
    i64 high = at;
    for (i64 step = 1; high > 0 && +values[high] == key; step *= 2) high -= step;
    return lower(values, high > 0 ? high : 0, at, key);
}

// ------------------------------------------------------------------------------ keys of a thread
//
// For each of a thread's keys the first position of [at, end) whose value is not less: for all keys
// together, so that none waits for the probes of another. An empty part needs no key.
template <int N, class A, class K, class P>
DEVICE void lower_of_each(A values, const K (&keys)[N], P (&at)[N], const P (&end)[N]) {
    P longest = 0;
#pragma unroll
    for (int i = 0; i < N; i++) longest = end[i] - at[i] > longest ? end[i] - at[i] : longest;
    if (longest == 0) return;
    for (P step = (P)1 << highest_bit((u64)longest); step > 0; step >>= 1) {
#pragma unroll
        for (int i = 0; i < N; i++) {
            if (step <= end[i] - at[i] && +values[at[i] + (step - 1)] < keys[i]) at[i] += step;
        }
    }
}

// --------------------------------------------------------------------- compaction, running sums
//
// Sums over tiles of entries in one pass: where the entries that a block keeps are to be written,
// after those of earlier tiles; or running sums.
//
// Blocks take tiles of TILE entries by number. A block publishes the sum of its tile. Then it looks
// back over earlier tiles, from the nearest on, until one has the sum of all tiles up to it
// (Merrill and Garland's decoupled look-back). A block takes a tile's number only once it runs, so
// a block only waits for running blocks. The state is one array of zeros: [0] tiles taken, [1] the
// sum in the end, [2] not 0 if no more tiles are to be taken, [3] for the kernel, [HEAD + tile]
// what a tile has published.

#define THREADS 256  // of a block
#ifndef EACH
#define EACH 4  // entries of a thread in a tile
#endif
#define TILE (THREADS * EACH)
#define WARPS (THREADS / 32)
#define HEAD 4
#define HELD 1024  // rows of a tile that there is shared memory for
#define NO_TILE ((i64)1 << 62)
// Flags of a tile's word: its own sum is known, or the sum of all tiles up to it.
#define OWN ((u64)1 << 62)
#define WHOLE ((u64)2 << 62)

// How many entries of a tile each thread has: fewer, where there would be fewer tiles than SPREAD.
#define SPREAD 256
DEVICE int entries_each(i64 size) {
    const i64 each = (size + THREADS * SPREAD - 1) / (THREADS * SPREAD);
    return each < 1 ? 1 : each < EACH ? (int)each : EACH;
}

// The same, but so few that a tile's rows, of which many may have no entries, are likely to be held in
// shared memory together.
DEVICE int entries_of_held(i64 size, i64 rows, i64 total) {
    const int each = entries_each(size);
    const i64 fit = rows > 0 ? total * (HELD * 3 / 4) / (rows * THREADS) : each;
    return fit < 1 ? 1 : fit < each ? (int)fit : each;
}

// The place in the tile of one of this thread's entries. Those of a warp lie together, so that its
// rows and lists do, and its lanes read neighbours.
DEVICE int place_in_tile(int i, int each = EACH) {
    return (thread_of_block() >> 5) * (32 * each) + i * 32 + (thread_of_block() & 31);
}

// Takes the next tile for this block; called by all of its threads.
template <class A>
DEVICE i64 next_tile(A state) {
    SHARED(i64, taken, 1);
    block_sync();
    if (thread_of_block() == 0)
        taken[0] = load_relaxed(state, 2) != 0 ? NO_TILE : atomic_add(state, 0, 1);
    block_sync();
    return taken[0];
}

// The same for a block that asks for the next tile while it works on one. Thread 0 keeps what it has
// taken, and whether more are to be taken as far as it knew then: what is taken must be worked on.
struct TakenTile {
    i64 tile, stopped;
};
template <class A>
DEVICE void take_ahead(A state, TakenTile& taken) {
    if (thread_of_block() != 0) return;
    taken.tile = taken.stopped != 0 ? NO_TILE : atomic_add(state, 0, 1);
    taken.stopped = load_relaxed(state, 2);
}
DEVICE i64 taken_tile(const TakenTile& taken) {
    SHARED(i64, told, 1);
    block_sync();
    if (thread_of_block() == 0) told[0] = taken.tile;
    block_sync();
    return told[0];
}

// The sum of earlier tiles; called by all lanes of one warp.
template <class A>
DEVICE i64 sum_before(A state, i64 tile) {
    const u32 all = 0xFFFFFFFFu;
    const int lane = thread_of_block() & 31;
    i64 mine = 0, end = tile;
    while (end > 0) {
        u64 words[4];  // of 128 tiles, read together
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const i64 other = end - 1 - 32 * k - lane;
            words[k] = other < 0 ? WHOLE : (u64)load_relaxed(state, HEAD + other);
        }
        bool known = true;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            if (!known || end <= 0) continue;
            const u32 told = warp_ballot(all, words[k] != 0);
            const int nearest = lowest_bit(warp_ballot(all, words[k] >= WHOLE));
            const u32 needed = nearest < 0 ? all : (2u << nearest) - 1u;
            known = (told & needed) == needed;
            if (!known) continue;
            if (needed >> lane & 1u) mine += (i64)(words[k] & (OWN - 1));
            end = nearest < 0 ? end - 32 : 0;
        }
        if (!known) pause(100);
    }
    for (int lanes = 16; lanes > 0; lanes /= 2) mine += warp_shuffle_xor(all, mine, lanes);
    return mine;
}

// The sum of the lanes up to this one.
DEVICE i64 sum_of_lanes(i64 sum) {
    const u32 all = 0xFFFFFFFFu;
    const int lane = thread_of_block() & 31;
    for (int by = 1; by < 32; by *= 2) {
        const i64 other = warp_shuffle_up(all, sum, by);
        if (lane >= by) sum += other;
    }
    return sum;
}

// Publishes the sum of a tile, and replaces the sum of each warp by the sum of those before it. Called
// by one warp; returns the tile's sum.
template <class S, class A>
DEVICE i64 publish_tile(S sums, A state, i64 tile) {
    const int lane = thread_of_block() & 31;
    const i64 own = lane < WARPS ? (i64)sums[lane] : 0, sum = sum_of_lanes(own);
    const i64 total = warp_shuffle(0xFFFFFFFFu, sum, 31);
    if (lane == 0) store_relaxed(state, HEAD + tile, (i64)((tile ? OWN : WHOLE) | (u64)total));
    if (lane < WARPS) sums[lane] = sum - own;
    return total;
}

// The sum of all tiles before one that has been published with its sum. Called by one warp; `end` is
// the number of tiles.
template <class A>
DEVICE i64 sum_before_tile(A state, i64 tile, i64 total, i64 end) {
    const i64 before = sum_before(state, tile);
    if ((thread_of_block() & 31) != 0) return before;
    if (tile) store_relaxed(state, HEAD + tile, (i64)(WHOLE | (u64)(before + total)));
    if (tile + 1 == end) state[1] = before + total;
    return before;
}

// Replaces the sum of each warp's entries by the sum of all entries before them; called by one warp.
template <class S, class A>
DEVICE void sum_of_warps(S sums, A state, i64 tile, i64 end) {
    const i64 total = publish_tile(sums, state, tile);
    const i64 before = sum_before_tile(state, tile, total, end);
    if ((thread_of_block() & 31) < WARPS) sums[thread_of_block() & 31] += before;
}

#ifndef KEPT
#define KEPT 256  // entries of a tile that a block holds until their places are known
#endif

// How many entries the block keeps of a tile, which is published, and how many of them are those of
// warps before this one. `keep`: a bit for each of this thread's entries.
struct KeptOfTile {
    int total, before;
};
template <class A>
DEVICE KeptOfTile publish_kept(u32 keep, A state, i64 tile) {
    SHARED(i64, counts, WARPS + 1);
    const int warp = thread_of_block() >> 5;
    int count = 0;
#pragma unroll
    for (int i = 0; i < EACH; i++) count += bits_of(warp_ballot(0xFFFFFFFFu, keep >> i & 1u));
    if ((thread_of_block() & 31) == 0) counts[warp] = count;
    block_sync();
    if (warp == 0) {
        const i64 total = publish_tile(counts, state, tile);
        if (thread_of_block() == 0) counts[WARPS] = total;
    }
    block_sync();
    return {(int)counts[WARPS], (int)counts[warp]};
}

// The place of a tile's first kept entry; called by all threads of the block.
template <class A>
DEVICE i64 place_of_tile(A state, i64 tile, i64 total, i64 end) {
    SHARED(i64, place, 1);
    block_sync();
    if (thread_of_block() < 32) {
        const i64 before = sum_before_tile(state, tile, total, end);
        if (thread_of_block() == 0) place[0] = before;
    }
    block_sync();
    return place[0];
}

// The place of an entry, if this thread keeps it, after those that the warp has kept.
template <class N>
DEVICE N take_place(N& next, bool keep) {
    const u32 votes = warp_ballot(0xFFFFFFFFu, keep);
    const N place = next + bits_of(votes & ((1u << (thread_of_block() & 31)) - 1u));
    next += bits_of(votes);
    return place;
}

// The sum of all entries up to each of this thread's. Sums stay below 2^62.
template <class V, class A>
DEVICE void running_sums(V values, A state, i64 tile, i64 end) {
    SHARED(i64, sums, WARPS);
    const int lane = thread_of_block() & 31, warp = thread_of_block() >> 5;
    i64 before = 0;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        values[i] = before + sum_of_lanes(values[i]);
        before = warp_shuffle(0xFFFFFFFFu, values[i], 31);
    }
    if (lane == 31) sums[warp] = before;
    block_sync();
    if (warp == 0) sum_of_warps(sums, state, tile, end);
    block_sync();
#pragma unroll
    for (int i = 0; i < EACH; i++) values[i] += sums[warp];
}

// How many rows a level has: at most `most`; or as many as a kernel before it has kept, whose state
// `ahead` is.
template <class A>
DEVICE i64 rows_of_level(i64 most, A ahead) {
    return most < 0 ? ahead[1] : most;
}

// ---------------------------------------------------------------------------------- load balancing
//
// Finds the row of each entry, for rows with lists of any lengths.
//
// `ends` is the running sum of the lengths: the path that merges it with the numbers of entries is
// cut into pieces of as many entries (merge path). Who sums the lengths up notes the row in which
// each tile begins; a block that begins elsewhere searches for its row, by all of its threads at
// once. It takes the ends of the tile's rows into shared memory, where each thread searches them
// for its entries.

// How many threads of the block say yes; called by all of them.
DEVICE int threads_with(bool yes) {
    SHARED(i32, votes, WARPS);
    const u32 mine = warp_ballot(0xFFFFFFFFu, yes);
    block_sync();
    if ((thread_of_block() & 31) == 0) votes[thread_of_block() >> 5] = bits_of(mine);
    block_sync();
    int sum = 0;
    for (int warp = 0; warp < WARPS; warp++) sum += votes[warp];
    return sum;
}

// The first position in [low, high) whose value is not before the key, else `high`; called by all
// threads of the block.
template <bool UP_TO, class A, class K>
DEVICE i64 bound_by_block(A values, i64 low, i64 high, K key) {
    while (low < high) {
        const i64 step = (high - low + THREADS - 1) / THREADS;
        const i64 last = low + (thread_of_block() + 1) * step - 1;  // of this thread's values
        low += step * threads_with(last < high && precedes<UP_TO>(+values[last], key));
        high = low + step - 1 < high ? low + step - 1 : high;
    }
    return low;
}
// The row of an entry: the first of [low, high) whose end is greater.
template <class E>
DEVICE i64 row_by_block(E ends, i64 low, i64 high, i64 entry) {
    return bound_by_block<true>(ends, low, high, entry);
}

// The row of a tile's first entry; called by all threads of the block. `cuts`: the rows of the
// entries 0, THREADS, 2 THREADS and so on, as far as they are `known`; `even`: tiles begin at some of
// these.
template <class E, class C>
DEVICE i32 row_of_tile(E ends, C cuts, i64 known, bool even, i32 rows, i64 begin, i64 total) {
    const i64 cut = begin / THREADS, next = cut + 1;
    if (even && cut < known) return cuts[cut];
    if (cut >= known) return (i32)row_by_block(ends, cuts[known - 1], rows, begin);
    const bool within = next < known && next * THREADS < total;
    return (i32)row_by_block(ends, cuts[cut], within ? (i64)cuts[next] + 1 : rows, begin);
}

// The row of the last entry of a tile that ends before `end`, if it is known; else -1.
template <class C>
DEVICE i32 last_row_of_tile(C cuts, i64 known, bool even, i32 rows, i64 end, i64 total) {
    const i64 next = end / THREADS;
    if (!even || next >= known) return -1;
    return end < total ? (i32)cuts[next] : rows - 1;
}

// Takes rows into shared memory, from `first` on: where they end, relative to `begin`, the tile's
// first entry; and what to add to such an entry for its place. Returns how many there are: all rows
// of the tile's entries, or so many as there is memory for. `size`: of the tile; `last`: the row of
// its last entry, or -1.
template <class E, class S, class B, class O>
DEVICE int rows_of_tile(E ends, S starts, B bounds, O origins, i32 rows, i32 first, i32 last,
                        i64 begin, int size) {
    const int known = last < 0 ? 0 : last - first < HELD ? last - first + 1 : HELD;
    block_sync();  // all threads have read the rows before
    for (int held = 0; held < HELD; held += THREADS) {
        const int at = held + thread_of_block();
        const i32 row = first + at;
        int bound = size;
        if (row < rows) {
            const i64 before = (row ? (i64)ends[row - 1] : 0) - begin, after = ends[row] - begin;
            origins[at] = starts[row] - before;
            bound = after < size ? (int)after : size;
        }
        bounds[at] = bound;
        if (known) {
            if (held + THREADS < known) continue;
            block_sync();
            return known;
        }
        const int ended = threads_with(bound < size);
        if (ended < THREADS) return held + ended + 1;
    }
    return HELD;
}

// The first of `count` rows in shared memory that ends behind an entry, from the row `low` on: it is
// near the row of the entry before.
template <class B>
DEVICE int row_in_tile(B bounds, int low, int count, int entry) {
    for (int near = 0; near < 2; near++, low++)
        if (low >= count || bounds[low] > entry) return low;
    while (low < count) {
        const int middle = low + ((count - low) >> 1);
        if (bounds[middle] <= entry)
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}
