// Runs a launch of a kernel on the host: a fiber for each thread, all blocks at once.
//
// One fiber runs at a time, on one OS thread. Where it may stop (atomics, loads and stores with an
// order, pauses, collectives, some accesses of arrays) a seeded generator decides whether another
// goes on. What goes wrong ends the launch with a message: `fail` leaves all fibers as they are.
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
    i64 passed;         // out: places
    i64 switches;       // out
};
}

namespace {

const size_t STACK = 256 << 10, PAGE = 4096;
const size_t MOST_STACKS = 8192;  // a launch may have more threads: they start when others end
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
    int kind = 0, type = 0;
    u64 site = 0;
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

// ------------------------------------------------------------------------------------ what fails

// `{path+0x12}`: a place in compiled code; driver.py makes a line of it.
std::string place(void* address) {
    Dl_info info;
    if (!dladdr(address, &info) || !info.dli_fname) return "?";
    char text[32];
    snprintf(text, sizeof text, "+0x%zx}", (size_t)address - (size_t)info.dli_fbase - 1);
    return std::string("{") + info.dli_fname + text;
}

template <class F>
void each_caller(void* frame, void* base, F f) {
    for (void** at = (void**)frame; at && at != base; at = (void**)at[0]) f(at[1]);
}

std::string callers(void* frame, const Fiber& fiber) {
    std::string text;
    int count = 0;
    each_caller(frame, fiber.stack->base, [&](void* address) {
        if (count++ < 12) text += place(address);
    });
    return text;
}

std::string format(const char* how, ...) {
    char text[512];
    va_list rest;
    va_start(rest, how);
    vsnprintf(text, sizeof text, how, rest);
    va_end(rest);
    return text;
}

std::string who(int number) {
    return format("block %d thread %d", number / now.threads, number % now.threads);
}

[[noreturn]] void fail(const std::string& what) {
    message = what;
    now.running = false;
    _longjmp(home, 1);
}

[[noreturn]] void fail_here(const std::string& what, void* frame) {
    fail(what + "\n  " + who(current) + ": " + callers(frame, now.fibers[current]));
}

const char* name_of(int kind) {
    const char* names[] = {"warp_sync", "warp_ballot", "warp_shuffle", "warp_shuffle_xor",
                           "warp_shuffle_up"};
    return names[kind];
}

[[noreturn]] void stuck() {
    std::string text = "stuck: no thread can go on";
    int told = 0, more = 0;
    for (size_t i = 0; i < now.fibers.size(); i++) {
        const Fiber& fiber = now.fibers[i];
        if (fiber.state != IN_WARP && fiber.state != IN_BLOCK) continue;
        if (told++ >= 8) {
            more++;
            continue;
        }
        text += "\n  " + who((int)i) + " waits for ";
        text += fiber.state == IN_BLOCK ? "its block" : format("lanes %08x", fiber.mask);
        text += ": " + callers(fiber.frame, fiber);
    }
    if (more) text += format("\n  and %d more threads", more);
    fail(text);
}

// ------------------------------------------------------------------------------------ scheduling

u64 draw() {  // splitmix64
    u64 z = (now.random += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

// How many places to pass until the next fiber goes on, with the given share on average.
i64 until(double share) {
    if (share <= 0) return NEVER;
    const double most = 2 / share - 1;
    return most <= 1 ? 1 : 1 + (i64)(draw() % (u64)(most < 1e15 ? most : 1e15));
}

void draw_left() {
    now.left = now.settings.seed ? until(now.settings.yields) : 4096;
    gd_accesses_left = now.settings.seed ? until(now.settings.accesses) : NEVER;
}

bool may_start() {
    return !now.unstarted.empty() && (!free_stacks.empty() || all_stacks.size() < MOST_STACKS);
}

// The fiber that goes on. `spins`: the one that stops may wait for what has not started.
int next(bool spins) {
    const size_t ready = now.ready.size(), unstarted = may_start() ? now.unstarted.size() : 0;
    if (ready + unstarted == 0) {
        if (!now.unstarted.empty()) fail("more threads wait at once than there are stacks");
        stuck();
    }
    int found;
    if (now.settings.seed == 0) {
        if (unstarted && (spins || !ready)) {
            found = now.unstarted.back();
            now.unstarted.pop_back();
        } else {
            found = now.ready.front();
            now.ready.pop_front();
        }
        return found;
    }
    size_t at = (size_t)(draw() % (ready + unstarted));
    if (at < ready) {
        found = now.ready[at];
        now.ready[at] = now.ready.back();
        now.ready.pop_back();
    } else {
        at -= ready;
        found = now.unstarted[at];
        now.unstarted[at] = now.unstarted.back();
        now.unstarted.pop_back();
    }
    return found;
}

void end_of(int number);
[[noreturn]] void goes_on(int number);

// A stack's life: it runs one fiber after the other, and is parked where there is none for it.
void entry() {
    Stack* const stack = now.fibers[current].stack;
    stack->base = __builtin_frame_address(0);
    for (;;) {
        now.start(now.words);
        end_of(current);
        if (now.ended == (i64)now.fibers.size()) {
            if (_setjmp(stack->where) == 0) {
                stack->alive = true;
                free_stacks.push_back(stack);
                _longjmp(home, 2);
            }
            continue;
        }
        free_stacks.push_back(stack);
        const int number = next(false);
        if (_setjmp(stack->where) == 0) {
            stack->alive = true;
            goes_on(number);
        }
    }
}

Stack* take_stack() {
    if (free_stacks.empty()) {
        auto stack = std::make_unique<Stack>();
        stack->low = (char*)mmap(nullptr, STACK + PAGE, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
        if (stack->low == MAP_FAILED) fail("no memory for another stack");
        mprotect(stack->low, PAGE, PROT_NONE);
        free_stacks.push_back(stack.get());
        all_stacks.push_back(std::move(stack));
    }
    Stack* const stack = free_stacks.back();
    free_stacks.pop_back();
    return stack;
}

void goes_on(int number) {
    Fiber& fiber = now.fibers[number];
    current = number;
    gd_where.thread = number % now.threads;
    gd_where.block = number / now.threads;
    now.settings.switches++;
    draw_left();
    if (fiber.state == UNSTARTED) {
        fiber.stack = take_stack();
        fiber.state = READY;
        if (!fiber.stack->alive) {
            static ucontext_t context;
            getcontext(&context);
            context.uc_stack.ss_sp = fiber.stack->low + PAGE;
            context.uc_stack.ss_size = STACK;
            context.uc_link = nullptr;
            makecontext(&context, entry, 0);
            setcontext(&context);
        }
    }
    _longjmp(fiber.stack->where, 1);
}

// Another fiber goes on. The one that runs has said before what it waits for.
void leave(bool spins) {
    const int number = next(spins);
    if (number == current) {
        draw_left();
        return;
    }
    Stack* const stack = now.fibers[current].stack;
    if (_setjmp(stack->where) == 0) goes_on(number);
}

void let_others() {
    now.ready.push_back(current);
    leave(true);
}

void pass() {
    the_clock += now.settings.step;
    if (++now.settings.passed > now.settings.patience)
        fail_here("no end in sight: the kernel spins", __builtin_frame_address(0));
}

// ------------------------------------------------------------------------------------ collectives

u64 site_of(void* frame) {
    u64 site = 0;
    each_caller(frame, now.fibers[current].stack->base,
                [&](void* address) { site = site * 0x100000001B3ull + (u64)address; });
    return site;
}

std::string lanes_of(u32 mask) {
    std::string text;
    for (int lane = 0; lane < 32; lane++)
        if (mask >> lane & 1) text += (text.empty() ? "" : ",") + std::to_string(lane);
    return text;
}

// What the lane gets, when all are there.
u64 result_of(const Meeting& meeting, int base, int lane, u32 votes) {
    const Fiber& mine = now.fibers[base + lane];
    int from = lane;
    switch (meeting.kind) {
        case GD_SYNC: return 0;
        case GD_BALLOT: return votes;
        case GD_SHUFFLE: from = mine.argument; break;
        case GD_SHUFFLE_XOR: from = lane ^ mine.argument; break;
        case GD_SHUFFLE_UP:
            if (mine.argument > lane) return mine.value;
            from = lane - mine.argument;
            // A GPU gives something or other, which kernels may throw away.
            if (!(meeting.mask >> from & 1)) return draw();
            break;
    }
    if (from < 0 || from > 31 || !(meeting.mask >> from & 1))
        fail_here(format("%s: lane %d asks lane %d, which is not among those that meet (%s)",
                         name_of(meeting.kind), lane, from, lanes_of(meeting.mask).c_str()),
                  mine.frame);
    return now.fibers[base + from].value;
}

void complete(const Meeting& meeting, int base) {
    u32 votes = 0;
    u64 results[32];
    for (int lane = 0; lane < 32; lane++)
        if (meeting.mask >> lane & 1 && now.fibers[base + lane].value & 1) votes |= 1u << lane;
    for (int lane = 0; lane < 32; lane++)
        if (meeting.mask >> lane & 1) results[lane] = result_of(meeting, base, lane, votes);
    for (int lane = 0; lane < 32; lane++) {
        if (!(meeting.mask >> lane & 1)) continue;
        Fiber& fiber = now.fibers[base + lane];
        fiber.value = results[lane];
        if (fiber.state == IN_WARP) {
            fiber.state = READY;
            now.ready.push_back(base + lane);
        }
    }
}

void end_of(int number) {
    now.fibers[number].state = ENDED;
    now.fibers[number].stack = nullptr;
    now.ended++;
    Block& block = now.blocks[number / now.threads];
    block.ended++;
    const int thread = number % now.threads, lane = thread & 31;
    for (const Meeting& meeting : block.warps[thread / 32])
        if (meeting.mask >> lane & 1) {
            const int other = number - lane + meeting.first;
            fail("stuck: " + who(number) + " has ended, but " + who(other) + " waits for it in " +
                 name_of(meeting.kind) + format(" of lanes %08x: ", meeting.mask) +
                 callers(now.fibers[other].frame, now.fibers[other]));
        }
    if (block.waiting) {
        const int other = number - thread + block.first;
        fail("stuck: " + who(number) + " has ended, but " + who(other) +
             " waits for its block: " + callers(now.fibers[other].frame, now.fibers[other]));
    }
}

}  // namespace

// -------------------------------------------------------------------------- what kernels call

extern "C" {

void gd_yield() {
    pass();
    if (--now.left <= 0) let_others();
}

void gd_access() { let_others(); }

void gd_pause(int) {
    pass();
    let_others();
}

i64 gd_nanoseconds() {
    gd_yield();
    return the_clock + (now.settings.seed ? (i64)(draw() % (u64)(now.settings.step + 1)) : 0);
}

u64 gd_meet(int kind, int type, u32 mask, u64 value, int argument) {
    void* const frame = __builtin_frame_address(0);
    pass();
    const int lane = gd_where.thread & 31, base = current - lane;
    const int lanes = now.threads - (gd_where.thread - lane);
    Block& block = now.blocks[gd_where.block];
    Fiber& mine = now.fibers[current];
    if (!(mask >> lane & 1))
        fail_here(format("%s: lane %d is not in its own mask (lanes %s)", name_of(kind), lane,
                         lanes_of(mask).c_str()), frame);
    if (lanes < 32 && mask >> lanes)
        fail_here(format("%s: stuck: lanes %s are named, but the warp has %d", name_of(kind),
                         lanes_of(mask).c_str(), lanes), frame);
    for (int other = 0; other < 32; other++)
        if (mask >> other & 1 && now.fibers[base + other].state == ENDED)
            fail_here(format("%s: stuck: lane %d is waited for, but it has ended", name_of(kind),
                             other), frame);
    const u64 site = site_of(frame);
    std::vector<Meeting>& meetings = block.warps[gd_where.thread / 32];
    Meeting* meeting = nullptr;
    for (Meeting& other : meetings) {
        if (other.mask == mask) meeting = &other;
        else if (other.arrived & mask && other.mask >> lane & 1)
            fail_here(format("%s: stuck: lane %d names lanes %08x, but lane %d waits in %s and names "
                             "%08x: ", name_of(kind), lane, mask, other.first,
                             name_of(other.kind), other.mask) +
                      callers(now.fibers[base + other.first].frame,
                              now.fibers[base + other.first]), frame);
    }
    if (!meeting) {
        meetings.push_back({mask, 0, kind, type, site, lane});
        meeting = &meetings.back();
    } else {
        const Fiber& first = now.fibers[base + meeting->first];
        if (meeting->kind != kind || meeting->type != type || meeting->site != site)
            fail_here(format("lanes %s meet at different places: lane %d in %s, lane %d in %s\n  ",
                             lanes_of(mask).c_str(), lane, name_of(kind), meeting->first,
                             name_of(meeting->kind)) +
                      who(base + meeting->first) + ": " + callers(first.frame, first), frame);
        if ((kind == GD_SHUFFLE_XOR || kind == GD_SHUFFLE_UP) && first.argument != argument)
            fail_here(format("%s: lane %d says %d, lane %d says %d", name_of(kind), lane, argument,
                             meeting->first, first.argument), frame);
    }
    mine.value = value;
    mine.argument = argument;
    mine.frame = frame;
    mine.mask = mask;
    meeting->arrived |= 1u << lane;
    if (meeting->arrived == mask) {
        const Meeting whole = *meeting;
        *meeting = meetings.back();
        meetings.pop_back();
        complete(whole, base);
        if (--now.left <= 0) let_others();
    } else {
        mine.state = IN_WARP;
        leave(false);
    }
    return now.fibers[current].value;
}

void gd_block_sync() {
    void* const frame = __builtin_frame_address(0);
    pass();
    Block& block = now.blocks[gd_where.block];
    Fiber& mine = now.fibers[current];
    const int first = current - gd_where.thread;
    const u64 site = site_of(frame);
    if (block.ended) fail_here("block_sync: stuck: threads of the block have ended", frame);
    if (block.waiting == 0) {
        block.site = site;
        block.first = gd_where.thread;
    } else if (block.site != site) {
        const Fiber& other = now.fibers[first + block.first];
        fail_here("block_sync: threads of a block meet at different places\n  " +
                  who(first + block.first) + ": " + callers(other.frame, other), frame);
    }
    mine.frame = frame;
    if (++block.waiting == now.threads) {
        block.waiting = 0;
        for (int thread = 0; thread < now.threads; thread++)
            if (now.fibers[first + thread].state == IN_BLOCK) {
                now.fibers[first + thread].state = READY;
                now.ready.push_back(first + thread);
            }
        if (--now.left <= 0) let_others();
    } else {
        mine.state = IN_BLOCK;
        leave(false);
    }
}

void* gd_shared(const void* key, i64 bytes, const char* name) {
    Block& block = now.blocks[gd_where.block];
    std::unique_ptr<char[]>& memory = block.shared[key];
    if (!memory) {
        block.shared_bytes += bytes;
        if (block.shared_bytes > SHARED_BYTES)
            fail_here(format("%s: a block has %d bytes of shared memory, %lld are asked for", name,
                             (int)SHARED_BYTES, block.shared_bytes), __builtin_frame_address(0));
        memory.reset(new char[bytes]);
        memset(memory.get(), 0xA5, bytes);  // whatever was there before
    }
    return memory.get();
}

void gd_outside(const char* name, i64 index, i64 length) {
    fail_here(format("%s[%lld]: outside, it has %lld elements", name, index, length),
              __builtin_frame_address(0));
}

void gd_outside_slice(const char* name, i64 start, i64 length, i64 of) {
    fail_here(format("slice of %s from %lld, %lld elements: outside, it has %lld", name, start,
                     length, of), __builtin_frame_address(0));
}

// ------------------------------------------------------------- what -fsanitize=undefined calls
//
// In place of libubsan, which ends the process. Each is told a place in the source first.

struct GdPlace {
    const char* file;
    u32 line, column;
};
#define GD_UNDEFINED(name, what)                                                           \
    [[noreturn]] void __ubsan_handle_##name##_abort(const GdPlace* at) {                   \
        fail_here(format("undefined behaviour at %s:%u: %s", at->file, at->line, what),    \
                  __builtin_frame_address(0));                                             \
    }
GD_UNDEFINED(add_overflow, "a sum overflows")
GD_UNDEFINED(sub_overflow, "a difference overflows")
GD_UNDEFINED(mul_overflow, "a product overflows")
GD_UNDEFINED(negate_overflow, "a negation overflows")
GD_UNDEFINED(divrem_overflow, "a division by zero, or one that overflows")
GD_UNDEFINED(shift_out_of_bounds, "a shift by too many bits")
GD_UNDEFINED(out_of_bounds, "an index outside of a thread's own array")
GD_UNDEFINED(type_mismatch_v1, "a pointer that is null, badly aligned or to too small an object")
GD_UNDEFINED(pointer_overflow, "a pointer outside of its array")
GD_UNDEFINED(load_invalid_value, "a bool or enum with no value of its type")
GD_UNDEFINED(vla_bound_not_positive, "an array of no elements")
GD_UNDEFINED(invalid_builtin, "a builtin that zero was passed to")
GD_UNDEFINED(float_cast_overflow, "a float that fits no integer")
GD_UNDEFINED(nonnull_arg, "null where none may be")
[[noreturn]] void __ubsan_handle_builtin_unreachable(const GdPlace* at) {
    fail_here(format("undefined behaviour at %s:%u: unreachable", at->file, at->line),
              __builtin_frame_address(0));
}
[[noreturn]] void __ubsan_handle_missing_return(const GdPlace* at) {
    fail_here(format("undefined behaviour at %s:%u: no value is returned", at->file, at->line),
              __builtin_frame_address(0));
}

}  // extern "C"

// ------------------------------------------------------------------------------------ launching

namespace {

const int SIGNALS[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGURG};

void on_signal(int number, siginfo_t* info, void*) {
    if (!now.running) {  // not in a kernel: as if nobody had asked
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    if (number == SIGURG)
        fail(who(current) + " runs on and on, and comes to no place where others could go on");
    const char* const address = (const char*)info->si_addr;
    const Stack* const stack = now.fibers[current].stack;
    if (stack && address >= stack->low && address < stack->low + PAGE)
        fail(who(current) + " has used up its stack");
    fail(who(current) + format(" ended with signal %d, at address %p", number, address));
}

void run() {
    for (i64 i = (i64)now.fibers.size() - 1; i >= 0; i--) now.unstarted.push_back((int)i);
    now.running = true;
    goes_on(next(true));
}

}  // namespace

// Runs a kernel; gives what went wrong, or null.
extern "C" const char* gd_launch(Start start, const u64* words, int blocks, int threads,
                                 GdSettings* settings) {
    now = Launch();
    now.start = start;
    now.words = words;
    now.settings = *settings;
    now.settings.passed = now.settings.switches = 0;
    now.random = settings->seed * 0xD1342543DE82EF95ull;
    now.threads = threads;
    now.fibers.resize((size_t)blocks * threads);
    now.blocks.resize(blocks);
    for (Block& block : now.blocks) block.warps.resize((threads + 31) / 32);
    gd_where = {0, threads, 0, blocks};

    static char* const aside = (char*)malloc(64 << 10);
    stack_t own = {}, before;
    own.ss_sp = aside;
    own.ss_size = 64 << 10;
    sigaltstack(&own, &before);
    struct sigaction action = {}, old[5];
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    for (int i = 0; i < 5; i++) sigaction(SIGNALS[i], &action, &old[i]);
    timer_t timer;
    struct sigevent event = {};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGURG;
    event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
    timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer);
    struct itimerspec when = {};
    when.it_value.tv_sec = (time_t)settings->seconds;
    when.it_value.tv_nsec = (long)((settings->seconds - (double)when.it_value.tv_sec) * 1e9);
    timer_settime(timer, 0, &when, nullptr);

    const int how = _setjmp(home);
    if (how == 0) run();
    now.running = false;
    timer_delete(timer);
    for (int i = 0; i < 5; i++) sigaction(SIGNALS[i], &old[i], nullptr);
    sigaltstack(&before, nullptr);
    if (how == 1) {  // stacks hold fibers that never go on
        free_stacks.clear();
        for (auto& stack : all_stacks) {
            stack->alive = false;
            free_stacks.push_back(stack.get());
        }
    }
    settings->passed = now.settings.passed;
    settings->switches = now.settings.switches;
    now = Launch();
    return how == 1 ? message.c_str() : nullptr;
}
