"""Rules whose work is spread over workers that have all relations whole, against one process.

The pieces of many programs run in this process, sealed and pickled as for a worker (`Here`); the
same ways are then gone with processes of a Dask cluster.
"""

from __future__ import annotations

import pickle
from collections.abc import Hashable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given

import gdatalog
from gdatalog.cluster import dask_cluster
from gdatalog.cluster.dask_cluster import DaskCluster
from gdatalog.cluster.joins.bucket_store import BucketStore
from gdatalog.cluster.pool.calls import Call, RemoteValue, TooLarge
from gdatalog.cluster.workers import own_process
from gdatalog.cluster.workers.connection import Connection
from gdatalog.engine.context import ExecutionContext
from gdatalog.errors import EvaluationError
from tests.cases import share
from tests.clusters import Workers
from tests.corners import CORNERS, Example
from tests.draw import Drawn, aggregate_programs, programs, string_programs
from tests.examples import EXAMPLES
from tests.interpreted import interpreted
from tests.oracle_values import canonical
from tests.recursion_here import There, unpacked
from tests.test_engine_oracle import Data, Relations, agrees_in, answers

pytestmark = [
    pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]


class Here:
    """What stands for the workers' pool: calls run in this process, on copies as a worker has."""

    def __init__(self, slots: int = 2) -> None:
        self.slots = slots
        self.workers = self.threads = {"here": slots}
        client = SimpleNamespace(status="running")
        self.connection = SimpleNamespace(
            client=client, device_for=lambda cost, thresholds: "cpu", gpus=False
        )
        self.placed: dict[Hashable, Any] = {}
        self.calls = 0

    def broadcast(self, key: Hashable, value: Any, version: Any = None, once: bool = False) -> Any:
        if key is None or (key, version) not in self.placed:
            self.placed[key, version] = (value, pickle.loads(pickle.dumps(value)))
        return There(self.placed[key, version][1])

    def stage(self, told: str, limits: Any, smaller: Any = None) -> _Stage:
        return _Stage(self, smaller)

    def close(self) -> None:
        self.placed.clear()


class _Stage:
    def __init__(self, pool: Here, smaller: Any) -> None:
        self.pool = pool
        self.smaller = smaller
        self.left: list[Call] = []

    @property
    def pending(self) -> int:
        return len(self.left)

    def add(self, call: Call) -> None:
        self.left.append(call)

    def cancel(self) -> None:
        self.left.clear()

    def __iter__(self) -> Iterator[tuple[Call, Any]]:
        while self.left:
            call = self.left.pop()  # the last first: in any order
            self.pool.calls += 1
            args = unpacked(call.args, lambda placed: placed.value)
            try:
                found = call.function(*args)
            except MemoryError:
                large = TooLarge(call, "not enough memory", None)
                smaller = self.smaller(large)
                if not smaller:
                    raise large from None
                self.left += smaller
                continue
            except Exception as error:
                raise pickle.loads(pickle.dumps(error)) from None
            told = found if call.summary is None or not call.keep else call.summary(found)
            given = pickle.loads(pickle.dumps(told))
            yield call, RemoteValue(None, given) if call.keep else given


def spread(db: gdatalog.Database, cluster: Any) -> None:
    """Has all that can be spread done so."""
    db.workspace.cluster = cluster
    db.workspace.force(spread="replicate")


class SpreadHere(DaskCluster):
    """Rules are spread; recursion is not, data is loaded here, and rows come here."""

    def __init__(self, slots: int) -> None:
        self.pool = Here(slots)  # type: ignore[assignment]
        self.connection = self.pool.connection
        self.store = BucketStore(self.pool)

    def load(self, *asked: Any) -> None:
        return None

    def keeper(self, memory: int) -> Any:
        return None

    def placement(self, *asked: Any) -> None:
        return None


def here(slots: int = 2) -> DaskCluster:
    return SpreadHere(slots)


def run_here(text: str, data: Data, defined: set[str], number: int | None) -> Relations:
    number = number or 0
    with gdatalog.connect(device="cpu") as db:
        db.workspace.force(strategy=("auto", "lftj", "levelwise")[number % 3])
        if number % 2:
            db.workspace.chunk_rows = 3
        spread(db, here(1 + number % 4))
        return answers(db, text, data, defined)


