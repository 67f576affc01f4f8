// The pool that tiles write rows to: a tile takes a block of it whenever it needs one.
//
// A column of the output is an array of `blocks * block_rows`. After the launch, `counts[b]` is the
// number of valid rows in block b, and `previous[b]` the block that its tile had before. To write k
// rows, a tile reserves room for them, writes from row `pool_row(pool, block_rows)` on, and adds k
// to `pool.n`. All lanes of a tile have the same `Pool` in registers.
//
// A mark makes the rows so far valid. When the pool is empty, a tile rolls back to its mark and
// returns its unmarked work. Blocks that are rolled back stay empty and unused: the launch is about
// to end, and the host makes all blocks available to the next one.
#pragma once
#include "control.cuh"
#include "tile.cuh"

struct Pool {
    i64 block, n;            // the current block, -1 before the first; rows in it
    i64 kept_block, kept_n;  // the same at the mark
};

DEVICE Pool pool_open() {
    const Pool pool = {-1, 0, -1, 0};
    return pool;
}

// Reserves room for k consecutive rows (at most 32, and at most a block's). False if the pool is
// empty; then nothing has changed. If the block has room, this is a single comparison.
template <int N, class C, class A>
DEVICE bool pool_reserve(Tile<N> t, Pool& pool, C control, A counts, A previous, i64 blocks,
                         i64 block_rows, i64 k) {
    if (pool.block >= 0 && pool.n + k <= block_rows) return true;
    i64 next = 0;
    if (t.rank == 0) next = atomic_add(control, POOL, (i64)1);
    next = from_rank(t, next, 0);
    if (next >= blocks) return false;
    if (t.rank == 0) {
        if (pool.block >= 0) counts[pool.block] = (i32)pool.n;
        previous[next] = (i32)pool.block;
    }
    pool.block = next;
    pool.n = 0;
    return true;
}

// The position of the next row in each column.
DEVICE i64 pool_row(const Pool& pool, i64 block_rows) { return pool.block * block_rows + pool.n; }

// The rows so far are valid.
DEVICE void pool_mark(Pool& pool) {
    pool.kept_block = pool.block;
    pool.kept_n = pool.n;
}

// Undoes all rows since the mark, in all of their blocks.
template <int N, class A>
DEVICE void pool_roll_back(Tile<N> t, Pool& pool, A counts, A previous) {
    if (t.rank == 0) {
        for (i64 block = pool.block; block != pool.kept_block; block = previous[block]) {
            counts[block] = 0;
        }
    }
    pool.block = pool.kept_block;
    pool.n = pool.kept_n;
}

// Stores how many rows the last block has: once, when the tile ends.
template <int N, class A>
DEVICE void pool_close(Tile<N> t, const Pool& pool, A counts) {
    if (t.rank == 0 && pool.block >= 0) counts[pool.block] = (i32)pool.n;
}
