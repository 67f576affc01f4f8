// Hash tables of keys, which are not negative, and tell a row or a child of a hash trie's node.
//
// A table has a power of two of slots. A slot holds a key plus 1, or 0 if it is free; a key goes to
// the first free slot from its own on. Keys are never removed, and the host sees to it that half of
// the slots stay free. The number of a slot is that of its key.
#pragma once
#include "prelude.cuh"

// The slot at which the search for a key begins, of `n`.
DEVICE i64 first_slot(i64 key, i64 n) {
    u64 mixed = (u64)key;
    mixed = (mixed ^ (mixed >> 32)) * 0x9E3779B97F4A7C15ull;
    return (i64)((mixed >> 20) & (u64)(n - 1));
}

// A child of a node, as a key. Values have 32 bits.
DEVICE i64 pair_of(i64 node, i64 value) { return (node << 32) | (value & 0xFFFFFFFFll); }

// -------------------------------------------------------------------------- while others add keys

// Whether a key is known. Keys that others add at this moment may be missed.
template <class K>
DEVICE bool has_key(K keys, i64 n, i64 key) {
    for (i64 at = first_slot(key, n);; at = (at + 1) & (n - 1)) {
        const i64 found = load_relaxed(keys, at);
        if (found == key + 1 || found == 0) return found != 0;
    }
}

// Adds a key; returns its slot, and in `first` whether it was not there before.
template <class K>
DEVICE i64 enter_key(K keys, i64 n, i64 key, bool& first) {
    for (i64 at = first_slot(key, n);; at = (at + 1) & (n - 1)) {
        i64 found = load_relaxed(keys, at);
        if (found == 0) found = atomic_cas(keys, at, (i64)0, key + 1);
        first = found == 0;
        if (first || found == key + 1) return at;
    }
}

// Adds a key; true if it was not there before.
template <class K>
DEVICE bool add_key(K keys, i64 n, i64 key) {
    bool first = false;
    enter_key(keys, n, key, first);
    return first;
}

// --------------------------------------------------------------------- pairs, while others add some
//
// A set of pairs has two words for each slot, of `words` in all. Who takes a slot by the first
// number writes the second one at once; others with the same first number wait for that.

DEVICE i64 first_slot_of_pair(i64 a, i64 b, i64 n) {
    return first_slot((i64)((u64)a * 0xC2B2AE3D27D4EB4Full + (u64)b), n);
}

// Whether a pair is known. Pairs that others add at this moment may be missed.
template <class K>
DEVICE bool has_pair(K keys, i64 words, i64 a, i64 b) {
    const i64 n = words / 2;
    for (i64 at = first_slot_of_pair(a, b, n);; at = (at + 1) & (n - 1)) {
        const i64 found = load_relaxed(keys, 2 * at);
        if (found == 0) return false;
        if (found == a + 1 && load_relaxed(keys, 2 * at + 1) == b + 1) return true;
    }
}

// Adds a pair; true if it was not there before.
template <class K>
DEVICE bool add_pair(K keys, i64 words, i64 a, i64 b) {
    const i64 n = words / 2;
    for (i64 at = first_slot_of_pair(a, b, n);; at = (at + 1) & (n - 1)) {
        i64 found = load_relaxed(keys, 2 * at);
        if (found == 0) found = atomic_cas(keys, 2 * at, (i64)0, a + 1);
        if (found == 0) {
            store_relaxed(keys, 2 * at + 1, b + 1);
            return true;
        }
        if (found != a + 1) continue;
        i64 second = load_relaxed(keys, 2 * at + 1);
        while (second == 0) {
            pause(20);
            second = load_relaxed(keys, 2 * at + 1);
        }
        if (second == b + 1) return false;
    }
}

// --------------------------------------------------------------------------- while no key is added

// The child of a node with this value; -1 if there is none.
template <class K, class I>
DEVICE i64 find_child(K keys, i64 n, I ids, i64 node, i64 value) {
    if (value != (i64)(i32)value) return -1;
    const i64 key = pair_of(node, value);
    for (i64 at = first_slot(key, n);; at = (at + 1) & (n - 1)) {
        const i64 found = keys[at];
        if (found == key + 1) return at;
        if (found == 0) return -1;
    }
}

// The same for a node of the last level.
template <class K>
DEVICE i64 has_child(K keys, i64 n, i64 node, i64 value) {
    return find_child(keys, n, keys, node, value);
}
