// Local recoding: the values of a list become positions, and the lists of their children rows of
// bits. The GPU version of codegen/helpers/bits.py.
//
// Row j belongs to the list's j-th value. It has one bit for each value of the list, in words of 64
// bits: `words = (n + 63) / 64` words. Rows are stored one after the other in one array.
//
// Functions with a tile are called by all of its lanes together. Functions that write synchronize
// before, because lanes may still read the old words, and after, so that all lanes see the new
// ones. Rows are short: a loop over a tile's share of a row usually has one turn, so it is not
// unrolled.
#pragma once
#include "lists.cuh"

constexpr u64 NO_BITS = 0, ONE_BIT = 1, ALL_BITS = ~(u64)0;

// ---------------------------------------------------------------------------------------- rows

// Sets the n bits of a row.
template <int N, class D>
DEVICE void fill_ones(Tile<N> t, D dst, i64 d, i64 n) {
    sync(t);
    const i64 words = (n + 63) >> 6;
#pragma unroll 1
    for (i64 w = t.rank; w < words; w += N) {
        const bool cut = w == n >> 6;
        dst[d + w] = cut ? (ONE_BIT << (n & 63)) - ONE_BIT : ALL_BITS;
    }
    sync(t);
}

// Copies a row.
template <int N, class D, class A>
DEVICE void copy_row(Tile<N> t, D dst, i64 d, A a, i64 i, i64 words) {
    sync(t);
#pragma unroll 1
    for (i64 w = t.rank; w < words; w += N) dst[d + w] = +a[i + w];
    sync(t);
}

// Intersects two rows. The result may overwrite one of them.
template <int N, class D, class A, class B>
DEVICE void and_rows(Tile<N> t, D dst, i64 d, A a, i64 i, B b, i64 j, i64 words) {
    sync(t);
#pragma unroll 1
    for (i64 w = t.rank; w < words; w += N) dst[d + w] = a[i + w] & b[j + w];
    sync(t);
}

// Clears the bits up to and including k. k may be -1, or beyond the row.
template <int N, class D>
DEVICE void above(Tile<N> t, D dst, i64 d, i64 k, i64 words) {
    sync(t);
    const i64 word = k >> 6;
#pragma unroll 1
    for (i64 w = t.rank; w < words && w <= word; w += N) {
        // two shifts, because a shift by 64 is undefined
        const u64 kept = w == word ? (ALL_BITS << (k & 63)) << 1 : NO_BITS;
        dst[d + w] = dst[d + w] & kept;
    }
    sync(t);
}

// Clears the bits from k on. k may be beyond the row.
template <int N, class D>
DEVICE void below(Tile<N> t, D dst, i64 d, i64 k, i64 words) {
    sync(t);
    const i64 word = k >> 6;
#pragma unroll 1
    for (i64 w = t.rank; w < words; w += N) {
        const u64 kept = w == word ? ~(ALL_BITS << (k & 63)) : NO_BITS;
        if (w >= word) dst[d + w] = dst[d + w] & kept;
    }
    sync(t);
}

// Whether bit k of a row is set; called by one lane.
template <class A>
DEVICE bool has_bit(A a, i64 i, i64 k) {
    return ((a[i + (k >> 6)] >> (k & 63)) & ONE_BIT) != NO_BITS;
}

// A mask of a row's word for the positions from `low` on and below `high`. The word is not before
// that of `low`, nor after that of `high`.
DEVICE u64 between(i64 word, i64 low, i64 high) {
    const i64 first = low - 64 * word, end = high - 64 * word;
    const u64 from = first > 0 ? ALL_BITS << first : ALL_BITS;
    return end < 64 ? from & ~(ALL_BITS << end) : from;
}

// The number of bits that two rows have in common, or that one row has; called by one lane.
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

// This lane's share of the same counts.
template <int N, class A, class B>
DEVICE i64 count_and_shared(Tile<N> t, A a, i64 i, B b, i64 j, i64 words) {
    int n = 0;
#pragma unroll 1
    for (int w = t.rank; w < (int)words; w += N) n += bits_of(a[i + w] & b[j + w]);
    return n;
}
template <int N, class A>
DEVICE i64 count_row_shared(Tile<N> t, A a, i64 i, i64 words) {
    int n = 0;
#pragma unroll 1
    for (int w = t.rank; w < (int)words; w += N) n += bits_of(+a[i + w]);
    return n;
}

// ------------------------------------------------------------------------------------ recoding

// One lane fills a row, word by word, in the order of the common values.
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

// Fills a row if there are far more children than values of the list. Searches for the list's
// values among the children, N at a time; a ballot gives N bits of the row.
template <int N, class L, class C, class R>
DEVICE void recode_row_by_list(Tile<N> t, L list, i64 lo, i64 hi, C children, i64 c, i64 stop,
                               R rows, i64 row) {
    u64 word = NO_BITS;
    i64 at = row;
    walk(t, list, lo, hi, children, c, stop, [&](i64 k, bool yes, i64, i64) {
        const int shift = (int)(k - lo) & 63;
        word |= (u64)ballot(t, yes) << shift;
        if (shift + N == 64) {
            if (t.rank == 0) rows[at] = word;
            at++;
            word = NO_BITS;
        }
    });
    if (t.rank == 0 && word != NO_BITS) rows[at] = word;
}

