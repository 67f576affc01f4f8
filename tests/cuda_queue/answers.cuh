// Single answers: why a launch ends, whether a task is late.
#include "work.cuh"

// Each thread gives the reason of its number.
KERNEL(reasons)(ARRAY(i64) control, ARRAY(i64) seen) {
    const i64 me = thread_of_grid();
    seen[2 * me] = stopping(control) ? 1 : 0;
    stop(control, (Reason)(me + 1));
    seen[2 * me + 1] = (stopping(control) ? 1 : 0) + (leaving(control) ? 2 : 0);
}

// How late a task is at once, after a millisecond or so, and right after that.
KERNEL(lateness)(ARRAY(i64) control, ARRAY(i64) answers, i64 limit) {
    const Tile<4> t = tile_here<4>();
    i64 asked = ticks();
    const int first = late(t, control, asked, limit, 7);
    for (int k = 0; k < 1000; ++k) pause(1000);
    const int second = late(t, control, asked, limit, 7);
    const int third = late(t, control, asked, limit, 7);
    answers[t.rank] = first + 10 * second + 100 * third;
}
