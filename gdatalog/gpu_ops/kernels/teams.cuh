// Teams: all tiles of a block take a unit together, which fills a table of counts and reads it.
//
// A part of the table lies in the block's shared memory: the counts of the last keys, which are the
// vertices with most neighbours, and therefore occur most often. The rest of the table, and the list
// of its keys, are those of the block's first tile. The threads divide the turns of two loops, one that
// fills the table and one that reads it, and repeat all else of a unit. What the turns lead to is dealt
// out to the tiles. There are no tasks to share: units are many, and a team is fast.
//
// For small units the tiles would wait for each other too often. Once a team has had many of them, its
// tiles part: each takes tasks of its own, and has its own table, with a piece of the shared memory.
//
// `run.team` is the number of bytes of the table in shared memory; 0 if there are no teams.
#pragma once
#include "tallies.cuh"
#include "walk.cuh"

// The words of a team: its unit, the keys listed for the unit before, whether the launch has ended,
// what the unit has added to its table (negative if it has not used the table), and by how much units
// were too small.
enum {
    TEAM_UNIT = 0, TEAM_LISTED = 1, TEAM_ENDS = 2, TEAM_ADDED = 3, TEAM_SMALL = 4, TEAM_WORDS = 5
};
// Those that tiles add to often: the keys listed now, and the hands that have been taken. They have 32
// bits: in shared memory, an addition of 64 is a loop.
enum { KEYS_NOW = 0, HANDS_NOW = 1, TEAM_NUMBERS = 2 };
// A unit that adds less than this is done sooner by a tile alone. So many empty ones part a team.
enum { SMALL_UNIT = 1024, MANY_SMALL = 16 };

// The tile of this thread, or the first of its team.
template <int N>
DEVICE i64 place_of_team(i64 team) {
    return team > 0 ? block_of_grid() * (threads_of_block() / N) : tile_of_grid<N>();
}

// Clears so many bytes of a team's shared memory, rounded up to whole words.
template <class A>
DEVICE void clear_near(A table, i64 size) {
    const auto all = array_of<i64>(table);
    const int words = (int)((size + 7) / 8);
    for (int at = thread_of_block(); at < words; at += threads_of_block()) all[at] = 0;
}

// The table of a team, or of a tile alone. `table`: the team's shared memory; `far`: n counts.
template <class A, class T, class W, class K>
DEVICE Counts<T> open_team(const Run& run, Work& work, W words, K numbers, A table, Array<T> far, i64 n) {
    work.team = run.team > 0;
    const i64 most = run.team / (i64)sizeof(T), near = most < n ? most : n;
    const auto all = array_of<T>(table);
    clear_near(table, near * (i64)sizeof(T));
    if (work.team && thread_of_block() == 0) {
        words[TEAM_SMALL] = words[TEAM_LISTED] = numbers[KEYS_NOW] = 0;
        words[TEAM_ADDED] = -1;
    }
    const Counts<T> counts = {slice(all, 0, near), far, n - near};
    return counts;
}

// The tiles of a team part: each gets a piece of the shared part of the table, for its own last keys.
template <int N, class W, class A, class T>
DEVICE void part_team(Tile<N> t, Work& work, W words, A table, Counts<T>& counts, i64 n,
                      i64& length) {
    const i64 near = n - counts.split, tile = thread_of_block() / N;
    const i64 piece = near / (threads_of_block() / N) & ~(i64)7;  // whole words
    clear_near(table, near * (i64)sizeof(T));
    block_sync();
    work.team = false;
    counts.near = slice(counts.near, tile * piece, piece);
    counts.split = n - piece;
    length = tile == 0 ? +words[TEAM_LISTED] : 0;  // the far counts of the last unit
}

// The next unit of the team, as a task; or the next task of the tile, which then counts in its `own`
// table of n counts.
template <int N, class W, class K, class A, class T, class V>
DEVICE bool next_of_team(Tile<N> t, const Run& run, Work& work, W words, K numbers, A table,
                         i64 total, Counts<T>& counts, Array<T> own, i64 n, V& values, V own_values,
                         i64& length) {
    if (!work.team) return next_work(t, run, work, total, 1);
    block_sync();  // all tiles have finished the unit before
    if (thread_of_block() == 0) {
        i64 small = words[TEAM_SMALL];
        if (words[TEAM_ADDED] >= 0) {
            small += SMALL_UNIT - words[TEAM_ADDED];
            words[TEAM_SMALL] = small > 0 ? small : 0;
            words[TEAM_LISTED] = +numbers[KEYS_NOW];
            words[TEAM_ADDED] = -1;
            numbers[KEYS_NOW] = 0;
        }
        i64 unit = total;
        if (small > MANY_SMALL * SMALL_UNIT) {
            unit = -1;
        } else if (!stopping(run.control)) {
            unit = atomic_add(run.control, NEXT, (i64)1);
        }
        words[TEAM_UNIT] = unit;
    }
    block_sync();
    const i64 unit = words[TEAM_UNIT];
    if (unit < 0) {
        part_team(t, work, words, table, counts, n, length);
        counts.far = own;
        values = own_values;
        return next_work(t, run, work, total, 1);
    }
    const Task task = {unit, unit + 1, 0, EVERYTHING};
    work.task = task;
    return unit < total;
}

