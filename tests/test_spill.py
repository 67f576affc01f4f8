"""What is larger than the memory limit lies in temporary files, and the answers are the same."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import gdatalog
from gdatalog import cpu_ops
from gdatalog.account import Account
from gdatalog.calls import DONE, FULL
from gdatalog.cancellation import current_watch
from gdatalog.codegen.helpers.lattice import KNOWN
from gdatalog.codegen.native_calls import Bound
from gdatalog.cpu_ops.best_values import BestValues
from gdatalog.engine.fixpoint.delta import DeltaRelation
from gdatalog.engine.fixpoint.hash_indexes import HashIndexes
from gdatalog.engine.fixpoint.row_bitmap import RowBitmap
from gdatalog.engine.fixpoint.row_hash_set import Hashed
from gdatalog.engine.fixpoint.row_sets import SortedRows
from gdatalog.executors.fresh import ENDLESS, FreshWorker
from gdatalog.storage import spill as spilling
from gdatalog.storage.key_space import KeySpace
from gdatalog.storage.keys import narrow
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import Columns
from gdatalog.storage.sorting import merge_rows, merged_runs, sort_spilled
from gdatalog.storage.spill import Blocks, Spill, is_spilled
from gdatalog.storage.spilled_groups import SpilledGroups
from gdatalog.storage.spilled_tries import trie_of
from tests import test_engine_oracle as oracle
from tests.cases import share
from tests.draw import Drawn, aggregate_programs, programs
from tests.draw_recursion import recursions
from tests.interpreted import interpreted
from tests.test_recursion import WAYS

pytestmark = [
    pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]


def always() -> Spill:
    """All rows in files, in runs of eight."""
    return Spill(least=0, run=8, short=0, always=True)


def drawn_blocks(draw: random.Random) -> list[Columns]:
    """Blocks of rows: narrow and wide, dense and sparse, some of them in order."""
    width, most = draw.randint(1, 3), draw.choice([3, 50, 1 << 30, 1 << 62])
    blocks = []
    for _ in range(draw.randint(1, 4)):
        dtype = np.int32 if most <= 1 << 30 and draw.random() < 0.5 else np.int64
        rows = [
            [draw.randint(-most, most) for _ in range(width)] for _ in range(draw.randint(1, 60))
        ]
        if draw.random() < 0.2:
            rows.sort()
        blocks.append(tuple(np.array(column, dtype=dtype) for column in zip(*rows, strict=True)))
    return blocks


@pytest.mark.parametrize("seed", range(60))
def test_rows_sorted_and_indexed_in_files(seed: int) -> None:
    draw = random.Random(seed)
    blocks, spill = drawn_blocks(draw), always()
    account = Account(0, spill)
    expected = merge_rows(list(blocks))
    found = sort_spilled(list(blocks), account, spill)
    for left, right in zip(expected, found, strict=True):
        assert left.tolist() == right.tolist() and is_spilled(right)
    width = len(expected)
    names, types = tuple("abc"[:width]), ("int",) * width
    whole = Relation.of_blocks(names, types, [expected], len(expected[0]), True)
    count = sum(len(block[0]) for block in blocks)
    for _ in range(4):
        order = tuple(draw.sample(range(width), draw.randint(1, width)))
        tests = (
            ((0, draw.choice(["<", "!=", "="]), 1),) if width > 1 and draw.random() < 0.5 else ()
        )
        weighted = draw.random() < 0.5
        store = Relation.of_blocks(names, types, blocks, count).store
        made = whole.trie(order, tests, weighted)
        same = trie_of(store, order, tests, weighted, account, spill)
        assert same.total == made.total and (same.weights is None) == (made.weights is None)
        if made.weights is not None and same.weights is not None:
            assert same.weights.tolist() == made.weights.tolist()
        for mine, its in zip(made.levels, same.levels, strict=True):
            assert mine.values.tolist() == its.values.tolist()
            assert mine.offsets.tolist() == its.offsets.tolist()
            assert mine.pairs.tolist() == its.pairs.tolist()


def test_a_merge_holds_a_part_of_the_rows() -> None:
    draw = np.random.default_rng(5)
    runs = [(np.unique(draw.integers(0, 1 << 40, 5000)),) for _ in range(7)]
    pieces = [piece for (piece,) in merged_runs(runs, 1000)]
    assert max(map(len, pieces)) <= 1000
    assert (
        np.concatenate(pieces).tolist() == np.unique(np.concatenate([r for (r,) in runs])).tolist()
    )


def run(text: str, data: oracle.Data, defined: set[str], number: int) -> oracle.Relations:
    strategy = ("levelwise", "lftj", "auto")[number % 3]
    with gdatalog.connect(device="cpu", threads=1 + number % 2) as db:
        db.workspace.spill = always()
        db.workspace.force(strategy=strategy)
        db.workspace.chunk_rows = (None, 3)[number // 3 % 2]
        return oracle.answers(db, text, data, defined)


@pytest.fixture(scope="module", autouse=True)
def not_compiled() -> Iterator[None]:
    with interpreted():
        yield


@pytest.mark.drawn
@share(8)
@given(programs())
def test_programs(drawn: Drawn) -> None:
    oracle.agrees_in(run, drawn)


@pytest.mark.drawn
@share(4)
@given(aggregate_programs())
def test_aggregates(drawn: Drawn) -> None:
    oracle.agrees_in(run, drawn)


LOCAL = [name for name, way in WAYS.items() if not way.asked and not way.followed]


@pytest.mark.drawn
@settings(share(8))
@given(recursions())
def test_recursion_in_every_way(drawn: Drawn) -> None:
    way = WAYS[LOCAL[drawn.seed % len(LOCAL)]]

    def spilled(text: str, data: oracle.Data, defined: set[str], number: Any) -> oracle.Relations:
        with way.database(number) as db:
            db.workspace.spill = always()
            return oracle.answers(db, text, data, defined)

    oracle.agrees_in(spilled, drawn)


# ------------------------------------------------------------------------------------- files


def test_a_limit_and_what_is_larger(tmp_path: Path) -> None:
    text = "all(x, y) <- n(x), n(y), x != y."
    with gdatalog.connect(device="cpu", memory_limit="1MiB", temp_directory=tmp_path) as db:
        db["n"] = [(i,) for i in range(600)]
        found = db.query(text)
        assert len(found) == 359_400
        assert found.df().sum().tolist() == [599 * 599 * 300, 599 * 599 * 300]
        assert db.workspace.spill is not None and db.workspace.spill.written >= 2_875_200
        assert not list(tmp_path.iterdir())  # the files have no names
        assert db.query("n(x), x < 3").fetchall() == [(0,), (1,), (2,)]
    with gdatalog.connect(device="cpu", memory_limit="1MiB", temp_directory="") as db:
        db["n"] = [(i,) for i in range(1000)]
        with pytest.raises(gdatalog.MemoryLimitError):
            db.query(text)


def test_a_full_disk_is_an_error_and_the_next_query_works(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with gdatalog.connect(device="cpu", memory_limit="1MiB", temp_directory=tmp_path) as db:
        db["n"] = [(i,) for i in range(600)]
        text = "all(x, y) <- n(x), n(y), x != y."
        monkeypatch.setattr(spilling, "KEPT_FREE", 1.0)
        with pytest.raises(gdatalog.MemoryLimitError, match="cannot take what is over it") as told:
            db.query(text)
        assert "temp_directory=" in str(told.value)
        assert not list(tmp_path.iterdir())
        monkeypatch.undo()
        assert len(db.query(text)) == 359_400


def test_a_disk_that_is_full_in_the_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is first written when a column is finished fails as what is written before."""
    monkeypatch.setattr(spilling, "_unnamed", lambda folder: open("/dev/full", "w+b"))  # noqa: SIM115
    column = Spill(tmp_path, short=0).column(np.int64)
    column.append(np.arange(3))
    with pytest.raises(gdatalog.MemoryLimitError, match="cannot take what is over it"):
        column.finish()


