// Intersects the lists of the two ends of each edge: a first launch counts the common values, a
// second one writes them, one edge after the other. A tile takes one edge at a time.
//
// The including source defines these types. ROOT, EDGE, OFFSET: of the edges' two columns, and of
// the offsets of the second. A_ROOT, A_OFFSET, A_VALUE and B_...: the same for the lists of the two
// ends. VALUE: of the common values.
#include "lists.cuh"

// The list of a root's value: where it begins and ends in its level; empty without the value.
template <class R, class I, class O>
DEVICE Range list_of(R roots, i64 n_roots, i64 low, I index, i64 n_index, O offsets, i64 key) {
    const i64 at = find_root(roots, n_roots, low, index, n_index, key);
    const Range none = {0, 0};
    if (at < 0) return none;
    const Range found = {(i64)offsets[at], (i64)offsets[at + 1]};
    return found;
}

KERNEL(keep_lists)(ARRAY(const ROOT) roots, ARRAY(const OFFSET) offsets, i64 n_offsets,
                   ARRAY(const EDGE) ends, i64 n, ARRAY(const A_ROOT) roots_a, i64 roots_a_n,
                   i64 low_a, ARRAY(const i32) index_a, i64 index_a_n,
                   ARRAY(const A_OFFSET) offsets_a, ARRAY(const A_VALUE) values_a,
                   ARRAY(const B_ROOT) roots_b, i64 roots_b_n, i64 low_b,
                   ARRAY(const i32) index_b, i64 index_b_n, ARRAY(const B_OFFSET) offsets_b,
                   ARRAY(const B_VALUE) values_b, ARRAY(i64) starts, ARRAY(VALUE) kept, i64 writes) {
    const Tile<32> t = tile_here<32>();
    for (i64 edge = tile_of_grid<32>(); edge < n; edge += tiles_of_grid<32>()) {
        const i64 first = +roots[parent_of(t, offsets, n_offsets, edge)];
        const i64 second = +ends[edge];
        const Range a = list_of(roots_a, roots_a_n, low_a, index_a, index_a_n, offsets_a, first);
        const Range b = list_of(roots_b, roots_b_n, low_b, index_b, index_b_n, offsets_b, second);
        if (writes) {
            const i64 start = starts[edge], length = starts[edge + 1] - start;
            if (length > 0)
                intersect(t, values_a, a.lo, a.hi, values_b, b.lo, b.hi,
                          slice(kept, start, length), length);
        } else {
            const i64 found = sum(t, count_common(t, values_a, a.lo, a.hi, values_b, b.lo, b.hi));
            if (t.rank == 0) starts[edge + 1] = found;
        }
    }
}
