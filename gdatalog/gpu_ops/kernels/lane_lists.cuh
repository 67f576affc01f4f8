// Two lists for each lane: lanes share the values of all of them. And lists held in shared memory.
#pragma once
#include "lists.cuh"

// n values of the second or the first of two arrays.
template <class A, class B>
struct OneOf {
    Array<const A> va;
    Array<const B> vb;
    bool second;

    METHOD i64 operator[](i64 at) const { return second ? (i64)vb[at] : (i64)va[at]; }
};
template <class A, class B>
DEVICE OneOf<A, B> one_of(bool second, Array<const A> va, Array<const B> vb, i64 start, i64 n) {
    if (second) {
        vb = slice(vb, start, n);
    } else {
        va = slice(va, start, n);
    }
    const OneOf<A, B> found = {va, vb, second};
    return found;
}
template <class T>
DEVICE Array<const T> one_of(bool second, Array<const T> va, Array<const T> vb, i64 start, i64 n) {
    return slice(second ? vb : va, start, n);
}

// The position of a key among `n` values of an array from `start` on; -1 if it is not there. P: the
// type of positions.
template <class A, class B, class P, class K>
DEVICE P find_in(bool second, Array<const A> va, Array<const B> vb, P start, P n, K key) {
    while (sizeof(P) > sizeof(i32) && n > (P)PART) {
        const P half = n >> 1;
        start = one_of(second, va, vb, start, n)[half] <= key ? start + half : start;
        n -= half;
    }
    if (n <= 0) return -1;
    const auto part = one_of(second, va, vb, start, n);
    u32 left = (u32)n, found = 0;
    while (left > 1) {
        const u32 half = left >> 1;
        found = part[found + half] <= key ? found + half : found;
        left -= half;
    }
    return part[found] == key ? start + (P)found : -1;
}

// Two lists for each lane with `yes`: how many values are common to this lane's. The values of all
// shorter lists are one sequence, which the lanes take N at a time: so short lists keep all lanes
// busy. A value is searched in the longer list of its lane. Before that come pairs of long lists, one
// after the other: all lanes search in one list, whose middle values are then in the cache. Calls
// `each(value, k, l)` for each common value, with its positions in both lists, on any lane.
template <int N, class A, class B, class P, class F>
DEVICE P each_common_of_each(Tile<N> t, bool yes, Array<const A> va, P alo, P ahi,
                             Array<const B> vb, P blo, P bhi, F each) {
    const bool second = bhi - blo < ahi - alo;
    const P first = second ? blo : alo, last = second ? bhi : ahi;
    const P low = second ? alo : blo, high = second ? ~ahi : bhi;
    P n = 0;
    const bool far = yes && last - first >= LONG;
    for (u32 left = ballot(t, far); left != 0u; left &= left - 1u) {
        const int owner = lowest_bit(left);
        const P start = from_rank(t, first, owner), stop = from_rank(t, last, owner);
        const P lo = from_rank(t, low, owner), end = from_rank(t, high, owner);
        const bool its = end < 0;
        const auto keys = one_of(its, va, vb, start, stop - start);
        P many = 0;
        for (P at = 0; at < stop - start; at += N) {
            const bool mine = at + t.rank < stop - start;
            P place = -1;
            if (mine) {
                const auto key = +keys[at + t.rank];
                place = find_in(!its, va, vb, lo, (its ? ~end : end) - lo, key);
                if (place >= 0) {
                    const P from = start + at + t.rank;
                    each(key, its ? place : from, its ? from : place);
                }
            }
            many += bits_of(ballot(t, place >= 0));
        }
        n += t.rank == owner ? many : 0;
    }
    const SpreadOf<P> all = spread_out(t, first, last, yes && !far);
    const P begin = from_rank(t, all.end, t.rank > 0 ? t.rank - 1 : 0);
    // Where this lane's values begin, and end: in 64 bits, because with 32 the assembler of CUDA 13.0
    // makes wrong masks below.
    i64 before = t.rank > 0 ? begin : 0, after = all.end;
    for (P at = 0; at < all.total; at += N) {
        const P place = at + t.rank;
        const int owner = owner_of(t, all, place);
        const P from = from_rank(t, all.origin, owner) + place;
        const P lo = from_rank(t, low, owner), end = from_rank(t, high, owner);
        bool met = false;
        if (place < all.total) {
            const bool its = end < 0;
            const auto key = +one_of(its, va, vb, from, 1)[0];
            const P found = find_in(!its, va, vb, lo, (its ? ~end : end) - lo, key);
            met = found >= 0;
            if (met) each(key, its ? found : from, its ? from : found);
        }
        // The values of a lane stand side by side, and so do their votes.
        const u32 votes = ballot(t, met);
        const u32 down = before < 0 ? 0u : before < N ? (u32)before : N;
        const u32 up = after < 0 ? 0u : after < N ? (u32)after : N;
        const u32 up_to = up == 32u ? 0xFFFFFFFFu : (1u << up) - 1u;
        n += down < 32u ? bits_of(votes & up_to & (0xFFFFFFFFu << down)) : 0;
        before -= N;
        after -= N;
    }
    return n;
}
template <int N, class A, class B, class P>
DEVICE P count_common_of_each(Tile<N> t, bool yes, Array<const A> va, P alo, P ahi,
                              Array<const B> vb, P blo, P bhi) {
    return each_common_of_each(t, yes, va, alo, ahi, vb, blo, bhi, [](i64, i64, i64) {});
}

