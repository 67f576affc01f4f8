// The rows that a bitmap marks. The including source defines OUT, the type of a column of rows.
#include "search.cuh"

#ifndef OUT
#define OUT i32
#endif

// A bit's position is the number of a row in a box of values. A warp takes RUN words at a time.
#define RUN 32

// The number of set bits in each run of words.
KERNEL(count_marks)(ARRAY(const i64) marks, ARRAY(i64) counts, i64 words) {
    const u32 all = 0xFFFFFFFFu;
    const i64 lane = thread_of_block() & 31, runs = (words + RUN - 1) / RUN;
    for (i64 run = thread_of_grid() / 32; run < runs; run += threads_of_grid() / 32) {
        const i64 at = run * RUN + lane;
        i64 count = at < words ? bits_of((u64)marks[at]) : 0;
        for (int lanes = 16; lanes > 0; lanes /= 2) count += warp_shuffle_xor(all, count, lanes);
        if (lane == 0) counts[run] = count;
    }
}

// Writes one column of the rows, from `starts` on for each run: `least + number / divisor % span`.
// `first` is the number of the first bit.
KERNEL(marked_column)(ARRAY(const i64) marks, ARRAY(const i64) starts, ARRAY(OUT) column,
                      i64 words, i64 first, i64 divisor, i64 span, i64 least) {
    const u32 all = 0xFFFFFFFFu;
    const i64 lane = thread_of_block() & 31, runs = (words + RUN - 1) / RUN;
    for (i64 run = thread_of_grid() / 32; run < runs; run += threads_of_grid() / 32) {
        const i64 at = run * RUN + lane;
        const i64 mine = at < words ? marks[at] : 0;
        i64 to = starts[run];
        for (u32 left = warp_ballot(all, mine != 0); left != 0u; left &= left - 1u) {
            const int from = lowest_bit(left);
            const u64 word = (u64)warp_shuffle(all, mine, from);
            for (int half = 0; half < 64; half += 32) {
                const u32 bits = (u32)(word >> half);
                if (bits >> lane & 1u) {
                    const i64 number = first + (run * RUN + from) * 64 + half + lane;
                    const int before = bits_of(bits & (((u32)1 << lane) - 1u));
                    column[to + before] = (OUT)(least + number / divisor % span);
                }
                to += bits_of(bits);
            }
        }
    }
}
