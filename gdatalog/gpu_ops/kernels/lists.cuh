// Sorted lists: searches and intersections. The GPU version of codegen/helpers/lists.py.
//
// A list is a range [lo, hi) of an array of ascending, distinct keys of 32 or 64 bits. Arrays that
// are compared may differ in width, and a key may have either width; two 32-bit operands are
// compared in 32 bits.
//
// Functions without a tile are called by one lane, or by all lanes with the same arguments.
// Functions with a tile are called by all of its lanes, with the same arguments.
//
// `+values[i]` is the number itself; in the checked host build, `values[i]` may be a proxy.
#pragma once
#include "tile.cuh"

// From this ratio of lengths on, one lane seeks in the longer list instead of reading it; short
// lists are always read.
constexpr i64 GALLOP = 8;
constexpr i64 SHORT = 64;

// The longest part of a list that is searched with 32-bit positions, which saves a third of the
// instructions. Longer ranges are halved first.
constexpr i64 PART = (i64)1 << 30;

// --------------------------------------------------------------------------- searches, one lane

template <bool UP_TO, class V, class K>
DEVICE bool precedes(V value, K key) {
    return UP_TO ? value <= key : value < key;
}

// The first position in [lo, hi) whose value is not before the key; hi if all are.
template <bool UP_TO, class A, class K>
DEVICE i64 bound(A values, i64 lo, i64 hi, K key) {
    while (hi - lo > PART) {
        const i64 middle = lo + ((hi - lo) >> 1);
        if (precedes<UP_TO>(+values[middle], key)) {
            lo = middle + 1;
        } else {
            hi = middle;
        }
    }
    if (lo >= hi) return lo;
    u32 at = 0, left = (u32)(hi - lo);
    const auto part = slice(values, lo, left);
    while (left > 0) {
        const u32 half = left >> 1, probe = at + half;
        const bool yes = precedes<UP_TO>(+part[probe], key);
        at = yes ? probe + 1 : at;
        left = yes ? left - half - 1 : half;
    }
    return lo + at;
}

// The first position whose value is at least the key; greater than the key.
template <class A, class K>
DEVICE i64 lower(A values, i64 lo, i64 hi, K key) {
    return bound<false>(values, lo, hi, key);
}
template <class A, class K>
DEVICE i64 upper(A values, i64 lo, i64 hi, K key) {
    return bound<true>(values, lo, hi, key);
}

// As `lower`, for keys that are expected near the start: probes at distances 1, 8, 64, ...
template <class A, class K>
DEVICE i64 seek(A values, i64 lo, i64 hi, K key) {
    if (lo >= hi || +values[lo] >= key) return lo;
    i64 below = lo, step = 1;
    while (lo + step < hi && +values[lo + step] < key) {
        below = lo + step;
        step <<= 3;
    }
    return lower(values, below + 1, lo + step < hi ? lo + step : hi, key);
}

// The key's position, -1 if absent.
template <class A, class K>
DEVICE i64 find(A values, i64 lo, i64 hi, K key) {
    const i64 found = lower(values, lo, hi, key);
    return found < hi && +values[found] == key ? found : -1;
}
template <class A, class K>
DEVICE bool has(A values, i64 lo, i64 hi, K key) {
    return find(values, lo, hi, key) >= 0;
}

// The key's position, from an index of n keys from `low` on; -1 if absent.
template <class I>
DEVICE i64 find_indexed(i64 low, I index, i64 n, i64 key) {
    const u64 place = (u64)key - (u64)low;
    return place < (u64)n ? (i64)index[(i64)place] : -1;
}

// The key's position in a root's list; by its index (of keys from `low` on) if it has one.
template <class A, class I>
DEVICE i64 find_root(A values, i64 n_values, i64 low, I index, i64 n_index, i64 key) {
    if (n_index > 0) return find_indexed(low, index, n_index, key);
    return find(values, 0, n_values, key);
}

