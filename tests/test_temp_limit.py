"""Temporary files have a limit: together, and a lower one for recursions that make new values."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import gdatalog as gd
from gdatalog.planner.new_values import makers_of_values
from gdatalog.storage.spill import Spill, is_spilled

PRODUCT = "all(x, y) <- n(x), n(y), x != y."  # 2.9 MB of 600 numbers
ENDLESS = "n(1). n(2*x) <- n(x). n(2*x+1) <- n(x)."


class Disk(NamedTuple):
    total: int
    used: int
    free: int


def spill_of(db: gd.Database) -> Spill:
    assert db.workspace.spill is not None
    return db.workspace.spill


# ------------------------------------------------------------------------------- the account


def test_a_file_is_charged_while_somebody_reads_it() -> None:
    spill = Spill(short=0, memory=1 << 30)
    whole = spill.rows([(np.arange(1000), np.arange(1000))])
    assert spill.used == 16_000
    part = whole[0][10:20]
    del whole
    assert spill.used == 8_000 and part.tolist() == list(range(10, 20))
    del part
    assert spill.used == 0 and spill.written == 16_000


def test_what_is_never_finished_or_written_again_is_not_charged() -> None:
    spill = Spill(short=0, memory=1 << 30)
    left = spill.column(np.int64)
    left.append(np.arange(1000))
    wide = spill.column(np.int32)
    wide.append(np.arange(1000, dtype=np.int32))
    wide.append(np.array([1 << 40]))
    found = wide.finish()
    assert is_spilled(found) and spill.used == 8_000 + 8_008
    del left
    assert spill.used == 8_008
    zeros = spill.zeros(1000, np.int64)
    del found, wide
    assert spill.used == 8_000 and not zeros.any()


def test_the_limit_is_of_all_files_together() -> None:
    spill = Spill(short=0, memory=100, limit=10_000)
    first = spill.zeros(1000, np.int64)
    with pytest.raises(gd.MemoryLimitError, match=r"limit of 100 B and 9\.8 KiB of temporary"):
        spill.zeros(1000, np.int64)
    column = spill.column(np.int64)
    with pytest.raises(gd.MemoryLimitError):
        column.append(np.arange(1000))
    column.append(np.arange(250))  # what failed is not charged
    del first
    spill.zeros(1000, np.int64)


def test_the_default_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(1 << 30, 0, 1 << 20))
    assert Spill(memory=1 << 10).limit == 16 << 10
    half = Spill(memory=1 << 20, short=0)
    assert half.limit == 1 << 19
    with pytest.raises(OSError, match=r"only 1\.0 MiB are free"):
        half.count(8)  # a twentieth of the disk stays free
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(1 << 20, 0, 1 << 20))
    assert Spill(memory=1 << 20, limit=1 << 30).limit == 1 << 30
    with pytest.raises(gd.MemoryLimitError, match=r"512\.0 KiB of temporary .*, half of the room"):
        half.zeros(1 + (1 << 16), np.int64)


def test_growing_files_get_the_memory_limit_beside_the_others() -> None:
    spill = Spill(short=0, memory=10_000)
    below = spill.zeros(5000, np.int64)
    with spill.growing():
        first = spill.zeros(1000, np.int64)
        with pytest.raises(gd.MemoryLimitError, match="makes new values"):
            spill.zeros(1000, np.int64)
        del first
        spill.zeros(1000, np.int64)
    spill.zeros(2000, np.int64)
    assert not below.any()
    given = Spill(short=0, memory=10_000, limit=100_000)
    with given.growing():
        given.zeros(5000, np.int64)


# ------------------------------------------------------------------------------------ programs


def test_a_query_that_needs_more_files_than_allowed(tmp_path: Path) -> None:
    with gd.connect(
        device="cpu", memory_limit="1MiB", temp_directory=tmp_path, temp_limit="5MB"
    ) as db:
        db["n"] = [(i,) for i in range(600)]
        with pytest.raises(gd.MemoryLimitError) as told:
            db.query(PRODUCT)
        says = str(told.value)
        assert "memory limit of 1.0 MiB and 4.8 MiB of temporary files in" in says
        assert "<query>:1:1" in says and "temp_limit=" in says and "--memory-limit" in says
        assert spill_of(db).used == 0  # although somebody still holds the error
        assert len(db.query("some(x, y) <- n(x), n(y), x != y, x < 200.")) == 119_800
        assert told.value.span is not None


def test_memory_limits_of_one_mebibyte_allow_sixteen_of_files() -> None:
    with gd.connect(device="cpu", memory_limit="1MiB") as db:
        assert spill_of(db).limit == 16 << 20
        db["n"] = [(i,) for i in range(600)]
        assert len(db.query(PRODUCT)) == 359_400
        db["E"] = [(i, i + 1) for i in range(500)]
        found = db.query("path(x, z) <- E(x, z) ; path(x, y), E(y, z).", strategy="levelwise")
        assert len(found) == 125_250  # a closure makes no new values
        assert spill_of(db).written > 2 << 20


@pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")
def test_a_recursion_that_makes_new_values_ends_soon() -> None:
    with gd.connect(device="cpu", memory_limit="1MiB") as db:
        with pytest.raises(gd.MemoryLimitError) as told:
            db.query(ENDLESS, strategy="levelwise")
        says = str(told.value)
        assert "this recursion makes new values, and needs more than the memory limit of" in says
        assert "temp_limit=" in says and "memory_limit=" in says and "--temp-limit" in says
        assert told.value.span is not None and told.value.span.text == "n(2*x) <- n(x)"
        assert "does the recursion end?" in says
        assert 0 < spill_of(db).written < 8 << 20 and spill_of(db).used == 0
        assert len(db.query(f"{ENDLESS} .limitsize n(n=1000)")) >= 1000


def test_a_limit_that_is_given_counts_for_every_recursion() -> None:
    says = r"1\.0 MiB and 6\.0 MiB of temporary files"
    with (
        gd.connect(device="cpu", memory_limit="1MiB", temp_limit="6MiB") as db,
        pytest.raises(gd.MemoryLimitError, match=says),
    ):
        db.query(ENDLESS, strategy="levelwise")


def test_a_guard_still_bounds_a_recursion() -> None:
    text = ENDLESS.replace("<- n(x)", "<- n(x), x < 60000")
    with gd.connect(device="cpu", memory_limit="1MiB") as db:
        assert len(db.query(text, strategy="levelwise")) == 119_999
        assert spill_of(db).written > 0


NEW_VALUES = {
    "n(1). n(2*x) <- n(x).": 1,
    "n(1). n(x % 1000 + 1) <- n(x).": 0,
    "n(1). n(x band 7) <- n(x).": 0,
    "n(1). n(x + 1) <- n(x), x < 1000.": 1,
    "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z).": 0,
    "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z), z = y + 1.": 0,
    "p(x, y) <- E(x, y). p(x, z) <- p(x, y), z = y + 1.": 1,
    "p(x, y) <- E(x, y). p(x, z) <- p(x, y), y = z - 1.": 1,
    "p(x, y) <- E(x, y). p(x, z) <- p(x, z + 1).": 1,
    "p(x, y) <- E(x, y). p(x, z) <- p(x, y), z in {1, 2}, z = y + 1.": 0,
    "d(0, 0). d(y, min(a + w)) <- d(x, a), W(x, y, w).": 0,
    "d(0, 0). d(x + 1, min(a + w)) <- d(x, a), w = 1.": 1,
    "n(1). n(y) <- n(x), y = range(0, x).": 1,
    "n(1). n(y) <- n(x), (y = x ; y = x + 1).": 1,
    'n("a"). n(x + "b") <- n(x). n(cat(x, "c")) <- n(x).': 2,
    'n("a"). n(upper(x)) <- n(x). n(substr(x, 0, 1)) <- n(x).': 0,
    "n(1). n(-x) <- n(x). n(max(x, 3)) <- n(x).": 0,
    "a(0). b(x + 1) <- a(x). a(x) <- b(x). a(x) <- E(x, _).": 1,
    "a(0, 0). a(x, y + 1) <- a(x, x), E(_, y). a(y, x) <- a(x, y).": 0,
    "c(x, 0) <- E(x, _). c(x, k + 1) <- c(x, k), E(x, k).": 0,
    "n(0). n(c) <- n(x), c = x + count : { E(_, y) }.": 1,
}  # fmt: skip


@pytest.mark.parametrize("text", NEW_VALUES)
@pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")
def test_which_rules_make_new_values(text: str) -> None:
    with gd.connect(device="cpu") as db:
        db["E"], db["W"] = [(1, 2), (2, 3)], [(1, 2, 3)]
        strata = db.workspace.execution(db.workspace.parse(text, "<text>")).checked.strata
    made = [rule for stratum in strata for rule in makers_of_values(stratum)]
    assert len(made) == NEW_VALUES[text]
    assert all(rule.head.name in text for rule in made)


# ------------------------------------------------------------------------------------- options


def test_a_limit_of_files_that_makes_no_sense() -> None:
    for wrong in ("lots", 0, "0"):
        with pytest.raises(gd.UsageError, match=r"not a size|a limit of temporary files must be"):
            gd.connect(temp_limit=wrong)
    for other in ({"temp_directory": ""}, {"untrusted": True}):
        with pytest.raises(gd.UsageError, match=r"and with .* there are none"):
            gd.connect(temp_limit="1GiB", **other)
