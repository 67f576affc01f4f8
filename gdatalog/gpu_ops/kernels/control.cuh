// The words that all tiles of a launch share, each on a line of its own, and why a launch ends.
// `gpu_ops/loops.py` has the same numbers. All are zero before the first launch.
#pragma once
#include "prelude.cuh"

enum Word {
    NEXT = 0,     // units of the first work that have been taken (it may go beyond all there are)
    STOP = 16,    // not zero: no tile takes a task any more; above FULL: all leave at once
    STATUS = 32,  // why, as tiles say it: the greatest reason wins
    BUSY = 48,    // tasks that are outstanding: running, or in the queue
    HEAD = 64,    // tickets of the ring: tasks taken out,
    TAIL = 80,    // and tasks put in
    POOL = 96,    // blocks of the pool that have been asked for (it may go beyond all there are)
    SPLITS = 112, // tasks that were put into the queue by splitting others
    IDLE = 128,   // tiles that wait for a task
    QUEUED = 144, // tasks in the ring that nobody has claimed (less, while some see that none is)
    HELD = 160,   // slots of the ring that are not free (more, while some see that all are)
    CONTROL_WORDS = 176
};

// The greatest wins: a launch that failed does not go on because its pool was full as well, and
// one that has found enough rows is right whatever else was met.
enum Reason {
    DONE = 0, FULL = 1, STOPPED = 2, FAILED = 3, OVERFLOWED = 4, ENOUGH = 5,
    OUTSIDE = 6  // a row is none of those that there are marks for
};

// Ends the launch. After FULL, tiles finish or give back what they have; after the others it does
// not matter what becomes of their tasks. The host writes STOPPED into STOP.
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