// The parent whose list contains a position.
template <class O>
DEVICE i64 parent_of(O offsets, i64 n_offsets, i64 position) {
    return upper(offsets, 0, n_offsets, position) - 1;
}

// The same, for lanes with neighbouring positions: from the parent `first` on, where it is expected
// among the next N + 1.
template <int N, class O>
DEVICE i64 parent_near(Tile<N>, O offsets, i64 first, i64 n_offsets, i64 position) {
    const i64 near = first + N + 2;
    const bool here = near < n_offsets && +offsets[near - 1] > position;
    return upper(offsets, first, here ? near : n_offsets, position) - 1;
}

// ---------------------------------------------------------------------------- searches, a tile

// Each round cuts the list into N + 1 parts. With fewer than 4 lanes this would save no round.
template <bool UP_TO, int N, class A, class K>
DEVICE i64 bound(Tile<N> t, A values, i64 lo, i64 hi, K key) {
    if (N < 4) return bound<UP_TO>(values, lo, hi, key);
    while (hi - lo > N) {
        const i64 step = (hi - lo) / N;
        const bool yes = precedes<UP_TO>(+values[lo + (t.rank + 1) * step - 1], key);
        const int parts = bits_of(ballot(t, yes));
        lo += parts * step;
        if (parts < N) hi = lo + step - 1;
    }
    const i64 mine = lo + t.rank;
    const bool yes = mine < hi && precedes<UP_TO>(+values[mine], key);
    return lo + bits_of(ballot(t, yes));
}

template <int N, class A, class K>
DEVICE i64 lower(Tile<N> t, A values, i64 lo, i64 hi, K key) {
    return bound<false>(t, values, lo, hi, key);
}
template <int N, class A, class K>
DEVICE i64 upper(Tile<N> t, A values, i64 lo, i64 hi, K key) {
    return bound<true>(t, values, lo, hi, key);
}
template <int N, class A, class K>
DEVICE i64 find(Tile<N> t, A values, i64 lo, i64 hi, K key) {
    const i64 found = lower(t, values, lo, hi, key);
    return found < hi && +values[found] == key ? found : -1;
}
template <int N, class A, class K>
DEVICE bool has(Tile<N> t, A values, i64 lo, i64 hi, K key) {
    return find(t, values, lo, hi, key) >= 0;
}

template <int N, class O>
DEVICE i64 parent_of(Tile<N> t, O offsets, i64 n_offsets, i64 position) {
    return upper(t, offsets, 0, n_offsets, position) - 1;
}

// ---------------------------------------------------------------- where two lists meet, one lane
//
// `each(value, k, l)` is called for each common value, ascending, with its positions in both lists.

template <class A, class B, class F>
DEVICE void each_by_leapfrog(A va, i64 alo, i64 ahi, B vb, i64 blo, i64 bhi, F each) {
    while (alo < ahi && blo < bhi) {
        const auto a = +va[alo];
        blo = seek(vb, blo, bhi, a);
        if (blo == bhi) return;
        const auto b = +vb[blo];
        if (a == b) {
            each(a, alo, blo);
            alo++;
            blo++;
        } else {
            alo = seek(va, alo + 1, ahi, b);
        }
    }
}

// Both lists are shorter than PART. The lanes of a warp merge different lists, so the loop's only
// branch is its end.
template <class A, class B, class F>
DEVICE void each_by_merge(A va, i64 alo, i64 ahi, B vb, i64 blo, i64 bhi, F each) {
    if (alo >= ahi || blo >= bhi) return;
    const u32 la = (u32)(ahi - alo), lb = (u32)(bhi - blo);
    const auto as = slice(va, alo, la);
    const auto bs = slice(vb, blo, lb);
    u32 k = 0, l = 0;
    while (k < la && l < lb) {
        const auto a = +as[k];
        const auto b = +bs[l];
        if (a == b) each(a, alo + k, blo + l);
        k += a <= b ? 1 : 0;
        l += b <= a ? 1 : 0;
    }
}