// ------------------------------------------------------------------------------ lists that are held
//
// A list that many lanes meet with lists of their own is held in shared memory, as a hash table: a
// value of another list then costs a probe, where a search would cost as many as the list's length
// has bits.

// The slots of a tile's table. Lists take at most half of them, and of short lists not all are used:
// at least a few for each value, or more if many values are looked up. The emptier the table, the
// fewer lanes wait for others to find a free slot.
constexpr int HELD_BITS = 10, HELD_SLOTS = 1 << HELD_BITS, LEAST_SLOTS = 64;
constexpr int SLOTS_EACH = 16, MORE_SLOTS_EACH = 32;
constexpr i32 NOT_HELD = -1;  // of an empty slot: lists of negative values are not held
// A list is held if lanes have so many values to look up in it, and so many for each of its own.
constexpr int PAYS = 32, PAYS_EACH = 2;
// Lists that are so many times longer than another do not meet it held: its values are looked up in
// them.
constexpr int FAR_LONGER = 16;
constexpr i64 LEAST_HELD = 4;  // in shorter lists, a search is as fast

// The list that a tile holds, and the bits of a hash that are not of its slot.
struct Held {
    i64 lo, hi;
    int shift;
};

DEVICE u32 slot_of(const Held& now, i32 key) { return ((u32)key * 0x9E3779B1u) >> now.shift; }
DEVICE u32 slot_after(const Held& now, u32 slot) { return (slot + 1) & (0xFFFFFFFFu >> now.shift); }

DEVICE bool fits_held(Array<const i32> values, i64 lo, i64 hi) {
    return hi - lo >= LEAST_HELD && hi - lo <= HELD_SLOTS / 2 && +values[lo] >= 0;
}

template <int N, class H>
DEVICE void hold(Tile<N> t, H held, Held& now, Array<const i32> values, i64 lo, i64 hi, int each) {
    int slots = HELD_SLOTS;
    now.lo = lo;
    now.hi = hi;
    for (now.shift = 32 - HELD_BITS; slots > LEAST_SLOTS && slots >= 2 * each * (hi - lo); slots /= 2) {
        now.shift++;
    }
    sync(t);  // all lanes have finished reading
    for (int at = t.rank; at < slots; at += N) held[at] = NOT_HELD;
    sync(t);
    for (i64 at = lo + t.rank; at < hi; at += N) {
        const i32 key = +values[at];
        u32 slot = slot_of(now, key);
        while (atomic_cas(held, slot, NOT_HELD, key) != NOT_HELD) slot = slot_after(now, slot);
    }
    sync(t);
}

template <class H>
DEVICE bool holds(H held, const Held& now, i32 key) {
    u32 slot = slot_of(now, key);
    i32 found = held[slot];
    while (found != key && found != NOT_HELD) {
        slot = slot_after(now, slot);
        found = held[slot];
    }
    return found == key && key != NOT_HELD;
}

