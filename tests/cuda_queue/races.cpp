// The queue, the pool and whole walks on threads: prints what was lost or done twice.
// In front of this stand threads.hpp and tasks.cuh.
#include <algorithm>
#include <cstdio>
#include <utility>

static const int THREADS = 4;

// Two threads put numbers, two take them out; the ring is small.
static int queue_alone(i64 capacity, i64 count) {
    std::vector<i64> control(CONTROL_WORDS), ring(capacity * SLOT_WORDS);
    std::vector<std::vector<i64>> got(THREADS);
    i64* const words = control.data();
    i64* const slots = ring.data();
    i64 done = 0;
    i64* const taken = &done;
    on_threads(THREADS, [&got, words, slots, taken, capacity, count] {
        const int me = this_thread;
        if (me % 2 == 0) {
            for (i64 k = me / 2; k < count; k += 2) {
                const Task task = {k, k + 1, 2 * k, 3 * k};
                while (!queue_put(slots, words, capacity, task)) pause(1);
            }
        } else {
            Task task;
            while (load_relaxed(taken, 0) < count) {
                if (!queue_get(slots, words, capacity, task)) {
                    pause(1);
                    continue;
                }
                atomic_add(taken, 0, (i64)1);
                const bool whole = task.stop == task.start + 1 && task.low == 2 * task.start &&
                                   task.high == 3 * task.start;
                got[me].push_back(whole ? task.start : -1);
            }
        }
    });
    std::vector<i64> all;
    for (auto& some : got) all.insert(all.end(), some.begin(), some.end());
    std::sort(all.begin(), all.end());
    int wrong = (i64)all.size() != count;
    for (i64 k = 0; k < (i64)all.size(); ++k) wrong += all[k] != k;
    return wrong;
}

// A walk in which all happens; launched again until nothing is left, as a host does it.
static int walks(i64 capacity, i64 total, i64 seed) {
    std::vector<i64> control(CONTROL_WORDS), ring(capacity * SLOT_WORDS), lengths(total);
    std::vector<std::pair<i64, i64>> found, wanted;
    for (i64 u = 0; u < total; ++u) {
        lengths[u] = (i64)(mixed((u64)(seed * 77 + u)) % 40u);
        for (i64 e = 0; e < lengths[u]; ++e) wanted.insert(wanted.end(), rows_of(u, e), {u, e});
    }
    const i64 blocks = 6, block_rows = 5;
    for (int launch = 0; launch < 10000; ++launch) {
        std::vector<i64> units(blocks * block_rows, -1), entries(blocks * block_rows, -1);
        std::vector<i32> counts(blocks), previous(blocks);
        control[STOP] = control[STATUS] = control[POOL] = 0;
        const i64 failing = launch < 20 ? 50 : 0;
        on_threads(THREADS, [&] {
            walk(control.data(), ring.data(), lengths.data(), units.data(), entries.data(),
                 counts.data(), previous.data(), 1, capacity, total, 3, blocks, block_rows, 3, 7,
                 5, failing, seed + launch);
        });
        for (i64 b = 0; b < blocks && b < control[POOL]; ++b) {
            for (i64 r = b * block_rows; r < b * block_rows + counts[b]; ++r) {
                found.push_back({units[r], entries[r]});
            }
        }
        if (control[BUSY] != queue_size(control.data())) return 1;
        if (control[NEXT] >= total && control[BUSY] == 0) break;
    }
    std::sort(found.begin(), found.end());
    return found != wanted;
}

int main() {
    int wrong = 0;
    for (i64 capacity = 2; capacity <= 16; capacity *= 2) wrong += queue_alone(capacity, 3000);
    for (i64 seed = 0; seed < 12; ++seed) wrong += walks((i64)4 << seed % 4, 40, seed);
    std::printf("wrong: %d\n", wrong);
    return wrong != 0;
}
