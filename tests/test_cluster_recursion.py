"""Fixpoints on workers, against the oracle and one process.

Drawn programs run in this process, every value pickled on its way as between workers (`Here`); the
same is then done by processes of a Dask cluster, one of which dies.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from random import Random
from time import monotonic, sleep
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

import gdatalog
from gdatalog.cluster.recursion import hash_partitions, key_ranges, owner_steps
from gdatalog.cluster.recursion.hash_partitions import HashPartitions
from gdatalog.cluster.recursion.key_ranges import KeyRangeFixpoint
from gdatalog.cluster.recursion.owner_steps import (
    PartitionState,
    StaleState,
    StepOutput,
    rows_at_home,
)
from gdatalog.cluster.recursion.routes import routes_of
from gdatalog.cluster.rows.row_keeper import RowKeeper
from gdatalog.engine.fixpoint.start_groups import RowsByColumn
from gdatalog.errors import EvaluationError, MemoryLimitError
from gdatalog.storage.relation import Relation
from gdatalog.storage.remote import RemoteRows
from tests import test_engine_oracle as oracle
from tests.cases import share
from tests.draw import Drawn
from tests.draw_recursion import OPTIMA, PLAIN, drawn_recursion, recursions
from tests.interpreted import interpreted
from tests.recursion_here import Here, Recursion, copied
from tests.tuned import tune

pytestmark = [
    pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

CLOSURE = "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z)."
SQUARED = "p(x, y) <- E(x, y). p(x, z) <- p(x, y), p(y, z), x != z."


def run(spread: str, moved: bool = False, **knobs: Any) -> oracle.Way:
    """Evaluates a program on workers here; the number says how many."""

    def way(
        text: str, data: oracle.Data, defined: set[str], number: int | None
    ) -> oracle.Relations:
        with gdatalog.connect(device="cpu") as db:
            db.workspace.force(spread=spread, **knobs)
            db.workspace.cluster = Recursion(Here(1 + (number or 0) % 4, moved))
            return oracle.answers(db, text, data, defined)

    return way


WAYS = {
    "replicated": run("replicate"),
    "replicated, in rounds": run("replicate", split="never"),
    "parted": run("partition"),
    "parted, breadth-first": run("partition", strategy="levelwise"),
    "parted, depth-first": run("partition", strategy="lftj"),
    "parted, moved": run("partition", moved=True, dead_variables="always"),
}


@pytest.fixture(scope="module", autouse=True)
def not_compiled() -> Iterator[None]:
    with interpreted():
        yield


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is so little that it goes by way of the driver."""
    monkeypatch.setattr(owner_steps, "SMALL", 0)
    monkeypatch.setattr(hash_partitions, "SMALL", 0)


@pytest.mark.drawn
@pytest.mark.parametrize("way", WAYS.values(), ids=list(WAYS))
@settings(share(4))
@given(recursions())
def test_every_way_agrees_with_the_oracle(way: oracle.Way, drawn: Drawn) -> None:
    oracle.agrees_in(way, drawn)


@pytest.mark.parametrize("shape", [*PLAIN, *OPTIMA])
def test_each_shape(shape: str, large: None) -> None:
    """By two ways each, others for each shape."""
    ways, at = list(WAYS.values()), [*PLAIN, *OPTIMA].index(shape)
    for number in (at % len(ways), (at + 3) % len(ways)):
        oracle.agrees_in(ways[number], drawn_recursion(number, shape))


def test_values_are_cut_by_what_they_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that has no time gives what it has; the rest is cut again, and nothing is lost."""
    monkeypatch.setattr(key_ranges, "BUDGET", 0.0)
    monkeypatch.setattr(key_ranges, "PIECES", 3)
    random = Random(7)
    edges = [(random.randrange(40), random.randrange(40)) for _ in range(60)]
    with gdatalog.connect(device="cpu") as db:
        db["E"] = edges
        expected = sorted(db.query(CLOSURE).fetchall())
    with gdatalog.connect(device="cpu") as db:
        db["E"] = edges
        pool = Here(2)
        db.workspace.force(spread="replicate")
        db.workspace.cluster = Recursion(pool)
        assert sorted(db.query(CLOSURE).fetchall()) == expected
        assert pool.functions.count("followed") > 2 * key_ranges.PARTS
        counted = db.query(f"{CLOSURE} n(count()) <- p(_, _). ?- n(c).")
        assert counted.fetchall() == [(len(expected),)]
        assert {*pool.functions} == {"followed"}


def test_rows_meet_where_a_hash_says() -> None:
    """What a rule looks up by a new row's value is dealt out by it; other things go to all."""
    with gdatalog.connect(device="cpu") as db:
        db["E"] = [(1, 2), (2, 3), (3, 1)]
        db["N"] = [(1,), (2,)]
        assert _routes(db, SQUARED) == {"p@0", "p@1"}
        assert _routes(db, "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z), N(w), N(x).") == {
            "p@1", "E@0",
        }  # fmt: skip
        assert _routes(db, "p(x) <- N(x). p(y) <- p(x), N(y), E(_, y).") == {"p@home"}


