// A tile's work in a plan's loops: its task, its rows, its end.
//
// A task is an interval of units, which are bindings of the first levels. A tile can give a unit's
// turns, those of the level below, to tiles that wait. The tile marks its position at each unit. If
// the pool of rows is empty, it undoes its work since the mark; the next launch goes on from there.
#pragma once
#include "lists.cuh"
#include "work.cuh"

// About the number of tiles of a device. The same for all devices, so that all divide units alike.
enum { USUAL_TILES = 4096 };

// The most turns between two reads of the clock, if they are short.
enum { SHORT_TURNS = 8 };

// `ended` looks once in 2^LOOK ticks.
enum { LOOK = 18 };

// The arguments of a launch.
struct Run {
    Array<i64> control, ring;
    Array<i32> counts, previous;
    i64 capacity, grain, limit, pieces, blocks, block_rows, wanted, tiles, part, parts, team;
};

// The state of a tile.
struct Work {
    Task task;                // its `start` and `low` are the tile's position
    i64 kept_unit, kept_low;  // the same at the mark
    Pool pool;
    i64 made;     // rows written
    i64 asked;    // when it last checked whether others wait, in ticks
    u32 turns;    // turns since it last read the clock
    u32 read;     // when it last read the clock, in ticks
    u32 every;    // turns between two reads of the clock; 0: at the next two turns
    u32 looks;    // when `ended` last read the clock, in units of 2^LOOK ticks, times SHORT_TURNS;
                  // and how often it was called since
    int pieces;   // the number of pieces into which to cut the rest of the task
    int trouble;  // the reason to discard all work; each lane has its own
    bool held;    // whether the tile holds the task
    bool fresh;   // whether no other task has had its units before
    bool team;    // whether all tiles of the block take a unit together
    u32 added;    // counts that this lane has added to a team's table
};

DEVICE Work work_open() {
    const Work work = {{0, 0, 0, 0}, 0, 0, pool_open(), 0, 0, 0u, 0u, 1u, 0u, 0, 0, false, false, false, 0u};
    return work;
}

// Marks where the next launch goes on if later work is undone.
DEVICE void mark_task(Work& work) {
    work.kept_unit = work.task.start;
    work.kept_low = work.task.low;
    pool_mark(work.pool);
}

// Whether a lane has a reason to discard all work. Then it ends the launch.
template <int N>
DEVICE bool troubled(Tile<N> t, const Run& run, Work& work) {
    if (!any(t, work.trouble != 0)) return false;
    const int reason = greatest(t, work.trouble);
    if (t.rank == 0) stop(run.control, (Reason)reason);
    return true;
}

// The number of units that a tile takes at once: enough that the counter is no bottleneck, few enough
// that tiles end at about the same time, and at least `run.grain`. If all lanes take a unit each, it
// is the least number: enough for all of them.
DEVICE i64 grain_of(const Run& run, i64 total, i64 lanes) {
    const i64 tiles = run.parts > 1 ? USUAL_TILES * run.parts : run.tiles;
    const i64 share = total / (tiles * (run.parts > 1 || lanes == 1 ? 16 : 64));
    const i64 most = share < 1024 ? share : 1024, least = run.grain > lanes ? run.grain : lanes;
    return most > least ? most : least;
}

// The number of tiles that take part in a round over so many rows. If the last round has split no
// task, there is one for each row, and some to split tasks after all: more tiles would only wait for
// each other at the shared words.
template <class C>
DEVICE i64 tiles_of_round(C control, i64 tiles, i64 rows) {
    if (control[LIGHT] == 0) return tiles;
    const i64 few = tiles / 8 + 1, least = rows > few ? rows : few;
    return least < tiles ? least : tiles;
}

// Whether a tile waits for parts of others' tasks: all do, but in rounds after one that split none.
template <int N>
DEVICE bool waits_for_tasks(Tile<N> t, const Run& run) {
    return run.control[LIGHT] == 0 || tile_of_grid<N>() < run.tiles / 32 + 1;
}

// Takes the next task; the tile has finished the one before. `lanes`: that take a unit each.
template <int N>
DEVICE bool next_work(Tile<N> t, const Run& run, Work& work, i64 total, i64 lanes) {
    if (troubled(t, run, work)) return false;
    const bool held = work.held;
    const i64 share = run.parts > 1 || lanes == 1 ? 0 : 4 * run.tiles;
    const Units units = {total, grain_of(run, total, lanes), run.part, run.parts, share};
    work.held = next_task(t, run.control, run.ring, run.capacity, units, work.task, held,
                          run.limit >= 0 && waits_for_tasks(t, run));
    if (!work.held) return false;
    work.fresh = work.task.high == UNTOUCHED;
    if (work.fresh) work.task.high = EVERYTHING;
    mark_task(work);
    if (run.limit > 0) {
        // The clock of one lane, so that all lanes agree on when to check again.
        work.asked = from_rank(t, ticks(), 0);
        work.read = (u32)work.asked;
        work.turns = 0u;
        work.every = 1u;
    }
    return true;
}

