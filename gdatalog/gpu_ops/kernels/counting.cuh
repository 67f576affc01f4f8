// What a tile has bound at a step, for profiles: each of its lanes has a part.
#pragma once
#include "tile.cuh"

template <int N, class A>
DEVICE void add_counted(Tile<N> t, A bindings, i64 at, i64 mine) {
    const i64 all = sum(t, mine);
    if (t.rank == 0 && all != 0) atomic_add(bindings, at, all);
}

// Of what each tile does anew.
template <int N, class A>
DEVICE void at_least_counted(Tile<N> t, A bindings, i64 at, i64 mine) {
    const i64 all = sum(t, mine);
    if (t.rank == 0) atomic_max(bindings, at, all);
}