def _routes(db: gdatalog.Database, text: str) -> set[str]:
    """The places that a program's rules read, with all relations dealt out."""
    found: set[str] = set()

    class Looks(Recursion):
        def fixpoint(self, operator: Any, inputs: Any) -> Any:
            given = self.pool, self.keeper(1 << 30), operator.rounds, inputs
            its = HashPartitions(*given, True).routes
            assert its.aligned == all(map(its.at_home, its.places.values()))
            found.update(its.places, its.fragments)
            return None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(db.workspace, "cluster", Looks(Here()))
        db.workspace.force(spread="partition", split="never")
        db.query(text).fetchall()
    return found


def test_a_plan_of_no_rows_is_dealt_out_too() -> None:
    assert routes_of([], {"p": [0]}, lambda name: 0, True).homes == {"p": (0,)}


def test_what_is_taken_over_is_not_used_twice() -> None:
    state = PartitionState(None)
    with pytest.raises(StaleState):
        state.take(None)  # type: ignore[arg-type]  # nothing is made of it
    with pytest.raises(StaleState):
        rows_at_home(StepOutput(state=copied(state)), "p")


def test_lost_states_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where what an owner had cannot be made again, the whole begins again."""
    real, steps = hash_partitions.step, []

    def failing(*args: Any) -> Any:
        steps.append(args[0].number)
        if len(steps) == 5:
            raise StaleState
        return real(*args)

    monkeypatch.setattr(hash_partitions, "step", failing)
    random = Random(3)
    edges = [(random.randrange(30), random.randrange(30)) for _ in range(40)]
    with gdatalog.connect(device="cpu") as db:
        db["E"] = edges
        expected = sorted(db.query(SQUARED).fetchall())
        db.workspace.force(spread="partition", split="never")
        db.workspace.cluster = Recursion(Here(3))
        db["E"] = [*edges]
        assert sorted(db.query(SQUARED).fetchall()) == expected
    assert len(steps) > 5


def test_a_cycle_that_improves_for_ever_is_told_of() -> None:
    with gdatalog.connect(device="cpu") as db:
        db["W"] = [(1, 2, 1), (2, 3, 1), (3, 1, -5)]
        db.workspace.force(spread="partition")
        db.workspace.cluster = Recursion(Here(2))
        with pytest.raises(EvaluationError, match="improves for ever") as caught:
            db.query("d(1, 0). d(y, min(a + w)) <- d(x, a), W(x, y, w).").fetchall()
        assert caught.value.span is not None


def test_rows_without_room_are_told_of() -> None:
    with gdatalog.connect(device="cpu") as db:
        db.workspace.force(spread="partition")
        db.workspace.cluster = Recursion(pool := Here(2))
        pool.connection.budget = 100_000
        with pytest.raises(MemoryLimitError, match="in round") as caught:
            db.query("p(0). p(x + 1) <- p(x). p(2 * x) <- p(x).").fetchall()
        assert caught.value.span is not None


def test_what_stays_on_this_machine() -> None:
    """Rounds that a limit ends, and texts that rules make."""
    with gdatalog.connect(device="cpu") as db:
        pool = Here(2)
        db.workspace.force(spread="partition")
        db.workspace.cluster = Recursion(pool)
        made = 'p("a"). p(cat(x, "b")) <- p(x), strlen(x) < 5.'
        assert len(db.query(made)) == 5
        limited = "p(x) <- x = 1. p(x + 1) <- p(x), x < 1000. .limitsize p(n=10)"
        assert len(db.query(f"{limited}\n?- p(x).")) < 1000
        assert pool.functions == []


def test_a_profile_tells_rounds_and_steps() -> None:
    with gdatalog.connect(device="cpu") as db:
        db["E"] = [(x, x + 1) for x in range(12)]
        db.workspace.force(spread="partition", split="never")
        db.workspace.cluster = Recursion(Here(2))
        told = str(db.profile(f"{SQUARED} ?- p(x, y)."))
        assert "rounds on 2 workers: " in told
        assert "78 rows of p in 5 rounds" in told
        assert "new rows, round 0 to 5" in told
        db.workspace.force(spread="replicate", split="auto")
        told = str(db.profile(f"{CLOSURE} ?- p(x, y)."))
        assert "a fixpoint for each x of p, on 2 workers: 12 values" in told


# ------------------------------------------------------------------------------- real workers


def _interpret(on: bool) -> None:
    """On a worker: printed loops are run by Python, or compiled again."""
    from gdatalog.codegen import native
    from tests import interpreted

    cache: Any = native
    if on and not hasattr(cache, "compiling"):
        cache.compiling, cache.load = cache.load, interpreted.load
    elif not on and hasattr(cache, "compiling"):
        cache.load = cache.compiling
        del cache.compiling


def everywhere(client: Any, function: Any, *args: Any) -> list[Any]:
    """What a function gives on both workers, of which one may just have died."""
    until = monotonic() + 60
    while True:
        try:
            found = list(client.run(function, *args).values())
        except Exception:
            found = []
        if len(found) == 2:
            return found
        assert monotonic() < until, "no two workers within a minute"
        sleep(0.05)


@pytest.fixture
def two(cluster: Any) -> Iterator[Any]:
    client = cluster(2)
    everywhere(client, _interpret, True)
    yield client
    everywhere(client, _interpret, False)


def graph(seed: int, vertices: int, edges: int) -> list[tuple[int, int]]:
    random = Random(seed)
    return [(random.randrange(vertices), random.randrange(vertices)) for _ in range(edges)]


PROGRAMS: Mapping[str, str] = {
    "closure": CLOSURE,
    "squared": SQUARED,
    "generations": "p(x, y) <- E(a, x), E(a, y), x != y. p(x, y) <- E(a, x), p(a, b), E(b, y).",
    "nearest": "p(x, min(0)) <- E(x, _), x < 3. p(y, min(d + 1)) <- p(x, d), E(x, y).",
}


@pytest.mark.parametrize("spread", ["replicate", "partition"])
def test_workers_agree_with_one_process(two: Any, spread: str, large: None) -> None:
    edges = graph(1, 40, 60)
    with gdatalog.connect(device="cpu") as alone, gdatalog.connect(device="cpu", cluster=two) as db:
        alone["E"] = db["E"] = edges
        db.workspace.force(spread=spread)
        for name, text in PROGRAMS.items():
            expected = sorted(alone.query(text).fetchall())
            assert sorted(db.query(text).fetchall()) == expected, name


@pytest.mark.slow
@pytest.mark.parametrize("spread", ["replicate", "partition"])
def test_many_rows_stay_on_the_workers(
    two: Any, spread: str, large: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    tune(monkeypatch, fetched_bytes=0)
    everywhere(two, _few, 0)
    stayed: list[int] = []
    real = Relation.of_parts

    def of_parts(columns: Any, types: Any, lying: Any, *rest: Any) -> Relation:
        stayed.append(len(lying))
        return real(columns, types, lying, *rest)

    monkeypatch.setattr(Relation, "of_parts", of_parts)
    edges = graph(2, 30, 50)
    counted = "n(count()) <- p(_, _)."
    with gdatalog.connect(device="cpu") as alone, gdatalog.connect(device="cpu", cluster=two) as db:
        alone["E"] = db["E"] = edges
        db.workspace.force(spread=spread)
        for text in (
            CLOSURE,
            "p(x, y) <- q(y, x). q(x, y) <- E(y, x). q(x, z) <- p(y, x), E(y, z).",
        ):
            rows = db.query(f"{text} ?- p(x, y).")
            expected = sorted(alone.query(f"{text} ?- p(x, y).").fetchall())
            assert sorted(rows.fetchall()) == expected
            assert db.query(f"{text} {counted} ?- n(c).").fetchall() == [(len(expected),)]
    assert stayed and min(stayed) > 1
    everywhere(two, _few, key_ranges.SMALL)


def test_rows_that_lie_afar_are_dealt_out_where_they_lie(
    two: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataframe = pytest.importorskip("dask.dataframe")
    tune(monkeypatch, fetched_bytes=0)
    fetched: list[Any] = []
    real = RowKeeper.fetch

    def fetch(self: RowKeeper, pieces: Any) -> Any:
        fetched.append(pieces)
        return real(self, pieces)

    edges = graph(6, 30, 60)
    frame = pd.DataFrame(edges, columns=["x", "y"])
    with gdatalog.connect(device="cpu") as alone, gdatalog.connect(device="cpu", cluster=two) as db:
        alone["E"] = edges
        db["E"] = dataframe.from_pandas(frame, npartitions=3)
        db.workspace.force(spread="partition", split="never")
        expected = sorted(alone.query(CLOSURE).fetchall())
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RowKeeper, "fetch", fetch)
            rows = db.query(CLOSURE)
        store = db.workspace.stored["E"].store
        assert isinstance(store, RemoteRows) and store.unfetched
        assert sorted(rows.fetchall()) == expected
        assert not fetched
        db.workspace.force(spread="auto")
        db.workspace.tune(fetched_share=1 << 60)
        told = str(db.profile(f"{CLOSURE} q(y) <- p(1, y). ?- p(x, y)."))
        assert "rounds on 2 workers" in told


def _few(nbytes: int) -> None:
    """On a worker: only so many bytes of rows come along with what is told of them."""
    key_ranges.SMALL = nbytes


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))]
)
def test_a_worker_that_dies_changes_nothing(
    two: Any, seed: int, large: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that only it had are made again, in whatever step it dies."""
    random = Random(seed)
    when, real = random.randrange(1, 6), HashPartitions._step
    pids = everywhere(two, os.getpid)
    steps: list[int] = []

    def step(self: HashPartitions, settling: bool, course: Any) -> Any:
        steps.append(1)
        if len(steps) == when:
            os.kill(random.choice(pids), signal.SIGKILL)
        return real(self, settling, course)

    monkeypatch.setattr(HashPartitions, "_step", step)
    edges = [*graph(seed, 60, 60), *((x, x + 1) for x in range(60))]
    with gdatalog.connect(device="cpu") as alone, gdatalog.connect(device="cpu", cluster=two) as db:
        alone["E"] = db["E"] = edges
        db.workspace.force(spread="partition", strategy="levelwise", split="never")
        expected = sorted(alone.query(SQUARED).fetchall())
        assert sorted(db.query(SQUARED).fetchall()) == expected
    assert len(steps) >= when


