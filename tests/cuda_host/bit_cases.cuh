// Kernels that do many cases of bits.cuh in one launch, each by one tile: of 32 lanes,
// for which tests put other numbers too. A and B are types.
#include "bits.cuh"

// A case: n bits, two cuts, and where its rows lie: two to read, one that everything happens to,
// and what it was after each of five steps.
KERNEL(rows_32)(ARRAY(const i64) cases, i64 count, ARRAY(const u64) given, ARRAY(u64) worked,
                ARRAY(u64) made, ARRAY(i64) found) {
    const Tile<32> t = tile_here<32>();
    for (i64 c = tile_of_grid<32>(); c < count; c += tiles_of_grid<32>()) {
        const auto at = slice(cases, 4 * c, 4);
        const i64 n = at[0], words = (n + 63) / 64, over = at[1], under = at[2];
        const auto rows = slice(given, 2 * at[3], 2 * words);
        const auto row = slice(worked, at[3], words);
        const auto out = slice(made, 5 * at[3], 5 * words);
        i64 seen = 0;  // by each lane, at once behind each step: what other lanes wrote
        const auto look = [&](int step) {
            for (i64 w = 0; w < words; w++) {
                seen = seen % 1000003 * 31 + (i64)(row[w] % 1000003);
                if (t.rank == 0) out[step * words + w] = row[w];
            }
        };
        fill_ones(t, row, 0, n);
        look(0);
        copy_row(t, row, 0, rows, words, words);
        look(1);
        and_rows(t, row, 0, row, 0, rows, 0, words);
        look(2);
        copy_row(t, row, 0, rows, 0, words);
        above(t, row, 0, over, words);
        look(3);
        below(t, row, 0, under, words);
        look(4);
        const i64 both = count_and_shared(t, rows, 0, rows, words, words);
        const i64 one = count_row_shared(t, rows, 0, words);
        const bool same = all(t, seen == from_rank(t, seen, 0));
        const i64 results[] = {
            sum(t, both),
            sum(t, one),
            count_and(rows, 0, rows, words, words),
            count_row(rows, 0, words),
            0 <= over && over < n && has_bit(rows, 0, over),
            same,
        };
        if (t.rank == 0) {
            for (int k = 0; k < 6; k++) found[6 * c + k] = results[k];
        }
    }
}

// A case: a list [lo, hi), and where its rows lie. All lists are recoded by one trie.
KERNEL(recode_32)(ARRAY(const i64) cases, i64 count, ARRAY(const A) list, ARRAY(const A) root,
                  i64 n_root, i64 low, ARRAY(const i32) index, i64 n_index,
                  ARRAY(const B) children, ARRAY(const i64) offsets, ARRAY(u64) made,
                  ARRAY(i64) found) {
    const Tile<32> t = tile_here<32>();
    const i64 lanes = threads_of_grid() / tiles_of_grid<32>();
    for (i64 c = tile_of_grid<32>(); c < count; c += tiles_of_grid<32>()) {
        const i64 lo = cases[3 * c], hi = cases[3 * c + 1], n = hi - lo;
        const auto rows = slice(made, cases[3 * c + 2], n * ((n + 63) / 64));
        recode_rows(t, list, lo, hi, root, n_root, low, index, n_index, children, offsets, rows);
        i64 seen = 0;  // by each lane, what the others wrote
        for (i64 w = 0; w < n * ((n + 63) / 64); w++) seen += bits_of(+rows[w]);
        found[c * lanes + t.rank] = seen;
    }
}