@pytest.fixture(scope="module", autouse=True)
def not_compiled() -> Iterator[None]:
    """Depth-first loops are run by Python in this process; the workers compile theirs."""
    with interpreted():
        yield


@pytest.mark.drawn
@share(15)
@given(programs())
def test_programs(drawn: Drawn) -> None:
    agrees_in(run_here, drawn)


@pytest.mark.drawn
@share(5)
@given(aggregate_programs())
def test_aggregate_programs(drawn: Drawn) -> None:
    agrees_in(run_here, drawn)


@pytest.mark.drawn
@share(5)
@given(string_programs())
def test_string_programs(drawn: Drawn) -> None:
    agrees_in(run_here, drawn)


@pytest.mark.parametrize("example", CORNERS + EXAMPLES, ids=str)
def test_example(example: Example) -> None:
    check(example, here())


def check(example: Example, cluster: Any) -> None:
    with gdatalog.connect(device="cpu") as db:
        spread(db, cluster)
        if example.fails:
            with pytest.raises(EvaluationError) as caught:
                answers(db, example.program, example.data, _heads(example))
            assert caught.value.span is not None
            return
        found = answers(db, example.program, example.data, set(example.expected))
    assert {name: canonical(rows) for name, rows in found.items()} == {
        name: canonical(rows) for name, rows in example.expected.items()
    }


def _heads(example: Example) -> set[str]:
    from gdatalog.parser import parse

    return Drawn(parse(example.program), {}, 0).defined


# ------------------------------------------------------------------ what programs are easily wrong

GRAPH = [(a, b) for a in range(30) for b in range(30) if a != b and (a * b + a + b) % 7 < 2]
HUB = [(0, b) for b in range(1, 200)] + [(b, b + 1) for b in range(1, 199)] + [(99, 0)]
WORDS = [(1, "b"), (2, "a"), (3, "c"), (4, "a"), (5, "é"), (6, "")]

CASES: dict[str, str] = {
    "rows that need no comparing": "p(x, y, z) <- E(x, y), E(y, z), E(x, z).",
    "rows that come again": "p(x, z) <- E(x, y), E(y, z).",
    "a proposition": "p() <- E(x, y), E(y, x), x < y. q() <- E(x, y), E(y, x), x = y.",
    "aggregates of all kinds": """
        a(count(), sum(y), min(y), max(y), mean(y), count_distinct(z)) <- E(x, y), E(y, z).
        b(x, count(), sum(z), min(z), max(z), mean(z), count_distinct(z)) <- E(x, y), E(y, z).
        c(count()) <- E(x, y), E(y, z), E(z, x), x > 1000.
        d(sum(to_float(x) / 2.0), mean(to_float(y))) <- E(x, y).
    """,
    "a union before aggregates": """
        a(n) <- n = count : { (E(x, y) ; F(x, y)) }.
        b(n) <- n = sum y : { (E(x, y), y > 3 ; F(x, y) ; E(y, x)) }.
        c(x, n) <- F(x, 0), n = count : { (E(x, y) ; F(x, _), E(x, y)) }.
        d(x, y) <- (E(x, y), y > 3 ; F(x, y) ; E(y, x)).
    """,
    "the order of texts": """
        a(min(s), max(s), any_value(s)) <- W(x, s).
        b(s, t) <- W(x, s), W(y, t), s < t.
        c(x, max(s)) <- E(x, y), W(y, s).
        d(s) <- W(x, s), s != "a".
        e(x) <- E(x, y), W(y, "é").
        f(m, s) <- W(m, s), m = max k : { W(k, _) }.
    """,
    "texts made by workers": """
        a(cat(s, t)) <- W(x, s), W(y, t).
        b(t, count()) <- W(x, s), W(y, r), t = cat(s, cat("-", r)).
        c(min(cat(s, t)), max(cat(t, s)), count_distinct(cat(s, "+"))) <- W(x, s), W(y, t).
        d(x, t) <- W(x, s), t = to_string(x), !W(_, t).
        e(s, strlen(s)) <- a(s), match("b.*", s).
    """,
    "branches": """
        a(x) <- E(x, y), !E(y, x).
        b(x, n) <- E(x, _), n = count : { E(x, y), E(y, z), !F(z, _) }.
        c(x, y) <- F(x, _), y = max z : { E(x, z) }.
        d(x, y, z) <- E(x, y), y = max w : { E(x, w) }, E(y, z).
    """,
    "constants and parameters": """
        a(y) <- E(3, y). b(y, z) <- E(3, y), E(y, z). c(z) <- E(3, y), E(y, z), F(z, 0).
        d(x) <- E(x, 4), x > 2. e(x) <- x in {1, 5, 400}, E(x, y).
        f(x, z) <- E(x, y), z = x + y, F(z, _).
    """,
    "products": "a(x, w) <- E(x, _), F(_, w). b(count()) <- E(x, y), F(z, w), x < z.",
    "recursion": """
        path(x, y) <- E(x, y), x < 5. path(x, z) <- path(x, y), E(y, z).
        far(x, min(d)) <- E(x, y), d = 1. far(x, min(d + 1)) <- E(x, y), far(y, d).
    """,
    "floats and times": """
        a(x, y) <- R(x, t), R(y, u), x < y. b(t, count()) <- R(x, t). c(max(x), min(t)) <- R(x, t).
    """,
}