def test_a_stretch_whose_worker_dies_is_run_again(
    two: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = KeyRangeFixpoint._cuts
    pids = everywhere(two, os.getpid)

    def cuts(self: KeyRangeFixpoint, low: int, high: int, wanted: int) -> list[int]:
        found = real(self, low, high, wanted)
        if pids and wanted == 2:  # something has come back
            os.kill(pids.pop(), signal.SIGKILL)
            pids.clear()
        return found

    monkeypatch.setattr(KeyRangeFixpoint, "_cuts", cuts)
    monkeypatch.setattr(key_ranges, "PARTS", 2)
    edges = graph(5, 80, 120)
    with gdatalog.connect(device="cpu") as alone, gdatalog.connect(device="cpu", cluster=two) as db:
        alone["E"] = db["E"] = edges
        db.workspace.force(spread="replicate")
        expected = sorted(alone.query(CLOSURE).fetchall())
        assert sorted(db.query(CLOSURE).fetchall()) == expected
    assert not pids


def test_the_greatest_keys_are_in_the_last_stretch() -> None:
    keys = [-5, 1 << 53, (1 << 53) + 1, (1 << 63) - 2, (1 << 63) - 1]
    seeds = RowsByColumn(np.array(keys), np.arange(6), {})
    assert seeds.between(-5, 1 << 63).values.tolist() == keys
    assert seeds.between((1 << 53) + 1, 1 << 63).values.tolist() == keys[2:]
    assert seeds.between(-5, (1 << 53) + 1).values.tolist() == keys[:2]
