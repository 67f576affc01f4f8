"""Rounds by compiled loops: what tells new rows under limits, and what ends rounds early."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gdatalog as gd
from gdatalog.codegen import native_calls
from gdatalog.engine import replanning, variants
from gdatalog.engine.operators import semi_naive
from gdatalog.engine.rule_plans import plan_rule
from gdatalog.plan.join_plan import RulePlan
from gdatalog.storage.table import Array

CLOSURE = "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z)."
COUNTING = "p(x, x) <- x = range(0, 40). p(x, y + 1) <- p(x, y), y < 500."
SIZE = 300


def edges(step: int = 1) -> Array:
    """A graph of which most vertices reach most; `step`: how far apart the vertices' ids are."""
    made = np.random.default_rng(11).integers(0, SIZE, (2 * SIZE, 2)) * step
    return np.unique(made, axis=0)


@contextmanager
def database(**options: Any) -> Iterator[gd.Database]:
    """One whose recursion runs in rounds, by loops."""
    with gd.connect(device="cpu", **options) as db:
        db.workspace.force(strategy="lftj", split="never", dead_variables="never")
        yield db


@pytest.fixture
def kinds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What told new rows of the first relation, round by round."""
    seen: list[str] = []
    run_round = semi_naive.Rounds._round

    def noted(self: Any, *args: Any) -> Any:
        done = run_round(self, *args)
        seen.append(type(next(iter(self.tables.values())).known).__name__)
        return done

    monkeypatch.setattr(semi_naive.Rounds, "_round", noted)
    return seen


def closed(step: int = 1) -> set[tuple[int, int]]:
    linked = np.zeros((SIZE, SIZE), dtype=bool)
    linked[tuple(edges().T)] = True
    while True:
        more = linked | (linked.astype(int) @ linked.astype(int) > 0)
        if (more == linked).all():
            return {(int(x) * step, int(y) * step) for x, y in np.argwhere(linked)}
        linked = more


@pytest.mark.slow
@pytest.mark.parametrize(("step", "kind"), [(1, "RowBitmap"), (1_000_003, "Hashed")])
@pytest.mark.parametrize("threads", [1, 2])
def test_what_tells_new_rows(kinds: list[str], step: int, kind: str, threads: int) -> None:
    """The hash set grows in the middle of rounds, from its least size."""
    with database(threads=threads) as db:
        db["E"] = edges(step)
        db.run(CLOSURE)
        assert set(db["p"].fetchall()) == closed(step)
    assert set(kinds) == {kind}


@pytest.mark.parametrize(
    ("cheap", "limit", "last"),
    [(1 << 25, "20MB", "RowBitmap"), (0, "20MB", "Hashed"), (0, "1700KB", "SortedRows")],
)
def test_memory_decides(kinds: list[str], cheap: int, limit: str, last: str) -> None:
    """Where a hash set has no room any more, and may not lie in a file, rows are sorted from then
    on."""
    with database(memory_limit=limit, temp_directory="") as db:
        db.workspace.tune(bitmap_bytes=cheap, bitmap_bytes_each=0)
        db["E"] = edges(1_000 if cheap == 0 else 1)
        db.run(CLOSURE)
        assert len(db["p"]) == len(closed())
    assert kinds[-1] == last


@pytest.mark.slow
def test_rows_outside_of_what_was_expected(kinds: list[str]) -> None:
    with database() as db:
        found = db.query(f"{COUNTING} n(count(), max(y)) <- p(_, y). ?- n(c, m).").fetchall()
    assert found == [(40 * 500 - sum(range(40)) + 40, 500)]
    assert set(kinds) <= {"RowBitmap", "Hashed"}


def test_limitsize_stops_loops(tmp_path: Path) -> None:
    program = tmp_path / "p.dl"
    program.write_text(f"{CLOSURE}\n.limitsize p(n=3000)\n.output p(IO=stdout)\n")
    with database() as db:
        db["E"] = edges()
        with pytest.warns(gd.ProgramWarning, match="limitsize"):
            found = db.run_file(program)
    assert 3000 <= len(found["p"]) < len(closed())


def test_rounds_without_end_are_told_of() -> None:
    text = COUNTING.replace(", y < 500", "").replace("40", "20000")
    with database(memory_limit="6MB") as db, pytest.raises(gd.MemoryLimitError) as caught:
        db.query(f"{text} ?- p(a, b).")
    assert "new rows in the last rounds: 20000, 20000" in str(caught.value)


def test_loops_are_interrupted() -> None:
    with database() as db:
        threading.Timer(0.5, db.interrupt).start()
        with pytest.raises(gd.Interrupted):
            db.query(COUNTING.replace(", y < 500", "") + " ?- p(a, b).")
        assert len(db.query("q(x) <- x = range(0, 3).")) == 3


def test_a_profile_counts_what_loops_tried() -> None:
    with database() as db:
        db["E"] = edges()
        told = db.profile(f"{CLOSURE} ?- p(x, y).").rounds
    later = told[told["round"] > 0]
    assert later["new"].sum() == len(closed()) - len(edges())
    assert (later["tried"] >= later["new"]).all()
    assert set(later["executor"]) == {"depth-first"}


# Two orders for what follows a new row of r: by its other atom, or by E first.
WIDE = "r(x, y) <- E(x, y). r(x, w) <- r(x, y), E(y, z), r(z, w)."


@pytest.mark.parametrize(("shift", "often"), [(10.0, True), (1e9, False)])
def test_plans_are_made_again_when_sizes_have_shifted(
    monkeypatch: pytest.MonkeyPatch, shift: float, often: bool
) -> None:
    made: list[RulePlan] = []

    def noted(*args: Any, **options: Any) -> Any:
        made.append(plan_rule(*args, **options))
        return made[-1]

    monkeypatch.setattr(replanning, "plan_rule", noted)
    with database() as db:
        db.workspace.tune(replanned_from=-1, replanned_shift=shift)
        db.workspace.force(strategy="levelwise")
        db["E"] = [(x, x + 1) for x in range(60)]
        found = set(db.query(f"{WIDE} ?- r(x, y).").fetchall())
    assert found == {(x, y) for x in range(60) for y in range(x + 1, 61) if (y - x) % 2}
    assert bool(made) == often


def test_rules_run_only_for_new_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two relations that take turns, each is followed every other round."""
    followed: list[tuple[str, int]] = []
    follow = variants.Variant.follow

    def noted(self: variants.Variant) -> Any:
        followed.append((self.follows, self.new_rows))
        return follow(self)

    monkeypatch.setattr(variants.Variant, "follow", noted)
    with database() as db:
        db["E"] = [(x, x + 1) for x in range(9)]
        db.run("a(0). b(y) <- a(x), E(x, y). a(y) <- b(x), E(x, y).")
        assert len(db["a"]) == len(db["b"]) == 5
    assert followed == [("a" if at % 2 == 0 else "b", 1) for at in range(10)]


