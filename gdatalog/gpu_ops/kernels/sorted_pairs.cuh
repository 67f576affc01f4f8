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
        const bool close = take_part(near, values, low, high - low);
        i32 at[EACH], left[EACH], end[EACH];
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            at[i] = end[i] = left[i] = 0;
            if (!close) continue;
            at[i] = (i32)(offsets[of[i]] - low);
            end[i] = (i32)(offsets[of[i] + 1] - low);
            left[i] = end[i] - at[i];
        }
        search_near(near, keys, at, left);
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
