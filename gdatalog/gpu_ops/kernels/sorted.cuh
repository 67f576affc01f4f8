// Looks values up in a sorted list (VALUE, KEY, PLACE: the types of its values, of what is sought,
// and of positions).
#pragma once
#include "search.cuh"

#define NEAR 2048  // values of the list that a block takes into shared memory

// The least value of the block's threads; called by all of them.
DEVICE i64 least_of_block(i64 value) {
    SHARED(i64, least, WARPS);
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        const i64 other = warp_shuffle_xor(0xFFFFFFFFu, value, lanes);
        value = other < value ? other : value;
    }
    block_sync();
    if ((thread_of_block() & 31) == 0) least[thread_of_block() >> 5] = value;
    block_sync();
    for (int warp = 0; warp < WARPS; warp++) value = least[warp] < value ? least[warp] : value;
    return value;
}

// The position of each key; -1 if it is absent. A block first finds the part of the list between the
// least and the greatest of its keys (if keys ascend, tiles cut both lists as a merge does), and its
// threads search there: in shared memory, if the part is short.
KERNEL(look_up_sorted)(ARRAY(PLACE) found, ARRAY(const VALUE) values, ARRAY(const KEY) sought,
                       i64 length, i64 size) {
    SHARED(VALUE, near, NEAR);
    const i64 tiles = (size + TILE - 1) / TILE;
    for (i64 tile = block_of_grid(); tile < tiles; tile += blocks_of_grid()) {
        const i64 first = tile * TILE + thread_of_block();
        const i64 lowest = (i64)((u64)1 << 63);
        i64 keys[EACH], least = ~lowest, greatest = lowest;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const i64 at = first + i * THREADS;
            keys[i] = 0;
            if (at >= size) continue;
            keys[i] = sought[at];
            least = keys[i] < least ? keys[i] : least;
            greatest = keys[i] > greatest ? keys[i] : greatest;
        }
        least = least_of_block(least);
        greatest = ~least_of_block(~greatest);
        const i64 low = least == lowest ? 0 : row_by_block(values, 0, length, least - 1);
        const i64 high = row_by_block(values, low, length, greatest), part = high - low;
        block_sync();  // all threads have searched for the tile before
        for (i64 at = thread_of_block(); part <= NEAR && at < part; at += THREADS)
            near[at] = values[low + at];
        block_sync();
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const i64 at = first + i * THREADS;
            if (at >= size) continue;
            const i64 place = part <= NEAR ? find(near, 0, part, keys[i])
                                           : find(values, low, high, keys[i]);
            found[at] = (PLACE)(place < 0 ? place : part <= NEAR ? low + place : place);
        }
    }
}
