// Looks values up in a sorted list (VALUE, KEY, PLACE: the types of its values, of what is sought,
// and of positions).
#include "search.cuh"

#define RUN 16   // rows of 64 keys that a warp takes
#define AHEAD 2  // of these, read together, while those before are looked up

// The first position of a list whose value is not less than the key; called by all lanes of a warp.
// Each step reads 128 values together.
template <class A, class K>
DEVICE i64 lower_by_warp(A values, i64 length, K key) {
    i64 low = 0, high = length;
    while (low < high) {
        const i64 step = (high - low + 127) / 128;
        int less = 0;
#pragma unroll
        for (int n = 0; n < 4; n++) {
            const i64 last = low + (32 * n + (thread_of_block() & 31) + 1) * step - 1;
            less += bits_of(warp_ballot(0xFFFFFFFFu, last < high && +values[last] < key));
        }
        low += step * less;
        high = low + step - 1 < high ? low + step - 1 : high;
    }
    return low;
}

// For each of a lane's two keys the first of the warp's values that is not less, and whether it is the
// key; -1 if all are less. A lane has two neighbouring values; those of a warp ascend from `begin` on.
template <class K, class V, class P>
DEVICE void places_by_warp(const K (&key)[2], V even, V odd, P begin, P (&place)[2], bool (&met)[2]) {
    const u32 all = 0xFFFFFFFFu;
    int at[2] = {0, 0};
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
#pragma unroll
        for (int n = 0; n < 2; n++)
            if (warp_shuffle(all, odd, at[n] + step - 1) < key[n]) at[n] += step;
    }
#pragma unroll
    for (int n = 0; n < 2; n++) {
        const V low = warp_shuffle(all, even, at[n]), high = warp_shuffle(all, odd, at[n]);
        if (place[n] >= 0 || high < key[n]) continue;
        place[n] = begin + 2 * at[n] + (low < key[n]);
        met[n] = (low < key[n] ? high : low) == key[n];
    }
}

constexpr int SORTED_BLOCKS = sizeof(VALUE) + sizeof(KEY) + sizeof(PLACE) > 12 ? 4 : 5;

// The position of each key; -1 if it is absent.
//
// Keys and list are cut together, as by a merge: a warp takes a run of keys, and the part of the list
// that begins with the first of them. Where keys ascend, each lane has two of 64 keys and two of the
// 64 values from where the last key was found on, and the lanes search these by shuffles. Keys beyond
// four such pieces, or that do not ascend, are searched in the list.
KERNEL_OF_BLOCKS(SORTED_BLOCKS, look_up_sorted)(ARRAY(PLACE) found, ARRAY(const VALUE) values,
                                                ARRAY(const KEY) sought, i64 length, i64 size) {
    const u32 all = 0xFFFFFFFFu;
    const int lane = thread_of_block() & 31;
    const i64 rows = (size + 63) / 64, warps = threads_of_grid() / 32;
    const PLACE end = (PLACE)length;
    for (i64 run = thread_of_grid() / 32; run * RUN < rows; run += warps) {
        const i64 first = run * RUN, last = first + RUN < rows ? first + RUN : rows;
        KEY before = sought[first * 64], next[AHEAD][2];
#pragma unroll
        for (int j = 0; j < 2 * AHEAD; j++) {
            const i64 from = first * 64 + 32 * j + lane;
            next[j / 2][j % 2] = sought[from < size ? from : size - 1];
        }
        PLACE low = (PLACE)lower_by_warp(values, length, before);
        for (i64 row = first; row < last; row += AHEAD) {
            KEY keys[AHEAD][2];
#pragma unroll
            for (int j = 0; j < 2 * AHEAD; j++) {
                const i64 from = (row + AHEAD) * 64 + 32 * j + lane;
                keys[j / 2][j % 2] = next[j / 2][j % 2];
                if (row + AHEAD < last) next[j / 2][j % 2] = sought[from < size ? from : size - 1];
            }
#pragma unroll
            for (int j = 0; j < AHEAD; j++) {
                if (row + j >= last) break;
                const KEY(&key)[2] = keys[j];
                KEY left[2] = {warp_shuffle_up(all, key[0], 1), warp_shuffle_up(all, key[1], 1)};
                const KEY middle = warp_shuffle(all, key[0], 31);
                if (lane == 0) left[0] = before, left[1] = middle;
                before = warp_shuffle(all, key[1], 31);
                const bool ascend = warp_ballot(all, key[0] < left[0] || key[1] < left[1]) == 0u;
                PLACE place[2] = {-1, -1};  // of the first value that is not less
                bool met[2] = {false, false};
                for (int piece = 0; piece < 4 && ascend; piece++) {
                    const PLACE begin = low + 64 * piece, own = begin + 2 * lane;
                    const VALUE even = values[own < end ? own : end - 1];
                    const VALUE odd = values[own + 1 < end ? own + 1 : end - 1];
                    places_by_warp(key, even, odd, begin, place, met);
                    if (warp_ballot(all, place[1] < 0) == 0u) break;
                }
#pragma unroll
                for (int n = 0; n < 2; n++) {
                    const i64 to = (row + j) * 64 + 32 * n + lane;
                    if (place[n] < 0) {
                        place[n] = (PLACE)lower(values, ascend ? (i64)low : 0, length, key[n]);
                        met[n] = place[n] < end && +values[place[n]] == key[n];
                    }
                    if (to < size) found[to] = met[n] ? place[n] : -1;
                }
                low = warp_shuffle(all, place[1], 31);
            }
        }
    }
}
