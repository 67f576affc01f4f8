// Hash tries that grow: what runs behind each round of a fixpoint.
//
// A hash trie's nodes are the slots of the table of the level above; the root is 0. The children of
// a node are a list, whose places are a power of two, in an array of the whole level: `spans` has
// where it begins and how many there are. New rows are added in three phases, one launch each: all
// children get their slots and their ranks in the lists, lists that are too short move, and the
// children are written. `gpu_ops/growing.py` prints the kernel for the tries of a fixpoint.
#pragma once
#include "board.cuh"
#include "hashing.cuh"

enum Phase { ENTERS = 0, MOVES = 1, WRITES = 2 };
enum { FEW = 8 };  // children that one lane moves

// The places of a list.
DEVICE i64 room_of_list(i64 count) {
    i64 room = count > 0 ? 1 : 0;
    while (room < count) room *= 2;
    return room;
}

// Gives a node's new child its rank in the list; -1 if the child is not new.
template <class A, class B>
DEVICE i32 rank_of(A lengths, B nodes, i64 at, i64 node, bool first) {
    nodes[at] = (i32)node;
    return first ? atomic_add(lengths, node, (i32)1) : -1;
}

// Moves the lists that are too short for their new children. Called by whole warps. A node's first
// new child moves its list.
template <bool BELOW, class N, class R, class S, class L, class T, class V, class B>
DEVICE void move_lists(i64 count, N nodes, R ranks, S spans, L lengths, T taken, i64 level,
                       V values, B below) {
    const u32 all = 0xFFFFFFFFu;
    const int lane = thread_of_block() & 31;
    for (i64 base = thread_of_grid() - lane; base < count; base += threads_of_grid()) {
        const i64 at = base + lane;
        i64 from = 0, to = 0, moved = 0;
        if (at < count && ranks[at] >= 0) {
            const i64 node = nodes[at], known = spans[2 * node + 1], total = lengths[node];
            if (ranks[at] == known && total > room_of_list(known)) {
                to = atomic_add(taken, level, room_of_list(total));
                from = spans[2 * node];
                moved = known;
                spans[2 * node] = (i32)to;
            }
        }
        if (moved <= FEW) {
            for (i64 i = 0; i < moved; i++) {
                values[to + i] = values[from + i];
                if (BELOW) below[to + i] = below[from + i];
            }
        }
        for (u32 left = warp_ballot(all, moved > FEW); left != 0u; left &= left - 1u) {
            const int whose = lowest_bit(left);
            const i64 its_from = warp_shuffle(all, from, whose);
            const i64 its_to = warp_shuffle(all, to, whose);
            const i64 its = warp_shuffle(all, moved, whose);
            for (i64 i = lane; i < its; i += 32) {
                values[its_to + i] = values[its_from + i];
                if (BELOW) below[its_to + i] = below[its_from + i];
            }
        }
    }
}

// Writes a new child to its list. The last one tells the list's new length.
template <bool BELOW, class N, class R, class S, class L, class V, class B, class C>
DEVICE void write_child(i64 at, i64 value, N nodes, R ranks, S spans, L lengths, V values, B below,
                        C children) {
    const i64 rank = ranks[at];
    if (rank < 0) return;
    const i64 node = nodes[at], to = spans[2 * node] + rank;
    values[to] = (i32)value;
    if (BELOW) below[to] = children[at];
    if (rank + 1 == lengths[node]) spans[2 * node + 1] = (i32)(rank + 1);
}
