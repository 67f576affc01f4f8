// Shares the turns of the ranges of a tile's lanes among these lanes.
#pragma once
#include "tile.cuh"

// The ranges of all lanes as one sequence.
struct Spread {
    i64 end;     // the end of this lane's range in the sequence
    i64 origin;  // to be added to a place in the sequence, for one in this lane's range
    i64 total;
};

template <int N>
DEVICE Spread spread_out(Tile<N> t, i64 low, i64 high) {
    const i64 length = high > low ? high - low : 0;
    i64 end = length;
    for (int by = 1; by < N; by *= 2) {
        const i64 before = from_rank(t, end, t.rank >= by ? t.rank - by : t.rank);
        end += t.rank >= by ? before : 0;
    }
    const Spread found = {end, low - (end - length), from_rank(t, end, N - 1)};
    return found;
}

// The lane whose range contains a place of the sequence. All lanes call it, with consecutive places
// by rank; some of these may be beyond the end.
template <int N>
DEVICE int owner_of(Tile<N> t, const Spread& spread, i64 place) {
    const i64 left = spread.end - (place - t.rank);  // relative to the first lane's: 32 bits do
    const int end = left < 0 ? 0 : left < N ? (int)left : N;
    int owner = 0;
    for (int half = N / 2; half > 0; half /= 2) {
        owner += from_rank(t, end, owner + half - 1) <= t.rank ? half : 0;
    }
    return owner;
}
