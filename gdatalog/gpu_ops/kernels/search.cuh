// Searches in sorted lists: one thread for each value.
//
// Neighbouring threads of a warp usually search one list for ascending values, so their first
// probes are at the same places, and their last ones close together.
#pragma once
#include "prelude.cuh"

// The first position in [lo, hi) whose value is not less than the key.
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

// The first position in [lo, hi) whose value is greater than the key.
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

// The key's position in [lo, hi); -1 if absent.
template <class A>
DEVICE i64 find_within(A values, i64 lo, i64 hi, i64 key) {
    const i64 at = lower_bound(values, lo, hi, key);
    return at < hi && (i64)values[at] == key ? at : -1;
}

// The key's position in a list with an index of all values from `least` on; -1 if absent.
template <class A>
DEVICE i64 find_indexed(A index, i64 least, i64 size, i64 key) {
    // Unsigned, because the distance of two ints may not fit into one.
    const u64 at = (u64)key - (u64)least;
    return at < (u64)size ? (i64)index[(i64)at] : -1;
}
