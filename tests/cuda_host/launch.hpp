// A launch as it stands: its fibers, blocks, stacks, and who may go on.
#pragma once
#include <csetjmp>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "host.hpp"

extern "C" {
GdWhere gd_where;
i64 gd_accesses_left;

struct GdSettings {     // as driver.py has it
    u64 seed;           // 0: another fiber goes on only where it must
    double yields;      // share of the places at which another fiber goes on
    double accesses;    // the same for accesses of arrays
    i64 step;           // nanoseconds from one such place to the next
    i64 patience;       // so many places, and no end: it is said to spin
    double seconds;     // of this thread's time, for what comes to no such place
    const u64* written; // where to look for races (the kernels were compiled for it): of each
    i64 written_count;  // array that is written to, its address and bytes; null: nowhere
    void (*poll)();     // asked now and then, if it is not null
    i64 polls;          // after so many places each time
    i64 passed;         // out: places
    i64 switches;       // out
};
}

namespace {

const size_t STACK = 256 << 10, PAGE = 4096;
const int MOST_STACKS = 8192;
const i64 SHARED_BYTES = 48 << 10;
const i64 NEVER = INT64_MAX;

struct Stack {
    char* low = nullptr;  // its lowest page is a guard
    jmp_buf where;        // where its fiber goes on; or the head of `entry`, if it has none
    void* base = nullptr; // the frame of `entry`
    bool alive = false;   // `where` can be jumped to
};

enum State : u8 { UNSTARTED, READY, IN_WARP, IN_BLOCK, ENDED };

struct Fiber {
    Stack* stack = nullptr;
    void* frame = nullptr;  // of the collective in which it waits
    u64 value = 0;          // what it brings there, then what it gets
    int argument = 0;
    u32 mask = 0;
    State state = UNSTARTED;
};

struct Meeting {  // of lanes of one warp that name the same mask
    u32 mask = 0, arrived = 0;
    int kind = 0;
    u64 site = 0;   // which calls led there: another collective has another
    int first = 0;  // lane
};

struct Block {
    std::vector<std::vector<Meeting>> warps;
    std::map<const void*, std::unique_ptr<char[]>> shared;
    i64 shared_bytes = 0;
    int waiting = 0, ended = 0;
    u64 site = 0;
    int first = 0;  // thread
};

typedef void (*Start)(const u64*);

struct Launch {
    Start start = nullptr;
    const u64* words = nullptr;
    GdSettings settings;
    u64 random = 0;
    int threads = 0;
    std::vector<Fiber> fibers;
    std::vector<Block> blocks;
    std::deque<int> ready;
    std::vector<int> unstarted;  // taken from the end
    int next_block = 0, admitted = 0;  // threads
    i64 ended = 0, left = 0;
    bool running = false;
};

Launch now;
int current;
i64 the_clock = 1000000000;
std::vector<std::unique_ptr<Stack>> all_stacks;
std::vector<Stack*> free_stacks;
jmp_buf home;
std::string message;

}  // namespace
