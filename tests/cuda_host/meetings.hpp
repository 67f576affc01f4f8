// Where threads meet: lanes of a warp that name the same mask, threads of a block.
#pragma once
#include "races.hpp"
#include "schedule.hpp"

namespace {

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
        fail_at(base + lane, format("%s: lane %d asks lane %d, which is not among those that meet (%s)",
                         name_of(meeting.kind), lane, from, lanes_of(meeting.mask).c_str()),
                  mine.frame);
    return now.fibers[base + from].value;
}

void complete(const Meeting& meeting, int base) {
    u32 votes = 0;
    u64 results[32];
    std::vector<int> fibers;
    for (int lane = 0; lane < 32; lane++)
        if (meeting.mask >> lane & 1 && now.fibers[base + lane].value & 1) votes |= 1u << lane;
    for (int lane = 0; lane < 32; lane++)
        if (meeting.mask >> lane & 1) {
            results[lane] = result_of(meeting, base, lane, votes);
            fibers.push_back(base + lane);
        }
    met(fibers, meeting.kind != GD_SYNC);
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
    if (++block.ended == now.threads) {
        now.admitted -= now.threads;
        admit();
    }
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

extern "C" {

u64 gd_meet(int kind, u32 mask, u64 value, int argument) {
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
        meetings.push_back({mask, 0, kind, site, lane});
        meeting = &meetings.back();
    } else {
        const Fiber& first = now.fibers[base + meeting->first];
        if (meeting->site != site)
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
        std::vector<int> fibers;
        for (int thread = 0; thread < now.threads; thread++) fibers.push_back(first + thread);
        met(fibers, false);
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

}  // extern "C"
