// How tiles take, share and finish work.
//
//     Task task;
//     bool held = false;
//     while (next_task(t, control, ring, capacity, total, grain, task, held)) {
//         held = true;
//         ... walk it; now and then, `if (late(t, began, limit))` share what lies ahead;
//         ... if the pool is empty: roll back, stop(FULL), give_back(what is not committed),
//             held = false (the task is outstanding still, but no longer this tile's)
//     }
//
// BUSY counts what is outstanding: a task has been counted before anybody can take it, and is
// counted until it is done, so at zero, with all units taken, nothing is left and nothing can
// come. It never goes beyond the capacity of the ring: whoever finds no room for one more leaves
// the work where it is, with the splitting tile or in NEXT. So what is running always fits into
// the ring beside what is queued, and `give_back` always finds room.
//
// Between launches the host looks at STATUS, sets STOP and STATUS to zero, and launches again with
// the same control and ring: tasks that are queued go first.
//
// One lane of a tile does it; all lanes come, and get the same. BUSY needs no order of its own: a
// task's words travel by its slot's turn, and who adds and later takes away does so in this order.
#pragma once
#include "queue.cuh"
#include "tile.cuh"

enum { SHORTEST_PAUSE = 64, LONGEST_PAUSE = 16384 };  // nanoseconds between looks at the queue

// One more outstanding task, if there is room for it.
template <class C>
DEVICE bool begin_task(C control, i64 capacity) {
    if (atomic_add(control, BUSY, (i64)1) < capacity) return true;
    atomic_add(control, BUSY, (i64)-1);
    return false;
}
template <class C>
DEVICE void end_task(C control) {
    atomic_add(control, BUSY, (i64)-1);
}

// For one lane: a task, or one of no units when there is none.
template <class C, class R>
APART Task take_task(C control, R ring, i64 capacity, i64 total, i64 grain, bool held) {
    Task task = {0, 0, 0, EVERYTHING};
    for (int wait = SHORTEST_PAUSE;; wait = wait < LONGEST_PAUSE ? 2 * wait : wait) {
        const bool ends = stopping(control);
        if (!ends && queue_get(ring, control, capacity, task)) {
            if (held) end_task(control);
            return task;
        }
        const bool units = load_relaxed(control, NEXT) < total;
        if (!ends && units && (held || begin_task(control, capacity))) {
            const i64 start = atomic_add(control, NEXT, grain);
            if (start < total) {
                task.start = start;
                task.stop = grain < total - start ? start + grain : total;
                return task;
            }
            held = true;
        }
        if (held) end_task(control);
        held = false;
        // Units that were left a moment ago are looked at again: whoever takes them has counted
        // itself before, and may share them.
        if (ends || (!units && load_relaxed(control, BUSY) == 0)) return task;
        pause(wait);
    }
}

// The next task: of the queue, else `grain` units (of `total`) that nobody has taken; waits while
// others may still share theirs. False when nothing is outstanding, or the launch is to stop.
// `held`: the tile has a task that is done now; it need not call `done_task` then.
template <int N, class C, class R>
DEVICE bool next_task(Tile<N> t, C control, R ring, i64 capacity, i64 total, i64 grain, Task& task,
                      bool held = false) {
    Task found = {0, 0, 0, EVERYTHING};
    if (t.rank == 0) found = take_task(control, ring, capacity, total, grain, held);
    task.start = from_rank(t, found.start, 0);
    task.stop = from_rank(t, found.stop, 0);
    task.low = from_rank(t, found.low, 0);
    task.high = from_rank(t, found.high, 0);
    return task.start < task.stop;
}

// The task that this tile has is done.
template <int N, class C>
DEVICE void done_task(Tile<N> t, C control) {
    if (t.rank == 0) end_task(control);
}

// For one lane: `rest` in so many pieces, by units or by entries of its one unit, the last piece
// first, as long as there is room. Gives what is left, which begins where `rest` does.
template <class C, class R>
APART Task put_pieces(C control, R ring, i64 capacity, Task rest, i64 pieces, bool units) {
    const i64 begin = units ? rest.start : rest.low, all = (units ? rest.stop : rest.high) - begin;
    if (pieces > all) pieces = all;
    i64 put = 0;
    while (put < pieces && begin_task(control, capacity)) {
        const i64 before = pieces - 1 - put, longer = all % pieces;  // the first are the longer
        const i64 from = begin + before * (all / pieces) + (before < longer ? before : longer);
        Task piece = rest;
        (units ? piece.start : piece.low) = from;
        if (!queue_put(ring, control, capacity, piece)) {
            end_task(control);
            break;
        }
        (units ? rest.stop : rest.high) = from;
        if (units) rest.high = EVERYTHING;
        ++put;
    }
    if (put > 0) atomic_add(control, SPLITS, put);
    return rest;
}

// Shares the entries [low, high) of a unit, in up to `pieces` tasks. The caller's own part ends
// at what comes back: `low` if all was put, `high` if nothing, for what found no room stays its own.
template <int N, class C, class R>
DEVICE i64 share(Tile<N> t, C control, R ring, i64 capacity, i64 unit, i64 low, i64 high,
                 i64 pieces) {
    i64 end = high;
    if (t.rank == 0 && low < high) {
        const Task rest = {unit, unit + 1, low, high};
        end = put_pieces(control, ring, capacity, rest, pieces, false).high;
    }
    return from_rank(t, end, 0);
}

// Shares the units [start, stop), the last up to its entry `high`; gives where the caller's own
// part ends. If that is before `stop`, what is left of it ends with all of a unit (EVERYTHING).
//
// Share units first, and entries of the unit at hand only when no unit after it is left: then what
// a tile still has to do is one task at any time.
template <int N, class C, class R>
DEVICE i64 share_units(Tile<N> t, C control, R ring, i64 capacity, i64 start, i64 stop, i64 high,
                       i64 pieces) {
    i64 end = stop;
    if (t.rank == 0 && start < stop) {
        const Task rest = {start, stop, 0, high};
        end = put_pieces(control, ring, capacity, rest, pieces, true).stop;
    }
    return from_rank(t, end, 0);
}

// Puts a task that this tile has taken, or what is left of it, back for the next launch. It goes
// on being outstanding. There is room, since BUSY counts it; only where the slot's last task has a
// taker who is just reading it, that moment is waited for.
template <int N, class C, class R>
DEVICE void give_back(Tile<N> t, C control, R ring, i64 capacity, Task task) {
    if (t.rank == 0) {
        while (!queue_put(ring, control, capacity, task)) pause(SHORTEST_PAUSE);
    }
}

// Whether a task that began at that time (`nanoseconds()`) has taken so long that it is to be
// shared; a limit of 0 says so always. All lanes of the tile get one answer.
template <int N>
DEVICE bool late(Tile<N> t, i64 began, i64 limit) {
    if (limit == 0) return true;
    i64 taken = 0;  // by the first lane's clock: each lane has read its own when the task began
    if (t.rank == 0) taken = nanoseconds() - began;
    return from_rank(t, taken, 0) >= limit;
}