def load(db: gdatalog.Database, most: int = 1000) -> None:
    db["E"] = GRAPH[:most]
    db["F"] = HUB[:most]
    db["W"] = WORDS
    db.run(
        "R(0.5, @2020-01-01). R(-1.5, @2021-01-01). R(1e300, @2020-01-01). R(-0.0, @1999-12-31)."
    )


def relations(db: gdatalog.Database, text: str, most: int = 1000) -> dict[str, set[Any]]:
    load(db, most)
    names = _heads_of(text)
    db.run(text)
    return {name: canonical(db.relations[name].fetchall()) for name in sorted(names)}


def _heads_of(text: str) -> set[str]:
    from gdatalog.parser import parse

    return Drawn(parse(text), {}, 0).defined


def alone(text: str, most: int = 1000) -> dict[str, set[Any]]:
    with gdatalog.connect(device="cpu") as db:
        return relations(db, text, most)


@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("case", CASES)
def test_case(case: str, slots: int) -> None:
    with gdatalog.connect(device="cpu") as db:
        spreading = here(slots)
        spread(db, spreading)
        assert relations(db, CASES[case]) == alone(CASES[case])
        assert spreading.pool.calls > 0  # type: ignore[attr-defined]


FAILS = [
    "a(x, z) <- E(x, y), z = y / (x - 3).",
    "a(x, n) <- W(x, s), n = to_number(s).",
    "a(x, n) <- W(x, s), n = sum k : { W(k, t), k < to_number(s) }.",
    "a(sum(x * 4611686018427387904)) <- E(x, y).",
    'a(x, sum(log(to_float(y - 3)))) <- E(x, y), W(x, "c").',
]


@pytest.mark.parametrize("text", FAILS)
def test_what_fails_on_a_worker_is_told_as_here(text: str) -> None:
    told = []
    for cluster in (None, here(3)):
        with gdatalog.connect(device="cpu") as db:
            if cluster is not None:
                spread(db, cluster)
            with pytest.raises(EvaluationError) as caught:
                relations(db, text)
        error = caught.value
        assert error.span is not None
        told.append((error.message.partition(" with ")[0], error.span.where(), error.hint))
    assert told[0] == told[1]


def test_cautions_of_workers_are_told_once() -> None:
    text = 'a(y) <- W(1, s), W(y, t), match(cat("(", s), t).'
    told = []
    for cluster in (None, here(3)):
        with gdatalog.connect(device="cpu") as db:
            if cluster is not None:
                spread(db, cluster)
            load(db)
            with pytest.warns(gdatalog.ProgramWarning) as caught:
                db.query(text).fetchall()
        told.append([str(warning.message) for warning in caught])
    assert told[0] == told[1] and told[0]


def test_a_limit_is_met_by_workers() -> None:
    with gdatalog.connect(device="cpu") as db:
        spread(db, here(2))
        load(db)
        everything = set(db.query("p(x, z) <- E(x, y), E(y, z).").fetchall())
        assert len(everything) > 20
        for limit in (1, 7, 20):
            found = db.query("p(x, z) <- E(x, y), E(y, z).", limit=limit).fetchall()
            assert len(set(found)) == len(found) == limit and set(found) <= everything