template <class A, class B, class F>
DEVICE void each_common(A va, i64 alo, i64 ahi, B vb, i64 blo, i64 bhi, F each) {
    const i64 a = ahi - alo, b = bhi - blo;
    if (a > GALLOP * b + SHORT || b > GALLOP * a + SHORT || a > PART || b > PART) {
        each_by_leapfrog(va, alo, ahi, vb, blo, bhi, each);
    } else {
        each_by_merge(va, alo, ahi, vb, blo, bhi, each);
    }
}

// How many values are common. Each list seeks in the other one.
template <class A, class B>
DEVICE i64 count_leapfrog(A va, i64 alo, i64 ahi, B vb, i64 blo, i64 bhi) {
    i64 n = 0;
    each_by_leapfrog(va, alo, ahi, vb, blo, bhi, [&](i64, i64, i64) { n++; });
    return n;
}

// ------------------------------------------------------------------ where two lists meet, a tile

// The longest step between two values of a window (below), so that its length fits into 32 bits.
constexpr i64 LONGEST_STEP = (i64)1 << 24;

// From this tile width on, a window (below) is worth its shuffles: in a tile that is part of a
// warp, each shuffle must first find out which lanes take part.
constexpr int WINDOWED = 8;

// A window: N evenly spaced values of a list, one in each lane, each the last of one of N parts.
// Searches start in it by shuffles, so one load by all lanes replaces a chain of dependent misses.
// If it starts at the end of the list it is empty; its values are then the list's last.
template <class V>
struct Window {
    V value;    // this lane's
    V end;      // the last one's
    i64 start;  // of the first part
    u32 length;
};

template <int N, class S>
DEVICE auto window_at(Tile<N> t, S sought, i64 start, i64 shi, u32 step) {
    Window<decltype(+sought[start])> window;
    const i64 left = shi - start;
    window.start = start;
    window.length = left < (i64)N * step ? (u32)left : N * step;
    const u32 after = (t.rank + 1) * step;
    window.value = +sought[start + (after < window.length ? after : window.length) - 1];
    window.end = from_rank(t, window.value, N - 1);
    return window;
}

// The part that a key is in. The key must not be greater than the window's end.
template <int N, class V, class K>
DEVICE u32 part_of(Tile<N> t, const Window<V>& window, K key) {
    int part = 0;
    for (int half = N / 2; half > 0; half /= 2) {
        part += from_rank(t, window.value, part + half - 1) < key ? half : 0;
    }
    return (u32)part;
}

// The positions at which a key of a part may be, without the part's last value, which is not less
// than the key.
struct Range {
    i64 lo, hi;
};
template <class V>
DEVICE Range range_of(const Window<V>& window, u32 step, u32 part) {
    const u32 before = part * step, left = window.length - before;
    const i64 lo = window.start + before;
    const Range range = {lo, lo + (step < left ? step : left) - 1};
    return range;
}

