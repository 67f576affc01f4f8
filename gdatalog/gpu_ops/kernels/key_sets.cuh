// Sets of keys, and of pairs, that the host enlarges between the rounds of a fixpoint.
#pragma once
#include "hashing.cuh"

// Adds keys to a set.
KERNEL(enter_keys)(ARRAY(const i64) keys, i64 count, ARRAY(i64) set, i64 set_n) {
    for (i64 at = thread_of_grid(); at < count; at += threads_of_grid()) {
        add_key(set, set_n, keys[at]);
    }
}

// Adds pairs to a set of pairs.
KERNEL(enter_pairs)(ARRAY(const i64) a, i64 count, ARRAY(const i64) b, ARRAY(i64) set, i64 set_n) {
    for (i64 at = thread_of_grid(); at < count; at += threads_of_grid()) {
        add_pair(set, set_n, a[at], b[at]);
    }
}

// Adds the pairs of a smaller set.
KERNEL(move_pairs)(ARRAY(const i64) slots, i64 words, ARRAY(i64) set, i64 set_n) {
    for (i64 at = thread_of_grid(); at < words / 2; at += threads_of_grid()) {
        if (slots[2 * at] != 0) add_pair(set, set_n, slots[2 * at] - 1, slots[2 * at + 1] - 1);
    }
}

// Adds the keys in the slots of a smaller set.
KERNEL(move_keys)(ARRAY(const i64) slots, i64 count, ARRAY(i64) set, i64 set_n) {
    for (i64 at = thread_of_grid(); at < count; at += threads_of_grid()) {
        if (slots[at] != 0) add_key(set, set_n, slots[at] - 1);
    }
}
