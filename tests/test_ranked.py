"""Indexes by rank are the same, whichever of them are there before."""

from __future__ import annotations

from itertools import permutations, product
from random import Random

import numpy as np
import pytest

from gdatalog.storage.relation import Relation
from gdatalog.storage.trie import Trie
from gdatalog.storage.trie_builder import DOWN, UP

KINDS = [(), UP, DOWN]


def edges(kind: str, number: int) -> list[tuple[int, int]]:
    random = Random(number)
    found = {(a, b) for a, b in product(range(9), repeat=2) if random.random() < 0.3}
    if kind == "loops":
        found |= {(a, a) for a in range(0, 9, 2)}
    else:
        found = {(a, b) for a, b in found if a < b}
    return sorted(found if kind == "one way" else found | {(b, a) for a, b in found})


def relation(rows: list[tuple[int, int]]) -> Relation:
    columns = tuple(np.array(rows, dtype=np.int32).reshape(-1, 2).T)
    return Relation(("a", "b"), ("int", "int"), columns, len(rows))


def told(trie: Trie) -> list[list[int]]:
    parts = [part for level in trie.levels for part in (level.values, level.offsets)]
    assert trie.labels is not None
    return [np.asarray(part).tolist() for part in (*parts, trie.labels)]


@pytest.mark.parametrize("kind", ["symmetric", "loops", "one way", "none"])
def test_tries_by_rank_do_not_depend_on_each_other(kind: str) -> None:
    rows = [] if kind == "none" else edges(kind, 3)
    alone = [told(relation(rows).trie((0, 1), tests, False, True)) for tests in KINDS]
    for order in permutations(range(3)):
        one = relation(rows)
        for at in order:
            assert told(one.trie((0, 1), KINDS[at], False, True)) == alone[at]
        for weighted, tests in product((False, True), KINDS):
            trie = one.trie((0,), tests, weighted, True)
            pairs = alone[KINDS.index(tests)]
            assert trie.levels[0].values.tolist() == pairs[0]
            if weighted:
                assert trie.weights is not None
                assert trie.weights.tolist() == np.diff(pairs[3]).tolist()
