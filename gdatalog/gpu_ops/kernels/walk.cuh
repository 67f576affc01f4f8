// What the loops of a plan are made of, beside the searches: a tile's task, its rows, its end.
//
// A task is an interval of units, the bindings of the first levels. A unit's turns (of the level
// below) can be given to others that wait. What has been marked holds; from
// there the work goes on if the pool for rows is empty.
#pragma once
#include "lists.cuh"
#include "pool.cuh"
#include "work.cuh"

// Tiles of a device, roughly: parts of the units are cut alike on all devices.
enum { USUAL_TILES = 4096 };

// How many turns may pass between two looks at the clock, where they are short.
enum { SHORT_TURNS = 8 };

// What a launch is given.
struct Run {
    Array<i64> control, ring;
    Array<i32> counts, previous;
    i64 capacity, grain, limit, pieces, blocks, block_rows, wanted, tiles, part, parts;
};

// What a tile is at.
struct Work {
    Task task;                // whose `start` and `low` are where the tile is
    i64 kept_unit, kept_low;  // where they were at the mark
    Pool pool;
    i64 made;     // rows
    i64 asked;    // when it last looked whether others wait, in ticks
    u32 turns;    // since it last read the clock
    u32 read;     // when that was, in ticks
    u32 every;    // the clock is read once in so many turns; 0: now, and then once more
    u32 looks;    // how often it was asked whether the launch is to end
    int pieces;   // into which it is to be shared
    int trouble;  // why all that was done is void; each lane's own
    bool held;    // whether the task is this tile's
    bool fresh;   // whether it is units that nobody has had before
};

DEVICE Work work_open() {
    const Work work = {{0, 0, 0, 0}, 0, 0, pool_open(), 0, 0, 0u, 0u, 1u, 0u, 0, 0, false, false};
    return work;
}

// From here on the work goes on, if what comes now has to be undone.
DEVICE void mark_task(Work& work) {
    work.kept_unit = work.task.start;
    work.kept_low = work.task.low;
    pool_mark(work.pool);
}

// Whether some lane has found that all work is void: then the launch is to end.
template <int N>
DEVICE bool troubled(Tile<N> t, const Run& run, Work& work) {
    if (!any(t, work.trouble != 0)) return false;
    const int reason = greatest(t, work.trouble);
    if (t.rank == 0) stop(run.control, (Reason)reason);
    return true;
}

// How many units a tile takes at once: enough that the counter is no bottleneck, few enough that
// tiles end together. `run.grain` at the least.
DEVICE i64 grain_of(const Run& run, i64 total) {
    const i64 tiles = run.parts > 1 ? USUAL_TILES * run.parts : run.tiles;
    const i64 share = total / (tiles * 16);
    const i64 most = share < 1024 ? share : 1024;
    return most > run.grain ? most : run.grain;
}

// The next task; done is the one before.
template <int N>
DEVICE bool next_work(Tile<N> t, const Run& run, Work& work, i64 total) {
    if (troubled(t, run, work)) return false;
    const bool held = work.held;
    const Units units = {total, grain_of(run, total), run.part, run.parts};
    work.held = next_task(t, run.control, run.ring, run.capacity, units, work.task, held,
                          run.limit >= 0);
    if (!work.held) return false;
    work.fresh = work.task.high == UNTOUCHED;
    if (work.fresh) work.task.high = EVERYTHING;
    mark_task(work);
    if (run.limit > 0) {
        // One lane's clock: by it all lanes decide together when to look again.
        work.asked = from_rank(t, ticks(), 0);
        work.read = (u32)work.asked;
        work.turns = 0u;
        work.every = 1u;
    }
    return true;
}

// Where a unit's turns begin, of which the first may be the longest.
DEVICE i64 first_turn(Work& work) {
    work.every = 0u;
    return work.task.low;
}
DEVICE i64 last_turn(const Work& work, i64 unit) {
    return unit + 1 == work.task.stop ? work.task.high : EVERYTHING;
}

// Makes a task that nobody has had before one of whole lists: of those that begin among its units.
// `base` is where the first list begins. False if none does.
template <int N, class O>
DEVICE bool whole_lists(Tile<N> t, Work& work, O offsets, i64 n_offsets, i64 base) {
    Task& task = work.task;
    if (!work.fresh) return true;
    task.start = +offsets[lower(t, offsets, 0, n_offsets - 1, base + task.start)] - base;
    task.stop = +offsets[lower(t, offsets, 0, n_offsets - 1, base + task.stop)] - base;
    mark_task(work);
    return task.start < task.stop;
}