// Reads a list from start to end, N values at a time, and searches each in another list. All lanes
// call `each(at, yes, key, place)`: `at` is where the N values begin; `yes` whether this lane's
// value `key` is in the other list, and `place` its position there.
//
// Common values may overwrite the start of either list: what is read later lies behind them, or is
// less than all values that are searched later, as it was before.
template <int N, class W, class S, class F>
DEVICE void walk(Tile<N> t, W walked, i64 wlo, i64 whi, S sought, i64 slo, i64 shi, F each) {
    if (wlo >= whi || slo >= shi) return;
    i64 next = slo;  // the position of this lane's value in the other list, or where it would be
    if (N < WINDOWED) {
        for (i64 at = wlo; at < whi; at += N) {
            const i64 mine = at + t.rank;
            const auto key = +walked[mine < whi ? mine : whi - 1];  // the last lanes may repeat it
            next = seek(sought, next, shi, key);
            each(at, mine < whi && next < shi && +sought[next] == key, key, next);
        }
        return;
    }
    if (whi - wlo <= N && shi - slo <= N) {
        // Most lists are short: each lane loads one value of each, and nothing after that.
        const int w = (int)(whi - wlo), s = (int)(shi - slo);
        const auto key = +walked[wlo + (t.rank < w ? t.rank : w - 1)];
        const auto value = +sought[slo + (t.rank < s ? t.rank : s - 1)];
        int place = 0;
        for (int half = N / 2; half > 0; half /= 2) {
            place += from_rank(t, value, place + half - 1) < key ? half : 0;
        }
        const bool yes = from_rank(t, value, place) == key;
        each(wlo, yes && t.rank < w, key, slo + place);
        return;
    }
    // Values are loaded one round ahead, to hide the latency.
    auto ahead = +walked[wlo + t.rank < whi ? wlo + t.rank : whi - 1];
    // The window covers the whole list, or about what two rounds search.
    u32 step = 1;
    for (i64 w = whi - wlo; N * (i64)step < shi - slo && w < 2 * (shi - slo); w *= 2) {
        if (step == LONGEST_STEP) break;
        step *= 2;
    }
    auto window = window_at(t, sought, slo, shi, step);
    for (i64 at = wlo; at < whi; at += N) {
        const i64 mine = at + t.rank;
        const auto key = ahead;
        if (at + N < whi) ahead = +walked[mine + N < whi ? mine + N : whi - 1];
        const auto last = from_rank(t, key, N - 1);
        if (window.end < last && window.start + window.length < shi) {
            window = window_at(t, sought, from_rank(t, next, N - 1), shi, step);
        }
        const u32 part = part_of(t, window, key);
        Range range = {window.start + window.length, shi};
        if (key <= window.end) range = range_of(window, step, part);
        next = lower(sought, range.lo, range.hi, key);
        const bool yes = next < shi && +sought[next] == key;
        each(at, yes && mine < whi, key, next);
        if (window.end <= last && window.start + window.length == shi) return;
    }
}

template <class T>
DEVICE Array<const T> read_only(Array<T> array) {
    return array;
}

// Walks the first or the second of two lists.
template <int N, class A, class B, class F>
DEVICE void walk_either(Tile<N> t, bool second, Array<const A> va, i64 alo, i64 ahi,
                        Array<const B> vb, i64 blo, i64 bhi, F each) {
    if (second) {
        walk(t, vb, blo, bhi, va, alo, ahi, each);
    } else {
        walk(t, va, alo, ahi, vb, blo, bhi, each);
    }
}
// The same for lists of one width: one loop serves both, which halves the code to compile.
template <int N, class T, class F>
DEVICE void walk_either(Tile<N> t, bool second, Array<const T> va, i64 alo, i64 ahi,
                        Array<const T> vb, i64 blo, i64 bhi, F each) {
    walk(t, second ? vb : va, second ? blo : alo, second ? bhi : ahi, second ? va : vb,
         second ? alo : blo, second ? ahi : bhi, each);
}

// Whether the second of two lists is walked. The shorter one is, but also the second if it is up to
// half as long again: the first is more often the result of an intersection and in cache, so
// searches in it wait less.
DEVICE bool walks_second(i64 alo, i64 ahi, i64 blo, i64 bhi) {
    return 2 * (bhi - blo) <= 3 * (ahi - alo);
}
template <int N, class A, class B, class F>
DEVICE void walk_shorter(Tile<N> t, A va, i64 alo, i64 ahi, B vb, i64 blo, i64 bhi, F each) {
    const bool second = walks_second(alo, ahi, blo, bhi);
    walk_either(t, second, read_only(va), alo, ahi, read_only(vb), blo, bhi, each);
}

