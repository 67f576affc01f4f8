// A queue of tasks: a bounded ring that any thread puts into and takes from at any time.
//
// A slot is a line of words: whose turn it is, and a task. Tickets are positions that only ever
// grow: HEAD is the next to be taken out, TAIL the next to be put in; a ticket's slot is what is
// left modulo the capacity (a power of two, at least 2). Let `lap` be a ticket without that rest.
// Its slot's turn is
//     lap             while it is free for this ticket,
//     lap + 1         when it holds the ticket's task,
//     lap + capacity  when the task has been taken out, which is free for the next lap.
// So a ring of zeros is empty.
//
// Tickets are handed out by additions, which thousands of threads can do at once: where each
// compares and swaps, one a microsecond succeeds. HELD counts the slots that are not free: who adds
// to it within the room has so many tickets. QUEUED counts the tasks that nobody has claimed: who
// takes one off it, and has found some there, has a ticket. Who has found none adds it again, and if
// there are some by then, tries again: else what another puts in between could be left there, since
// who put it may have seen a count that was about to be undone.
//
// Who has a ticket waits for nobody but for the thread that has the slot at hand: one that is just
// writing the task or, a lap before, just reading it.
#pragma once
#include "control.cuh"

// Units of the first work, in the order of (unit, entry of the list below it): from entry `low` of
// unit `start` up to, but not including, entry `high` of unit `stop - 1`.
struct Task {
    i64 start, stop, low, high;
};

#define EVERYTHING ((i64)1 << 62)   // as `high`: all entries that there are
#define UNTOUCHED (EVERYTHING + 1)  // the same, where nobody has had the units before

enum { SLOT_WORDS = 8 };  // a turn, four words of a task, and room up to half a line

enum { SHORTEST_PAUSE = 64 };  // nanoseconds

// Tickets for up to `wanted` tasks, so that no more than `room` are held: how many, from `ticket`
// on. Each is to be written, and then all are to be published.
template <class C>
DEVICE i64 queue_reserve(C control, i64 room, i64 wanted, i64& ticket) {
    if (load_relaxed(control, HELD) >= room) return 0;
    const i64 left = room - atomic_add(control, HELD, wanted);
    const i64 got = left >= wanted ? wanted : left > 0 ? left : 0;
    if (got < wanted) atomic_add(control, HELD, got - wanted);
    if (got > 0) ticket = atomic_add(control, TAIL, got);
    return got;
}

// Writes the task of a ticket.
template <class R>
DEVICE void queue_write(R ring, i64 capacity, i64 ticket, const Task& task) {
    const i64 lap = ticket & -capacity, slot = (ticket - lap) * SLOT_WORDS;
    while (load_relaxed(ring, slot) != lap) pause(SHORTEST_PAUSE);
    load_acquire(ring, slot);  // what was read there has been read
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

// Puts a task, unless the ring is full.
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
    load_acquire(ring, slot);  // once: on a GPU it empties the cache of the multiprocessor
    task.start = ring[slot + 1];
    task.stop = ring[slot + 2];
    task.low = ring[slot + 3];
    task.high = ring[slot + 4];
    store_release(ring, slot, lap + capacity);
    atomic_add(control, HELD, (i64)-1);
    return true;
}

// How many tasks are in it, or were a moment ago.
template <class C>
DEVICE i64 queue_size(C control) {
    const i64 head = load_relaxed(control, HEAD);
    return load_relaxed(control, TAIL) - head;
}
