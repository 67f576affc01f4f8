// Which fiber goes on, and how: fibers on stacks that outlive them.
#pragma once
#include "races.hpp"

namespace {

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

// Lets blocks begin, as many as there are stacks for; the rest come when others have ended.
void admit() {
    const int blocks = (int)now.blocks.size();
    int to = now.next_block;
    while (to < blocks && (now.admitted == 0 || now.admitted + now.threads <= MOST_STACKS)) {
        now.admitted += now.threads;
        to++;
    }
    for (int i = to * now.threads - 1; i >= now.next_block * now.threads; i--)
        now.unstarted.push_back(i);
    now.next_block = to;
}

// Whether a fiber is passed over for now. On a GPU a thread, a warp or a block can stand still while
// others go a long way: in three of four launches some of them do, for so many switches.
bool stalls(int number) {
    const u64 style = now.settings.seed % 4;
    if (style == 0) return false;
    const int group = style == 1 ? number : style == 2 ? number / 32 : number / now.threads;
    const u64 period = 64ull << (now.settings.seed / 4 % 8);
    u64 z = ((u64)now.settings.switches / period + 1) * 0x9E3779B97F4A7C15ull;
    z = (z ^ (u64)(group + 1) ^ now.settings.seed << 32) * 0xBF58476D1CE4E5B9ull;
    return (z ^ (z >> 29)) * 0x94D049BB133111EBull >> 62 == 0;
}

// The fiber that goes on. `spins`: the one that stops may wait for what has not started.
int next(bool spins) {
    const size_t ready = now.ready.size(), unstarted = now.unstarted.size();
    if (ready + unstarted == 0) stuck();
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
    size_t at = 0;
    for (int tries = 0; tries < 8; tries++) {
        at = (size_t)(draw() % (ready + unstarted));
        if (!stalls(at < ready ? now.ready[at] : now.unstarted[at - ready])) break;
    }
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
        settle();
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
    settle();
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
    // The host does something: on its own stack, while the kernel runs.
    if (now.settings.poll && now.settings.passed % now.settings.polls == 0)
        if (_setjmp(now.fibers[current].stack->where) == 0) _longjmp(home, 3);
    if (++now.settings.passed > now.settings.patience)
        fail_here("no end in sight: the kernel spins", __builtin_frame_address(0));
}

}  // namespace
