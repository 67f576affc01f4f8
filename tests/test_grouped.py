"""Equal rows that loops tell apart group by group: the same rows as by sorting them all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from entries import Entries

import gdatalog
from gdatalog import calls
from gdatalog.codegen.helpers import group_sets
from gdatalog.engine import depth
from gdatalog.engine.derived import one_after_another
from gdatalog.engine.group_dedup import GroupDedup, grouped_of
from gdatalog.executors import lftj
from gdatalog.settings import Strategy
from tests.interpreted import interpreted
from tests.test_engine_oracle import Data, Relations, answers
from tests.tuned import tune

helpers = Entries(group_sets)

RULES = {
    "a path of two": "p(x, z) <- E(x, y), F(y, z).",
    "two columns of keys": "p(x, z, w) <- E(x, y), F(y, z), F(y, w).",
    "keys in another order": "p(x, w, z) <- E(x, y), F(y, z), C(z, w).",
    "variables die on the way": "p(x, z) <- E(x, y), F(y, u), E(u, v), F(v, z).",
    "two variables of a group": "p(x, y, z) <- C(x, y), E(x, u), F(u, z), F(y, u).",
    "the head says it twice": "p(x, z, x, z) <- E(x, y), F(y, z).",
    "what is computed of a group": "p(x, x + 1, 7, z) <- E(x, y), F(y, z).",
    "what is computed of a key": "p(x, z + 1) <- E(x, y), F(y, z).",
    "tests": "p(x, z) <- E(x, y), F(y, z), x < z, not C(x, z).",
    "several alternatives": "p(x, z) <- E(x, y), F(y, z).  p(x, z) <- F(x, y), E(y, z), E(z, x).",
    "not the first column": "p(z, x) <- E(x, y), F(y, z).",
    "a generated value": "p(x, i, z) <- E(x, y), i in {1, 2, y}, F(y, z).",
    "symmetric": "S(x, y) <- E(x, y).  S(y, x) <- E(x, y).  p(x, z) <- S(x, y), S(y, z).",
    "an aggregate of it": "p(x, z) <- E(x, y), F(y, z).  q(x, count()) <- p(x, z).",
}


def data(kind: str) -> dict[str, list[tuple[int, int]]]:
    """Rows of each relation: numbers of a few bits, of many, or of more than fit together."""
    random = np.random.default_rng(5)
    if kind == "empty":
        return {name: [] for name in "EFC"}
    if kind == "one row":
        return {name: [(0, 0)] for name in "EFC"}
    found = {name: random.integers(0, 14, (60, 2)) for name in "EFC"}
    if kind == "all equal":  # in what the head has
        middle = np.arange(40)
        found["E"] = np.stack([np.zeros_like(middle), middle], axis=1)
        found["F"] = np.stack([middle, np.zeros_like(middle)], axis=1)
    scale = {"wide": 1 << 24, "negative": -3, "far": 1 << 58}.get(kind, 1)
    least = -(1 << 61) if kind == "far" else 0
    return {
        name: [(scale * a + least, scale * b + least) for a, b in {*map(tuple, rows.tolist())}]
        for name, rows in found.items()
    }


KINDS = ("empty", "one row", "all equal", "narrow", "negative", "wide", "far")


def answer(rule: str, kind: str, strategy: Strategy, threads: int = 2) -> Relations:
    """What a rule's relations hold; each row is there once."""
    given: Data = {name: (("int", "int"), rows) for name, rows in data(kind).items()}
    with gdatalog.connect(device="cpu", threads=threads) as db:
        db.workspace.force(strategy=strategy)
        defined = {name for name in ("p", "q", "S") if f"{name}(" in RULES[rule]}
        return answers(db, RULES[rule], given, defined)


