// Teams: all tiles of a block take a unit together, which fills a table of counts and reads it.
//
// A part of the table lies in the block's shared memory: the counts of the last keys, which are the
// vertices with most neighbours, and therefore occur most often. The rest of the table, and the list
// of its keys, are those of the block's first tile. The tiles divide the turns of two loops, one that
// fills the table and one that reads it, and repeat all else of a unit. There are no tasks to share:
// units are many, and a team is fast.
//
// For small units the tiles would wait for each other too often. Once a team has had many of them, its
// tiles part: each takes tasks of its own, and has its own table.
//
// `run.team` is the number of bytes of the table in shared memory; 0 if there are no teams.
#pragma once
#include "tallies.cuh"
#include "walk.cuh"

// The words of a team: its unit, the keys listed for the unit before, the turns that have been taken of
// each loop, what the unit has added to its table, and by how much units were too small. The number of
// keys listed now has 32 bits: in shared memory, an addition of 64 is a loop, and tiles add often.
enum {
    TEAM_UNIT = 0, TEAM_LISTED = 1, TEAM_FILLS = 2, TEAM_READS = 3, TEAM_ADDED = 4, TEAM_SMALL = 5,
    TEAM_WORDS = 6
};
// A unit that adds less than this is done sooner by a tile alone. So many empty ones part a team.
enum { SMALL_UNIT = 2048, MANY_SMALL = 16 };

// The tile of this thread, or the first of its team.
template <int N>
DEVICE i64 place_of_team(i64 team) {
    return team > 0 ? block_of_grid() * (threads_of_block() / N) : tile_of_grid<N>();
}

// The table of a team, or of a tile alone. `table`: the team's shared memory; `far`: n counts.
template <class A, class T, class W, class K>
DEVICE Counts<T> open_team(const Run& run, Work& work, W words, K listed, A table, Array<T> far, i64 n) {
    work.team = run.team > 0;
    const i64 most = run.team / (i64)sizeof(T), near = most < n ? most : n;
    const auto all = array_of<T>(table);
    for (i64 at = thread_of_block(); at < near; at += threads_of_block()) all[at] = 0;
    if (work.team && thread_of_block() == 0) words[TEAM_SMALL] = 0;
    if (work.team && thread_of_block() == 0) words[TEAM_ADDED] = SMALL_UNIT;
    if (work.team && thread_of_block() == 0) listed[0] = 0;
    const Counts<T> counts = {slice(all, 0, near), far, n - near};
    return counts;
}

// The next unit of the team, as a task; or the next task of the tile, which then counts in its `own`
// table of n counts.
template <int N, class W, class K, class T, class V>
DEVICE bool next_of_team(Tile<N> t, const Run& run, Work& work, W words, K listed, i64 total,
                         Counts<T>& counts, Array<T> own, i64 n, V& values, V own_values,
                         i64& length) {
    if (!work.team) return next_work(t, run, work, total, 1);
    block_sync();  // all tiles have finished the unit before
    if (thread_of_block() == 0) {
        const i64 small = words[TEAM_SMALL] + SMALL_UNIT - words[TEAM_ADDED];
        words[TEAM_SMALL] = small > 0 ? small : 0;
        words[TEAM_LISTED] = +listed[0];
        words[TEAM_FILLS] = words[TEAM_READS] = words[TEAM_ADDED] = 0;
        listed[0] = 0;
        i64 unit = total;
        if (small > MANY_SMALL * SMALL_UNIT) {
            unit = -1;
        } else if (!stopping(run.control)) {
            unit = atomic_add(run.control, NEXT, (i64)1);
        }
        words[TEAM_UNIT] = unit;
    }
    block_sync();
    const i64 unit = words[TEAM_UNIT];
    if (unit < 0) {
        work.team = false;
        counts.far = own;
        counts.split = n;
        values = own_values;
        length = thread_of_block() < N ? +words[TEAM_LISTED] : 0;
        return next_work(t, run, work, total, 1);
    }
    const Task task = {unit, unit + 1, 0, EVERYTHING};
    work.task = task;
    return unit < total;
}

// How many lanes of a tile take a turn at once: so few that each tile has some turns.
template <int N>
DEVICE int lanes_of_team(const Work& work, i64 low, i64 high) {
    if (!work.team) return N;
    const i64 tiles = threads_of_block() / N, left = high - low;
    return left >= 4 * tiles * N ? N : left <= 4 * tiles ? 1 : (int)((u32)left / (u32)(4 * tiles));
}

// The first of the next turns, one for each of so many lanes, of a loop from `low` on. `next`: those
// of a tile without a team.
template <int N, class W>
DEVICE i64 next_turns(Tile<N> t, const Work& work, W words, int loop, i64 low, int lanes,
                      i64 next) {
    if (!work.team) return next;
    i64 taken = 0;
    if (t.rank == 0) taken = atomic_add(words, loop, (i64)lanes);
    return low + from_rank(t, taken, 0);
}

// As `clear_tally`. The shared part is cleared by its keys only if these are few.
template <bool LISTED, int N, class W, class T, class V>
DEVICE i64 clear_of_team(Tile<N> t, const Work& work, W words, const Counts<T>& counts, i64 n,
                         V values, i64 length, i64 low) {
    if (!work.team) return clear_tally(t, counts, values, length, low);
    const i64 keys = words[TEAM_LISTED], near = n - counts.split;
    const bool few = LISTED && 8 * keys < near;
    for (i64 at = thread_of_block(); at < keys; at += threads_of_block()) {
        const i64 place = +values[at] - low;
        if (few || place < counts.split) set_to_0(counts, place);
    }
    for (i64 at = thread_of_block(); !few && at < near; at += threads_of_block()) {
        counts.near[at] = 0;
    }
    block_sync();
    return 0;
}

// As `add_tally`; of a team, the number of keys is known once its tiles have met. Keys of the shared
// part are listed only if loops read them.
template <bool LISTED, int N, class K, class T, class V>
DEVICE i64 add_of_team(Tile<N> t, Work& work, K listed, const Counts<T>& counts, V values,
                       i64 length, bool yes, i64 key, i64 low, i64 amount, int& trouble) {
    if (!work.team) {
        return add_tally(t, counts, values, length, yes, key, low, amount, trouble);
    }
    work.added += yes ? 1u : 0u;
    bool fresh = count_one(counts, yes, key, low, amount, trouble);
    fresh = fresh && (LISTED || key - low < counts.split);
    const u32 news = ballot(t, fresh);
    u32 place = 0;
    if (news != 0u) {
        if (t.rank == 0) place = atomic_add(listed, 0, (u32)bits_of(news));
        place = from_rank(t, place, 0);
    }
    if (fresh) values[place + before(t, news)] = key;
    return length;
}

// Called when the table is full. Returns the number of keys; if not all are listed, 1.
template <bool LISTED, int N, class W, class K>
DEVICE i64 met(Tile<N> t, Work& work, W words, K listed, i64 length) {
    if (!work.team) {
        sync(t);
        return length;
    }
    const u32 added = sum(t, work.added);
    if (t.rank == 0) atomic_add(words, TEAM_ADDED, (i64)added);
    work.added = 0u;
    block_sync();
    return LISTED ? (i64)+listed[0] : 1;
}
