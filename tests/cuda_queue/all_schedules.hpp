// All schedules of a few threads, up to so many preemptions: each run goes another way.
//
// Threads take turns as told: one goes on until it ends or pauses, and in front of any atomic
// another may go on instead, which is a preemption. A path is which way was taken at each place
// with more than one; the next path is the next in the order of such words.
#pragma once
#include <ucontext.h>

#include <cstdio>
#include <utility>
#include <vector>

struct Schedules {
    enum { MOST = 4, STACK = 1 << 16, LONGEST = 100000 };
    ucontext_t home, fibers[MOST];
    char stacks[MOST][STACK];
    bool over[MOST];
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
    void go_on(int other) {
        const int from = this_thread;
        this_thread = other;
        swapcontext(&fibers[from], &fibers[other]);
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
        for (int k = 0; k < threads; ++k) {
            over[k] = false;
            getcontext(&fibers[k]);
            fibers[k].uc_stack.ss_sp = stacks[k];
            fibers[k].uc_stack.ss_size = STACK;
            fibers[k].uc_link = nullptr;
            makecontext(&fibers[k], start, 0);
        }
        this_thread = way(threads);
        swapcontext(&home, &fibers[this_thread]);
        while (!path.empty() && path.back().first + 1 == path.back().second) path.pop_back();
        if (path.empty()) return false;
        ++path.back().first;
        return true;
    }
};

static Schedules schedules;

void Schedules::start() {
    schedules.body(schedules.given);
    schedules.over[this_thread] = true;
    int found[MOST];
    const int count = schedules.others(found);
    if (count == 0) setcontext(&schedules.home);
    schedules.go_on(found[count == 1 ? 0 : schedules.way(count)]);
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
