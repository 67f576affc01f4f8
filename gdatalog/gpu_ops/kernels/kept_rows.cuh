// The rows of bits (bits.cuh) of all lists of a level, one list after the other. A tile takes one
// entry of a list at a time, whose row says which values of the list are its children.
//
// The including source defines these types. VALUE, OFFSET: of the lists. ROOT, CHILD_OFFSET, CHILD:
// of the children. The rows are zero before.
#include "bits.cuh"

KERNEL(keep_rows)(ARRAY(const OFFSET) offsets, i64 n_offsets, ARRAY(const VALUE) values, i64 n,
                  ARRAY(const ROOT) roots, i64 n_roots, i64 low, ARRAY(const i32) index,
                  i64 n_index, ARRAY(const CHILD_OFFSET) child_offsets,
                  ARRAY(const CHILD) children, ARRAY(const i64) starts, ARRAY(u64) rows) {
    const Tile<32> t = tile_here<32>();
    for (i64 at = tile_of_grid<32>(); at < n; at += tiles_of_grid<32>()) {
        const i64 root = find_root(roots, n_roots, low, index, n_index, +values[at]);
        if (root < 0) continue;
        const i64 list = parent_of(t, offsets, n_offsets, at);
        const i64 lo = offsets[list], hi = offsets[list + 1], words = (hi - lo + 63) >> 6;
        recode_row_by_list(t, values, lo, hi, children, (i64)child_offsets[root],
                           (i64)child_offsets[root + 1], rows, starts[list] + (at - lo) * words);
    }
}
