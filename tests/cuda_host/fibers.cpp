// Runs a launch of a kernel on the host: a fiber for each thread, all blocks at once.
//
// One fiber runs at a time, on one OS thread. Where it may stop (atomics, loads and stores with an
// order, pauses, collectives, some accesses of arrays) a seeded generator decides whether another
// goes on. What goes wrong ends the launch with a message: `fail` leaves all fibers as they are.
#include "meetings.hpp"
#include "undefined.hpp"

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
        look_for_races(memory.get(), bytes);
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

}  // extern "C"

// ------------------------------------------------------------------------------------ launching

namespace {

const int SIGNALS[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGURG};

// The instruction that a signal came at; null on a machine that is not known here.
void* instruction(void* context) {
#if defined(__x86_64__)
    return (void*)((ucontext_t*)context)->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return (void*)((ucontext_t*)context)->uc_mcontext.pc;
#else
    return (void)context, nullptr;
#endif
}

void on_signal(int number, siginfo_t* info, void* context) {
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
    fail(who(current) + format(" ended with signal %d, at address %p", number, address) + " " +
         place((char*)instruction(context) + 1));  // `place` is given where calls return to
}

void run() {
    start_races();
    admit();
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
    if (how == 3) {
        now.running = false;
        now.settings.poll();
        now.running = true;
        _longjmp(now.fibers[current].stack->where, 1);
    }
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
    races = Races();
    settings->passed = now.settings.passed;
    settings->switches = now.settings.switches;
    now = Launch();
    return how == 1 ? message.c_str() : nullptr;
}