// The turns of a loop that a team takes at once, one for each thread; or a tile alone, one for each
// lane. And which of them is this thread's.
template <int N>
DEVICE i64 turns_at_once(const Work& work) {
    return work.team ? threads_of_block() : N;
}
template <int N>
DEVICE i64 own_turn(Tile<N> t, const Work& work) {
    return work.team ? thread_of_block() : t.rank;
}

// ------------------------------------------------------------------------------------------- deals
//
// Each thread of a team has a range, which its turn leads to. All ranges are one sequence, and the
// tiles take hands from it: so many values, whosever they are. A tile alone has its own ranges.

// `at` and `stop`: what is left of a hand. `row`: the thread whose range comes next. `size`: of a
// hand. `ends`: whether the launch has ended.
struct Deal {
    i64 at, stop, size, total;
    int row;
    bool ends;
};

// The hands of each tile of a team, if they are not too small.
enum { HANDS = 4, SMALL_HAND = 128 };

// Begins to deal out the ranges [low, high). Variables of the threads are dealt with their ranges,
// before `dealt_all`.
template <int N, class W, class K, class D>
DEVICE Deal deal(Tile<N> t, const Run& run, Work& work, W words, K numbers, D sums, D ends, D origins,
                 i64 low, i64 high) {
    Deal all = {0, 0, 0, 1, 0, false};
    if (!work.team) return all;
    const int thread = thread_of_block(), tiles = threads_of_block() / N;
    const Spread own = spread_out(t, low, high);
    if (t.rank == 0) sums[thread / N] = own.total;
    if (thread < N) {
        const bool now = ended(t, run, work);
        if (thread == 0) words[TEAM_ENDS] = now ? 1 : 0;
    }
    block_sync();  // all tiles have finished the turns before
    all.total = 0;
    i64 before = 0;
    for (int at = 0; at < tiles; ++at) {
        before += at < thread / N ? +sums[at] : 0;
        all.total += sums[at];
    }
    ends[thread] = before + own.end;
    origins[thread] = own.origin - before;
    all.ends = words[TEAM_ENDS] != 0;
    if (thread == 0) numbers[HANDS_NOW] = 0;
    const i64 size = all.total / (HANDS * tiles) + 1;
    all.size = size > SMALL_HAND ? size : SMALL_HAND;
    return all;
}
DEVICE i64 word_of(double value) { return bits_of_double(value); }
template <class T>
DEVICE i64 word_of(T value) {
    return (i64)value;
}
DEVICE void from_word(i64 word, double& value) { value = double_of_bits(word); }
template <class T>
DEVICE void from_word(i64 word, T& value) {
    value = (T)word;
}
template <class D, class T>
DEVICE void put_dealt(const Work& work, D dealt, int number, T value) {
    if (work.team) dealt[number * threads_of_block() + thread_of_block()] = word_of(value);
}
DEVICE void dealt_all(const Work& work) {
    if (work.team) block_sync();
}

