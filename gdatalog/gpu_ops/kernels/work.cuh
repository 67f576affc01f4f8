// How tiles take, share and finish work, and where they write rows: the words that all tiles share,
// the queue of tasks, the pool of rows, and the calls that a tile makes.
#pragma once
#include "tile.cuh"

// ---------------------------------------------------------------------- words that all tiles share
//
// Each word has its own line. The greatest reason says why a launch ended.
// `gpu_ops/loops.py` has the same numbers. All are zero before the first launch.

enum Word {
    NEXT = 0,     // units of the first level that have been taken (may exceed the total)
    STOP = 16,    // not zero: tiles take no more tasks; above FULL: they leave at once
    STATUS = 32,  // why the launch ends: the greatest reason of all tiles
    BUSY = 48,    // outstanding tasks: running or queued
    HEAD = 64,    // tickets of the ring: tasks taken out
    TAIL = 80,    // tickets of the ring: tasks put in
    POOL = 96,    // blocks of the pool that have been requested (may exceed the total)
    SPLITS = 112, // tasks that were made by splitting others
    IDLE = 128,   // tiles that wait for a task
    QUEUED = 144, // unclaimed tasks in the ring (too low while failed claims are undone)
    HELD = 160,   // used slots of the ring (too high while failed requests are undone)
    LIGHT = 176,  // in rounds: whether the last one has split no task
    CONTROL_WORDS = 192
};

// The greatest reason wins: after a failure it does not matter that the pool was empty, too; and a
// launch that has found enough rows is right in any case.
enum Reason {
    DONE = 0, FULL = 1, STOPPED = 2, FAILED = 3, OVERFLOWED = 4, ENOUGH = 5,
    OUTSIDE = 6  // a row outside the range of the marks
};

// Ends the launch. After FULL, tiles finish or return their tasks; after other reasons they drop
// them. The host writes STOPPED to STOP.
template <class C>
DEVICE void stop(C control, Reason why) {
    atomic_max(control, STATUS, (i64)why);
    atomic_max(control, STOP, (i64)why);
}

template <class C>
DEVICE bool stopping(C control) {
    return load_relaxed(control, STOP) != DONE;
}
template <class C>
DEVICE bool leaving(C control) {
    return load_relaxed(control, STOP) > FULL;
}

// ------------------------------------------------------------------------------ the queue of tasks
//
// The queue is a bounded ring, which any thread can put into and take from at any time.
//
// A slot is a line of words: its turn and a task. Tickets are positions that only grow: HEAD is the
// next to be taken out, TAIL the next to be put in. A ticket's slot is the ticket modulo the
// capacity (a power of two, at least 2). Let `lap` be the ticket without that remainder. Its slot's
// turn is
//     lap             while the slot is free for this ticket,
//     lap + 1         while it holds the ticket's task,
//     lap + capacity  once the task has been taken out, which is free for the next lap.
// So a ring of zeros is empty.
//
// Tickets are handed out by additions, which thousands of threads can do at once; compare-and-swap
// would succeed about once a microsecond. HELD counts the used slots: a thread that adds to it
// within the capacity gets as many tickets. QUEUED counts the unclaimed tasks: a thread that
// subtracts one, and finds that there were some, gets a ticket. If there were none it adds the one
// again, and retries if there are tasks by then: the thread that put them may have seen the count
// before it was restored, and nobody else might take them.
//
// A thread with a ticket only waits for the thread that uses the slot: the one that writes the
// task, or reads the task of the previous lap.

// Units of the first level, in the order of (unit, entry of the list below it): from entry `low` of
// unit `start` up to, but not including, entry `high` of unit `stop - 1`.
struct Task {
    i64 start, stop, low, high;
};

#define EVERYTHING ((i64)1 << 62)   // as `high`: all entries
#define UNTOUCHED (EVERYTHING + 1)  // the same, for units that no task has had before

enum { SLOT_WORDS = 8 };  // a turn, four words of a task, padding to half a line

enum { SHORTEST_PAUSE = 64 };  // nanoseconds

