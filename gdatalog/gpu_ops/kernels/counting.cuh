// Adds a tile's counters of bindings to the launch's, for profiles; each lane has a part.
#pragma once
#include "tile.cuh"

template <int N, class A>
DEVICE void add_counted(Tile<N> t, A bindings, i64 at, i64 mine) {
    const i64 all = sum(t, mine);
    if (t.rank == 0 && all != 0) atomic_add(bindings, at, all);
}

// The same for work that every tile repeats: the greatest count of any tile.
template <int N, class A>
DEVICE void at_least_counted(Tile<N> t, A bindings, i64 at, i64 mine) {
    const i64 all = sum(t, mine);
    if (t.rank == 0) atomic_max(bindings, at, all);
}
