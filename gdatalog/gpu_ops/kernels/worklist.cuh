// A fixpoint of its own for each value of a column: a tile has a list of the rows that it has found
// for its value, in the order in which it found them, and a bit for each that there may be.
//
// A row is a number from 0 on. Rows are put behind the list by whichever lane finds them, on
// its own; how long the list is stands in shared memory. All lanes come to `open_list`, `listed`
// and `wipe`, and what was offered before is seen behind them. Between two values all bits are
// clear.
#pragma once
#include "tile.cuh"

// Where in shared memory it stands how long this tile's list `at` is: there are several lists where
// several relations depend on each other.
template <int N>
DEVICE i64 tail_of(int at) {
    return at * (threads_of_block() / N) + thread_of_block() / N;
}

// The list is empty.
template <int N, class T>
DEVICE void open_list(Tile<N> t, T tails, int at) {
    sync(t);
    if (t.rank == 0) tails[tail_of<N>(at)] = 0u;
    sync(t);
}

// How many rows there are by now; the lanes go on together.
template <int N, class T>
DEVICE i64 listed(Tile<N> t, T tails, int at) {
    sync(t);
    const u32 n = tails[tail_of<N>(at)];
    sync(t);
    return (i64)n;
}

// One lane has found a row. There is room for all that differ.
template <int N, class T, class L, class M>
DEVICE void offer(Tile<N> t, T tails, int at, L list, M seen, i64 row) {
    const u32 bit = 1u << (row & 31);
    if ((atomic_or(seen, row >> 5, bit) & bit) != 0u) return;
    list[(i64)atomic_add(tails, tail_of<N>(at), 1u)] = row;
}

// Clears the bits of all n rows: one by one, or word by word where they are many.
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