// Called where a unit's turns begin. The first turn may be the longest, so read the clock after it.
DEVICE i64 first_turn(Work& work) {
    work.every = 0u;
    return work.task.low;
}
DEVICE i64 last_turn(const Work& work, i64 unit) {
    return unit + 1 == work.task.stop ? work.task.high : EVERYTHING;
}

// Changes a new task to the whole lists that begin within its units. `base` is where the first list
// begins. False if no list begins there.
template <int N, class O>
DEVICE bool whole_lists(Tile<N> t, Work& work, O offsets, i64 n_offsets, i64 base) {
    Task& task = work.task;
    if (!work.fresh) return true;
    task.start = +offsets[lower(t, offsets, 0, n_offsets - 1, base + task.start)] - base;
    task.stop = +offsets[lower(t, offsets, 0, n_offsets - 1, base + task.stop)] - base;
    mark_task(work);
    return task.start < task.stop;
}

// Whether the launch has ended for a reason that discards the task. All lanes get one answer.
template <int N>
DEVICE bool leaves(Tile<N> t, const Run& run) {
    int yes = 0;
    if (t.rank == 0) yes = leaving(run.control) ? 1 : 0;
    return from_rank(t, yes, 0) != 0;
}

// The same, checked once in 2^LOOK ticks. Reads the clock once in SHORT_TURNS calls, and at the call
// after each check: if turns are long, every call checks.
template <int N>
DEVICE bool ended(Tile<N> t, const Run& run, Work& work) {
    if ((++work.looks & (SHORT_TURNS - 1u)) != 0u) return false;
    const u32 now = from_rank(t, (u32)(ticks() >> LOOK), 0) * SHORT_TURNS;
    const bool same = work.looks - SHORT_TURNS == now;
    work.looks = now;
    if (same) return false;
    work.looks += SHORT_TURNS - 1u;
    return leaves(t, run);
}

// Whether to check the time: at every turn if turns are long, else once in some.
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

// Gives the units after the current one to others. True if there was room for all of them.
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

// Starts the units from `unit` to `last`. False if they no longer belong to the task, because the
// tile has given them to others.
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

// The units before this one lead to nothing, from the current one on: none of them is taken any more.
template <int N>
DEVICE void skip_units(Tile<N> t, const Run& run, const Work& work, i64 unit) {
    const int number = work.team ? thread_of_block() : t.rank;
    if (number == 0 && run.parts == 1) atomic_max(run.control, NEXT, unit);
}

// Gives the units after the current one to others, and then its turns [from, end). Returns where
// the tile's own turns end.
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

// Reserves room for `rows` rows. If there is none, undoes everything since the mark and gives the
// rest of the task back.
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

// Counts rows that have been written. False when there are as many as are wanted.
template <int N>
DEVICE bool wrote(Tile<N> t, const Run& run, Work& work, i64 rows) {
    work.pool.n += rows;
    work.made += rows;
    if (work.made < run.wanted) return true;
    if (t.rank == 0) stop(run.control, ENOUGH);
    return false;
}

DEVICE i64 row_of(const Run& run, const Work& work) { return pool_row(work.pool, run.block_rows); }

// -------------------------------------------------------------- parts of buffers that tiles borrow
//
// For lists and rows of bits that do not fit a tile's own part of a buffer.
//
// Each tile owns a short part of each buffer, an array. After these come classes of longer parts;
// the last class is as long as the longest list. A tile borrows one longer part of a buffer at a
// time.
//
// There is no deadlock: buffers are numbered from the outer levels of a plan to the inner ones. A
// tile that waits for a part of one buffer has no part of it, nor of inner levels' buffers; a tile
// with parts of the innermost level waits for nothing. Tiles return their parts before they ask for
// a task, and when they end.

// The fields of a class in `rooms`: the elements of a part, the number of parts, where the first
// part begins, and the word of `lent` with the first part's bit.
enum { ROOM_LENGTH = 0, ROOM_COUNT = 1, ROOM_BEGIN = 2, ROOM_WORD = 3, ROOM_WORDS = 4 };
enum { LENT_BITS = 32 };  // parts in a word of `lent`

// Returns what a tile has borrowed of the buffers from number `from` on.
template <int N, int BUFFERS, class L>
DEVICE void return_rooms(Tile<N> t, L lent, i64 (&borrowed)[BUFFERS], int from) {
    for (int at = 0; at < BUFFERS; ++at) {
        if (at < from || borrowed[at] < 0) continue;
        sync(t);  // all lanes have finished reading
        if (t.rank == 0) {
            const i64 bit = (i64)1 << (borrowed[at] % LENT_BITS);
            add_acquire_release(lent, borrowed[at] / LENT_BITS, -bit);
        }
        borrowed[at] = -1;
    }
}

