// All schedules of a few threads, up to so many preemptions: each run goes another way.
//
// Threads take turns as told: one goes on until it ends or pauses, and in front of any atomic
// another may go on instead, which is a preemption. A path is which way was taken at each place
// with more than one; the next path is the next in the order of such words.
#pragma once
#include <setjmp.h>
#include <ucontext.h>

#include <cstdio>
#include <utility>
#include <vector>

struct Schedules {
    enum { MOST = 4, STACK = 1 << 16, LONGEST = 100000 };
    // Fibers serve all runs, and jump: changing a context asks the system each time.
    jmp_buf home, places[MOST];
    char stacks[MOST][STACK];
    bool begun[MOST], over[MOST];
    void (*body)(void*);
    void* given;
    int preemptions = 0;
    long steps = 0;
    std::vector<std::pair<int, int>> path;  // the way taken, of how many
    size_t at = 0;

    int way(int ways) {
        if (at == path.size()) path.push_back({0, ways});
        return path[at++].first;
    }
    int others(int* found) const {
        int count = 0;
        for (int k = 1; k < all_threads; ++k) {
            const int other = (this_thread + k) % all_threads;
            if (!over[other]) found[count++] = other;
        }
        return count;
    }
    void enter(int thread) {
        this_thread = thread;
        if (begun[thread]) _longjmp(places[thread], 1);
        begun[thread] = true;
        ucontext_t fiber;
        getcontext(&fiber);
        fiber.uc_stack.ss_sp = stacks[thread];
        fiber.uc_stack.ss_size = STACK;
        fiber.uc_link = nullptr;
        makecontext(&fiber, start, 0);
        setcontext(&fiber);
    }
    void go_on(int other) {
        if (_setjmp(places[this_thread]) == 0) enter(other);
    }
    static void start();

    // Once, as `path` says; then `path` is the next one. False when this was the last.
    bool run(int threads, int at_most, void (*what)(void*), void* with) {
        body = what;
        given = with;
        all_threads = threads;
        preemptions = at_most;
        steps = 0;
        at = 0;
        for (int k = 0; k < threads; ++k) over[k] = false;
        const int first = way(threads);
        if (_setjmp(home) == 0) enter(first);
        while (!path.empty() && path.back().first + 1 == path.back().second) path.pop_back();
        if (path.empty()) return false;
        ++path.back().first;
        return true;
    }
};

static Schedules schedules;

void Schedules::start() {
    for (;;) {  // one run after another
        schedules.body(schedules.given);
        schedules.over[this_thread] = true;
        int found[MOST];
        const int count = schedules.others(found);
        if (count > 0) {
            schedules.go_on(found[count == 1 ? 0 : schedules.way(count)]);
        } else if (_setjmp(schedules.places[this_thread]) == 0) {
            _longjmp(schedules.home, 1);
        }
    }
}

// A run that does not end, since its threads wait for each other or turn in circles, ends all.
static void count_step() {
    if (++schedules.steps <= Schedules::LONGEST) return;
    std::printf("stuck\n");
    std::exit(1);
}

static void step() {
    int found[Schedules::MOST];
    count_step();
    if (schedules.preemptions == 0) return;
    const int count = schedules.others(found);
    if (count == 0) return;
    const int way = schedules.way(1 + count);
    if (way == 0) return;
    --schedules.preemptions;
    schedules.go_on(found[way - 1]);
}

// Who pauses lets the next one go on.
static void rest() {
    int found[Schedules::MOST];
    count_step();
    if (schedules.others(found) > 0) schedules.go_on(found[0]);
}
