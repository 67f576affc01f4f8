// The rounds of a fixpoint: what runs between the kernels of its rules, so that the host only reads
// how many rows are new.
//
// The kernel of a rule writes new rows to the blocks of its pool. `append_rows`, which
// `gpu_ops/rounds.py` prints for the types of a relation's columns, moves them behind the
// relation's rows. At the end of a round, `next_round` makes them the rows that the next round
// reads, and logs how many there are. If a kernel has ended early, because its pool was full or the
// host wants it to stop, it halts the rounds instead: then the kernels that are queued already do
// nothing. A graph repeats rounds while GOES_ON is set: not after the last round, nor if another
// one might not have room for its rows, or would not be logged.
#pragma once
#include "board.cuh"
#include "work.cuh"

// For a warp: where to append `count` rows. All lanes get the answer.
template <class B>
DEVICE i64 place_of(B board, i64 relation, i64 follower, i64 count) {
    i64 to = 0;
    if ((thread_of_block() & 31) == 0 && count > 0) {
        to = atomic_add(board, relation + ROWS, count);
        atomic_add(board, follower + FOUND, count);
    }
    return warp_shuffle(0xFFFFFFFFu, to, 0);
}

// For a warp: the number of rows in a block of the pool, which is empty from now on.
template <class C>
DEVICE i64 taken_from(C counts, i64 block) {
    i32 count = 0;
    if ((thread_of_block() & 31) == 0) {
        count = counts[block];
        counts[block] = 0;
    }
    return (i64)warp_shuffle(0xFFFFFFFFu, count, 0);
}

// How many blocks of its pool a rule has used; none if the rounds have halted.
template <class B>
DEVICE i64 used_blocks(B board, i64 follower, i64 blocks) {
    if (board[HALTED] != DONE) return 0;
    const i64 used = board[board[follower + CONTROL] + POOL];
    return used < blocks ? used : blocks;
}

// Tells a rule which rows to read: those of this round, or none. A rule that runs once, before the
// rounds, follows no relation.
template <class B>
DEVICE void give_part(B board, i64 follower, bool some) {
    const i64 relation = board[follower + FOLLOWS], sizes = board[follower + SIZES];
    if (relation == 0) return;
    const i64 begin = board[relation + BEGIN];
    board[sizes] = begin;
    board[sizes + 1] = some ? board[relation + END] - begin : 0;
}

// Makes the rows that a round has found the new ones, and logs their ends.
template <class B>
DEVICE void advance(B board, i64 relations, i64 logged) {
    const i64 round = board[ROUNDS], log = board[LOG] + round % logged * relations;
    bool more = false, room = (round + 1) % logged != 0;
    for (i64 at = 0; at < relations; at++) {
        const i64 relation = BOARD_WORDS + at * GROWN_WORDS;
        const i64 begin = board[relation + END], end = board[relation + ROWS];
        board[relation + BEGIN] = begin;
        board[relation + END] = end;
        board[log + at] = end;
        more |= end > begin;
        room &= end <= board[relation + LIMIT];
    }
    board[ROUNDS] = round + 1;
    board[GOES_ON] = more && room;
}

// Ends a round of so many rules, and begins the next one. Run by one block.
KERNEL(next_round)(ARRAY(i64) board, i64 relations, i64 followers, i64 first_index, i64 indexes,
                   i64 logged) {
    SHARED(i64, why, 1);
    const i64 first = BOARD_WORDS + relations * GROWN_WORDS;
    const i64 thread = thread_of_block(), threads = threads_of_block();
    if (thread == 0) why[0] = board[HALTED];
    for (i64 at = thread; at < indexes; at += threads) {
        const i64 index = first_index + at * INDEX_WORDS;
        board[index + FROM] = board[index + TO];
    }
    block_sync();
    if (why[0] != DONE) return;
    block_sync();
    for (i64 at = thread; at < followers; at += threads) {
        const i64 control = board[first + at * FOLLOWER_WORDS + CONTROL];
        const i64 status = board[control + STATUS], stop = board[control + STOP];
        if (status != DONE || stop != DONE) atomic_max(why, 0, status > stop ? status : stop);
    }
    block_sync();
    const bool goes_on = why[0] == DONE;
    if (thread == 0) {
        board[HALTED] = why[0];
        if (goes_on) {
            advance(board, relations, logged);
        } else {
            board[GOES_ON] = 0;
        }
    }
    block_sync();
    for (i64 at = thread; goes_on && at < indexes; at += threads) {
        const i64 index = first_index + at * INDEX_WORDS, relation = board[index + INDEX_OF];
        board[index + TO] = board[relation + (board[index + LACKS] != 0 ? BEGIN : END)];
    }
    for (i64 at = thread; at < followers; at += threads) {
        const i64 follower = first + at * FOLLOWER_WORDS, control = board[follower + CONTROL];
        give_part(board, follower, goes_on);
        if (goes_on) {
            board[control + NEXT] = 0;
            board[control + POOL] = 0;
            board[control + LIGHT] = board[ROUNDS] > 1 && board[control + SPLITS] == 0;
            board[control + SPLITS] = 0;
        }
    }
}

// Lets a rule whose pool was full go on, and only this rule. Run by one thread.
KERNEL(resume)(ARRAY(i64) board, i64 follower) {
    const i64 control = board[follower + CONTROL];
    board[HALTED] = DONE;
    board[control + STATUS] = DONE;
    board[control + STOP] = DONE;
    board[control + POOL] = 0;
    give_part(board, follower, true);
}
