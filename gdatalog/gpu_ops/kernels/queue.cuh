// A queue of tasks: a bounded ring, which any thread can put into and take from at any time.
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
// A thread with a ticket only waits for the thread that uses the slot: one that is writing the task
// or, a lap before, reading it.
#pragma once
#include "control.cuh"

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

// How many tasks are in the queue, or were a moment ago.
template <class C>
DEVICE i64 queue_size(C control) {
    const i64 head = load_relaxed(control, HEAD);
    return load_relaxed(control, TAIL) - head;
}
