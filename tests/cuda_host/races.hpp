// Which accesses of memory nothing orders: of the calls that -fsanitize=thread makes.
//
// Fibers run one at a time, and see each store at once. A GPU promises less: what a thread has
// written is seen by those whose `warp_sync` or `block_sync` it came to, and by whoever loads with
// acquire what it has then stored with release (or added to by `add_acquire_release`). Relaxed
// accesses order nothing; ballots and shuffles order no stores, but what was read before one has
// been read. Each thread has a clock of all threads, as far as it knows of them; two accesses of a
// place, one of them a store, neither of which the other's thread knows of, are a race, unless both
// are atomic. Two stores of the same value are none.
#pragma once
#include <unordered_map>

#include "faults.hpp"

namespace {

typedef std::vector<u32> Times;

struct Clock {
    Times all;    // up to when all that a thread did is known
    Times reads;  // up to when what it read is
};

struct Seen {  // an access: by whom, at what time of his
    int fiber = 0;
    u32 time = 0;  // 0: there was none
    void* at = nullptr;
};

struct Place {
    Seen write, atomic_write;
    std::vector<Seen> reads, atomic_reads;  // those that are not ordered before a later one
};

struct Races {
    bool on = false, in_atomic = false;
    std::map<u64, u64> shared;  // arrays that are written to: from, to
    std::vector<Clock> clocks;
    std::unordered_map<u64, Place> places;
    std::unordered_map<u64, Clock> released;  // what an acquiring load of a place learns
    // A store where another's is: a race, if the value is another.
    u64 doubtful = 0, was = 0;
    int bytes = 0;
    std::string about;
};

Races races;
const int MOST_IN_RACES = 2048;  // threads: each has a clock of all

bool known(const Seen& seen) { return seen.time <= races.clocks[current].all[seen.fiber]; }
bool known_read(const Seen& seen) { return seen.time <= races.clocks[current].reads[seen.fiber]; }

std::string told(const char* what, const Seen& seen) {
    return "\n  " + who(seen.fiber) + " " + what + ": " + place(seen.at);
}

std::string race(u64 address, const char* mine, void* at, const char* other, const Seen& seen) {
    return "a race: nothing orders two accesses of <" + std::to_string(address) + ">" +
           told(mine, {current, 1, at}) + told(other, seen);
}

u64 value_at(u64 address, int bytes) {
    u64 value = 0;
    memcpy(&value, (const void*)address, bytes < 8 ? bytes : 8);
    return value;
}

// The store that was doubtful has been made.
void settle() {
    const u64 address = races.doubtful;
    if (!address) return;
    races.doubtful = 0;
    if (value_at(address, races.bytes) != races.was) fail(races.about);
}

void remember(std::vector<Seen>& reads, const Seen& mine) {
    size_t kept = 0;
    for (const Seen& seen : reads)
        if (!known_read(seen)) reads[kept++] = seen;
    reads.resize(kept);
    reads.push_back(mine);
}

void accessed(u64 address, int bytes, bool writes, bool atomic, void* at) {
    const auto above = races.shared.upper_bound(address);
    if (above == races.shared.begin() || std::prev(above)->second <= address) return;
    settle();
    Place& place = races.places[address];
    const Seen mine = {current, races.clocks[current].all[current], at};
    const char* const what = atomic ? (writes ? "changes it by an atomic" : "loads it")
                                    : (writes ? "writes" : "reads");
    if (place.write.time && !known(place.write)) {
        const std::string about = race(address, what, at, "wrote", place.write);
        if (!writes || atomic) fail(about);
        races.doubtful = address;
        races.bytes = bytes;
        races.was = value_at(address, bytes);
        races.about = about;
    }
    if (!atomic && place.atomic_write.time && !known(place.atomic_write))
        fail(race(address, what, at, "changed it by an atomic", place.atomic_write));
    if (writes) {
        for (const Seen& seen : place.reads)
            if (!known_read(seen)) fail(race(address, what, at, "read", seen));
        if (!atomic)
            for (const Seen& seen : place.atomic_reads)
                if (!known_read(seen)) fail(race(address, what, at, "loaded it", seen));
        (atomic ? place.atomic_write : place.write) = mine;
    } else {
        remember(atomic ? place.atomic_reads : place.reads, mine);
    }
}

void join(Times& into, const Times& other) {
    into.resize(other.size(), 0);
    for (size_t i = 0; i < into.size(); i++)
        if (other[i] > into[i]) into[i] = other[i];
}

void join(Clock& into, const Clock& other) {
    join(into.all, other.all);
    join(into.reads, other.reads);
}

// They have come together: each knows what all did, or only what all have read.
void met(const std::vector<int>& fibers, bool reads_only) {
    if (!races.on) return;
    settle();
    Clock together;
    for (int fiber : fibers) join(together, races.clocks[fiber]);
    for (int fiber : fibers) {
        Clock& clock = races.clocks[fiber];
        clock.reads = together.reads;
        if (!reads_only) clock.all = together.all;
        clock.reads[fiber] = ++clock.all[fiber];
    }
}

void look_for_races(void* from, i64 bytes) {
    if (races.on && bytes) races.shared[(u64)from] = (u64)from + (u64)bytes;
}

void start_races() {
    const GdSettings& settings = now.settings;
    races = Races();
    races.on = settings.written != nullptr;
    if (!races.on) return;
    for (i64 i = 0; i < settings.written_count; i++)
        look_for_races((void*)settings.written[2 * i], (i64)settings.written[2 * i + 1]);
    const size_t count = now.fibers.size();
    if (count > (size_t)MOST_IN_RACES)
        fail(format("races are looked for among at most %d threads", MOST_IN_RACES));
    races.clocks.assign(count, {Times(count, 0), Times(count, 0)});
    for (size_t i = 0; i < count; i++) races.clocks[i].all[i] = races.clocks[i].reads[i] = 1;
}

}  // namespace

