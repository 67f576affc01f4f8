// What the kernels of a fixpoint's rounds tell each other and the host.
//
// The words of the board; `gpu_ops/rounds.py` has the same numbers. After the first ones come those
// of each relation, then those of each rule, then those of each hash trie; a rule's words say where
// its other words are: `sizes`, which begins with the part of the rows that it reads, and `control`.
// LOG is the place of the END of each relation after each of the last LOGGED rounds.
#pragma once

enum Board { HALTED = 0, GOES_ON = 1, ROUNDS = 2, LOG = 3, BOARD_WORDS = 4 };
// [BEGIN, END): read in this round. With more than LIMIT rows, another round may not have room.
enum Grown { ROWS = 0, BEGIN = 1, END = 2, LIMIT = 3, GROWN_WORDS = 4 };
enum Follower { FOUND = 0, FOLLOWS = 1, SIZES = 2, CONTROL = 3, FOLLOWER_WORDS = 4 };
// A hash trie: its relation; whether it lacks the rows that are read in the round; and [FROM, TO),
// the rows that it gets behind this round.
enum Index { INDEX_OF = 0, LACKS = 1, FROM = 2, TO = 3, INDEX_WORDS = 4 };
