// Searches of a block's keys in a part of sorted lists: in shared memory, if the part is short.
#pragma once
#define EACH 8
#include "search.cuh"

#define NEAR 2048  // values of the lists that a block takes into shared memory

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

// For each key the first position in [at, end) of shared memory whose value is not less: for all keys
// of this thread together, so that none waits for the probe of another. `longest`: of these parts.
template <class S, class K>
DEVICE void search_near(S near, const K (&keys)[EACH], i32 (&at)[EACH], const i32 (&end)[EACH],
                        i32 longest) {
    i32 half = 1;
    while (2 * half <= longest) half *= 2;
    for (; half > 0; half /= 2) {
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const i32 probe = at[i] + half;
            if (probe <= end[i] && +near[probe - 1] < keys[i]) at[i] = probe;
        }
    }
}
