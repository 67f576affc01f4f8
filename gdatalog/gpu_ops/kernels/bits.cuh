// Local recoding: a list's values become positions, and what is joined on below it, rows of bits.
// The twin of cpu_ops/compiled/bits.py.
//
// Row j stands for the list's j-th value. It has a bit for each of the list's values, in words of
// 64 bits, `words = (n + 63) / 64` of them; rows lie one behind the other in one array.
//
// What takes a tile is for all of its lanes together. What writes waits for all lanes before, for
// they may be reading what was there, and after, so that they see what is there now.
#pragma once
#include "lists.cuh"

constexpr u64 NO_BITS = 0, ONE_BIT = 1, ALL_BITS = ~(u64)0;

// ---------------------------------------------------------------------------------------- rows

// Sets the n bits of a row.
template <int N, class D>
DEVICE void fill_ones(Tile<N> t, D dst, i64 d, i64 n) {
    sync(t);
    const i64 words = (n + 63) >> 6;
    for (i64 w = t.rank; w < words; w += N) {
        const bool cut = w == n >> 6;
        dst[d + w] = cut ? (ONE_BIT << (n & 63)) - ONE_BIT : ALL_BITS;
    }
    sync(t);
}

// A row becomes another.
template <int N, class D, class A>
DEVICE void copy_row(Tile<N> t, D dst, i64 d, A a, i64 i, i64 words) {
    sync(t);
    for (i64 w = t.rank; w < words; w += N) dst[d + w] = +a[i + w];
    sync(t);
}

// A row becomes what two rows have in common. It may be one of them.
template <int N, class D, class A, class B>
DEVICE void and_rows(Tile<N> t, D dst, i64 d, A a, i64 i, B b, i64 j, i64 words) {
    sync(t);
    for (i64 w = t.rank; w < words; w += N) dst[d + w] = a[i + w] & b[j + w];
    sync(t);
}

// Clears the bits up to k, and k. There may be no such bit: k may be -1, or behind the row.
template <int N, class D>
DEVICE void above(Tile<N> t, D dst, i64 d, i64 k, i64 words) {
    sync(t);
    const i64 word = k >> 6;
    for (i64 w = t.rank; w < words && w <= word; w += N) {
        // shifted twice, for there is no shift by 64
        const u64 kept = w == word ? (ALL_BITS << (k & 63)) << 1 : NO_BITS;
        dst[d + w] = dst[d + w] & kept;
    }
    sync(t);
}

// Clears the bits from k on. There may be no such bit.
template <int N, class D>
DEVICE void below(Tile<N> t, D dst, i64 d, i64 k, i64 words) {
    sync(t);
    const i64 word = k >> 6;
    for (i64 w = t.rank; w < words; w += N) {
        const u64 kept = w == word ? ~(ALL_BITS << (k & 63)) : NO_BITS;
        if (w >= word) dst[d + w] = dst[d + w] & kept;
    }
    sync(t);
}

// Whether bit k of a row is set; for one lane.
template <class A>
DEVICE bool has_bit(A a, i64 i, i64 k) {
    return ((a[i + (k >> 6)] >> (k & 63)) & ONE_BIT) != NO_BITS;
}

// How many bits two rows have in common, or a row has; for one lane.
template <class A, class B>
DEVICE i64 count_and(A a, i64 i, B b, i64 j, i64 words) {
    int n = 0;
    for (int w = 0; w < (int)words; w++) n += bits_of(a[i + w] & b[j + w]);
    return n;
}
template <class A>
DEVICE i64 count_row(A a, i64 i, i64 words) {
    int n = 0;
    for (int w = 0; w < (int)words; w++) n += bits_of(+a[i + w]);
    return n;
}

// This lane's share of how many there are.
template <int N, class A, class B>
DEVICE i64 count_and_shared(Tile<N> t, A a, i64 i, B b, i64 j, i64 words) {
    int n = 0;
    for (int w = t.rank; w < (int)words; w += N) n += bits_of(a[i + w] & b[j + w]);
    return n;
}
template <int N, class A>
DEVICE i64 count_row_shared(Tile<N> t, A a, i64 i, i64 words) {
    int n = 0;
    for (int w = t.rank; w < (int)words; w += N) n += bits_of(+a[i + w]);
    return n;
}

