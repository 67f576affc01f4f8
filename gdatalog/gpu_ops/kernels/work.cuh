// How tiles take, share and finish work.
//
//     Task task;
//     bool held = false;
//     while (next_task(t, control, ring, capacity, total, grain, task, held)) {
//         held = true;
//         ... walk it; now and then, `if (late(t, began, limit))` share what lies ahead;
//         ... if the pool is empty: roll back, give_back what is not committed, held = false
//     }
//
// BUSY counts what is outstanding: a task has been counted before anybody can take it, and is
// counted until it is done, so at zero, with all units taken, nothing is left and nothing can
// come. It needs no order of its own: a task's words travel by its slot's turn, and who adds and
// later takes away does so in this order. (A tile that sees a sum too early leaves too early; it
// has nothing then, and loses nothing.)
//
// There is always room to give a task back. Only so many tiles work as half of the ring holds;
// splitting leaves room in it for one task of each (`room_to_share`). New units are taken only
// when nothing is queued but what this launch has shared; and who has given back takes no more. So
// what is queued and what is running together never exceed the capacity.
//
// Between launches the host looks at STATUS, sets STOP and STATUS to zero, and launches again with
// the same control and ring: tasks that are queued go first.
//
// One lane of a tile does it; all lanes come, and get the same.
#pragma once
#include "queue.cuh"
#include "tile.cuh"

enum { SHORTEST_PAUSE = 64, LONGEST_PAUSE = 16384 };  // nanoseconds between looks at the queue

template <int N>
DEVICE i64 working_tiles(i64 capacity) {
    const i64 tiles = tiles_of_grid<N>(), most = capacity / 2;
    return tiles < most ? tiles : most;
}
template <int N>
DEVICE i64 room_to_share(i64 capacity) {
    return capacity - working_tiles<N>(capacity);
}

// For one lane: a task, or one of no units when there is none.
template <class C, class R>
APART Task take_task(C control, R ring, i64 capacity, i64 total, i64 grain, bool held) {
    Task task = {0, 0, 0, EVERYTHING};
    for (int wait = SHORTEST_PAUSE;; wait = wait < LONGEST_PAUSE ? 2 * wait : wait) {
        const bool ends = stopping(control);
        if (!ends && queue_get(ring, control, capacity, task)) {
            if (held) atomic_add(control, BUSY, (i64)-1);
            return task;
        }
        const bool units = load_relaxed(control, NEXT) < total;
        if (!ends && units) {
            if (!held) atomic_add(control, BUSY, (i64)1);
            const i64 start = atomic_add(control, NEXT, grain);
            if (start < total) {
                task.low = FRESH;
                task.start = start;
                task.stop = grain < total - start ? start + grain : total;
                return task;
            }
            held = true;
        }
        if (held) atomic_add(control, BUSY, (i64)-1);
        held = false;
        // After units that were left a moment ago it looks again: whoever took them has counted
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
    if (tile_of_grid<N>() >= working_tiles<N>(capacity)) return false;
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
    if (t.rank == 0) atomic_add(control, BUSY, (i64)-1);
}

// For one lane: `rest` in so many pieces, by units or by entries of its one unit, the last piece
// first, as long as there is room. Gives what is left, which begins where `rest` does.
template <class C, class R>
APART Task put_pieces(C control, R ring, i64 capacity, i64 room, Task rest, i64 pieces,
                      bool units) {
    const i64 begin = units ? rest.start : rest.low, all = (units ? rest.stop : rest.high) - begin;
    if (pieces > all) pieces = all;
    i64 put = 0;
    while (put < pieces) {
        const i64 before = pieces - 1 - put, longer = all % pieces;  // the first are the longer
        const i64 from = begin + before * (all / pieces) + (before < longer ? before : longer);
        Task piece = rest;
        (units ? piece.start : piece.low) = from;
        atomic_add(control, BUSY, (i64)1);
        if (!queue_put(ring, control, capacity, piece, room)) {
            atomic_add(control, BUSY, (i64)-1);
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
        const i64 room = room_to_share<N>(capacity);
        end = put_pieces(control, ring, capacity, room, rest, pieces, false).high;
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
        const i64 room = room_to_share<N>(capacity);
        end = put_pieces(control, ring, capacity, room, rest, pieces, true).stop;
    }
    return from_rank(t, end, 0);
}

// Puts a task that this tile has taken, or what is left of it, back for the next launch, and ends
// this one. It goes on being outstanding, but no longer as this tile's. There is room; only where
// somebody is just reading the task that the slot had before, that moment is waited for.
template <int N, class C, class R>
DEVICE void give_back(Tile<N> t, C control, R ring, i64 capacity, Task task) {
    if (t.rank == 0) {
        stop(control, FULL);
        while (!queue_put(ring, control, capacity, task)) pause(SHORTEST_PAUSE);
    }
}

// Whether a task that began at that time (`ticks()`) has taken so long that it is to be shared; a limit of 0 says so always. All lanes of the tile get one answer.
template <int N>
DEVICE bool late(Tile<N> t, i64 began, i64 limit) {
    if (limit == 0) return true;
    i64 taken = 0;  // by the first lane's clock: each lane has read its own when the task began
    if (t.rank == 0) taken = ticks() - began;
    return from_rank(t, taken, 0) >= limit;
}
