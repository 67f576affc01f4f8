// A tile: 1, 2, 4, 8, 16 or 32 lanes of a warp that walk one subtree together.
//
// All lanes of a tile make each collective call. Tiles of one warp may be at different calls; the
// mask names the lanes that take part. In a tile of one lane, collectives compile to nothing.
#pragma once
#include "prelude.cuh"

template <int N>
struct Tile {
    u32 mask;   // its lanes in the warp
    int rank;   // this lane's number in the tile
    int first;  // the warp's lane with rank 0
};

template <int N>
DEVICE Tile<N> tile_here() {
    const int lane = thread_of_block() & 31, first = lane & ~(N - 1);
    const u32 ones = N == 32 ? 0xFFFFFFFFu : (1u << N % 32) - 1u;
    Tile<N> tile = {ones << first, lane - first, first};
    return tile;
}

// The number of this tile in the grid, and the number of tiles.
template <int N>
DEVICE i64 tile_of_grid() {
    return thread_of_grid() / N;
}
template <int N>
DEVICE i64 tiles_of_grid() {
    return threads_of_grid() / N;
}

template <int N>
DEVICE void sync(Tile<N> t) {
    if (N > 1) warp_sync(t.mask);
}

// The lanes with `yes`: bit k is the lane of rank k.
template <int N>
DEVICE u32 ballot(Tile<N> t, bool yes) {
    if (N == 1) return yes ? 1u : 0u;
    return (warp_ballot(t.mask, yes) & t.mask) >> t.first;
}
template <int N>
DEVICE bool any(Tile<N> t, bool yes) {
    return ballot(t, yes) != 0u;
}
template <int N>
DEVICE bool all(Tile<N> t, bool yes) {
    return ballot(t, !yes) == 0u;
}
// The number of lanes in a ballot with a lower rank than this lane.
template <int N>
DEVICE int before(Tile<N> t, u32 votes) {
    return bits_of(votes & ((1u << t.rank) - 1u));
}

template <int N, class T>
DEVICE T from_rank(Tile<N> t, T value, int rank) {
    if (N == 1) return value;
    return warp_shuffle(t.mask, value, t.first + rank);
}

// The sum, the least, the greatest of all lanes' values; every lane gets it.
template <int N, class T>
DEVICE T sum(Tile<N> t, T value) {
    for (int lanes = N / 2; lanes > 0; lanes /= 2) value += warp_shuffle_xor(t.mask, value, lanes);
    return value;
}
template <int N, class T>
DEVICE T least(Tile<N> t, T value) {
    for (int lanes = N / 2; lanes > 0; lanes /= 2) {
        const T other = warp_shuffle_xor(t.mask, value, lanes);
        value = other < value ? other : value;
    }
    return value;
}
template <int N, class T>
DEVICE T greatest(Tile<N> t, T value) {
    for (int lanes = N / 2; lanes > 0; lanes /= 2) {
        const T other = warp_shuffle_xor(t.mask, value, lanes);
        value = value < other ? other : value;
    }
    return value;
}

// -------------------------------------------------------------------- the ranges of a tile's lanes
//
// Shares the turns of all ranges among the lanes.

// The ranges of all lanes as one sequence. P: of its places, O: of positions in ranges.
template <class P, class O = P>
struct SpreadOf {
    P end;     // the end of this lane's range in the sequence
    O origin;  // add it to a place in the sequence to get the place in this lane's range
    P total;
};
typedef SpreadOf<i64> Spread;

template <class P, int N, class O>
DEVICE SpreadOf<P, O> spread_lengths(Tile<N> t, O low, P length) {
    P end = length;
    for (int by = 1; by < N; by *= 2) {
        const P before = from_rank(t, end, t.rank >= by ? t.rank - by : t.rank);
        end += t.rank >= by ? before : 0;
    }
    const SpreadOf<P, O> found = {end, low - (end - length), from_rank(t, end, N - 1)};
    return found;
}
template <int N, class P>
DEVICE SpreadOf<P> spread_out(Tile<N> t, P low, P high, bool yes = true) {
    return spread_lengths<P>(t, low, yes && high > low ? high - low : (P)0);
}

// Ranges from this length on are not spread: all lanes take one after the other. And those that would
// be taken by groups of lanes.
constexpr i64 LONG = 64, LONG_FOR_GROUPS = 256;

// Of ranges that are shorter.
template <int N, class O>
DEVICE SpreadOf<i32, O> spread_short(Tile<N> t, O low, O high) {
    return spread_lengths<i32>(t, low, high > low ? (i32)(high - low) : 0);
}

// The lane whose range contains a place of the sequence. All lanes call it, with consecutive places
// in the order of their ranks; some places may be beyond the end.
template <int N, class P, class O>
DEVICE int owner_of(Tile<N> t, const SpreadOf<P, O>& spread, P place) {
    const P left = spread.end - (place - t.rank);  // relative to the first lane's
    const int end = left < 0 ? 0 : left < N ? (int)left : N;
    int owner = 0;
    for (int half = N / 2; half > 0; half /= 2) {
        owner += from_rank(t, end, owner + half - 1) <= t.rank ? half : 0;
    }
    return owner;
}

// ---------------------------------------------------------------------------- counters of bindings
//
// Adds a tile's counters of bindings to the launch's, for profiles; each lane has a part.

template <int N, class A>
DEVICE void add_counted(Tile<N> t, A bindings, i64 at, i64 mine) {
    const i64 all = sum(t, mine);
    if (t.rank == 0 && all != 0) atomic_add(bindings, at, all);
}

// The same for work that every tile repeats: the greatest count of any tile.
template <int N, class A>
DEVICE void at_least_counted(Tile<N> t, A bindings, i64 at, i64 mine) {
    const i64 all = sum(t, mine);
    if (t.rank == 0) atomic_max(bindings, at, all);
}