// ------------------------------------------------------------------------------------ recoding

// A row of one lane: the bits are set word by word, as the common values ascend.
template <class L, class C, class R>
DEVICE void recode_row_alone(L list, i64 lo, i64 hi, C children, i64 c, i64 stop, R rows, i64 row) {
    i64 at = 0;  // words before it are written
    u64 word = NO_BITS;
    each_common(list, lo, hi, children, c, stop, [&](i64, i64 k, i64) {
        const i64 w = (k - lo) >> 6;
        for (; at < w; at++) {
            rows[row + at] = word;
            word = NO_BITS;
        }
        word |= ONE_BIT << ((k - lo) & 63);
    });
    for (const i64 words = (hi - lo + 63) >> 6; at < words; at++) {
        rows[row + at] = word;
        word = NO_BITS;
    }
}

// A row of a tile, in one of two ways. Where the list is not much longer than the children are,
// its values are looked for among them, N at a time, and a ballot is N bits of the row. Few
// children are looked for in the list, and each lane sets its bit.
template <int N, class L, class C, class R>
DEVICE void recode_row(Tile<N> t, L list, i64 lo, i64 hi, C children, i64 c, i64 stop, R rows,
                       i64 row) {
    const i64 words = (hi - lo + 63) >> 6;
    const bool by_list = hi - lo <= 2 * (stop - c);
    if (!by_list) {
        for (i64 w = t.rank; w < words; w += N) rows[row + w] = NO_BITS;
        sync(t);
    }
    i64 at = 0;  // words before it are written
    u64 word = NO_BITS;
    const auto each = [&](i64 k, bool yes, i64, i64 place) {
        if (!by_list) {
            if (yes) atomic_or(rows, row + ((place - lo) >> 6), ONE_BIT << ((place - lo) & 63));
            return;
        }
        const int shift = (int)(k - lo) & 63;
        word |= (u64)ballot(t, yes) << shift;
        if (shift + N == 64) {
            if (t.rank == 0) rows[row + at] = word;
            at++;
            word = NO_BITS;
        }
    };
    walk_either(t, !by_list, read_only(list), lo, hi, read_only(children), c, stop, each);
    if (!by_list) return;
    // What is left is this word, and those behind the last of the children.
    for (i64 w = at + t.rank; w < words; w += N) rows[row + w] = w == at ? word : NO_BITS;
}

// Fills the rows of a list: which of its values are children of each of them in a trie.
template <int N, class L, class V, class I, class C, class O, class R>
DEVICE void recode_rows(Tile<N> t, L list, i64 lo, i64 hi, V root_values, i64 n_root, i64 root_low,
                        I root_index, i64 n_index, C child_values, O child_offsets, R rows) {
    const i64 n = hi - lo, words = (n + 63) >> 6;
    sync(t);
    for (i64 first = 0; first < n; first += N) {
        // Each lane finds one of N roots: what is found decides where to read next, so many of
        // these are best under way at once.
        i64 mine = 0, end = 0;
        if (first + t.rank < n) {
            const i64 key = list[lo + first + t.rank];
            const i64 parent = find_root(root_values, n_root, root_low, root_index, n_index, key);
            if (parent >= 0) {
                mine = child_offsets[parent];
                end = child_offsets[parent + 1];
            }
        }
        for (int r = 0; r < N && first + r < n; r++) {
            const i64 c = from_rank(t, mine, r), stop = from_rank(t, end, r);
            const i64 row = (first + r) * words;
            if (N == 1) {
                recode_row_alone(list, lo, hi, child_values, c, stop, rows, row);
            } else {
                recode_row(t, list, lo, hi, child_values, c, stop, rows, row);
            }
        }
    }
    sync(t);
}
