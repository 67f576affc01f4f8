// Looks (parent, value) pairs up in the lists of a level (VALUE, OFFSET: the types of its values and
// offsets; PARENT, KEY: of what is sought; PLACE: of positions).
#include "search.cuh"

constexpr int PAIRS_BLOCKS = sizeof(VALUE) + sizeof(KEY) + sizeof(PLACE) > 12 ? 6 : 8;

// The position of each key in its parent's list; -1 if it is absent. Lists are searched in place:
// those of a tile lie together if its parents ascend, and so in the first cache. (Copied to shared
// memory first, they took longer.)
KERNEL_OF_BLOCKS(PAIRS_BLOCKS, look_up_pairs)(ARRAY(PLACE) found, ARRAY(const VALUE) values,
                                              ARRAY(const KEY) sought, ARRAY(const OFFSET) offsets,
                                              ARRAY(const PARENT) parents, i64 size) {
    const i64 tiles = (size + TILE - 1) / TILE;
    for (i64 tile = block_of_grid(); tile < tiles; tile += blocks_of_grid()) {
        KEY keys[EACH];
        PLACE at[EACH], end[EACH];
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const i64 from = tile * TILE + place_in_tile(i);
            keys[i] = 0, at[i] = end[i] = 0;
            if (from >= size) continue;
            const i64 parent = parents[from];
            keys[i] = sought[from];
            at[i] = (PLACE)offsets[parent], end[i] = (PLACE)offsets[parent + 1];
        }
        lower_of_each(values, keys, at, end);
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const i64 to = tile * TILE + place_in_tile(i);
            if (to >= size) continue;
            found[to] = at[i] < end[i] && +values[at[i]] == keys[i] ? at[i] : -1;
        }
    }
}
