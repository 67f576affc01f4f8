// Searches in sorted lists: one thread, one value.
//
// Values next to each other in a warp mostly search the same list for ascending values, so the
// first probes of a warp are at the same places, and the last ones near each other.
#pragma once
#include "prelude.cuh"

// The first place in [lo, hi) whose value is not below the key.
template <class A>
DEVICE i64 lower_bound(A values, i64 lo, i64 hi, i64 key) {
    while (lo < hi) {
        const i64 middle = lo + ((hi - lo) >> 1);
        if ((i64)values[middle] < key)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo;
}

// The first place in [lo, hi) whose value is above the key.
template <class A>
DEVICE i64 upper_bound(A values, i64 lo, i64 hi, i64 key) {
    while (lo < hi) {
        const i64 middle = lo + ((hi - lo) >> 1);
        if ((i64)values[middle] <= key)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo;
}

// Where the key stands in [lo, hi); -1 if it does not.
template <class A>
DEVICE i64 find_within(A values, i64 lo, i64 hi, i64 key) {
    const i64 at = lower_bound(values, lo, hi, key);
    return at < hi && (i64)values[at] == key ? at : -1;
}

// Where the key stands in a list whose values are dense: `index` by value less the least.
template <class A>
DEVICE i64 find_indexed(A index, i64 least, i64 size, i64 key) {
    // Without signs: the distance of two ints need not fit into one.
    const u64 at = (u64)key - (u64)least;
    return at < (u64)size ? (i64)index[(i64)at] : -1;
}
