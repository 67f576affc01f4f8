// Looks values up in a sorted list (VALUE, KEY, PLACE: the types of its values, of what is sought,
// and of positions).
#include "search.cuh"

#define RUN 16   // rows of 32 keys that a warp takes
#define AHEAD 4  // of these, read together, while those before are looked up

// The first position of a list whose value is not less than the key; called by all lanes of a warp.
template <class A, class K>
DEVICE i64 lower_by_warp(A values, i64 length, K key) {
    i64 low = 0, high = length;
    while (low < high) {
        const i64 step = (high - low + 31) / 32;
        const i64 last = low + ((thread_of_block() & 31) + 1) * step - 1;  // of this lane's values
        low += step * bits_of(warp_ballot(0xFFFFFFFFu, last < high && +values[last] < key));
        high = low + step - 1 < high ? low + step - 1 : high;
    }
    return low;
}

// The position of each key; -1 if it is absent.
//
// Keys and list are cut together, as by a merge: a warp takes a run of keys, and the part of the list
// that begins with the first of them. Where keys ascend, each lane has one of 32 keys and one of the
// 32 values from where the last key was found on, and the lanes search these by shuffles. Keys beyond
// two such pieces, or that do not ascend, are searched in the list.
KERNEL_OF_BLOCKS(8, look_up_sorted)(ARRAY(PLACE) found, ARRAY(const VALUE) values,
                                    ARRAY(const KEY) sought, i64 length, i64 size) {
    const u32 all = 0xFFFFFFFFu;
    const int lane = thread_of_block() & 31;
    const i64 rows = (size + 31) / 32, warps = threads_of_grid() / 32;
    const PLACE end = (PLACE)length;
    for (i64 run = thread_of_grid() / 32; run * RUN < rows; run += warps) {
        const i64 first = run * RUN, last = first + RUN < rows ? first + RUN : rows;
        KEY before = sought[first * 32], next[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            const i64 at = (first + j) * 32 + lane;
            next[j] = sought[at < size ? at : size - 1];
        }
        PLACE low = (PLACE)lower_by_warp(values, length, before);
        for (i64 row = first; row < last; row += AHEAD) {
            KEY keys[AHEAD];
#pragma unroll
            for (int j = 0; j < AHEAD; j++) {
                const i64 at = (row + AHEAD + j) * 32 + lane;
                keys[j] = next[j];
                if (row + AHEAD < last) next[j] = sought[at < size ? at : size - 1];
            }
            if (lane < AHEAD && low < end - 32 * (2 + lane)) prefetch(values, low + 32 * (2 + lane));
#pragma unroll
            for (int j = 0; j < AHEAD; j++) {
                if (row + j >= last) break;
                const i64 to = (row + j) * 32 + lane;
                const KEY key = keys[j], above = warp_shuffle_up(all, key, 1);
                const bool ascend = warp_ballot(all, key < (lane == 0 ? before : above)) == 0u;
                before = warp_shuffle(all, key, 31);
                PLACE place = -1;  // of the first value that is not less
                bool met = false;
                for (int piece = 0; piece < 2 && ascend; piece++) {
                    const PLACE begin = low + 32 * piece, own = begin + lane;
                    const VALUE value = values[own < end ? own : end - 1];
                    int at = 0;
#pragma unroll
                    for (int step = 16; step > 0; step /= 2)
                        if (warp_shuffle(all, value, at + step - 1) < key) at += step;
                    const VALUE here = warp_shuffle(all, value, at);
                    if (place < 0 && here >= key) place = begin + at, met = here == key;
                    if (warp_ballot(all, place < 0) == 0u) break;
                }
                if (place < 0) {
                    place = (PLACE)lower(values, ascend ? (i64)low : 0, length, key);
                    met = place < end && +values[place] == key;
                }
                low = warp_shuffle(all, place, 31);
                if (to < size) found[to] = met ? place : -1;
            }
        }
    }
}