// Takes tickets for up to `wanted` tasks, while no more than `room` slots are used. Returns how
// many; they start at `ticket`. The caller writes each task, and then publishes all.
template <class C>
DEVICE i64 queue_reserve(C control, i64 room, i64 wanted, i64& ticket) {
    if (load_relaxed(control, HELD) >= room) return 0;
    const i64 left = room - atomic_add(control, HELD, wanted);
    const i64 got = left >= wanted ? wanted : left > 0 ? left : 0;
    if (got < wanted) atomic_add(control, HELD, got - wanted);
    if (got > 0) ticket = atomic_add(control, TAIL, got);
    return got;
}

// Writes the task of a ticket to its slot.
template <class R>
DEVICE void queue_write(R ring, i64 capacity, i64 ticket, const Task& task) {
    const i64 lap = ticket & -capacity, slot = (ticket - lap) * SLOT_WORDS;
    while (load_relaxed(ring, slot) != lap) pause(SHORTEST_PAUSE);
    load_acquire(ring, slot);  // the slot's last reader has finished
    ring[slot + 1] = task.start;
    ring[slot + 2] = task.stop;
    ring[slot + 3] = task.low;
    ring[slot + 4] = task.high;
    store_release(ring, slot, lap + 1);
}

template <class C>
DEVICE void queue_publish(C control, i64 count) {
    atomic_add(control, QUEUED, count);
}

// Puts a task; false if the ring is full.
template <class R, class C>
DEVICE bool queue_put(R ring, C control, i64 capacity, const Task& task) {
    i64 ticket = 0;
    if (queue_reserve(control, capacity, (i64)1, ticket) == 0) return false;
    queue_write(ring, capacity, ticket, task);
    queue_publish(control, (i64)1);
    return true;
}

template <class R, class C>
DEVICE bool queue_get(R ring, C control, i64 capacity, Task& task) {
    if (load_relaxed(control, QUEUED) <= 0) return false;
    while (atomic_add(control, QUEUED, (i64)-1) <= 0) {
        if (atomic_add(control, QUEUED, (i64)1) < 0) return false;
    }
    const i64 ticket = atomic_add(control, HEAD, (i64)1);
    const i64 lap = ticket & -capacity, slot = (ticket - lap) * SLOT_WORDS;
    while (load_relaxed(ring, slot) != lap + 1) pause(SHORTEST_PAUSE);
    load_acquire(ring, slot);  // only once: on a GPU it invalidates the L1 cache
    task.start = ring[slot + 1];
    task.stop = ring[slot + 2];
    task.low = ring[slot + 3];
    task.high = ring[slot + 4];
    store_release(ring, slot, lap + capacity);
    atomic_add(control, HELD, (i64)-1);
    return true;
}

// The number of tasks in the queue, now or a moment ago.
template <class C>
DEVICE i64 queue_size(C control) {
    const i64 head = load_relaxed(control, HEAD);
    return load_relaxed(control, TAIL) - head;
}

// -------------------------------------------------------------------------------- the pool of rows
//
// Tiles write rows to the pool: a tile takes a block of it whenever it needs one.
//
// A column of the output is an array of `blocks * block_rows`. After the launch, `counts[b]` is the
// number of valid rows in block b, and `previous[b]` the block that its tile had before. To write k
// rows, a tile reserves room for them, writes from row `pool_row(pool, block_rows)` on, and adds k
// to `pool.n`. All lanes of a tile have the same `Pool` in registers.
//
// A mark makes the rows so far valid. When the pool is empty, a tile rolls back to its mark and
// returns its unmarked work. Blocks that are rolled back stay empty and unused: the launch is about
// to end, and the host makes all blocks available to the next one.

struct Pool {
    i64 block, n;            // the current block, -1 before the first; rows in it
    i64 kept_block, kept_n;  // the same at the mark
};

DEVICE Pool pool_open() {
    const Pool pool = {-1, 0, -1, 0};
    return pool;
}

