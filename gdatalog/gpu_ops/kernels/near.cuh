// Searches of a block's keys in a part of sorted lists: in shared memory, if the part is short.
#pragma once
#include "search.cuh"

#ifndef NEAR
#define NEAR 2048  // values of the lists that a block takes into shared memory
#endif

// The least and the greatest value of the block's threads; called by all of them.
template <class T>
DEVICE void extent_of_block(T& least, T& greatest) {
    SHARED(T, edges, 2 * WARPS);
    const int warp = thread_of_block() >> 5;
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        const T low = warp_shuffle_xor(0xFFFFFFFFu, least, lanes);
        const T high = warp_shuffle_xor(0xFFFFFFFFu, greatest, lanes);
        least = low < least ? low : least;
        greatest = high > greatest ? high : greatest;
    }
    block_sync();
    if ((thread_of_block() & 31) == 0) edges[warp] = least, edges[WARPS + warp] = greatest;
    block_sync();
    for (int other = 0; other < WARPS; other++) {
        least = +edges[other] < least ? +edges[other] : least;
        greatest = +edges[WARPS + other] > greatest ? +edges[WARPS + other] : greatest;
    }
}

// Takes a part of the lists into shared memory, if there is room; called by all threads.
template <class S, class A>
DEVICE bool take_part(S near, A values, i64 low, i64 part) {
    for (i64 at = thread_of_block(); part <= NEAR && at < part; at += THREADS)
        near[at] = values[low + at];
    block_sync();
    return part <= NEAR;
}

// The first value of [at, at + left) in shared memory that is not less than the key, for all keys of
// this thread together, so that none waits for the probe of another.
template <class S, class K>
DEVICE void search_near(S near, const K (&keys)[EACH], i32 (&at)[EACH], i32 (&left)[EACH]) {
    i32 most = 0;
#pragma unroll
    for (int i = 0; i < EACH; i++) most = left[i] > most ? left[i] : most;
    for (; most > 0; most >>= 1) {
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            if (left[i] <= 0) continue;
            const i32 half = left[i] >> 1, probe = at[i] + half;
            const bool before = +near[probe] < keys[i];
            at[i] = before ? probe + 1 : at[i];
            left[i] = before ? left[i] - half - 1 : half;
        }
    }
}
