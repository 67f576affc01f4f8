// T-DFS's queue as it was published, and mine, in the same loop: a thread goes on until it finds
// nothing. The published one counts first, and undoes the count if there was none. Meanwhile
// another who has just put a task sees the count of an empty queue and leaves it there.
#include "work.cuh"

template <class C, class R>
DEVICE bool published_put(R ring, C control, i64 capacity, i64 task) {
    if (atomic_add(control, BUSY, (i64)1) >= capacity) {
        atomic_add(control, BUSY, (i64)-1);
        return false;
    }
    const i64 slot = atomic_add(control, TAIL, (i64)1) % capacity;
    while (atomic_cas(ring, slot, 0, task) != 0) pause(SHORTEST_PAUSE);
    return true;
}

template <class C, class R>
DEVICE bool published_get(R ring, C control, i64 capacity, i64& task) {
    if (atomic_add(control, BUSY, (i64)-1) <= 0) {
        atomic_add(control, BUSY, (i64)1);
        return false;
    }
    const i64 slot = atomic_add(control, HEAD, (i64)1) % capacity;
    for (;;) {
        task = load_relaxed(ring, slot);
        if (task != 0 && atomic_cas(ring, slot, task, 0) == task) return true;
        pause(SHORTEST_PAUSE);
    }
}

// Each thread has a task, puts what it can of it, and goes on with what it gets until there is
// nothing. `done[k]`: how often task k was done.
template <class C, class D>
DEVICE void until_nothing(C control, C ring, D done, i64 capacity, i64 own, bool published) {
    i64 next = own;
    Task task;
    for (bool more = true; more;) {
        atomic_add(done, next, (i64)1);
        if (next < 4) {  // 1, 2, 3 have a child each
            const i64 child = next + 4;
            const Task whole = {child, child + 1, 0, EVERYTHING};
            const bool put = published ? published_put(ring, control, capacity, child)
                                       : queue_put(ring, control, capacity, whole);
            if (!put) atomic_add(done, child, (i64)1);
        }
        more = published ? published_get(ring, control, capacity, next)
                         : queue_get(ring, control, capacity, task);
        if (more && !published) next = task.start;
    }
}

KERNEL(leave_when_nothing)(ARRAY(i64) control, ARRAY(i64) ring, ARRAY(i64) done, i64 capacity,
                           i64 published) {
    until_nothing(control, ring, done, capacity, 1 + thread_of_grid(), published != 0);
}