// Reserves room for k consecutive rows (at most 32, and at most a block's). False if the pool is
// empty; then nothing has changed. If the block has room, this is a single comparison.
template <int N, class C, class A>
DEVICE bool pool_reserve(Tile<N> t, Pool& pool, C control, A counts, A previous, i64 blocks,
                         i64 block_rows, i64 k) {
    if (pool.block >= 0 && pool.n + k <= block_rows) return true;
    i64 next = 0;
    if (t.rank == 0) next = atomic_add(control, POOL, (i64)1);
    next = from_rank(t, next, 0);
    if (next >= blocks) return false;
    if (t.rank == 0) {
        if (pool.block >= 0) counts[pool.block] = (i32)pool.n;
        previous[next] = (i32)pool.block;
    }
    pool.block = next;
    pool.n = 0;
    return true;
}

// The position of the next row in each column.
DEVICE i64 pool_row(const Pool& pool, i64 block_rows) { return pool.block * block_rows + pool.n; }

// Makes the rows so far valid.
DEVICE void pool_mark(Pool& pool) {
    pool.kept_block = pool.block;
    pool.kept_n = pool.n;
}

// Undoes all rows since the mark, in all of their blocks.
template <int N, class A>
DEVICE void pool_roll_back(Tile<N> t, Pool& pool, A counts, A previous) {
    if (t.rank == 0) {
        for (i64 block = pool.block; block != pool.kept_block; block = previous[block]) {
            counts[block] = 0;
        }
    }
    pool.block = pool.kept_block;
    pool.n = pool.kept_n;
}

// Stores the number of rows of the last block; called once, when the tile ends.
template <int N, class A>
DEVICE void pool_close(Tile<N> t, const Pool& pool, A counts) {
    if (t.rank == 0 && pool.block >= 0) counts[pool.block] = (i32)pool.n;
}

// ---------------------------------------------------------------------------------- tasks of tiles
//
// How tiles take, share and finish work.
//
//     Task task;
//     bool held = false;
//     while (next_task(t, control, ring, capacity, units, task, held)) {
//         held = true;
//         ... walk it; now and then, if it is `late`, share what lies ahead;
//         ... if the pool is empty: roll back, give_back what is not committed, held = false
//     }
//
// BUSY counts outstanding tasks: a task is counted before anybody can take it, until it is done. So
// at zero, with all units taken, nothing is left and nothing can come. It needs no ordering of its
// own: a task's words are ordered by its slot's turn, and a thread adds before it subtracts. (A
// tile that sees a sum too early leaves too early; it has no task then, and loses nothing.)
//
// There is always room to give a task back. The number of working tiles is at most half the
// capacity, and splitting leaves room in the ring for one task of each (`room_to_share`). New units
// are taken only when nothing is queued but tasks that this launch has shared, and a tile that has
// given back takes no more. So queued and running tasks together never exceed the capacity.
//
// Between launches the host reads STATUS, sets STOP and STATUS to zero, and launches again with the
// same control and ring: queued tasks go first.
//
// A launch can have one part of the units: every `parts`-th stretch of `grain` units, from number
// `part` on. Launches with all parts together have each unit once.
//
// One lane of a tile does the work; all lanes make the call, and get the same result.

enum { LONGEST_PAUSE = 1000000 };  // nanoseconds between looks at the queue

// The units of a launch. A tile takes `grain` of them at once, or one part in `share` of those that
// are left, if that is more (0: never): so large tasks come first, and few tiles meet at the counter.
struct Units {
    i64 total, grain, part, parts, share;
};

template <int N>
DEVICE i64 working_tiles(i64 capacity) {
    const i64 tiles = tiles_of_grid<N>(), most = capacity / 2;
    return tiles < most ? tiles : most;
}
template <int N>
DEVICE i64 room_to_share(i64 capacity) {
    return capacity - working_tiles<N>(capacity);
}

