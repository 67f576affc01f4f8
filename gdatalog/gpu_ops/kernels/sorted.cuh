// Looks values up in a sorted list (VALUE, KEY, PLACE: the types of its values, of what is sought,
// and of positions).
#include "near.cuh"

// The position of each key; -1 if it is absent. A block first finds the part of the list between the
// least and the greatest of its keys (if keys ascend, tiles cut both lists as a merge does), and its
// threads search there: in shared memory, if the part is short.
KERNEL(look_up_sorted)(ARRAY(PLACE) found, ARRAY(const VALUE) values, ARRAY(const KEY) sought,
                       i64 length, i64 size) {
    SHARED(VALUE, near, NEAR);
    const i64 tiles = (size + TILE - 1) / TILE;
    for (i64 tile = block_of_grid(); tile < tiles; tile += blocks_of_grid()) {
        KEY keys[EACH], least = sought[tile * TILE], greatest = least;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const i64 at = tile * TILE + place_in_tile(i);
            keys[i] = at < size ? +sought[at] : least;
            least = keys[i] < least ? keys[i] : least;
            greatest = keys[i] > greatest ? keys[i] : greatest;
        }
        extent_of_block(least, greatest);
        const i64 low = bound_by_block<false>(values, 0, length, least);
        const i64 high = bound_by_block<true>(values, low, length, greatest);
        const bool close = take_part(near, values, low, high - low);
        i32 at[EACH], left[EACH];
#pragma unroll
        for (int i = 0; i < EACH; i++) at[i] = 0, left[i] = close ? (i32)(high - low) : 0;
        search_near(near, keys, at, left);
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const i64 to = tile * TILE + place_in_tile(i);
            if (to >= size) continue;
            if (close)
                found[to] = at[i] < high - low && +near[at[i]] == keys[i] ? (PLACE)(low + at[i]) : -1;
            else
                found[to] = (PLACE)find(values, low, high, keys[i]);
        }
    }
}
