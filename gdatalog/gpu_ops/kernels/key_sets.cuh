// Sets of keys that the host enlarges between the rounds of a fixpoint.
#pragma once
#include "hashing.cuh"

// Adds keys to a set.
KERNEL(enter_keys)(ARRAY(const i64) keys, i64 count, ARRAY(i64) set, i64 set_n) {
    for (i64 at = thread_of_grid(); at < count; at += threads_of_grid()) {
        add_key(set, set_n, keys[at]);
    }
}

// Adds the keys in the slots of a smaller set.
KERNEL(move_keys)(ARRAY(const i64) slots, i64 count, ARRAY(i64) set, i64 set_n) {
    for (i64 at = thread_of_grid(); at < count; at += threads_of_grid()) {
        if (slots[at] != 0) add_key(set, set_n, slots[at] - 1);
    }
}
