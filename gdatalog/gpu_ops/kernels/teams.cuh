// Teams: all tiles of a block take a unit together, which fills a table of counts and reads it.
//
// The table lies in the block's shared memory. Its keys are listed in the global memory of the
// block's first tile, if loops read them. The tiles divide the turns of two loops, one that fills
// the table and one that reads it, and repeat all else of a unit. There are no tasks to share: units
// are many, and a team is fast.
//
// `run.team` is the number of bytes of the table; 0 if it does not fit. Then each tile takes tasks of
// its own, and has its own table.
#pragma once
#include "tallies.cuh"
#include "walk.cuh"

// The words of a team: its unit, the keys listed so far, the turns that have been taken of each loop.
enum { TEAM_UNIT = 0, TEAM_KEYS = 1, TEAM_FILLS = 2, TEAM_READS = 3, TEAM_WORDS = 4 };

// The next unit of the team, as a task; or the next task of the tile.
template <int N, class W>
DEVICE bool next_of_team(Tile<N> t, const Run& run, Work& work, W words, i64 total) {
    if (run.team == 0) return next_work(t, run, work, total, 1);
    block_sync();  // all tiles have finished the unit before
    if (thread_of_block() == 0) {
        i64 unit = total;
        if (!stopping(run.control)) unit = atomic_add(run.control, NEXT, (i64)1);
        if (run.parts > 1 && unit < total) {  // as with tasks: every `parts`-th stretch
            const u32 grain = (u32)grain_of(run, total, 1), stretch = (u32)unit / grain;
            unit = (stretch * run.parts + run.part) * grain + (u32)unit % grain;
        }
        words[TEAM_UNIT] = unit;
        words[TEAM_KEYS] = words[TEAM_FILLS] = words[TEAM_READS] = 0;
    }
    block_sync();
    const Task task = {words[TEAM_UNIT], words[TEAM_UNIT] + 1, 0, EVERYTHING};
    work.task = task;
    return task.start < total;
}

// How many lanes of a tile take a turn at once: so few that each tile has some turns.
template <int N>
DEVICE int lanes_of_team(const Run& run, i64 low, i64 high) {
    if (run.team == 0) return N;
    const i64 tiles = threads_of_block() / N, left = high - low;
    return left >= 4 * tiles * N ? N : left <= 4 * tiles ? 1 : (int)((u32)left / (u32)(4 * tiles));
}

// The first of the next turns, one for each of so many lanes, of a loop from `low` on. `next`: those
// of a tile without a team.
template <int N, class W>
DEVICE i64 next_turns(Tile<N> t, const Run& run, W words, int loop, i64 low, int lanes, i64 next) {
    if (run.team == 0) return next;
    i64 taken = 0;
    if (t.rank == 0) taken = atomic_add(words, loop, (i64)lanes);
    return low + from_rank(t, taken, 0);
}

// As `clear_tally`; `table` is that of a team.
template <int N, class A, class C, class V>
DEVICE i64 clear_of_team(Tile<N> t, const Run& run, A table, C counts, V values, i64 length,
                         i64 low) {
    if (run.team == 0) return clear_tally(t, counts, values, length, low);
    for (i64 at = thread_of_block(); at < run.team / 4; at += threads_of_block()) table[at] = 0u;
    block_sync();
    return 0;
}

// As `add_tally`; of a team, the number of keys is known once its tiles have met.
template <bool LISTED, int N, class W, class C, class V>
DEVICE i64 add_of_team(Tile<N> t, const Run& run, W words, C counts, V values, i64 length, bool yes,
                       i64 key, i64 low, i64 amount, int& trouble) {
    if (run.team == 0) {
        return add_tally(t, counts, values, length, yes, key, low, amount, trouble);
    }
    const bool fresh = count_one(counts, yes, key, low, amount, trouble);
    if (!LISTED) return length;
    const u32 news = ballot(t, fresh);
    i64 place = 0;
    if (t.rank == 0 && news != 0u) place = atomic_add(words, TEAM_KEYS, (i64)bits_of(news));
    place = from_rank(t, place, 0);
    if (fresh) values[place + before(t, news)] = key;
    return length;
}

// Called when the table is full. Returns the number of keys; if they are not listed, 1.
template <bool LISTED, int N, class W>
DEVICE i64 met(Tile<N> t, const Run& run, W words, i64 length) {
    if (run.team == 0) {
        sync(t);
        return length;
    }
    block_sync();
    return LISTED ? words[TEAM_KEYS] : 1;
}
