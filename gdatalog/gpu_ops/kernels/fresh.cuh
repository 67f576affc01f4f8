// Rows that have not been there before: a bit for each that there may be, which all tiles share.
//
// Who sets a row's bit gives the row. There is room for it then: a row that is marked and does not
// come out would be lost, for whoever comes to it again finds it marked. For the same reason rows
// that are written hold at once. Where the pool is empty, the unit at hand is done again by the next
// launch, which skips what is marked.
#pragma once
#include "prelude.cuh"

// Whether a row was marked before. What others mark just now may be seen or not.
template <class M>
DEVICE bool is_marked(M marks, i64 row) {
    return ((u64)load_relaxed(marks, row >> 6) >> (row & 63) & 1u) != 0u;
}

// Marks a row; whether nobody had.
template <class M>
DEVICE bool mark_first(M marks, i64 row) {
    const u64 bit = (u64)1 << (row & 63);
    return ((u64)atomic_or(marks, row >> 6, (i64)bit) & bit) == 0u;
}

// Marks a row, whoever else does.
template <class M>
DEVICE void mark(M marks, i64 row) {
    if (!is_marked(marks, row)) mark_first(marks, row);
}
