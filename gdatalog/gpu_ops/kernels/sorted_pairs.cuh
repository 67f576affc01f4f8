// Looks (parent, value) pairs up in the lists of a level (VALUE, OFFSET: the types of its values and
// offsets; PARENT, KEY: of what is sought; PLACE: of positions).
#include "near.cuh"

// The position of each key in its parent's list; -1 if it is absent. If parents ascend, tiles cut the
// keys and the lists as a merge does.
KERNEL(look_up_pairs)(ARRAY(PLACE) found, ARRAY(const VALUE) values, ARRAY(const KEY) sought,
                      ARRAY(const OFFSET) offsets, ARRAY(const PARENT) parents, i64 size) {
    SHARED(VALUE, near, NEAR);
    const i64 tiles = (size + TILE - 1) / TILE;
    for (i64 tile = block_of_grid(); tile < tiles; tile += blocks_of_grid()) {
        KEY keys[EACH];
        PARENT of[EACH], least = parents[tile * TILE], greatest = least;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const i64 at = tile * TILE + place_in_tile(i);
            of[i] = at < size ? +parents[at] : least;
            keys[i] = at < size ? +sought[at] : 0;
            least = of[i] < least ? of[i] : least;
            greatest = of[i] > greatest ? of[i] : greatest;
        }
        extent_of_block(least, greatest);
        const i64 low = offsets[least], high = offsets[greatest + 1];
        const bool close = high - low <= NEAR;
        i32 at[EACH], end[EACH], longest = 0;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            at[i] = close ? (i32)(offsets[of[i]] - low) : 0;
            end[i] = close ? (i32)(offsets[of[i] + 1] - low) : 0;
            longest = end[i] - at[i] > longest ? end[i] - at[i] : longest;
        }
        if (close)
            for (int to = thread_of_block(); to < high - low; to += THREADS) near[to] = values[low + to];
        block_sync();
        search_near(near, keys, at, end, longest);
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const i64 to = tile * TILE + place_in_tile(i);
            if (to >= size) continue;
            if (close)
                found[to] = at[i] < end[i] && +near[at[i]] == keys[i] ? (PLACE)(low + at[i]) : -1;
            else
                found[to] = (PLACE)find(values, offsets[of[i]], offsets[of[i] + 1], keys[i]);
        }
    }
}
