// Every schedule of a few small scenes: prints how many there were and how many went wrong.
// In front of this stand one_lane.hpp, schedules.hpp, tasks.cuh and published.cuh.
#include <algorithm>
#include <cstring>

struct Scene {
    std::vector<i64> control, ring, done;
    i64 capacity;
    std::vector<i64> got[Schedules::MOST], put;

    void empty(i64 room) {
        capacity = room;
        control.assign(CONTROL_WORDS, 0);
        ring.assign(room * SLOT_WORDS, 0);
        done.assign(16, 0);
        put.clear();
        for (auto& some : got) some.clear();
    }
};
static Scene scene;

template <class Check>
static void told(const char* name, int threads, int preemptions, void (*body)(void*), i64 capacity,
                 Check wrong) {
    long runs = 0, wrongs = 0;
    bool more = true;
    for (schedules.path.clear(); more; ++runs) {
        scene.empty(capacity);
        more = schedules.run(threads, preemptions, body, &scene);
        schedules.preemptions = 0;
        wrongs += wrong();
    }
    std::printf("%s: %ld of %ld\n", name, wrongs, runs);
}

// Puts and gets of three threads; what is left is taken out in the end.
static void puts_and_gets(void*) {
    for (int turn = 0; turn < 2; ++turn) {
        const i64 number = 1 + 2 * this_thread + turn;
        const Task task = {number, number + 1, -number, 0};
        if (queue_put(scene.ring.data(), scene.control.data(), scene.capacity, task)) {
            scene.put.push_back(number);
        }
        Task found;
        if (queue_get(scene.ring.data(), scene.control.data(), scene.capacity, found)) {
            scene.got[this_thread].push_back(found.low == -found.start ? found.start : -1);
        }
    }
}
static bool puts_are_not_gets() {
    Task found;
    while (queue_get(scene.ring.data(), scene.control.data(), scene.capacity, found)) {
        scene.got[0].push_back(found.start);
    }
    std::vector<i64> all;
    for (auto& some : scene.got) all.insert(all.end(), some.begin(), some.end());
    std::sort(all.begin(), all.end());
    std::sort(scene.put.begin(), scene.put.end());
    return all != scene.put || queue_size(scene.control.data()) != 0;
}

template <int PUBLISHED>
static void leaves(void*) {
    leave_when_nothing(scene.control.data(), scene.ring.data(), scene.done.data(), scene.capacity,
                       PUBLISHED);
}
static bool not_each_once() {
    for (int k = 1; k <= all_threads; ++k) {
        if (scene.done[k] != 1 || scene.done[k + 4] != 1) return true;
    }
    return false;
}

// Whole walks. The first launch goes as the schedule says, those that end it one by one.
static const i64 TOTAL = 2, BLOCKS = 2, BLOCK_ROWS = 3;
static std::vector<i64> lengths, units, entries;
static std::vector<i32> counts, previous;
static std::vector<std::pair<i64, i64>> found, wanted;

static void walk(void* finishing) {
    walk(scene.control.data(), scene.ring.data(), lengths.data(), units.data(), entries.data(),
           counts.data(), previous.data(), 1, scene.capacity, TOTAL, 1, BLOCKS, BLOCK_ROWS, 2,
           finishing == &lengths ? 0 : 1, 1, 0, 1);
}
static bool launch_ends() {
    for (i64 b = 0; b < BLOCKS && b < scene.control[POOL]; ++b) {
        for (i64 r = b * BLOCK_ROWS; r < b * BLOCK_ROWS + counts[b]; ++r) {
            found.push_back({units[r], entries[r]});
        }
    }
    scene.control[STOP] = scene.control[STATUS] = scene.control[POOL] = 0;
    return scene.control[NEXT] >= TOTAL && scene.control[BUSY] == 0;
}
static bool rows_are_wrong() {
    bool ended = launch_ends();
    const int threads = all_threads;
    for (int launch = 0; launch < 50 && !ended; ++launch) {
        all_threads = 1;
        this_thread = 0;
        walk(&lengths);
        ended = launch_ends();
    }
    all_threads = threads;
    std::sort(found.begin(), found.end());
    const bool wrong = !ended || found != wanted;
    found.clear();
    return wrong;
}

int main(int, char** arguments) {
    const int more = std::atoi(arguments[1]);
    lengths = {3, 4};
    units.assign(BLOCKS * BLOCK_ROWS, -1);
    entries = units;
    counts.assign(BLOCKS, 0);
    previous = counts;
    for (i64 u = 0; u < TOTAL; ++u) {
        for (i64 e = 0; e < lengths[u]; ++e) wanted.insert(wanted.end(), rows_of(u, e), {u, e});
    }
    told("queue of 2", 3, 2 + more, puts_and_gets, 2, puts_are_not_gets);
    told("queue of 4", 3, 2 + more, puts_and_gets, 4, puts_are_not_gets);
    told("leaving", 3, 2 + more, leaves<0>, 2, not_each_once);
    told("published", 3, 2, leaves<1>, 2, not_each_once);
    told("walk, 2 tiles, room for 4", 2, 1 + more, walk, 4, rows_are_wrong);
    told("walk, 3 tiles, room for 8", 3, 1 + more, walk, 8, rows_are_wrong);
}
