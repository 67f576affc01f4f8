// Triangles: for an edge (a, b) how many of the neighbours behind b both have. A team to an edge.
#include "meet.cuh"

KERNEL(triangles)
(ARRAY(const i32) offsets, ARRAY(const i32) targets, ARRAY(const i32) sources, i64 edges,
 i64 grain, ARRAY(i64) counter, ARRAY(i64) total, ARRAY(i64) ends) {
    const Team team = tile_here<LANES>();
    i64 found = 0;
    Items items = items_of(edges, grain);
    while (more(team, items, counter)) {
        const i32 edge = (i32)(edges - 1 - items.at);  // those with many neighbours come first
        const i32 a = sources[edge], b = targets[edge];
        const i32 i = edge + 1, i_end = offsets[a + 1], j = offsets[b], j_end = offsets[b + 1];
        if (i_end - i < j_end - j) {
            for (i32 at = i + team.rank; at < i_end; at += LANES)
                found += has(targets, j, j_end, targets[at]) ? 1 : 0;
        } else {
            for (i32 at = j + team.rank; at < j_end; at += LANES)
                found += has(targets, i, i_end, targets[at]) ? 1 : 0;
        }
    }
    finish(team, found, total, ends);
}