@pytest.mark.parametrize("groups", [10, 20_000])
def test_distinct_values_of_few_groups_and_of_many(groups: int) -> None:
    rows = np.random.default_rng(3).integers(0, 1 << 40, (300_000, 2))
    rows[:, 0] %= groups
    text = "n(k, count_distinct(z)) <- r(k, z)."
    with gdatalog.connect(device="cpu", memory_limit="6MiB") as db:
        db["r"] = rows
        found = db.query(text, strategy="levelwise").df()
        assert db.workspace.spill is not None and db.workspace.spill.written > 0
    expected = np.bincount(np.unique(rows, axis=0)[:, 0], minlength=groups)
    assert found.sort_values("k").iloc[:, 1].tolist() == expected[expected > 0].tolist()


def test_strangers_write_no_files() -> None:
    with gdatalog.connect(untrusted=True, memory_limit="1MiB") as db:
        db["n"] = [(i,) for i in range(1000)]
        with pytest.raises(gdatalog.MemoryLimitError):
            db.query("all(x, y) <- n(x), n(y), x != y.")


def test_blocks_are_held_until_half_of_the_limit_is() -> None:
    spill = Spill(least=0, short=0)
    account = Account(1 << 16, spill)
    rows = Blocks(account)
    block = (np.arange(1024), np.arange(1024))
    rows.add(block)
    assert rows.held == 1 << 14 and not spill.written
    account.charge("indexes", 1 << 15)
    account.charge("blocks", 1 << 15)
    rows.add(block)
    assert rows.held == 0 and spill.written == 1 << 15
    rows.add((np.arange(2), np.arange(2)))
    found = rows.take()
    assert [len(first) for first, _ in found] == [2048, 2] and is_spilled(found[0][0])
    assert rows.take() == [] and rows.held == 0