extern "C" {

void gd_atomic(void* address, int bytes, int order) {
    if (!races.on) return;
    void** const frame = (void**)__builtin_frame_address(0);
    void* const caller = ((void**)frame[0])[1];  // of the function of host.hpp
    accessed((u64)address, bytes, order & GD_STORES, true, caller);
    Clock& mine = races.clocks[current];
    auto found = races.released.find((u64)address);
    if (order & GD_ACQUIRES && found != races.released.end()) join(mine, found->second);
    if (order & GD_STORES) {
        // A store that is no addition ends what others have released there.
        if (!(order & GD_LOADS) && found != races.released.end()) races.released.erase(found);
        if (order & GD_RELEASES) {
            join(races.released[(u64)address], mine);
            mine.reads[current] = ++mine.all[current];
        }
    }
    races.in_atomic = true;
}

void gd_atomic_end() { races.in_atomic = false; }

#define GD_ACCESSES(bytes)                                                                \
    void __tsan_read##bytes(void* address) {                                              \
        if (races.on && !races.in_atomic)                                                 \
            accessed((u64)address, bytes, false, false, __builtin_return_address(0));     \
    }                                                                                     \
    void __tsan_write##bytes(void* address) {                                             \
        if (races.on && !races.in_atomic)                                                 \
            accessed((u64)address, bytes, true, false, __builtin_return_address(0));      \
    }
GD_ACCESSES(1)
GD_ACCESSES(2)
GD_ACCESSES(4)
GD_ACCESSES(8)
GD_ACCESSES(16)
void __tsan_read_range(void* address, u64 bytes) {
    if (!races.on || races.in_atomic) return;
    for (u64 at = 0; at < bytes; at += 8)
        accessed((u64)address + at, 8, false, false, __builtin_return_address(0));
}
void __tsan_write_range(void* address, u64 bytes) {
    if (!races.on || races.in_atomic) return;
    for (u64 at = 0; at < bytes; at += 8)
        accessed((u64)address + at, 8, true, false, __builtin_return_address(0));
}
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}

}  // extern "C"
