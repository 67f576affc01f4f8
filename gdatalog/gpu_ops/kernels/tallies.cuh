// Tables of counts: a tile's own tables, and tables that all tiles add to.
//
// A tile's table is an array of counts by key, from `low` on, and a list of the keys that have a
// count. Lanes add with atomics, because two may have the same key. The lane that finds a count of
// zero lists its key.
#pragma once
#include "lane_lists.cuh"
#include "work.cuh"

// The CPU computes larger counts exactly. The sum of two counts up to this one fits into 64 bits,
// so that the next addition notices a count that has become too large.
constexpr i64 MOST_COUNTED = 4000000000000000000;

// The counts of a table. `near` has those of the last keys, from position `split` on, and `far` all
// others.
template <class T>
struct Counts {
    Array<T> near, far;
    i64 split;

    METHOD T operator[](i64 at) const { return at < split ? far[at] : near[at - split]; }
};
template <class T>
DEVICE T atomic_add(const Counts<T>& counts, i64 at, T by) {
    return at < counts.split ? atomic_add(counts.far, at, by)
                             : atomic_add(counts.near, at - counts.split, by);
}
template <class T>
DEVICE void set_to_0(const Counts<T>& counts, i64 at) {
    if (at < counts.split) {
        counts.far[at] = 0;
    } else {
        counts.near[at - counts.split] = 0;
    }
}
template <class T>
DEVICE void set_to_0(Array<T> counts, i64 at) {
    counts[at] = 0;
}
template <class T>
DEVICE T type_of_counts(Array<T>) {
    return 0;
}
template <class T>
DEVICE T type_of_counts(const Counts<T>&) {
    return 0;
}

// Clears the table; returns 0, the number of keys with a count.
template <int N, class C, class V>
DEVICE i64 clear_tally(Tile<N> t, C counts, V values, i64 length, i64 low) {
    sync(t);  // all lanes have finished reading
    for (i64 at = t.rank; at < length; at += N) set_to_0(counts, +values[at] - low);
    sync(t);
    return 0;
}

// How many turns of a long list a lane begins at once: their additions do not wait for each other.
enum { AT_ONCE = 2 };

// Adds amounts (not 0) to the counts of keys, for a lane with `yes`. Whether they were 0 before.
template <int M, class C>
DEVICE void count_each(C counts, const bool (&yes)[M], const i64 (&keys)[M], i64 low,
                       const i64 (&amounts)[M], bool (&fresh)[M], int& trouble) {
    typedef decltype(type_of_counts(counts)) T;
    T had[M];
#pragma unroll
    for (int at = 0; at < M; ++at) {
        had[at] = 1;
        if (yes[at]) had[at] = atomic_add(counts, keys[at] - low, (T)amounts[at]);
    }
#pragma unroll
    for (int at = 0; at < M; ++at) {
        if (sizeof(T) == sizeof(i64) && had[at] > MOST_COUNTED) trouble = OVERFLOWED;
        fresh[at] = had[at] == 0;
    }
}

// The same for each lane. Returns how many keys are listed now. Called by all lanes.
template <int N, int M, class C, class V>
DEVICE i64 add_tally(Tile<N> t, C counts, V values, i64 length, const bool (&yes)[M],
                     const i64 (&keys)[M], i64 low, const i64 (&amounts)[M], int& trouble) {
    bool fresh[M];
    count_each(counts, yes, keys, low, amounts, fresh, trouble);
#pragma unroll
    for (int at = 0; at < M; ++at) {
        const u32 news = ballot(t, fresh[at]);
        if (fresh[at]) values[length + before(t, news)] = keys[at];
        length += bits_of(news);
    }
    return length;
}
template <int N, class C, class V>
DEVICE i64 add_tally(Tile<N> t, C counts, V values, i64 length, bool yes, i64 key, i64 low,
                     i64 amount, int& trouble) {
    const bool gave[] = {yes};
    const i64 keys[] = {key}, amounts[] = {amount};
    return add_tally(t, counts, values, length, gave, keys, low, amounts, trouble);
}

// With this many values of a list per key, or more, the keys are looked up in the list.
constexpr i64 FAR = 8;
DEVICE bool few_keys(i64 low, i64 high, i64 keys) { return high - low > FAR * keys; }

// The position of a key's count in an array of n counts; -1 if it has none.
template <class C>
DEVICE i64 find_tally(C counts, i64 n, i64 low, i64 key) {
    const u64 place = (u64)key - (u64)low;
    return place < (u64)n && +counts[(i64)place] != 0 ? (i64)place : -1;
}

// This lane's share of the sum of the counts of two lists' common values.
template <int N, class A, class B, class C>
DEVICE i64 sum_common(Tile<N> t, A va, i64 alo, i64 ahi, B vb, i64 blo, i64 bhi, C counts, i64 n,
                      i64 low) {
    i64 sum = 0;
    walk_shorter(t, va, alo, ahi, vb, blo, bhi, [&](i64, bool yes, i64 key, i64) {
        const u64 place = (u64)key - (u64)low;
        if (yes && place < (u64)n) sum += +counts[(i64)place];
    });
    return sum;
}

// Adds to a count that all tiles share.
template <class C>
DEVICE void add_local(C counts, i64 at, i64 amount, int& trouble) {
    const i64 had = atomic_add(counts, at, amount);
    if (amount > 1 && had > MOST_COUNTED) trouble = OVERFLOWED;
}

// Adds to a lane's sum of counts, which is later added to those of the other lanes.
DEVICE i64 add_checked(i64 sum, i64 amount, int& trouble) {
    if (sum > MOST_COUNTED / 64 || amount > MOST_COUNTED / 64) trouble = OVERFLOWED;
    return sum + amount;
}

// Adds one for each common value of two lists to an array of counts. The bits of `WHERE` say where:
// at the value's position in the first list (1), in the second list (2), at the value (4). Returns
// this lane's share of the number of common values.
template <int WHERE, int N, class A, class B, class C>
DEVICE i64 add_common(Tile<N> t, A va, i64 alo, i64 ahi, B vb, i64 blo, i64 bhi, C counts) {
    i64 n = 0;
    const auto add = [&](i64 key, i64 a, i64 b) {
        if (WHERE & 1) atomic_add(counts, a, (i64)1);
        if (WHERE & 2) atomic_add(counts, b, (i64)1);
        if (WHERE & 4) atomic_add(counts, key, (i64)1);
        n++;
    };
    if (N == 1) {
        each_common(va, alo, ahi, vb, blo, bhi, add);
        return n;
    }
    const bool second = walks_second(alo, ahi, blo, bhi);
    walk_shorter(t, va, alo, ahi, vb, blo, bhi, [&](i64 at, bool yes, i64 key, i64 place) {
        const i64 mine = at + t.rank;
        if (yes) add(key, second ? place : mine, second ? mine : place);
    });
    return n;
}

// The same for two lists of each lane with `yes`: how many values are common to this lane's.
template <int WHERE, int N, class A, class B, class P, class C>
DEVICE P add_common_of_each(Tile<N> t, bool yes, A va, P alo, P ahi, B vb, P blo, P bhi, C counts) {
    return each_common_of_each(t, yes, va, alo, ahi, vb, blo, bhi, [&](i64 key, i64 a, i64 b) {
        if (WHERE & 1) atomic_add(counts, a, (i64)1);
        if (WHERE & 2) atomic_add(counts, b, (i64)1);
        if (WHERE & 4) atomic_add(counts, key, (i64)1);
    });
}
