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
// How many lanes of a lower rank are in a ballot.
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
