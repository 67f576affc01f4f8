// What went wrong, told with the places in compiled code where it did.
//
// `{path+0x12}` is such a place: compiler.py makes a line of the source of it.
#pragma once
#include "launch.hpp"

namespace {

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

[[noreturn]] void fail_at(int number, const std::string& what, void* frame) {
    fail(what + "\n  " + who(number) + ": " + callers(frame, now.fibers[number]));
}

[[noreturn]] void fail_here(const std::string& what, void* frame) {
    fail_at(current, what, frame);
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

}  // namespace