// The next ranges of a tile, one for each lane: parts of what was dealt. `row`: the thread that had
// a lane's range.
template <int N, class K, class D, class P>
DEVICE bool next_of_hand(Tile<N> t, const Work& work, K numbers, D ends, D origins, Deal& all,
                         P& low, P& high, int& row) {
    if (!work.team) return all.total-- > 0;
    const int threads = threads_of_block();
    if (all.at >= all.stop) {
        u32 taken = 0;
        if (t.rank == 0) taken = atomic_add(numbers, HANDS_NOW, 1u);
        all.at = from_rank(t, taken, 0) * all.size;
        if (all.at >= all.total) return false;
        all.stop = all.at + all.size < all.total ? all.at + all.size : all.total;
        all.row = 0;
        for (int left = threads; left > 0;) {  // the first row that ends behind it
            const int half = left >> 1;
            const bool behind = ends[all.row + half] <= all.at;
            all.row += behind ? half + 1 : 0;
            left = behind ? left - half - 1 : half;
        }
    }
    row = all.row + t.rank;
    low = high = 0;
    i64 end = all.total;
    if (row < threads) {
        const i64 begin = row > 0 ? +ends[row - 1] : 0, origin = origins[row];
        end = ends[row];
        low = (P)(origin + (begin > all.at ? begin : all.at));
        high = (P)(origin + (end < all.stop ? end : all.stop));
    }
    all.row += N;
    all.at = from_rank(t, end, N - 1);
    return true;
}
template <class D, class T>
DEVICE T dealt_value(const Work& work, D dealt, int number, int row, T own) {
    if (!work.team || row >= threads_of_block()) return own;
    from_word(dealt[number * threads_of_block() + row], own);
    return own;
}

// As `clear_tally`. The shared part is cleared by its keys only if these are few.
template <bool LISTED, int N, class W, class A, class T, class V>
DEVICE i64 clear_of_team(Tile<N> t, const Work& work, W words, A table, const Counts<T>& counts, i64 n,
                         V values, i64 length, i64 low) {
    if (!work.team) return clear_tally(t, counts, values, length, low);
    const i64 keys = words[TEAM_LISTED], near = n - counts.split;
    const bool few = LISTED && 8 * keys < near;
    for (i64 first = thread_of_block(); first < keys; first += 4 * threads_of_block()) {
        i64 places[4];
#pragma unroll
        for (int at = 0; at < 4; ++at) {  // loads that do not wait for stores
            const i64 next = first + at * threads_of_block();
            places[at] = next < keys ? +values[next] - low : -1;
        }
#pragma unroll
        for (int at = 0; at < 4; ++at) {
            const bool mine = places[at] >= 0 && (few || places[at] < counts.split);
            if (mine) set_to_0(counts, places[at]);
        }
    }
    if (!few) clear_near(table, near * (i64)sizeof(T));
    if (thread_of_block() == 0) words[TEAM_ADDED] = 0;
    block_sync();
    return 0;
}

// As `add_tally`; of a team, the number of keys is known once its tiles have met. Keys of the shared
// part are listed only if loops read them.
template <bool LISTED, int N, int M, class K, class T, class V>
DEVICE i64 add_of_team(Tile<N> t, Work& work, K numbers, const Counts<T>& counts, V values,
                       i64 length, const bool (&yes)[M], const i64 (&keys)[M], i64 low,
                       const i64 (&amounts)[M], int& trouble) {
    if (!work.team) {
        return add_tally(t, counts, values, length, yes, keys, low, amounts, trouble);
    }
    bool fresh[M];
    count_each(counts, yes, keys, low, amounts, fresh, trouble);
    u32 news[M], all = 0;
#pragma unroll
    for (int at = 0; at < M; ++at) {
        work.added += yes[at] ? 1u : 0u;
        fresh[at] = fresh[at] && (LISTED || keys[at] - low < counts.split);
        news[at] = ballot(t, fresh[at]);
        all += bits_of(news[at]);
    }
    if (all == 0u) return length;
    u32 place = 0;
    if (t.rank == 0) place = atomic_add(numbers, KEYS_NOW, all);
    place = from_rank(t, place, 0);
#pragma unroll
    for (int at = 0; at < M; ++at) {
        if (fresh[at]) values[place + before(t, news[at])] = keys[at];
        place += bits_of(news[at]);
    }
    return length;
}
template <bool LISTED, int N, class K, class T, class V>
DEVICE i64 add_of_team(Tile<N> t, Work& work, K numbers, const Counts<T>& counts, V values,
                       i64 length, bool yes, i64 key, i64 low, i64 amount, int& trouble) {
    const bool gave[] = {yes};
    const i64 keys[] = {key}, amounts[] = {amount};
    return add_of_team<LISTED>(t, work, numbers, counts, values, length, gave, keys, low, amounts,
                               trouble);
}

// Called when the table is full. Returns the number of keys; if not all are listed, 1.
template <bool LISTED, int N, class W, class K>
DEVICE i64 met(Tile<N> t, Work& work, W words, K numbers, i64 length) {
    if (!work.team) {
        sync(t);
        return length;
    }
    const u32 added = sum(t, work.added);
    if (t.rank == 0) atomic_add(words, TEAM_ADDED, (i64)added);
    work.added = 0u;
    block_sync();
    return LISTED ? (i64)+numbers[KEYS_NOW] : 1;
}