@contextmanager
def small(bits: int, room: int = 4, slots: int = 4096) -> Iterator[list[GroupDedup | None]]:
    """However few rows and groups there are, with bitmaps of so many `bits` at the most, and blocks
    of so many rows at first. Gives how rows were told apart, join by join."""
    seen: list[GroupDedup | None] = []

    def noted(*args: Any) -> GroupDedup | None:
        seen.append(grouped_of(*args))
        return seen[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(depth, "grouped_of", noted)
        tune(patch, groups_from=0, group_bitmap_bits=bits, sorted_from=0, sorted_stretch=0)
        tune(patch, grouped_from=0, grouped_least=0)
        patch.setattr(lftj, "FIRST_ROOM", room)
        patch.setattr(calls, "FIRST_SLOTS", slots)
        yield seen


@pytest.mark.parametrize("bits", [23, 0], ids=["bitmap", "hash"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", RULES)
def test_rules(rule: str, kind: str, bits: int) -> None:
    expected = answer(rule, kind, "levelwise")
    with interpreted(), small(bits, room=1 + bits % 7):
        assert answer(rule, kind, "lftj") == expected
        assert answer(rule, kind, "lftj", threads=1) == expected


@pytest.mark.parametrize("bits", [23, 0], ids=["bitmap", "hash"])
@pytest.mark.parametrize(
    "rule", ["a path of two", "two columns of keys", "variables die on the way"]
)
def test_it_is_done(rule: str, bits: int) -> None:
    """The same compiled."""
    expected = answer(rule, "narrow", "levelwise")
    with small(bits) as seen:
        assert answer(rule, "narrow", "lftj") == expected
    (found,) = seen
    assert found is not None and found.hashed == (bits == 0)
    assert len(found.compacts) == 2 * (rule == "variables die on the way")


@pytest.mark.parametrize(("rows", "first"), [(20_000, "x"), (2_000, "y")])
def test_it_is_planned_and_told(rows: int, first: str) -> None:
    """Where many rows are expected the head's first column comes first; else what costs least."""
    random = np.random.default_rng(2)
    with gdatalog.connect(device="cpu") as db:
        db.workspace.force(strategy="lftj")
        db.load("E", np.unique(random.integers(0, 2_000, (rows, 2)), axis=0))
        text = str(db.explain("p(x, z) <- E(y, x), E(y, z)."))
    assert f"├ {first} in E" in text
    told = "equal rows are told apart for each (x), by (z): ~"
    assert (told in text) == (first == "x")


def test_no_keys_that_are_too_wide_or_computed() -> None:
    with interpreted(), small(23) as seen:
        answer("two columns of keys", "far", "lftj")
        answer("what is computed of a key", "narrow", "lftj")
    assert seen == [None, None]


def test_a_hash_set_that_grows() -> None:
    """Groups of many rows: sets of more slots are asked for, and the group is begun again."""
    values = np.arange(3000)
    given: Data = {
        "E": (("int", "int"), [(a, b) for a in (1, 2, 3) for b in range(4)]),
        "F": (("int", "int"), [(b, int(c) * 7) for b in range(4) for c in values[b::2]]),
    }
    with small(0, room=16, slots=256), gdatalog.connect(device="cpu") as db:
        db.workspace.force(strategy="lftj")
        found = answers(db, RULES["a path of two"], given, {"p"})["p"]
    assert found == {(a, int(c) * 7) for a in (1, 2, 3) for c in values}


# -------------------------------------------------------------------------------------- the sets


def test_bits_are_found_in_order_and_taken_out() -> None:
    keys = np.random.default_rng(1).integers(0, 1 << 16, 500)
    words, filled = np.zeros(1 << 10, dtype=np.uint64), np.zeros(1 << 4, dtype=np.uint64)
    first = [bool(helpers.add_new_bit(words, filled, int(key))) for key in keys]
    seen: set[int] = set()
    assert first == [not (key in seen or seen.add(key)) for key in keys.tolist()]  # type: ignore[func-returns-value]
    bits = np.unpackbits(words.view(np.uint8), bitorder="little")
    assert np.array_equal(np.flatnonzero(bits), np.unique(keys))
    helpers.empty_bits(words, filled)
    assert not words.any() and not filled.any()


def test_slots_widen() -> None:
    keys = np.arange(400, dtype=np.int64) * (1 << 40)
    slots = np.full(4096, 99, dtype=np.int64)  # what others have left there
    helpers.empty_slots(slots, 256)
    assert all(helpers.add_own(slots, 56, int(key)) for key in keys[:128])
    assert not helpers.add_own(slots, 56, int(keys[5]))
    assert helpers.widen_slots(slots, keys, 128, 56) == 54
    fresh = [bool(helpers.add_own(slots, 54, int(key))) for key in keys]
    assert fresh == [False] * 128 + [True] * 272
    assert helpers.widen_slots(slots, keys, 400, 54) == 52
    assert helpers.widen_slots(slots, keys, 400, 52) == 0  # there are no more


# ---------------------------------------------------------------------------------- the order


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("depth", [1, 2])
def test_blocks_of_sorted_stretches(threads: int, depth: int) -> None:
    """What threads give that take one piece after the other: by the first column, or by two."""
    random = np.random.default_rng(threads)
    rows = np.unique(random.integers(0, 12, (900, 3)), axis=0)
    cuts = np.flatnonzero(np.any(rows[1:, :depth] != rows[:-1, :depth], axis=1)) + 1
    pieces = np.split(rows, cuts)
    taken: list[list[Any]] = [[] for _ in range(threads)]
    for piece in pieces:
        taken[random.integers(threads)].append(piece)
    blocks = [tuple(np.concatenate(some).T) for some in taken if some]
    found = one_after_another(blocks, 4)
    assert found is not None and found[1] == len(rows)
    assert np.array_equal(np.stack(found[0], axis=1), rows)


def test_blocks_that_mix() -> None:
    left = tuple(np.array([(1, 1, 1), (1, 1, 3)]).T)
    right = tuple(np.array([(1, 1, 2), (1, 1, 4)]).T)
    assert one_after_another([left, right], 0) is None
    assert one_after_another([], 4) is None