// For one lane: tries once to get a task, from the queue or else new units. False if there is none
// now; then the tile holds none. `over`: there will be none.
template <class C, class R>
DEVICE bool find_task(C control, R ring, i64 capacity, const Units& all, bool held, Task& task,
                      bool& over) {
    over = stopping(control);
    if (!over && queue_get(ring, control, capacity, task)) {
        if (held) atomic_add(control, BUSY, (i64)-1);
        return true;
    }
    const i64 first = all.part * all.grain;
    const i64 left = all.total - load_relaxed(control, NEXT) - first;
    const bool units = left > 0;
    if (!over && units) {
        if (!held) atomic_add(control, BUSY, (i64)1);
        i64 grain = all.grain;
        if (all.share > 0) {
            const i64 part = (u32)(left < 0xFFFFFFFFll ? left : 0xFFFFFFFFll) / (u32)all.share;
            grain = part > grain ? part : grain;
        }
        const i64 start = atomic_add(control, NEXT, all.parts * grain) + first;
        if (start < all.total) {
            task.high = UNTOUCHED;
            task.start = start;
            task.stop = grain < all.total - start ? start + grain : all.total;
            return true;
        }
        held = true;
    }
    if (held) atomic_add(control, BUSY, (i64)-1);
    // If there were units a moment ago, it is not over: the tile that took them has counted itself
    // before, and may share them.
    if (!over) over = !units && load_relaxed(control, BUSY) == 0;
    return false;
}

// The longest pause of a waiting tile between two checks for a task. It grows with the number of
// tiles, because waiting tiles contend for the words that the others work with.
DEVICE int longest_pause(i64 capacity) {
    return capacity < 1024 ? 1024 : capacity < LONGEST_PAUSE ? (int)capacity : LONGEST_PAUSE;
}

// The pause after one. The launch ends when the last tile wakes, so no tile sleeps for longer than
// about a quarter of the time that it has waited.
DEVICE int next_pause(int wait, int longest) { return wait < longest ? wait + wait / 4 : longest; }

// For one lane: a task, or one without units if there is none. `waits`: other tiles may share their
// tasks.
template <class C, class R>
DEVICE Task take_task(C control, R ring, i64 capacity, const Units& all, bool held, bool waits) {
    Task task = {0, 0, 0, EVERYTHING};
    bool over = false, idle = false;
    // In a light round few tiles wait.
    const int longest = control[LIGHT] != 0 ? 1024 : longest_pause(capacity);
    for (int wait = SHORTEST_PAUSE;; wait = next_pause(wait, longest)) {
        if (find_task(control, ring, capacity, all, held, task, over) || over) break;
        if (!waits) break;
        if (!idle) atomic_add(control, IDLE, (i64)1);
        idle = true;
        held = false;
        pause(wait);
    }
    if (idle) atomic_add(control, IDLE, (i64)-1);
    return task;
}

// The next task: from the queue, else `grain` new units. If `waits`, it waits while others may
// share their tasks. False if nothing is outstanding, or the launch is to stop. `held`: the tile
// has just finished a task, so that it need not call `done_task`.
template <int N, class C, class R>
DEVICE bool next_task(Tile<N> t, C control, R ring, i64 capacity, const Units& all, Task& task,
                      bool held = false, bool waits = true) {
    Task found = {0, 0, 0, EVERYTHING};
    if (tile_of_grid<N>() >= working_tiles<N>(capacity)) return false;
    if (t.rank == 0) found = take_task(control, ring, capacity, all, held, waits);
    task.start = from_rank(t, found.start, 0);
    task.stop = from_rank(t, found.stop, 0);
    task.low = from_rank(t, found.low, 0);
    task.high = from_rank(t, found.high, 0);
    return task.start < task.stop;
}

// Ends the tile's task.
template <int N, class C>
DEVICE void done_task(Tile<N> t, C control) {
    if (t.rank == 0) atomic_add(control, BUSY, (i64)-1);
}

// Takes tickets for up to `wanted` new tasks, leaving the room for tasks that are given back, and
// counts them as outstanding. Returns their number; the first is `ticket`.
template <int N, class C>
DEVICE i64 reserve(Tile<N> t, C control, i64 capacity, i64 wanted, i64& ticket) {
    i64 got = 0, first = 0;
    if (t.rank == 0) {
        atomic_add(control, BUSY, wanted);
        got = queue_reserve(control, room_to_share<N>(capacity), wanted, first);
        if (got < wanted) atomic_add(control, BUSY, got - wanted);
        if (got > 0) atomic_add(control, SPLITS, got);
    }
    ticket = from_rank(t, first, 0);
    got = from_rank(t, got, 0);
    sync(t);
    return got;
}

