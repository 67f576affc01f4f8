// P3, a four-clique with a fifth vertex at one of its edges, as T-DFS matches it: a team to that
// edge (a, b). All common neighbours of a and b are written into the team's stack: two of them that
// are joined make the clique, and any other one is the fifth vertex, of which only the number is
// asked. `all_targets` has all neighbours of a vertex, where `targets` has those behind it.
#include "meet.cuh"

KERNEL(p3)
(ARRAY(const i32) offsets, ARRAY(const i32) targets, ARRAY(const i32) sources,
 ARRAY(const i32) all_offsets, ARRAY(const i32) all_targets, i64 edges, i64 grain, i64 longest,
 ARRAY(i32) room, ARRAY(i64) counter, ARRAY(i64) total, ARRAY(i64) ends) {
    SHARED(i32, near, THREADS / LANES * SHORT);
    const Team team = tile_here<LANES>();
    const auto close = slice(near, team_of_block() * SHORT, SHORT);
    const auto far = slice(room, tile_of_grid<LANES>() * longest, longest);
    i64 found = 0;
    Items items = items_of(edges, grain);
    while (more(team, items, counter)) {
        const i32 edge = (i32)(edges - 1 - items.at);  // those with many neighbours come first
        const i32 a = sources[edge], b = targets[edge];
        // a has no more neighbours than b
        const i32 i = all_offsets[a], i_end = all_offsets[a + 1];
        const i32 j = all_offsets[b], j_end = all_offsets[b + 1];
        if (i_end - i < 4) continue;  // b and three more
        if (i_end - i <= SHORT) {
            const i32 n = meet(team, all_targets, i, i_end, j, j_end, close);
            if (n > 2) found += (n - 2) * edges_within(team, close, n, offsets, targets);
        } else {
            const i32 n = meet(team, all_targets, i, i_end, j, j_end, far);
            if (n > 2) found += (n - 2) * edges_within(team, far, n, offsets, targets);
        }
        sync(team);
    }
    finish(team, found, total, ends);
}