// Whether what becomes of this task does not matter any more: the lanes get one answer.
template <int N>
DEVICE bool leaves(Tile<N> t, const Run& run) {
    int yes = 0;
    if (t.rank == 0) yes = leaving(run.control) ? 1 : 0;
    return from_rank(t, yes, 0) != 0;
}

// The same, by a look now and then.
template <int N>
DEVICE bool ended(Tile<N> t, const Run& run, Work& work) {
    return (++work.looks & 63u) == 0u && leaves(t, run);
}

// Whether to look at the clock: at each turn if turns are long, else at some.
template <int N>
DEVICE bool due(Tile<N> t, const Run& run, Work& work) {
    if (++work.turns < work.every) return false;
    const u32 now = from_rank(t, (u32)ticks(), 0), passed = now - work.read;
    const bool longs = work.every == 0u || (i64)passed * SHORT_TURNS > run.limit * work.turns;
    work.every = longs ? 1u : SHORT_TURNS;
    work.read = now;
    work.turns = 0u;
    return true;
}

// Whether other tiles wait for a part of the task, or the launch is to end.
template <int N>
DEVICE bool overdue(Tile<N> t, const Run& run, Work& work) {
    if (run.limit < 0) return ended(t, run, work);
    if (run.limit > 0 && !due(t, run, work)) return false;
    work.pieces = late(t, run.control, work.asked, run.limit, run.pieces);
    return work.pieces > 0;
}

// Gives the units behind the one at hand to others; whether all found room there.
template <int N>
DEVICE bool share_rest(Tile<N> t, const Run& run, Work& work, i64 unit) {
    Task& task = work.task;
    if (task.stop <= unit + 1) return true;
    const i64 left = share_units(t, run.control, run.ring, run.capacity, unit + 1, task.stop,
                                 task.high, work.pieces);
    if (left < task.stop) {
        task.stop = left;
        task.high = EVERYTHING;
    }
    return left <= unit + 1;
}

// The loop has come to the units from `unit` to `last`. False if they are not the task's any more:
// what is left of it has been given to others.
template <int N>
DEVICE bool begin_unit(Tile<N> t, const Run& run, Work& work, i64 unit, i64 last) {
    if (unit >= work.task.stop) return false;
    if (unit == work.task.start) return true;
    work.task.start = unit;
    work.task.low = 0;
    if (work.task.stop - last > 1 && overdue(t, run, work)) {
        if (leaves(t, run)) {
            work.task.stop = unit;
            return false;
        }
        work.asked = ticks();
        share_rest(t, run, work, last);
    }
    return true;
}

// Gives the units behind the one at hand to others, and then its turns [from, end); gives where
// the tile's own part of the unit ends.
template <int N>
DEVICE i64 share_turns(Tile<N> t, const Run& run, Work& work, i64 unit, i64 from, i64 end) {
    work.asked = ticks();
    if (leaves(t, run)) {
        work.task.stop = unit + 1;
        return from;
    }
    if (!share_rest(t, run, work, unit)) return end;
    const i64 own = share(t, run.control, run.ring, run.capacity, unit, from, end, work.pieces);
    if (own < end) work.task.high = own;
    return own;
}

// Room for `rows` rows; if there is none, all since the mark is undone and given back.
template <int N>
DEVICE bool room(Tile<N> t, const Run& run, Work& work, i64 rows) {
    if (pool_reserve(t, work.pool, run.control, run.counts, run.previous, run.blocks,
                     run.block_rows, rows)) {
        return true;
    }
    pool_roll_back(t, work.pool, run.counts, run.previous);
    if (t.rank == 0) stop(run.control, FULL);
    if (work.held) {
        const Task left = {work.kept_unit, work.task.stop, work.kept_low, work.task.high};
        give_back(t, run.control, run.ring, run.capacity, left);
        work.held = false;
    }
    return false;
}

// So many rows have been written. False when there are as many as are wanted.
template <int N>
DEVICE bool wrote(Tile<N> t, const Run& run, Work& work, i64 rows) {
    work.pool.n += rows;
    work.made += rows;
    if (work.made < run.wanted) return true;
    if (t.rank == 0) stop(run.control, ENOUGH);
    return false;
}

DEVICE i64 row_of(const Run& run, const Work& work) { return pool_row(work.pool, run.block_rows); }