// How many values of the lists of the lanes with `yes` are held, in all: each lane has a share.
template <int N, class P, class H>
DEVICE u32 count_held(Tile<N> t, bool yes, Array<const i32> values, P lo, P hi, H held,
                      const Held& now) {
    u32 n = 0;
    const bool far = yes && hi - lo >= LONG_FOR_GROUPS;
    for (u32 left = ballot(t, far); left != 0u; left &= left - 1u) {
        const int owner = lowest_bit(left);
        const u32 length = from_rank(t, (u32)(hi - lo), owner);
        const auto list = slice(values, from_rank(t, lo, owner), length);
        u32 at = t.rank;
        for (; at + N < length; at += 2 * N) {
            const i32 one = +list[at], other = +list[at + N];
            n += (holds(held, now, one) ? 1u : 0u) + (holds(held, now, other) ? 1u : 0u);
        }
        if (at < length) n += holds(held, now, +list[at]) ? 1u : 0u;
    }
    // Groups of lanes take a short list each, one after the other.
    constexpr int GROUP = N < 8 ? N : 8;
    const u32 near = ballot(t, yes && !far && lo < hi);
    for (int step = near == 0u ? N : lowest_bit(near) & -(N / GROUP);
         step < N && near >> step != 0u; step += N / GROUP) {
        const int owner = step + t.rank / GROUP;
        const P start = from_rank(t, lo, owner);
        const u32 whole = from_rank(t, (u32)(hi - lo), owner);
        const u32 length = (near >> owner & 1u) != 0u ? whole : 0u;
        for (u32 at = t.rank % GROUP; at < length; at += 2 * GROUP) {
            const i32 one = +values[start + at];
            const i32 other = at + GROUP < length ? +values[start + at + GROUP] : NOT_HELD;
            n += (holds(held, now, one) ? 1u : 0u) + (holds(held, now, other) ? 1u : 0u);
        }
    }
    return n;
}

// How many values are common to the two lists of each lane with `yes`, in all: each lane has a
// share. Where the second lists of several lanes are one list, it is held.
template <int N, class P, class H>
DEVICE P count_common_held(Tile<N> t, bool yes, Array<const i32> va, P alo, P ahi,
                           Array<const i32> vb, P blo, P bhi, H held, Held& now) {
    P n = 0;
    bool left = yes && alo < ahi && blo < bhi;
    const bool meets = left && ahi - alo <= FAR_LONGER * (bhi - blo);
    for (u32 todo = ballot(t, meets); todo != 0u;) {
        const int owner = lowest_bit(todo);
        const P lo = from_rank(t, blo, owner), hi = from_rank(t, bhi, owner);
        const bool same = meets && blo == lo && bhi == hi;
        todo &= ~ballot(t, same);
        if (now.lo != lo || now.hi != hi) {
            const u32 values = sum(t, same ? (u32)(ahi - alo) : 0u);
            if (values < PAYS + PAYS_EACH * (u32)(hi - lo) || !fits_held(vb, lo, hi)) continue;
            hold(t, held, now, vb, lo, hi, SLOTS_EACH);
        }
        n += count_held(t, same, va, alo, ahi, held, now);
        left = left && !same;
    }
    if (any(t, left)) n += count_common_of_each(t, left, va, alo, ahi, vb, blo, bhi);
    return n;
}

// Holds a list that the loops have found, if it fits; returns whether it is held.
template <int N, class H>
DEVICE i64 hold_list(Tile<N> t, H held, Held& now, Array<const i32> values, i64 lo, i64 hi) {
    if (!fits_held(values, lo, hi)) return 0;
    hold(t, held, now, values, lo, hi, MORE_SLOTS_EACH);
    now.hi = now.lo;  // the same place may have another list later
    return 1;
}
template <int N, class H>
DEVICE i64 hold_list(Tile<N>, H, Held&, Array<const i64>, i64, i64) {
    return 0;
}
template <class H>
DEVICE bool holds_key(H held, const Held& now, i64 key) {
    return key == (i64)(i32)key && holds(held, now, (i32)key);
}
