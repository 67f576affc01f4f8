// The top of a root's search tree in shared memory, for a root without an index.
//
// A block keeps up to 1023 evenly spaced values of the root, the pivots, in the order of a binary
// tree's levels, so lanes at one level read neighbouring words. A search starts there, and ends in
// the one bucket of the list that the pivots leave.
//
//     SHARED(i32, top, TOP);
//     const int n_top = load_top(values, n, top);     // all threads of the block
//     find_in_root_with_top(values, n, top, n_top, key);
#pragma once
#include "lists.cuh"

constexpr int TOP_LEVELS = 10;
constexpr int TOP = (1 << TOP_LEVELS) - 1;

// The length of a bucket; there is one more bucket than pivots.
DEVICE i64 bucket_of(i64 n, int n_top) { return (n + n_top) >> bits_of((u32)n_top); }

// Loads the pivots; called by all threads of a block. Returns how many there are.
template <class A, class T>
DEVICE int load_top(A values, i64 n, T top) {
    int n_top = 0;
    while (n_top < TOP && n_top + 1 < n) n_top = 2 * n_top + 1;
    const i64 bucket = bucket_of(n, n_top);
    for (int i = thread_of_block() + 1; i <= n_top; i += threads_of_block()) {
        // The position in sorted order of the tree's i-th pivot, counted level by level from 1 on.
        int half = n_top + 1;
        for (int up = i; up > 0; up >>= 1) half >>= 1;
        const i64 at = ((2 * i + 1) * half - (n_top + 1)) * bucket;
        top[i - 1] = +values[at < n ? at : n - 1];  // a short list repeats its last
    }
    block_sync();
    return n_top;
}

// The key's position in a root's list, -1 if absent.
template <class A, class T, class K>
DEVICE i64 find_in_root_with_top(A values, i64 n, T top, int n_top, K key) {
    if (n == 0) return -1;
    int i = 1;
    while (i <= n_top) i = 2 * i + (+top[i - 1] <= key ? 1 : 0);
    const i64 bucket = bucket_of(n, n_top), start = (i - n_top - 1) * bucket;
    // Beyond the repetitions of the last value, only that is left.
    const i64 lo = start < n ? start : n - 1, hi = lo + bucket < n ? lo + bucket : n;
    return find(values, lo, hi, key);
}