// Publishes `count` tasks that the lanes have written.
template <int N, class C>
DEVICE void publish(Tile<N> t, C control, i64 count) {
    sync(t);
    if (t.rank == 0 && count > 0) queue_publish(control, count);
}

// The length of each of `pieces` pieces. (A division of 64 bits would take many registers.)
DEVICE i64 piece_of(i64 count, i64 pieces) {
    const u32 all = count < 0x7FFFFFFF ? (u32)count : 0x7FFFFFFFu;
    return (all + (u32)pieces - 1u) / (u32)pieces;
}

// Shares the entries [low, high) of a unit in up to `pieces` tasks, the last entries first. Returns
// where the caller's own part ends: `low` if all were put, `high` if none; entries without room
// stay its own.
template <int N, class C, class R>
DEVICE i64 share(Tile<N> t, C control, R ring, i64 capacity, i64 unit, i64 low, i64 high,
                 i64 pieces) {
    if (low >= high) return high;
    const i64 piece = piece_of(high - low, pieces), wanted = piece_of(high - low, piece);
    i64 ticket;
    const i64 got = reserve(t, control, capacity, wanted, ticket);
    for (i64 k = t.rank; k < got; k += N) {
        const i64 end = high - k * piece, from = end - low > piece ? end - piece : low;
        const Task task = {unit, unit + 1, from, end};
        queue_write(ring, capacity, ticket + k, task);
    }
    publish(t, control, got);
    return high - low > got * piece ? high - got * piece : low;
}

// Shares the units [start, stop), the last up to its entry `high`. Returns where the caller's own
// part ends. If that is before `stop`, the part ends with a whole unit (EVERYTHING).
//
// Share units first, and entries of the current unit only when no unit after it is left, so that
// the rest of a tile's work is always one task.
template <int N, class C, class R>
DEVICE i64 share_units(Tile<N> t, C control, R ring, i64 capacity, i64 start, i64 stop, i64 high,
                       i64 pieces) {
    if (start >= stop) return stop;
    const i64 piece = piece_of(stop - start, pieces), wanted = piece_of(stop - start, piece);
    i64 ticket;
    const i64 got = reserve(t, control, capacity, wanted, ticket);
    for (i64 k = t.rank; k < got; k += N) {
        const i64 end = stop - k * piece, from = end - start > piece ? end - piece : start;
        const Task task = {from, end, 0, k == 0 ? high : EVERYTHING};
        queue_write(ring, capacity, ticket + k, task);
    }
    publish(t, control, got);
    return stop - start > got * piece ? stop - got * piece : start;
}

// Puts this tile's task, or the rest of it, back for the next launch, and ends this one. It stays
// outstanding, but no longer as this tile's. There is room; it only waits while another tile reads
// the previous task from the slot.
template <int N, class C, class R>
DEVICE void give_back(Tile<N> t, C control, R ring, i64 capacity, Task task) {
    if (t.rank == 0) {
        stop(control, FULL);
        while (!queue_put(ring, control, capacity, task)) pause(SHORTEST_PAUSE);
    }
}

// How many tasks to cut the remaining work into: one for each waiting tile that no queued task
// serves, and one for itself, at most `pieces`; 0 if no tile waits; `pieces` if the launch is to
// stop. A limit of 0 always gives `pieces`. Otherwise the tile checks once `limit` ticks have
// passed since `asked`: the queue serves only a few tasks a microsecond, so work is shared only
// when others wait. All lanes get the answer of the first lane.
template <int N, class C>
DEVICE int late(Tile<N> t, C control, i64& asked, i64 limit, i64 pieces) {
    if (limit == 0) return (int)pieces;
    int wanted = 0;
    if (t.rank == 0) {
        const i64 now = ticks();
        if (now - asked >= limit) {
            asked = now;
            const i64 waiting = load_relaxed(control, IDLE) - queue_size(control);
            wanted = waiting <= 0 ? 0 : waiting < pieces ? (int)waiting + 1 : (int)pieces;
            if (stopping(control)) wanted = (int)pieces;
        }
    }
    return from_rank(t, wanted, 0);
}
