// What kernels are written with, for tiles of one lane: in front of threads.hpp or schedules.hpp.
//
// The atomics have just the orders that prelude.cuh states, arrays are plain memory, a grid is so
// many threads. What stands in front of each atomic, `step`, and what pauses, `rest`, is theirs.
#pragma once
#include <cstdlib>

#define GD_HOST

typedef unsigned char u8;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;

#define KERNEL(name) static void name
#define DEVICE static inline
#define APART static
#define ARRAY(T) T*

static thread_local int this_thread;
static int all_threads;
static void step();
static void rest();

DEVICE int thread_of_block() { return 0; }
DEVICE i64 thread_of_grid() { return this_thread; }
DEVICE i64 threads_of_grid() { return all_threads; }

// A tile of one lane never comes to these; its text still has to be compiled.
DEVICE u32 warp_ballot(u32, bool) { std::abort(); }
DEVICE void warp_sync(u32) { std::abort(); }
template <class T>
DEVICE T warp_shuffle(u32, T, int) {
    std::abort();
}
template <class T>
DEVICE T warp_shuffle_xor(u32, T, int) {
    std::abort();
}
DEVICE int bits_of(u32 word) { return __builtin_popcount(word); }

DEVICE i64 atomic_add(i64* a, i64 i, i64 by) {
    step();
    return __atomic_fetch_add(a + i, by, __ATOMIC_RELAXED);
}
DEVICE i64 atomic_cas(i64* a, i64 i, i64 expected, i64 value) {
    step();
    __atomic_compare_exchange_n(a + i, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}
DEVICE i64 load_relaxed(const i64* a, i64 i) {
    step();
    return __atomic_load_n(a + i, __ATOMIC_RELAXED);
}
DEVICE i64 load_acquire(const i64* a, i64 i) {
    step();
    return __atomic_load_n(a + i, __ATOMIC_ACQUIRE);
}
DEVICE void store_relaxed(i64* a, i64 i, i64 value) {
    step();
    __atomic_store_n(a + i, value, __ATOMIC_RELAXED);
}
DEVICE void store_release(i64* a, i64 i, i64 value) {
    step();
    __atomic_store_n(a + i, value, __ATOMIC_RELEASE);
}
DEVICE i64 atomic_max(i64* a, i64 i, i64 by) {
    i64 seen = load_relaxed(a, i);
    while (seen < by) {
        const i64 found = atomic_cas(a, i, seen, by);
        if (found == seen) break;
        seen = found;
    }
    return seen;
}

DEVICE i64 nanoseconds() { return 0; }
DEVICE i64 ticks() { return 0; }
DEVICE void pause(int) { rest(); }
