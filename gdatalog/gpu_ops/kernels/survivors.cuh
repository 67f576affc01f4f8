// The indices of rows that passed a test. PLACE is the type of an index.
#include "compact.cuh"

#ifndef PLACE
#define PLACE i32
#endif

KERNEL(survivors)(ARRAY(const u8) mask, ARRAY(PLACE) found, ARRAY(i64) state, i64 size) {
    const i64 tiles = (size + TILE - 1) / TILE;
    for (i64 tile = next_tile(state); tile < tiles; tile = next_tile(state)) {
        const i64 first = tile * TILE + thread_of_block();
        bool keep[EACH];
        i64 to[EACH];
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const i64 at = first + i * THREADS;
            keep[i] = at < size && mask[at] != 0;
        }
        places_of_kept(keep, to, state, tile, tiles);
#pragma unroll
        for (int i = 0; i < EACH; i++)
            if (keep[i]) found[to[i]] = (PLACE)(first + i * THREADS);
    }
}
