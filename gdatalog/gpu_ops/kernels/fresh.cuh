// New rows: a bitmap of all possible rows, which all tiles share.
//
// The tile that sets a row's bit outputs the row. It must have room for it: a row that is marked
// and not output would be lost, because whoever finds it again sees the mark. For the same reason
// written rows are final at once. When the pool is empty, the next launch repeats the current unit
// and skips marked rows.
#pragma once
#include "prelude.cuh"

// Whether a row is marked. Marks that others set at this moment may be missed.
template <class M>
DEVICE bool is_marked(M marks, i64 row) {
    return ((u64)load_relaxed(marks, row >> 6) >> (row & 63) & 1u) != 0u;
}

// Marks a row; whether it was not marked before.
template <class M>
DEVICE bool mark_first(M marks, i64 row) {
    const u64 bit = (u64)1 << (row & 63);
    return ((u64)atomic_or(marks, row >> 6, (i64)bit) & bit) == 0u;
}

// Marks a row, which others may mark, too.
template <class M>
DEVICE void mark(M marks, i64 row) {
    if (!is_marked(marks, row)) mark_first(marks, row);
}
