// The words that all tiles of a launch share, each in its own line, and the reasons why it ends.
// `gpu_ops/loops.py` has the same numbers. All are zero before the first launch.
#pragma once
#include "prelude.cuh"

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
    CONTROL_WORDS = 176
};

// The greatest wins: a launch that has failed is not continued because its pool was full, too, and
// one that has found enough rows is right in any case.
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
