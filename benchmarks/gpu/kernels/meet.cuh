// What the hand-written kernels share: taking work, and meeting sorted lists.
//
// A graph is given in the order of degrees, ties by the vertex: `targets[offsets[x] ..
// offsets[x + 1])` are the neighbours of x that stand behind it, ascending. LANES lanes of a warp
// work on one edge; LANES, THREADS (of a block) and SHORT are defined in front of this text.
#pragma once
#include "tile.cuh"

typedef Tile<LANES> Team;

// The number of a team in its block.
DEVICE int team_of_block() { return thread_of_block() / LANES; }

// A team's items of the work. The first half is dealt to the teams in turn, which costs nothing;
// the other half is taken from a counter, `grain` at once, by whoever is free: so many additions
// to one word that all of it were taken so would be what the time goes into.
struct Items {
    i64 at, end, dealt, teams, grain, left;
};

DEVICE Items items_of(i64 count, i64 grain) {
    const i64 teams = tiles_of_grid<LANES>();
    const Items items = {tile_of_grid<LANES>() - teams, count, count / 2, teams, grain, 0};
    return items;
}

// Goes on to the team's next item, `items.at`, if there is one.
template <class A>
DEVICE bool more(Team team, Items& items, A counter) {
    if (items.at + items.teams < items.dealt) {
        items.at += items.teams;
        return true;
    }
    items.at += 1;
    if (items.left == 0) {
        i64 first = 0;
        if (team.rank == 0) first = atomic_add(counter, 0, items.grain);
        items.at = items.dealt + from_rank(team, first, 0);
        items.left = items.grain;
    }
    items.left -= 1;
    return items.at < items.end;
}

// Whether values[lo .. hi), ascending, have a key. Lists that are as long take as many steps, so
// lanes do not part ways.
template <class A>
DEVICE bool has(A values, i32 lo, i32 hi, i32 key) {
    i32 left = hi - lo;
    if (left <= 0) return false;
    while (left > 1) {
        const i32 half = left >> 1;
        lo = values[lo + half] <= key ? lo + half : lo;
        left -= half;
    }
    return values[lo] == key;
}

// Writes what values[a .. a_end) and values[b .. b_end) have in common, in order; gives how many.
// The first list is the shorter one.
template <class A, class B>
DEVICE i32 meet(Team team, A values, i32 a, i32 a_end, i32 b, i32 b_end, B out) {
    i32 n = 0;
    for (i32 at = a; at < a_end; at += LANES) {
        const bool mine = at + team.rank < a_end;
        const i32 value = mine ? values[at + team.rank] : 0;
        const bool both = mine && has(values, b, b_end, value);
        const u32 votes = ballot(team, both);
        if (both) out[n + before(team, votes)] = value;
        n += bits_of(votes);
    }
    sync(team);
    return n;
}

// How many edges there are between the vertices of a list: this lane's part of them.
//
// Of a short list all pairs are looked at, spread over the lanes: (i, i + d) for d = 1, 2, ...
// round a circle. For a longer one the list and the neighbours of each vertex meet.
template <class A, class B>
DEVICE i64 edges_within(Team team, A list, i32 n, B offsets, B targets) {
    i64 found = 0;
    if (n < 2) return found;
    if (n <= SHORT) {
        const i32 pairs = n * (n - 1) / 2, turns = LANES / n, rest = LANES % n;
        i32 apart = team.rank / n + 1, i = team.rank % n;
        for (i32 pair = team.rank; pair < pairs; pair += LANES) {
            const i32 j = i + apart < n ? i + apart : i + apart - n;
            const i32 x = list[i < j ? i : j], y = list[i < j ? j : i];
            found += has(targets, offsets[x], offsets[x + 1], y) ? 1 : 0;
            apart += turns;
            i += rest;
            if (i >= n) {
                i -= n;
                apart += 1;
            }
        }
        return found;
    }
    for (i32 k = 0; k + 1 < n; k += 1) {
        const i32 x = list[k], first = offsets[x], end = offsets[x + 1];
        if (end - first < n - k - 1) {
            for (i32 at = first + team.rank; at < end; at += LANES)
                found += has(list, k + 1, n, targets[at]) ? 1 : 0;
        } else {
            for (i32 at = k + 1 + team.rank; at < n; at += LANES)
                found += has(targets, first, end, list[at]) ? 1 : 0;
        }
    }
    return found;
}

// The end of a kernel: its lanes' counts are added up, and the block's end is noted.
template <class A, class B>
DEVICE void finish(Team team, i64 found, A total, B ends) {
    found = sum(team, found);
    if (team.rank == 0 && found != 0) atomic_add(total, 0, found);
    block_sync();
    if (thread_of_block() == 0) ends[block_of_grid()] = nanoseconds();
}
