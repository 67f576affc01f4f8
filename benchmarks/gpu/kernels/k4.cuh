// Four-cliques (P2), as T-DFS matches them: a team to an edge (a, b), whose common neighbours are
// written into the team's stack; then the edges between those. A short list is kept in shared
// memory, a longer one in `room`, which has the length of the longest list for each team.
#include "meet.cuh"

KERNEL(k4)
(ARRAY(const i32) offsets, ARRAY(const i32) targets, ARRAY(const i32) sources, i64 edges,
 i64 grain, i64 longest, ARRAY(i32) room, ARRAY(i64) counter, ARRAY(i64) total, ARRAY(i64) ends) {
    SHARED(i32, near, THREADS / LANES * SHORT);
    const Team team = tile_here<LANES>();
    const auto close = slice(near, team_of_block() * SHORT, SHORT);
    const auto far = slice(room, tile_of_grid<LANES>() * longest, longest);
    i64 found = 0;
    Items items = items_of(edges, grain);
    while (more(team, items, counter)) {
        const i32 edge = (i32)(edges - 1 - items.at);  // those with many neighbours come first
        const i32 a = sources[edge], b = targets[edge];
        i32 i = edge + 1, i_end = offsets[a + 1], j = offsets[b], j_end = offsets[b + 1];
        if (j_end - j < i_end - i) {
            const i32 start = i, end = i_end;
            i = j, i_end = j_end, j = start, j_end = end;
        }
        if (i_end - i < 2) continue;
        if (i_end - i <= SHORT) {
            const i32 n = meet(team, targets, i, i_end, j, j_end, close);
            found += edges_within(team, close, n, offsets, targets);
        } else {
            const i32 n = meet(team, targets, i, i_end, j, j_end, far);
            found += edges_within(team, far, n, offsets, targets);
        }
        sync(team);
    }
    finish(team, found, total, ends);
}