// Fills N rows, one of each lane. The children of all rows (`length` from `c` on, in each lane)
// form one sequence. The lanes take N of them at a time and search them in the list. The rows' bits
// must be clear.
template <int N, class V, class L, class C, class R>
DEVICE void recode_rows_by_children(Tile<N> t, const Window<V>& window, u32 step, L list, C children,
                                    i64 c, u32 length, R rows, i64 row, i64 words) {
    u32 end = length;  // of this lane's children, in the sequence
    for (int by = 1; by < N; by *= 2) {
        const u32 before = warp_shuffle_up(t.mask, end, by);
        end += t.rank >= by ? before : 0;
    }
    const u32 total = from_rank(t, end, N - 1);
    if (total == 0) return;
    const i64 origin = c - (end - length);
    const auto child = [&](u32 first, int& owner) {
        const u32 k = first + t.rank < total ? first + t.rank : total - 1;  // some repeat it
        owner = 0;
        for (int half = N / 2; half > 0; half /= 2) {
            owner += from_rank(t, end, owner + half - 1) <= k ? half : 0;
        }
        return +children[from_rank(t, origin, owner) + k];
    };
    int later = 0;
    auto ahead = child(0, later);  // loaded one round ahead, to hide its latency
    for (u32 first = 0; first < total; first += N) {
        const int owner = later;
        const auto key = ahead;
        if (first + N < total) ahead = child(first + N, later);
        const u32 part = part_of(t, window, key);
        u32 place = window.length - 1;
        bool yes = false;
        if (key <= window.end) {
            const Range range = range_of(window, step, part);
            const i64 found = lower(list, range.lo, range.hi, key);
            place = (u32)(found - window.start);
            yes = +list[found] == key;
        }
        // Neighbouring lanes often set bits in one half of a word. Up to eight of them combine
        // their bits.
        const u32 half_word = (u32)owner * (u32)words * 2 + (place >> 5);
        u32 bits = yes ? 1u << (place & 31) : 0u;
        for (int by = 1; by < 8; by *= 2) {
            const u32 others = warp_shuffle_up(t.mask, bits, by);
            const u32 theirs = warp_shuffle_up(t.mask, half_word, by);
            if (t.rank >= by && theirs == half_word) bits |= others;
        }
        const u32 following = from_rank(t, half_word, t.rank + 1 < N ? t.rank + 1 : t.rank);
        if (bits != 0 && (following != half_word || (t.rank & 7) == 7)) {
            atomic_or(rows, row + (half_word >> 1), (u64)bits << (32 * (half_word & 1)));
        }
    }
}

// With this ratio of children to the list's length, or more, search for the list's values instead.
constexpr i64 MANY = 2;

// Fills the rows of a list: row j has a bit for each value that is a child of value j in a trie.
template <int N, class L, class V, class I, class C, class O, class R>
DEVICE void recode_rows(Tile<N> t, L list, i64 lo, i64 hi, V root_values, i64 n_root, i64 root_low,
                        I root_index, i64 n_index, C child_values, O child_offsets, R rows) {
    const i64 n = hi - lo, words = (n + 63) >> 6;
    if (n == 0) return;
    u32 step = 1;
    while (N * step < n) step *= 2;
    const auto window = window_at(t, list, lo, hi, step);
    sync(t);
    if (N >= WINDOWED) {
#pragma unroll 1
        for (i64 w = t.rank; w < n * words; w += N) rows[w] = NO_BITS;
        sync(t);
    }
    for (i64 first = 0; first < n; first += N) {
        // Each lane finds one of N roots. The address of the next load depends on what is found, so
        // as many searches as possible run at once.
        i64 c = 0, stop = 0;
        if (first + t.rank < n) {
            const i64 key = list[lo + first + t.rank];
            const i64 parent = find_root(root_values, n_root, root_low, root_index, n_index, key);
            if (parent >= 0) {
                c = child_offsets[parent];
                stop = child_offsets[parent + 1];
            }
        }
        if (N < WINDOWED) {
            const i64 row = (first + t.rank) * words;
            if (first + t.rank < n) {
                recode_row_alone(list, lo, hi, child_values, c, stop, rows, row);
            }
            continue;
        }
        const bool many = stop - c > MANY * n;
        recode_rows_by_children(t, window, step, list, child_values, c,
                                many ? 0 : (u32)(stop - c), rows, first * words, words);
        for (u32 left = ballot(t, many); left != 0; left &= left - 1) {
            const int r = lowest_bit(left);
            recode_row_by_list(t, list, lo, hi, child_values, from_rank(t, c, r),
                               from_rank(t, stop, r), rows, (first + r) * words);
        }
    }
    sync(t);
}
