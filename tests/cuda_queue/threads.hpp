// Threads of the machine, for what fibers cannot show: these run one at a time, so they see all
// memory in one order. Here ThreadSanitizer says where two threads touch a word with nothing to
// order them.
#pragma once
#include <thread>
#include <vector>

static void step() {}
static void rest() { std::this_thread::yield(); }

// Runs something on so many threads at once.
template <class Body>
static void on_threads(int count, Body body) {
    all_threads = count;
    std::vector<std::thread> threads;
    for (int k = 0; k < count; ++k) {
        threads.emplace_back([k, body] {
            this_thread = k;
            body();
        });
    }
    for (auto& thread : threads) thread.join();
}