def test_loops_that_are_kept_hold_no_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between turns they keep nothing alive: no rows, no index, nor what tells new rows."""
    held: set[str] = set()
    follow, turns = variants.Variant.follow, 0

    def noted(self: variants.Variant) -> Any:
        nonlocal turns
        found = follow(self)
        for loops in self.loops.values():
            turns += 1
            for worker in loops.workers:
                held.update(name for name, array in worker.call.arrays.items() if array.nbytes)
            assert not any(loops._arrays)
        return found

    monkeypatch.setattr(variants.Variant, "follow", noted)
    with database(threads=2) as db:
        db["E"] = edges()
        assert len(db.query("p(x, y) <- E(x, y). p(x, z) <- p(x, y), p(y, z), x != z.")) > SIZE
    assert turns and held <= {
        "control",
        "state",
        "sizes",
        "out0",
        "out1",
        *map("queue{}".format, ("", 0, 1)),
    }


def test_arrays_that_grow_are_lent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops that have an address only read what is there: of hash tries that outgrow their arrays,
    and of what tells new rows when it grows or is another one."""
    lent: list[str] = []
    lend = native_calls.Bound.lend

    def noted(self: native_calls.Bound, name: str, value: Array) -> None:
        lent.append(name)
        lend(self, name, value)

    monkeypatch.setattr(native_calls.Bound, "lend", noted)
    text = "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z), x != z."
    with database() as db:
        db.workspace.tune(bitmap_bytes=0, bitmap_bytes_each=0)
        db["E"] = [(1000 * x, 1000 * x + 1000) for x in range(60)]
        found = set(db.query(text).fetchall())
    assert found == {(1000 * x, 1000 * y) for x in range(61) for y in range(x + 1, 61)}
    assert 1 < lent.count("slots") < lent.count("new0")


def test_what_a_query_held_goes_at_once() -> None:
    """Nothing that holds rows is part of a circle, which would wait for the collector."""
    with database() as db:
        db["E"] = [(x, y) for x in range(6) for y in range(6) if x != y]
        text = "sg(x, y) <- E(p, x), E(p, y). sg(x, y) <- E(a, x), sg(a, b), E(b, y)."
        assert len(db.query(text)) == 36
        gc.collect()
        gc.disable()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            assert len(db.query(text)) == 36
            gc.collect()
            found = {type(thing).__name__ for thing in gc.garbage}
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
    assert found.isdisjoint(("Relation", "RowStore", "Evaluation", "Rounds"))