// Claims a free part of a class. Returns its number, -1 if there is none.
template <class L>
DEVICE i64 claim(L lent, i64 word, i64 count, i64 begin) {
    const i64 words = (count + LENT_BITS - 1) / LENT_BITS;
    for (i64 turn = 0; turn < words; ++turn) {
        const i64 at = (begin + turn) % words, left = count - at * LENT_BITS;
        const u64 most = left < LENT_BITS ? ((u64)1 << left) - 1 : 0xffffffffull;
        const u64 free = ~(u64)load_relaxed(lent, word + at) & most;
        if (free == 0) continue;
        const u64 bit = free & (~free + 1);
        if ((u64)atomic_or(lent, word + at, (i64)bit) & bit) continue;
        load_acquire(lent, word + at);  // its last owner has finished reading
        i64 number = at * LENT_BITS;
        while (bit >> (number % LENT_BITS + 1)) ++number;
        return number;
    }
    return -1;
}

// Borrows a part of buffer `number` with `wanted` elements: of the first class that is long enough
// and has a free part. Returns where it begins; negative if the launch ends.
template <int N, int BUFFERS, class R, class L>
DEVICE i64 borrow(Tile<N> t, const Run& run, R rooms, i64 classes, L lent,
                  i64 (&borrowed)[BUFFERS], int number, i64 wanted) {
    const i64 first = number * classes * ROOM_WORDS, last = first + (classes - 1) * ROOM_WORDS;
    i64 shortest = first;
    while (shortest < last && +rooms[shortest + ROOM_LENGTH] < wanted) shortest += ROOM_WORDS;
    i64 part = -1, kind = shortest;
    while (true) {
        if (t.rank == 0) {
            const i64 word = rooms[kind + ROOM_WORD];
            part = claim(lent, word, rooms[kind + ROOM_COUNT], tile_of_grid<N>());
        }
        part = from_rank(t, part, 0);
        if (part >= 0) break;
        kind = kind < last ? kind + ROOM_WORDS : shortest;
        if (kind > shortest) continue;
        if (leaves(t, run)) return -1;
        pause(SHORTEST_PAUSE);
    }
    sync(t);
    borrowed[number] = rooms[kind + ROOM_WORD] * LENT_BITS + part;
    return rooms[kind + ROOM_BEGIN] + part * rooms[kind + ROOM_LENGTH];
}

// ----------------------------------------------------------------------------------- marks of rows
//
// New rows: a bitmap of all possible rows, which all tiles share.
//
// The tile that sets a row's bit outputs the row. It must have room for the row: if it marked a row
// without writing it, no other tile would write it either. For the same reason, written rows are
// final at once. When the pool is empty, the next launch repeats the current unit and skips marked
// rows.

// Whether a row is marked. Marks that others set at this moment may be missed.
template <class M>
DEVICE bool is_marked(M marks, i64 row) {
    return ((u64)load_relaxed(marks, row >> 6) >> (row & 63) & 1u) != 0u;
}

// Marks a row; true if it was not marked before.
template <class M>
DEVICE bool mark_first(M marks, i64 row) {
    const u64 bit = (u64)1 << (row & 63);
    return ((u64)atomic_or(marks, row >> 6, (i64)bit) & bit) == 0u;
}

// Marks a row; other lanes may mark the same row.
template <class M>
DEVICE void mark(M marks, i64 row) {
    if (!is_marked(marks, row)) mark_first(marks, row);
}

// --------------------------------------------------------------------------------------- worklists
//
// A separate fixpoint for each value of a column. A tile has a list of the rows found for its
// value, in the order in which it found them, and a bit for each possible row.
//
// A row is a number from 0 on. Any lane appends rows to the list on its own; the list's length is
// in shared memory. All lanes call `open_list`, `listed` and `wipe`, and see rows that were offered
// before. Between two values all bits are clear.

// The position in shared memory of the length of this tile's list `at`. There are several lists if
// several relations depend on each other.
template <int N>
DEVICE i64 tail_of(int at) {
    return at * (threads_of_block() / N) + thread_of_block() / N;
}

// Empties the list.
template <int N, class T>
DEVICE void open_list(Tile<N> t, T tails, int at) {
    sync(t);
    if (t.rank == 0) tails[tail_of<N>(at)] = 0u;
    sync(t);
}

// The number of rows in the list. Called by all lanes, which then go on together.
template <int N, class T>
DEVICE i64 listed(Tile<N> t, T tails, int at) {
    sync(t);
    const u32 n = tails[tail_of<N>(at)];
    sync(t);
    return (i64)n;
}

// Appends a row that one lane has found, if it is new. There is room for all possible rows.
template <int N, class T, class L, class M>
DEVICE void offer(Tile<N> t, T tails, int at, L list, M seen, i64 row) {
    const u32 bit = 1u << (row & 31);
    if ((atomic_or(seen, row >> 5, bit) & bit) != 0u) return;
    list[(i64)atomic_add(tails, tail_of<N>(at), 1u)] = row;
}

// Clears the bits of all n rows: row by row, or word by word if there are many rows.
template <int N, class L, class M>
DEVICE void wipe(Tile<N> t, L list, M seen, i64 words, i64 n) {
    sync(t);
    if (n < words) {
        for (i64 i = t.rank; i < n; i += N) seen[list[i] >> 5] = 0u;
    } else {
        for (i64 w = t.rank; w < words; w += N) seen[w] = 0u;
    }
    sync(t);
}
