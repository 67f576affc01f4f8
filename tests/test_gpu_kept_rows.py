"""What is made of all lists before a GPU's loops run: rows of bits, the order of values."""

from __future__ import annotations

from typing import Any

import pytest

import gdatalog as gd
from gdatalog.calls import LoopRun
from gdatalog.gpu_ops import kept_lists, launch
from gdatalog.gpu_ops.device import Gpu
from gdatalog.gpu_ops.walk import Walks
from tests.cuda_host import HostDriver, needs_compiler

pytestmark = needs_compiler

CLIQUE = "n(count()) <- E(a, b), E(a, c), E(a, d), E(b, c), E(b, d), E(c, d), a < b < c < d."
ROWS = "n(a, b, c, d) <- E(a, b), E(a, c), E(a, d), E(b, c), E(b, d), E(c, d), a < b < c < d."


def edges(size: int) -> list[tuple[int, int]]:
    """Lists from short ones to some of two words."""
    found = [(x, y) for x in range(3) for y in range(x + 1, size)]
    found += [(x, y) for x in range(3, size) for y in range(x + 1, min(size, x + 2 + x % 7))]
    return [*found, *((y, x) for x, y in found)]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of the rows that are made."""
    found: list[int] = []
    plain = kept_lists._made_rows

    def noted(*given: Any) -> tuple[Any, Any]:
        starts, rows = plain(*given)
        found.append(starts.nbytes + rows.nbytes)
        return starts, rows

    monkeypatch.setattr(kept_lists, "_made_rows", noted)
    return found


@pytest.mark.parametrize(("tile", "share"), [(32, 2), (8, 1 << 60)])
def test_rows_are_made_once(
    tile: int, share: int, made: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are cached with the relation's indexes; without room for them, each tile makes its own
    for each list."""
    monkeypatch.setattr(kept_lists, "KEPT_SHARE", share)
    with gd.connect(device="cpu") as db:
        db["E"] = edges(70)
        expected = [sorted(db.query(text).fetchall()) for text in (CLIQUE, ROWS)]
        device = db.workspace.device = Gpu(HostDriver(seed=tile, blocks=2, races=True))
        db.workspace.force(strategy="lftj", tile=tile)
        db.workspace.tune(tile_shares_after=0)
        found = [sorted(db.query(text).fetchall()) for text in (CLIQUE, ROWS, CLIQUE)]
        assert found == [*expected, expected[0]]
        assert len(made) == 2 * (share == 2)  # in the order of degrees, and of values
        assert device.kept.nbytes >= sum(made)
        sources = "".join(device.walks._kernels)
        assert ("recode_rows(t, v0_1" in sources) == (share != 2)


@pytest.mark.parametrize(("least", "of_tile", "blocks"), [(0, 1, 2), (1 << 60, 1 << 20, 1)])
def test_edges_are_put_in_order_once(
    least: int, of_tile: int, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By their second ends, whose lists tiles then hold; without room for that, as they are. Few
    edges leave fewer blocks."""
    monkeypatch.setattr(kept_lists, "LEAST_TURNED", least)
    monkeypatch.setattr(launch, "OF_TILE", of_tile)
    made: list[int] = []
    plain = kept_lists.turned

    def noted(*given: Any) -> Any:
        made.append(plain(*given))
        return made[-1]

    monkeypatch.setattr(launch, "turned", noted)
    text = "n(count()) <- E(a, b), E(b, c), E(a, c), a < b < c."
    with gd.connect(device="cpu") as db:
        db["E"] = edges(200)
        expected = db.query(text).fetchall()
        device = db.workspace.device = Gpu(HostDriver(seed=3, blocks=2, races=True))
        db.workspace.force(strategy="lftj", tile=32)
        db.workspace.tune(tile_shares_after=0)
        found = []
        for _ in range(2):
            found += db.query(text).fetchall()
            assert [made.grid for made in device.walks._launches.values()] == [blocks]
            device.walks.drop_launches()
            db.workspace.results.clear()
        assert found == 2 * expected
        assert "_n > 0 ? 0 : parent_of(t, " in "".join(device.walks._kernels)
        assert len(made[0]) == (0 if least else len(edges(200)))
        assert least or made[0] is made[1]


def test_rows_go_with_the_relation(made: list[int]) -> None:
    with gd.connect(device="cpu") as db:
        db.workspace.device = Gpu(HostDriver(seed=5))
        db.workspace.force(strategy="lftj", tile=32)
        found = []
        for size in (70, 50, 70):
            db["E"] = edges(size)
            found += db.query(CLIQUE).fetchall()
        assert len(made) == 3
        assert found[0] == found[2] != found[1]


def test_what_has_no_room_is_not_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_lists, "KEPT_SHARE", 1 << 60)
    runs: list[LoopRun] = []
    plain = Walks.run

    def noted(walks: Walks, run: LoopRun, *given: Any, **more: Any) -> Any:
        runs.append(run)
        return plain(walks, run, *given, **more)

    monkeypatch.setattr(Walks, "run", noted)
    with gd.connect(device="cpu") as db:
        device = db.workspace.device = Gpu(HostDriver(seed=5))
        db.workspace.force(strategy="lftj", tile=32)
        db["E"] = edges(20)
        db.query(CLIQUE).fetchall()
        assert len(runs) == 2  # with rows, and without
        assert device.walks.prepared(runs[0], False) is None
