// A walk over made-up tasks, that shares, rolls back and gives back when dice say so.
//
// Unit u has `lengths[u]` entries; each entry gives none, one or two rows (unit, entry). When all
// launches are through, the rows that hold are exactly these, each once.
#include "work.cuh"

DEVICE u64 mixed(u64 x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

// True once in so many times; never for 0.
DEVICE bool falls(u64& dice, i64 times) {
    dice = mixed(dice + 0x9E3779B97F4A7C15ull);
    return times > 0 && dice % (u64)times == 0;
}

DEVICE int rows_of(i64 unit, i64 entry) {
    return (int)(mixed((u64)(unit * 1000003 + entry)) % 3u);
}

template <int N, class C, class L, class O, class B>
DEVICE void walk_tasks(C control, C ring, L lengths, O units, O entries, B counts, B previous,
                       i64 capacity, i64 total, i64 grain, i64 blocks, i64 block_rows, i64 pieces,
                       i64 sharing, i64 marking, i64 failing, i64 seed) {
    const Tile<N> t = tile_here<N>();
    u64 dice = mixed((u64)(seed * 1000 + tile_of_grid<N>()));
    Pool pool = pool_open();
    Task task;
    bool held = false;
    const Units all = {total, grain, 0, 1, seed % 2 == 0 ? 2 * tiles_of_grid<N>() : 0};
    while (next_task(t, control, ring, capacity, all, task, held)) {
        held = true;
        i64 kept_unit = task.start, kept_entry = task.low;
        pool_mark(pool);
        while (task.start < task.stop) {
            const bool last = task.start + 1 == task.stop;
            const i64 length = lengths[task.start];
            i64 end = last && task.high < length ? task.high : length;
            if (task.low >= end) {
                ++task.start;
                task.low = 0;
                continue;
            }
            if (falls(dice, sharing)) {
                const i64 next = task.start + 1, stop = task.stop;
                task.stop = share_units(t, control, ring, capacity, next, stop, task.high, pieces);
                if (task.stop < stop) task.high = EVERYTHING;
                if (task.stop == next) {
                    const i64 after = task.low + N;
                    end = share(t, control, ring, capacity, task.start, after, end, pieces);
                    task.high = end;
                }
            }
            const i64 entry = task.low + t.rank;
            const int rows = entry < end ? rows_of(task.start, entry) : 0;
            bool room = !falls(dice, failing);
            for (int row = 0; row < 2 && room; ++row) {
                const u32 votes = ballot(t, rows > row);
                const int count = bits_of(votes);
                room = pool_reserve(t, pool, control, counts, previous, blocks, block_rows, count);
                if (room && rows > row) {
                    const i64 place = pool_row(pool, block_rows) + before(t, votes);
                    units[place] = task.start;
                    entries[place] = entry;
                }
                if (room) pool.n += count;
            }
            if (!room) {
                pool_roll_back(t, pool, counts, previous);
                const Task rest = {kept_unit, task.stop, kept_entry, task.high};
                give_back(t, control, ring, capacity, rest);
                held = false;
                break;
            }
            task.low += N;
            if (falls(dice, marking)) {
                kept_unit = task.start;
                kept_entry = task.low;
                pool_mark(pool);
            }
        }
        if (held && falls(dice, 2)) {
            done_task(t, control);
            held = false;
        }
    }
    pool_close(t, pool, counts);
}

KERNEL(walk)(ARRAY(i64) control, ARRAY(i64) ring, ARRAY(const i64) lengths, ARRAY(i64) units,
             ARRAY(i64) entries, ARRAY(i32) counts, ARRAY(i32) previous, i64 lanes, i64 capacity,
             i64 total, i64 grain, i64 blocks, i64 block_rows, i64 pieces, i64 sharing,
             i64 marking, i64 failing, i64 seed) {
#define WALK(N)                                                                                  \
    if (lanes == N)                                                                              \
        walk_tasks<N>(control, ring, lengths, units, entries, counts, previous, capacity, total, \
                      grain, blocks, block_rows, pieces, sharing, marking, failing, seed);
    WALK(1)
#ifndef ONE_LANE
    WALK(4)
    WALK(32)
#endif
}