// Writes the common values, ascending, up to `room` of them; returns how many there are. `out` may
// be the first list's array, because writes never overtake reads, but not the second's.
template <int N, class A, class B, class O>
DEVICE i64 intersect(Tile<N> t, A va, i64 alo, i64 ahi, B vb, i64 blo, i64 bhi, O out,
                     i64 room = (i64)1 << 62) {
    i64 n = 0;
    if (N == 1) {
        each_common(va, alo, ahi, vb, blo, bhi, [&](i64 value, i64, i64) {
            if (n < room) out[n] = value;
            n++;
        });
        return n;
    }
    const bool in_place = same_array(va, out);
    sync(t);  // all lanes have finished reading `out`
    walk_shorter(t, va, alo, ahi, vb, blo, bhi, [&](i64, bool yes, i64 key, i64) {
        const u32 votes = ballot(t, yes);
        if (in_place) sync(t);  // a ballot does not order earlier reads
        const i64 place = n + before(t, votes);
        if (yes && place < room) out[place] = key;
        n += bits_of(votes);
        if (in_place) sync(t);
    });
    sync(t);
    return n;
}

// This lane's share of how many values are common.
template <int N, class A, class B>
DEVICE i64 count_common(Tile<N> t, A va, i64 alo, i64 ahi, B vb, i64 blo, i64 bhi) {
    i64 n = 0;
    if (N == 1) {
        each_common(va, alo, ahi, vb, blo, bhi, [&](i64, i64, i64) { n++; });
        return n;
    }
    walk_shorter(t, va, alo, ahi, vb, blo, bhi, [&](i64, bool yes, i64, i64) { n += yes ? 1 : 0; });
    return n;
}

// ------------------------------------------------------------------------------- the top of a root
//
// The top of a root's search tree in shared memory, for a root without an index.
//
// A block keeps up to 1023 evenly spaced values of the root, the pivots, in the order of a binary
// tree's levels, so lanes at one level read neighbouring words. A search starts there, and ends in
// the one bucket of the list that the pivots leave.
//
//     SHARED(i32, top, TOP);
//     const int n_top = load_top(values, n, top);     // all threads of the block
//     find_in_root_with_top(values, n, top, n_top, key);

constexpr int TOP_LEVELS = 10;
constexpr int TOP = (1 << TOP_LEVELS) - 1;

// The length of a bucket; there is one more bucket than pivots.
DEVICE i64 bucket_of(i64 n, int n_top) { return (n + n_top) >> bits_of((u32)n_top); }

// Loads the pivots; called by all threads of a block. Returns how many there are.
template <class A, class T>
DEVICE int load_top(A values, i64 n, T top) {
    int n_top = 0;
    while (n_top < TOP && n_top + 1 < n) n_top = 2 * n_top + 1;
    const i64 bucket = bucket_of(n, n_top);
    for (int i = thread_of_block() + 1; i <= n_top; i += threads_of_block()) {
        // The position in sorted order of the tree's i-th pivot, counted level by level from 1 on.
        int half = n_top + 1;
        for (int up = i; up > 0; up >>= 1) half >>= 1;
        const i64 at = ((2 * i + 1) * half - (n_top + 1)) * bucket;
        top[i - 1] = +values[at < n ? at : n - 1];  // a short list repeats its last
    }
    block_sync();
    return n_top;
}

// The key's position in a root's list, -1 if absent.
template <class A, class T, class K>
DEVICE i64 find_in_root_with_top(A values, i64 n, T top, int n_top, K key) {
    if (n == 0) return -1;
    int i = 1;
    while (i <= n_top) i = 2 * i + (+top[i - 1] <= key ? 1 : 0);
    const i64 bucket = bucket_of(n, n_top), start = (i - n_top - 1) * bucket;
    // Beyond the repetitions of the last value, only that is left.
    const i64 lo = start < n ? start : n - 1, hi = lo + bucket < n ? lo + bucket : n;
    return find(values, lo, hi, key);
}
