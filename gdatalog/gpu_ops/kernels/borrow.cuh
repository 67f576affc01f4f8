// Longer parts of buffers, which tiles borrow for lists and rows of bits that do not fit their own.
//
// Each tile owns a short part of each buffer, an array. After these come classes of longer parts;
// the last class is as long as the longest list. A tile borrows one longer part of a buffer at a
// time.
//
// There is no deadlock: buffers are numbered from the outer levels of a plan to the inner ones. A
// tile that waits for a part of one buffer has no part of it, nor of inner levels' buffers; a tile
// with parts of the innermost level waits for nothing. Tiles return their parts before they ask for
// a task, and when they end.
#pragma once
#include "walk.cuh"

// The fields of a class in `rooms`: the elements of a part, the number of parts, where the first
// one begins, and the word of `lent` with its bit.
enum { ROOM_LENGTH = 0, ROOM_COUNT = 1, ROOM_BEGIN = 2, ROOM_WORD = 3, ROOM_WORDS = 4 };
enum { LENT_BITS = 32 };  // parts in a word of `lent`

// Returns what a tile has borrowed of the buffers from number `from` on.
template <int N, int BUFFERS, class L>
DEVICE void return_rooms(Tile<N> t, L lent, i64 (&borrowed)[BUFFERS], int from) {
    for (int at = 0; at < BUFFERS; ++at) {
        if (at < from || borrowed[at] < 0) continue;
        sync(t);  // all lanes have finished reading
        if (t.rank == 0) {
            const i64 bit = (i64)1 << (borrowed[at] % LENT_BITS);
            add_acquire_release(lent, borrowed[at] / LENT_BITS, -bit);
        }
        borrowed[at] = -1;
    }
}

// Claims a free part of a class. Returns its number, -1 if there is none.
template <class L>
DEVICE i64 claim(L lent, i64 word, i64 count, i64 begin) {
    const i64 words = (count + LENT_BITS - 1) / LENT_BITS;
    for (i64 turn = 0; turn < words; ++turn) {
        const i64 at = (begin + turn) % words, left = count - at * LENT_BITS;
        const u64 most = left < LENT_BITS ? ((u64)1 << left) - 1 : 0xffffffffull;
        const u64 free = ~(u64)load_relaxed(lent, word + at) & most;
        if (free == 0) continue;
        const u64 bit = free & (~free + 1);
        if ((u64)atomic_or(lent, word + at, (i64)bit) & bit) continue;
        load_acquire(lent, word + at);  // its last owner has finished reading
        i64 number = at * LENT_BITS;
        while (bit >> (number % LENT_BITS + 1)) ++number;
        return number;
    }
    return -1;
}

// Borrows a part of buffer `number` with `wanted` elements: of the first class that is long enough
// and has a free part. Returns where it begins; negative if the launch ends.
template <int N, int BUFFERS, class R, class L>
DEVICE i64 borrow(Tile<N> t, const Run& run, R rooms, i64 classes, L lent,
                  i64 (&borrowed)[BUFFERS], int number, i64 wanted) {
    const i64 first = number * classes * ROOM_WORDS, last = first + (classes - 1) * ROOM_WORDS;
    i64 shortest = first;
    while (shortest < last && +rooms[shortest + ROOM_LENGTH] < wanted) shortest += ROOM_WORDS;
    i64 part = -1, kind = shortest;
    while (true) {
        if (t.rank == 0) {
            const i64 word = rooms[kind + ROOM_WORD];
            part = claim(lent, word, rooms[kind + ROOM_COUNT], tile_of_grid<N>());
        }
        part = from_rank(t, part, 0);
        if (part >= 0) break;
        kind = kind < last ? kind + ROOM_WORDS : shortest;
        if (kind > shortest) continue;
        if (leaves(t, run)) return -1;
        pause(SHORTEST_PAUSE);
    }
    sync(t);
    borrowed[number] = rooms[kind + ROOM_WORD] * LENT_BITS + part;
    return rooms[kind + ROOM_BEGIN] + part * rooms[kind + ROOM_LENGTH];
}