def test_columns_of_files_are_kept_while_somebody_reads_them() -> None:
    spill = always()
    column = spill.column(np.int64)
    for start in range(0, 1000, 100):
        column.append(np.arange(start, start + 100))
    whole = column.finish()
    part = whole[500:510]
    del whole, column
    assert part.tolist() == list(range(500, 510))
    assert is_spilled(part) and not is_spilled(part + 0)
    with pytest.raises(ValueError, match="read-only"):
        part[0] = 1
    assert len(spill.column(np.int32).finish()) == 0


@pytest.mark.parametrize("seed", range(6))
def test_groups_in_files(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups that are dealt twice, and sets of distinct values, as without a limit."""
    levels: list[int] = []
    write = SpilledGroups.write

    def told(self: SpilledGroups, *given: Any) -> None:
        levels.append(self.level)
        write(self, *given)

    monkeypatch.setattr(SpilledGroups, "write", told)
    draw = np.random.default_rng(seed)
    most = (40, 1 << 40)[seed % 2]
    rows = draw.integers(0, most, (800, 3))
    text = "p(x, count(), sum(y), min(z), count_distinct(z), mean(y)) <- r(x, y, z)."
    found = []
    for spill in (None, Spill(least=6000, run=8, short=0, always=True)):
        with gdatalog.connect(device="cpu", threads=1 + seed % 2) as db:
            db["r"] = rows
            db.workspace.spill = spill
            db.workspace.chunk_rows = 200
            db.workspace.force(strategy=("levelwise", "lftj")[seed // 2 % 2])
            found.append(db.query(text).sorted().fetchall())
            whole = db.query("n(count_distinct(x, y, z)) <- r(x, y, z).").fetchall()
            assert whole == [(len(np.unique(rows, axis=0)),)]
    assert found[0] == found[1] and len(found[0]) == len(np.unique(rows[:, 0]))
    assert max(levels) > 0 or most == 40


@pytest.mark.parametrize("seed", range(14))
def test_graphs_in_files(seed: int) -> None:
    """Rankings, degrees and ranked tries of graphs, symmetric and not, as without a limit."""
    draw = np.random.default_rng(seed)
    most, loops = (30, 1 << 40)[seed % 2], bool(seed // 2 % 2)
    ids = draw.integers(0, most, 30)
    edges = ids[draw.integers(0, 30, (200, 2))]
    if seed // 4 % 3 == 0:
        edges = np.concatenate([edges, edges[:, ::-1]])
    elif seed // 4 % 3 == 1:
        edges = np.sort(edges, axis=1)
    if not loops:
        edges = edges[edges[:, 0] != edges[:, 1]]
    if seed >= 12:  # one way only, from higher keys, which are wide, to lower ones
        edges = np.sort(edges % 1000 + 1, axis=1)[:, ::-1] * np.array([1 << 33, 1])
    columns = tuple(narrow(np.ascontiguousarray(column)) for column in edges.T)

    def told(spill: Spill | None) -> list[Any]:
        watch = current_watch()
        before, watch.account = watch.account, Account(1 << 30, spill)
        try:
            relation = Relation.of_blocks(("a", "b"), ("int", "int"), [columns], len(edges))
            graph = relation.graph
            found: list[Any] = [graph.symmetric, graph.loops, round(graph.skew, 9)]
            found.append(graph.ranking().labels.tolist())
            for tests in ((), ((0, "<", 1),), ((0, "!=", 1),), ((0, ">=", 1),)):
                found += [graph.degrees(column, tests).tolist() for column in (0, 1)]
                trie = relation.trie((0, 1), tests, ranked=True)
                found += [level.values.tolist() for level in trie.levels]
                found += [level.offsets.tolist() for level in trie.levels]
            return found
        finally:
            watch.account = before

    assert told(None) == told(always())


@pytest.mark.parametrize("seed", range(8))
def test_new_rows_among_those_in_files(seed: int) -> None:
    """Rows that pack, and wide ones, also where wide ones come later."""
    draw = np.random.default_rng(seed)
    watch = current_watch()
    before, watch.account = watch.account, Account(1 << 30, always())
    try:
        rows, known = SortedRows(3, cpu_ops), set[tuple[int, ...]]()
        for turn in range(6):
            most = 1 << 40 if seed % 4 + turn > 3 else 6
            drawn = np.unique(draw.integers(-most, most, (40, 3)) // (most // 4 or 1), axis=0)
            drawn[:, 0] *= most // 4 or 1
            drawn[:, 1] *= most // 4 or 1
            columns = tuple(np.ascontiguousarray(column) for column in drawn.T)
            new = set(zip(*(column.tolist() for column in rows.news(columns)), strict=True))
            came = set(map(tuple, drawn.tolist()))
            assert new == came - known
            known |= came
            found = list(zip(*(column.tolist() for column in rows.rows()), strict=True))
            assert found == sorted(known)
    finally:
        watch.account = before


def test_marks_lie_in_a_file_where_memory_has_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    spill = Spill(least=0, short=0)
    monkeypatch.setattr(current_watch(), "account", Account(1 << 10, spill))
    made = DeltaRelation(("a", "b"), ("int", "int"), cpu_ops, spare=lambda: 1 << 10)
    rows = np.stack(np.divmod(np.arange(0, 40_000, 2), 200))
    assert made.add((rows[0], rows[1]), 20_000).length == 20_000
    assert isinstance(made.known, RowBitmap) and is_spilled(made.known.words)
    assert made.known.nbytes == 0 and spill.written >= 5000
    rows = np.stack(np.divmod(np.arange(40_000), 200))
    assert made.add((rows[0], rows[1]), 40_000).length == 20_000
    assert made.full().rows[0].sum() == rows[0].sum()


def test_no_marks_in_a_file_that_has_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """The room is reserved: a page of a mapping that has none would end the process."""

    def full(*_: int) -> None:
        raise OSError(28, "No space left on device")

    spill = always()
    words = spill.zeros(1000, np.int64)
    words[5] = 7
    assert words.sum() == 7 and is_spilled(words)
    monkeypatch.setattr(spilling.os, "posix_fallocate", full, raising=False)
    with pytest.raises(gdatalog.MemoryLimitError, match="No space left"):
        spill.zeros(1000, np.int64)


@pytest.mark.parametrize("spilled", [False, True])
def test_loops_charge_the_blocks_that_they_hold(spilled: bool) -> None:
    account = Account(1 << 30, always() if spilled else None)
    state, control = np.zeros(16, dtype=np.int64), np.zeros(16, dtype=np.int64)
    kept = [4096, 8192, 3, 5000]

    def call(out: Any, *_: Any) -> int:
        held = sum(c.nbytes for block in worker.rows or () for c in block if not spilled)
        assert account.held["blocks"] == held + out.nbytes
        state[4] = kept.pop(0)
        out[: state[4]] = 1
        return FULL if kept else DONE

    arrays = {"out": np.zeros(0, dtype=np.int32), "state": state, "control": control}
    worker = FreshWorker(Bound(call, arrays), ["out"], 4, [], state, control, ENDLESS)
    worker.account, worker.rows = account, Blocks(account)
    worker.begin()
    worker.run()
    assert worker.error is None and worker.status == DONE
    assert sum(len(block[0]) for block in worker.take_rows()) == 4096 + 8192 + 3 + 5000
    assert account.held["blocks"] == account.total == 0


@pytest.mark.parametrize("numbered", [False, True])
def test_arrays_of_best_values_in_files(numbered: bool) -> None:
    seeds, costs = np.array([7, 3]), np.array([5, 6])
    found = []
    for spill in (None, always()):
        values = BestValues(seeds, costs, 10, ordered=True, numbered=numbered, spill=spill)
        count = 4 if numbered else 10
        values.arrays["where"][:count:2] = 0
        values.arrays["best"][:count] = np.arange(count)
        if numbered:
            values.arrays["codes"][:count] = [9, 2, 5, 4]
            values.queue[KNOWN] = count
            values.grow(spill)
            assert len(values.arrays["best"]) == 20
        assert is_spilled(values.arrays["best"]) == (spill is not None)
        parts = list(values.values())
        found.append(sorted((int(c), int(v)) for part in parts for c, v in zip(*part, strict=True)))
    assert found[0] == found[1]
    assert found[0] == (
        [(2, 1), (4, 3), (5, 2), (9, 0)] if numbered else [(c, c) for c in range(0, 10, 2)]
    )


@pytest.mark.parametrize("seed", range(4))
def test_groups_of_several_blocks_are_written_by_partition(seed: int) -> None:
    draw = np.random.default_rng(seed)
    spilled, blocks = SpilledGroups(2, seed), []
    for dtype in (np.int32, np.int64, np.int32):
        keys = draw.integers(-9, 9, (2, draw.integers(0, 200))).astype(dtype)
        blocks.append((*keys, draw.integers(0, 1 << 40, len(keys[0]))))
    spilled.write(None, blocks, always())
    found, groups = [], []
    for part in spilled.partitions():
        rows = [
            row for _, columns in part for row in zip(*(c.tolist() for c in columns), strict=True)
        ]
        found += rows
        groups.append({row[:2] for row in rows})
    assert sorted(found) == sorted(
        row for b in blocks for row in zip(*(c.tolist() for c in b), strict=True)
    )
    assert sum(map(len, groups)) == len(set().union(*groups))  # no group is in two partitions


def test_a_hash_set_lies_in_a_file_where_marks_would_be_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also one that was in memory, until it grew."""
    spill = Spill(least=0, short=0)
    monkeypatch.setattr(current_watch(), "account", Account(1 << 10, spill))
    spare = [1 << 20]
    made = DeltaRelation(("a", "b"), ("int", "int"), cpu_ops, spare=lambda: spare[0])
    rows = np.stack([np.arange(20_000) * 10_007, np.arange(20_000) * 9973])
    first = rows[:, :9000]
    made.add((first[0], first[1]), 9000)
    made.expect(KeySpace.of(tuple(rows)) or KeySpace((), ()))
    known = made.loops()
    assert isinstance(known, Hashed) and known.nbytes > 0
    spare[0] = 1 << 10
    assert made.add((rows[0], rows[1]), 20_000).length == 11_000
    known = made.known
    assert isinstance(known, Hashed) and is_spilled(known.slots) and known.nbytes == 0
    assert sum(len(block[0]) for block in known.blocks()) == known.count == 20_000
    assert made.full().rows[0].sum() == rows[0].sum()


def test_hash_indexes_take_a_part_of_the_memory() -> None:
    """Then they are let go of: plans read sorted indexes."""
    rows = np.arange(1000, dtype=np.int32)
    relation = Relation.of_blocks(("a", "b"), ("int", "int"), [(rows, rows)], 1000, True)
    for spare, there in ((1 << 20, True), (1 << 17, True), (1 << 16, False)):
        indexes = HashIndexes(2)
        assert (indexes.made(((0, 1), False), [relation], None, spare) is not None) == there
    indexes = HashIndexes(2)
    assert indexes.made(((0, 1), False), [relation], None, 1 << 18) is not None
    indexes.wait()
    indexes.take_turn(relation, False, 1 << 17)
    assert indexes.nbytes == 0
