"""What memory plans ask for, told before they run: what is said to be exact is."""

from __future__ import annotations

import numpy as np
import pytest

import gdatalog as gd
from gdatalog.engine.device import CPU
from gdatalog.engine.index_memory import AskedIndex, memory_asked
from gdatalog.engine.stratum_planner import plan_stratum

TEXTS = (
    "n(count()) <- E(a, b), E(b, c), E(a, c).",
    "p(x, z) <- E(x, y), E(y, z).",
    "q(y, count()) <- S(x, y, _), E(x, u), u < x.",
    "q(a, c) <- E(a, b), E(b, c), E(c, b), E(b, a).",
    "q(x) <- S(x, _, z), S(z, _, x), N(x).",
)


def database() -> gd.Database:
    random = np.random.default_rng(1)
    db = gd.connect(device="cpu")
    db["E"] = [tuple(row) for row in random.integers(0, 300, (2000, 2)).tolist()]
    db["S"] = [(x, f"s{y}", z) for x, y, z in random.integers(0, 50, (500, 3)).tolist()]
    db["N"] = [(at * 10**10,) for at in range(30)]
    return db


def asked(db: gd.Database, text: str) -> list[tuple[AskedIndex, ...]]:
    evaluator = db.workspace.open(text, None).evaluator
    inputs, schemas = evaluator.inputs(), evaluator.checked.schemas
    return [
        memory_asked(plan, lambda n: evaluator.at_hand(n) if n in schemas else None, CPU)
        for stratum in evaluator.checked.strata
        for _, plan in plan_stratum(stratum, inputs).rules
    ]


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_exact_is_what_is_made(text: str) -> None:
    db = database()
    (before,) = asked(db, text)
    assert any(index.bytes for index in before) and not any(index.there for index in before)
    db.query(text, strategy="levelwise")
    made = {
        (name, order): (len(trie.levels[-1]), trie)
        for name, relation in db.workspace.stored.items()
        for (order, *_), trie in relation._tries.items()
    }
    exact = [index for index in before if index.exact and index.bytes]
    assert exact
    for index in exact:
        rows, trie = made[index.relation, index.columns]
        levels = sum(level.values.nbytes + level.offsets.nbytes for level in trie.levels)
        weights = 0 if trie.weights is None else trie.weights.nbytes
        assert (index.rows, index.bytes) == (rows, levels + weights)
    (after,) = asked(db, text)
    assert after and all(index.there for index in after)


def test_nothing_is_told_of_what_is_not_evaluated() -> None:
    db = database()
    first = asked(db, "t(x, y) <- E(x, y). t(x, w) <- t(x, y), t(y, z), t(z, w).")
    unknown = [index for each in first for index in each if index.relation == "t"]
    assert unknown and all(index.bytes is None and index.rows is None for index in unknown)
