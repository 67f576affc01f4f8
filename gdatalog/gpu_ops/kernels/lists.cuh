// Sorted lists: searches, and where two lists meet. The twin of codegen/helpers/lists.py.
//
// A list is a range [lo, hi) of an array of ascending, distinct keys of 32 or 64 bits; arrays that
// are compared may differ in width. A key may be of either width too: where both are of 32 bits,
// so are the comparisons.
//
// What takes no tile is for one lane, or for all lanes with the same arguments. What takes a tile
// is for all of its lanes together, all with the same arguments.
//
// `+values[i]` is the number itself, where a checking compiler's `values[i]` may be more.
#pragma once
#include "tile.cuh"

// From how many times the length on, one lane seeks in a list instead of reading it. Short lists
// are read.
constexpr i64 GALLOP = 8;
constexpr i64 SHORT = 64;

// How long a part of a list may be that is searched with 32 bits, which saves a third of the
// instructions. What is longer is halved until it is as short.
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

// The first position whose value is at least the key; more than the key.
template <class A, class K>
DEVICE i64 lower(A values, i64 lo, i64 hi, K key) {
    return bound<false>(values, lo, hi, key);
}
template <class A, class K>
DEVICE i64 upper(A values, i64 lo, i64 hi, K key) {
    return bound<true>(values, lo, hi, key);
}

// As `lower`, for keys that are expected near the start: probes at 1, 8, 64, ...
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

// The key's position, -1 if it is not there.
template <class A, class K>
DEVICE i64 find(A values, i64 lo, i64 hi, K key) {
    const i64 found = lower(values, lo, hi, key);
    return found < hi && +values[found] == key ? found : -1;
}
template <class A, class K>
DEVICE bool has(A values, i64 lo, i64 hi, K key) {
    return find(values, lo, hi, key) >= 0;
}

// The key's position, from an index of all n keys from `low` on; -1 where it is not there.
template <class I>
DEVICE i64 find_indexed(i64 low, I index, i64 n, i64 key) {
    const u64 place = (u64)key - (u64)low;
    return place < (u64)n ? (i64)index[(i64)place] : -1;
}

// The key's position in a root's list: by index (from `low` on) if there is one.
template <class A, class I>
DEVICE i64 find_root(A values, i64 n_values, i64 low, I index, i64 n_index, i64 key) {
    if (n_index > 0) return find_indexed(low, index, n_index, key);
    return find(values, 0, n_values, key);
}

// The parent whose list holds a position.
template <class O>
DEVICE i64 parent_of(O offsets, i64 n_offsets, i64 position) {
    return upper(offsets, 0, n_offsets, position) - 1;
}

// ---------------------------------------------------------------------------- searches, a tile

// Each round cuts the list into N + 1 parts. Two lanes would not win a round.
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
// `each(value, k, l)` is called for each common value, ascending, with where it stands.

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

// Both lists are shorter than a part. Lanes of a warp merge lists of their own, so there are no
// branches but the one that ends it.
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

// How many values are common. Each list seeks in the other.
template <class A, class B>
DEVICE i64 count_leapfrog(A va, i64 alo, i64 ahi, B vb, i64 blo, i64 bhi) {
    i64 n = 0;
    each_by_leapfrog(va, alo, ahi, vb, blo, bhi, [&](i64, i64, i64) { n++; });
    return n;
}

// ------------------------------------------------------------------ where two lists meet, a tile

// The longest step between two of the N values below, so that 32 bits hold all of them.
constexpr i64 LONGEST_STEP = (i64)1 << 24;

// From how many lanes on a window (below) is worth its shuffles, for each of which a tile that is
// but a part of a warp has to look who is there.
constexpr int WINDOWED = 8;

// N values of a list, one in each lane, evenly spaced: the last ones of N parts of it. A search
// begins in them, by shuffles; one read by all lanes brings in what would be a chain of misses.
// Where the list ends before it, the window is empty: its values are then the list's last.
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

// In which part a key is that is not behind the end.
template <int N, class V, class K>
DEVICE u32 part_of(Tile<N> t, const Window<V>& window, K key) {
    int part = 0;
    for (int half = N / 2; half > 0; half /= 2) {
        part += from_rank(t, window.value, part + half - 1) < key ? half : 0;
    }
    return (u32)part;
}

// The range in which a key of a part stands or would stand: without the part's last value, which
// is not before the key.
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

// Reads a list from end to end, N values at a time, and looks for each in another list. All lanes
// come to `each(at, yes, key, place)`: `at` is where the N values begin; whether this lane's value
// `key` is in the other list, and its place there.
//
// What has been found may be written over the start of either list by then: what is read of it
// later lies behind, or is less than all that is looked for later, as it was before.
template <int N, class W, class S, class F>
DEVICE void walk(Tile<N> t, W walked, i64 wlo, i64 whi, S sought, i64 slo, i64 shi, F each) {
    if (wlo >= whi || slo >= shi) return;
    i64 next = slo;  // where this lane's value is in the other list, or would be
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
        // Most lists are short: a value of each in every lane, and no load after that.
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
    // Values are read one round ahead, so that nobody waits for them.
    auto ahead = +walked[wlo + t.rank < whi ? wlo + t.rank : whi - 1];
    // The window is all of the list, or what some two rounds will ask for.
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
// The same where both are of one width, and one loop serves both: there is half to compile.
template <int N, class T, class F>
DEVICE void walk_either(Tile<N> t, bool second, Array<const T> va, i64 alo, i64 ahi,
                        Array<const T> vb, i64 blo, i64 bhi, F each) {
    walk(t, second ? vb : va, second ? blo : alo, second ? bhi : ahi, second ? va : vb,
         second ? alo : blo, second ? ahi : bhi, each);
}

// Which of two lists is walked: the shorter one; the second one also if it is up to half as long
// again, for the first is more often one that has been met before, and near: who searches it waits
// less.
DEVICE bool walks_second(i64 alo, i64 ahi, i64 blo, i64 bhi) {
    return 2 * (bhi - blo) <= 3 * (ahi - alo);
}
template <int N, class A, class B, class F>
DEVICE void walk_shorter(Tile<N> t, A va, i64 alo, i64 ahi, B vb, i64 blo, i64 bhi, F each) {
    const bool second = walks_second(alo, ahi, blo, bhi);
    walk_either(t, second, read_only(va), alo, ahi, read_only(vb), blo, bhi, each);
}

// Writes the common values, ascending, as many as there is `room` for; gives how many there are.
// `out` may be the first list's array: what is written never overtakes what is read. It is not the
// second one's.
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
    sync(t);  // all lanes have read what `out` was
    walk_shorter(t, va, alo, ahi, vb, blo, bhi, [&](i64, bool yes, i64 key, i64) {
        const u32 votes = ballot(t, yes);
        if (in_place) sync(t);  // a ballot does not order what was read before it
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
