// A queue of tasks: a bounded ring that any thread puts into and takes from at any time.
//
// A slot is a line of words: whose turn it is, and a task. Tickets are positions that only ever
// grow: HEAD is the next to be taken out, TAIL the next to be put in; a ticket's slot is what is
// left modulo the capacity (a power of two, at least 2). Let `lap` be a ticket without that rest.
// Its slot's turn is
//     lap             while it is free for this ticket,
//     lap + 1         when it holds the ticket's task,
//     lap + capacity  when the task has been taken out, which is free for the next lap.
// So a ring of zeros is empty. Who finds the turn right takes the ticket by compare-and-swap, and
// then nobody else touches the slot until its turn has been stored. A put or a get either has a
// ticket and succeeds, or changes nothing: no ticket is ever given back. (A queue that counts its
// entries first and undoes the count when there was none can lose what another puts in between.)
//
// Nobody waits: a slot whose owner has its ticket but is not done yet counts as full for a put,
// as empty for a get.
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

// Puts a task, unless more than `room` would then be in it.
template <class R, class C>
DEVICE bool queue_put(R ring, C control, i64 capacity, Task task, i64 room) {
    for (;;) {
        const i64 ticket = load_relaxed(control, TAIL), lap = ticket & -capacity;
        const i64 slot = (ticket - lap) * SLOT_WORDS;
        const i64 turn = load_acquire(ring, slot);
        if (turn < lap) return false;  // a task of the lap before has not left it
        // Since then others may have been taken out: that makes it less, if the ticket is won.
        if (room < capacity && ticket - load_relaxed(control, HEAD) >= room) return false;
        if (turn == lap && atomic_cas(control, TAIL, ticket, ticket + 1) == ticket) {
            ring[slot + 1] = task.start;
            ring[slot + 2] = task.stop;
            ring[slot + 3] = task.low;
            ring[slot + 4] = task.high;
            store_release(ring, slot, lap + 1);
            return true;
        }
    }  // another took this ticket, so there was progress
}
template <class R, class C>
DEVICE bool queue_put(R ring, C control, i64 capacity, Task task) {
    return queue_put(ring, control, capacity, task, capacity);
}

template <class R, class C>
DEVICE bool queue_get(R ring, C control, i64 capacity, Task& task) {
    for (;;) {
        const i64 ticket = load_relaxed(control, HEAD), lap = ticket & -capacity;
        const i64 slot = (ticket - lap) * SLOT_WORDS;
        const i64 turn = load_acquire(ring, slot);
        if (turn <= lap) return false;  // nothing has been put here yet
        if (turn == lap + 1 && atomic_cas(control, HEAD, ticket, ticket + 1) == ticket) {
            task.start = ring[slot + 1];
            task.stop = ring[slot + 2];
            task.low = ring[slot + 3];
            task.high = ring[slot + 4];
            store_release(ring, slot, lap + capacity);
            return true;
        }
    }
}

// How many tasks are in it, or were a moment ago.
template <class C>
DEVICE i64 queue_size(C control) {
    const i64 head = load_relaxed(control, HEAD);
    return load_relaxed(control, TAIL) - head;
}
