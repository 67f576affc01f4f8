// A separate fixpoint for each value of a column. A tile has a list of the rows found for its
// value, in the order in which it found them, and a bit for each possible row.
//
// A row is a number from 0 on. Any lane appends rows to the list on its own; the list's length is
// in shared memory. All lanes call `open_list`, `listed` and `wipe`, and see rows that were offered
// before. Between two values all bits are clear.
#pragma once
#include "tile.cuh"

// The position in shared memory of the length of this tile's list `at`. There are several lists if
// several relations depend on each other.
template <int N>
DEVICE i64 tail_of(int at) {
    return at * (threads_of_block() / N) + thread_of_block() / N;
}

// Empties the list.
template <int N, class T>
DEVICE void open_list(Tile<N> t, T tails, int at) {
    sync(t);
    if (t.rank == 0) tails[tail_of<N>(at)] = 0u;
    sync(t);
}

// How many rows the list has now. Called by all lanes, which go on together.
template <int N, class T>
DEVICE i64 listed(Tile<N> t, T tails, int at) {
    sync(t);
    const u32 n = tails[tail_of<N>(at)];
    sync(t);
    return (i64)n;
}

// Appends a row that one lane has found, if it is new. There is room for all possible rows.
template <int N, class T, class L, class M>
DEVICE void offer(Tile<N> t, T tails, int at, L list, M seen, i64 row) {
    const u32 bit = 1u << (row & 31);
    if ((atomic_or(seen, row >> 5, bit) & bit) != 0u) return;
    list[(i64)atomic_add(tails, tail_of<N>(at), 1u)] = row;
}

// Clears the bits of all n rows: row by row, or word by word if there are many rows.
template <int N, class L, class M>
DEVICE void wipe(Tile<N> t, L list, M seen, i64 words, i64 n) {
    sync(t);
    if (n < words) {
        for (i64 i = t.rank; i < n; i += N) seen[list[i] >> 5] = 0u;
    } else {
        for (i64 w = t.rank; w < words; w += N) seen[w] = 0u;
    }
    sync(t);
}
