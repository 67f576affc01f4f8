// Looks values up in a sorted list (VALUE, KEY, PLACE: the types of its values, of what is sought,
// and of positions).
#include "near.cuh"

// The position of each key; -1 if it is absent.
//
// A block takes tiles that follow each other, and of each the part of the list between the least and
// the greatest key into shared memory, where all keys are searched. Where keys ascend, a part begins
// where the last key of the tile before was found: so tiles cut both lists, as a merge does, and are
// read together. Elsewhere the block searches for the part; if it is long, keys are searched in place.
KERNEL(look_up_sorted)(ARRAY(PLACE) found, ARRAY(const VALUE) values, ARRAY(const KEY) sought,
                       i64 length, i64 size) {
    SHARED(VALUE, near, NEAR);
    SHARED(i64, next, 1);
    const i64 tiles = (size + TILE - 1) / TILE, each = (tiles + blocks_of_grid() - 1) / blocks_of_grid();
    const i64 first = block_of_grid() * each, last = first + each < tiles ? first + each : tiles;
    i64 low = -1;  // unknown
    for (i64 tile = first; tile < last; tile++) {
        KEY keys[EACH], least = sought[tile * TILE], greatest = least;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const i64 at = tile * TILE + place_in_tile(i);
            keys[i] = at < size ? +sought[at] : least;
        }
        i32 part = length - low < NEAR ? (i32)(length - low) : NEAR;
        if (low >= 0)
            for (int at = thread_of_block(); at < part; at += THREADS) near[at] = values[low + at];
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            least = keys[i] < least ? keys[i] : least;
            greatest = keys[i] > greatest ? keys[i] : greatest;
        }
        extent_of_block(least, greatest);
        i64 high = low + part;
        bool close = low >= 0 && (low == 0 || +values[low - 1] < least) &&
                     (high == length || +near[part - 1] >= greatest);
        if (!close) {
            low = bound_by_block<false>(values, 0, length, least);
            high = bound_by_block<true>(values, low, length, greatest);
            close = high - low <= NEAR;
            part = close ? (i32)(high - low) : 0;
            for (int at = thread_of_block(); at < part; at += THREADS) near[at] = values[low + at];
            block_sync();
        }
        i32 at[EACH], end[EACH];
#pragma unroll
        for (int i = 0; i < EACH; i++) at[i] = 0, end[i] = part;
        search_near(near, keys, at, end, part);
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const i64 to = tile * TILE + place_in_tile(i);
            if (to >= size) continue;
            if (close)
                found[to] = at[i] < part && +near[at[i]] == keys[i] ? (PLACE)(low + at[i]) : -1;
            else
                found[to] = (PLACE)find(values, low, high, keys[i]);
        }
        if (thread_of_block() == THREADS - 1) next[0] = close ? low + at[EACH - 1] : -1;
        block_sync();
        low = next[0];
    }
}
