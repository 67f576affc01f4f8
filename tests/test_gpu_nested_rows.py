"""Lists that are recoded to rows of bits within others: each group has rows of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gdatalog as gd
from gdatalog.gpu_ops.device import Gpu
from tests.cuda_host import HostDriver, needs_compiler
from tests.test_gpu_walks import borrowed

TWO_CLIQUES = (
    "n(a,b,c,d,e,f,g) <- E(a,b), E(a,c), E(b,c), E(a,d), E(b,d), E(c,d), "
    "E(d,e), E(d,f), E(e,f), E(d,g), E(e,g), E(f,g), a < b < c < d < e < f < g."
)


def edges(seed: int, vertices: int, share: float) -> list[tuple[int, int]]:
    random = np.random.default_rng(seed)
    drawn = np.argwhere(random.random((vertices, vertices)) < share).tolist()
    return sorted({pair for x, y in drawn if x != y for pair in ((x, y), (y, x))})


def clique_at(vertex: str) -> str:
    a, b, c = (f"{vertex}{at}" for at in range(3))
    return (
        f"E({vertex},{a}), E({vertex},{b}), E({a},{b}), E({vertex},{c}), E({b},{c}), E({a},{c}), "
        f"{a} < {b} < {c}"
    )


HANGING = (
    "n(a,b,c,d,count()) <- G(a,b), G(a,c), G(b,c), G(c,d), "
    f"{clique_at('a')}, {clique_at('b')}, {clique_at('c')}."
)


def answers(db: gd.Database, text: str, **knobs: Any) -> list[Any]:
    db.workspace.force(**knobs)
    return sorted(db.query(text).fetchall())


def test_cliques_that_share_a_vertex() -> None:
    with gd.connect(device="cpu") as db:
        db["E"] = edges(1, 24, 0.45)
        expected = answers(db, TWO_CLIQUES, strategy="levelwise")
        assert expected
        assert answers(db, TWO_CLIQUES, strategy="lftj") == expected


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("tile", [8, 32])
@pytest.mark.parametrize("text", [TWO_CLIQUES, HANGING])
def test_borrowed_rows(text: str, tile: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an outer level has borrowed stays while inner levels borrow."""
    with gd.connect(device="cpu") as db:
        db["E"], db["G"] = edges(1, 11, 0.6), edges(2, 8, 0.5)
        expected = answers(db, text, strategy="levelwise")
        borrowed(monkeypatch)
        for seed in range(2):
            driver = HostDriver(seed=seed, blocks=1)
            driver.patience = 100_000_000  # most tiles wait for the few parts
            device = Gpu(driver)
            db.workspace.tune(tile_shares_after=-1)
            db.workspace.device = device
            assert answers(db, text, strategy="lftj", tile=tile) == expected


@needs_compiler
@pytest.mark.parametrize(
    ("head", "tail"),
    [
        ("n(a,b,c,d)", ""),
        ("n(count())", ", G(d,e), e != a"),
        ("n(count())", ", e = range(a, d), e != b"),
    ],
)
def test_what_lanes_do_on_their_own(head: str, tail: str) -> None:
    """Lanes of a tile take turns of a recoded level on their own only if a turn emits one row, or
    counts: also where the count is of a list outside of the recoded one."""
    clique = "E(a,b), E(a,c), E(b,c), E(a,d), E(b,d), E(c,d), a < b < c < d"
    with gd.connect(device="cpu") as db:
        db["E"], db["G"] = edges(1, 16, 0.7), edges(2, 16, 0.4)
        text = f"{head} <- {clique}{tail}."
        expected = answers(db, text, strategy="levelwise")
        device = Gpu(HostDriver(seed=1, blocks=1))
        db.workspace.tune(tile_shares_after=-1)
        db.workspace.device = device
        assert answers(db, text, strategy="lftj", tile=8) == expected