def test_workers_run_a_limited_rule_that_may_fail() -> None:
    """The limit does not apply to it, but its rows are not collected on the workers either."""
    query = "p(x, y, z) <- E(x, y), E(y, x), z = 10 / (x + y + 1)."
    with gdatalog.connect(device="cpu") as db:
        load(db)
        everything = set(db.query(query).fetchall())
    with gdatalog.connect(device="cpu") as db:
        cluster = here(2)
        spread(db, cluster)
        load(db)
        found = set(db.query(query, limit=2).fetchall())
        assert len(found) == 2 and found <= everything
        assert cluster.pool.calls > 0  # type: ignore[attr-defined]


TRIANGLES = "t(x, count()) <- E(x, y), E(y, z), E(z, x)."


def too_much(*asked: Any, **told: Any) -> None:
    raise gdatalog.MemoryLimitError("it does not fit here")


@pytest.mark.parametrize(
    ("knob", "tuning", "changed", "spread"),
    [
        ("auto", {}, {}, False),
        ("auto", {"spread_from": 0.0}, {}, True),
        ("auto", {"spread_never": 0.0}, {}, False),  # it is done before the time here is over
        ("auto", {"spread_never": 0.0}, {"DRIVER_SECONDS": 0.0}, True),
        ("auto", {"spread_never": 0.0}, {"run_rule": too_much}, True),
        ("never", {"spread_from": 0.0}, {}, False),
    ],
)
def test_what_is_spread(
    knob: str,
    tuning: dict[str, float],
    changed: dict[str, Any],
    spread: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dask_cluster, "fits_nowhere", lambda *of: False)
    monkeypatch.setattr(dask_cluster, "fits_workers", lambda *of: True)
    for name, value in changed.items():
        monkeypatch.setattr(dask_cluster, name, value)
    with gdatalog.connect(device="cpu") as db:
        cluster = SpreadHere(2)
        db.workspace.cluster = cluster
        db.workspace.force(spread=knob)
        db.workspace.tune(**tuning)
        load(db)
        found = sorted(db.query(TRIANGLES).fetchall())
        assert bool(cluster.pool.calls) == spread  # type: ignore[attr-defined]
    with gdatalog.connect(device="cpu") as db:
        load(db)
        assert sorted(db.query(TRIANGLES).fetchall()) == found


def test_workers_are_told_of_thresholds(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []

    def noting(*parts: Any, **more: Any) -> ExecutionContext:
        told.append(parts[3].thresholds)
        return ExecutionContext(*parts, **more)

    monkeypatch.setattr(own_process, "ExecutionContext", noting)
    with gdatalog.connect(device="cpu") as db:
        spread(db, here(2))
        db.workspace.tune(groups_from=7)
        load(db)
        db.query(TRIANGLES)
        assert told and set(told) == {db.workspace.settings.thresholds}


def test_a_profile_counts_what_workers_did() -> None:
    steps = []
    for cluster in (None, here(3)):
        with gdatalog.connect(device="cpu") as db:
            db.workspace.force(strategy="levelwise")
            if cluster is not None:
                spread(db, cluster)
            load(db)
            told = str(db.profile(TRIANGLES))
        steps.append([line.split()[-5] for line in told.splitlines() if " in E(" in line])
    assert steps[0] and steps[0] == steps[1]


# --------------------------------------------------------------------- processes of a cluster


@pytest.mark.slow
def test_programs_on_workers(cluster: Workers) -> None:
    client = cluster(2)
    for text in CASES.values():
        with gdatalog.connect(device="cpu", cluster=client) as db:
            db.workspace.force(spread="replicate")
            assert relations(db, text) == alone(text)


def test_examples_on_workers(cluster: Workers) -> None:
    client = cluster(2)
    for example in CORNERS[::3]:
        check(example, DaskCluster(Connection(client)))


def test_an_error_on_a_worker_is_the_error_here(cluster: Workers) -> None:
    for text in FAILS[:2]:
        with gdatalog.connect(device="cpu", cluster=cluster(2)) as db:
            db.workspace.force(spread="replicate")
            with pytest.raises(EvaluationError) as caught:
                relations(db, text)
        assert caught.value.span is not None and caught.value.span.text in text
        assert caught.value.hint and "^" in str(caught.value)
