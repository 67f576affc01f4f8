"""`device="auto"`: large work and what lies on the GPU run there, the rest on the CPU."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator
from functools import partial
from math import inf
from random import Random
from threading import Event, Thread
from typing import Any
from weakref import ref

import pytest
from hypothesis import given

import gdatalog as gd
from gdatalog.engine import placing
from gdatalog.engine.device import CPU
from gdatalog.engine.devices import LATER, OPENED, LaterGpu, OpenDevice
from gdatalog.engine.evaluator.bound import BoundRules
from gdatalog.engine.evaluator.evaluator import Evaluator
from gdatalog.gpu_ops.device import Gpu
from gdatalog.planner import placement
from gdatalog.planner.rewrite import program_sizes
from gdatalog.progress import format_bytes
from gdatalog.records import replace
from gdatalog.storage import row_store, statistics
from tests import test_engine_oracle as oracle
from tests.cases import share
from tests.corners import CORNERS, Example
from tests.cuda_host import HostDriver, needs_compiler
from tests.draw import Drawn, recursive_programs, relational_programs
from tests.examples import EXAMPLES
from tests.oracle_values import canonical
from tests.test_gpu_bound import cost

pytestmark = [
    needs_compiler,
    pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]
EDGES = [(a, b) for a in range(12) for b in range(12) if a != b and (a + b) % 3]
# Costs by which only the rows to look at decide.
ROWS_ONLY = {
    "gpu_rule": 0.0, "gpu_launch": 0.0, "gpu_bus": 1e30, "gpu_rows": 1e30, "gpu_new_rows": 1e30,
    "core_turn": 0.0, "core_new_rows": 1e30, "core_rows": 1e8, "array_rows": 1e8, "gpu_copy": 0.0,
    "gpu_array_rows": 1e8, "core_indexed": 1e30, "gpu_indexed": 1e30,
}  # fmt: skip
COUNT = "n(count()) <- E(x, y), E(y, z), E(x, z), x < y < z."
CLOSURE = "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z)."


def auto(opened: list[Gpu], **thresholds: float) -> gd.Database:
    """A database of a machine with a GPU; `opened` gets it once it is opened."""

    def opening() -> OpenDevice:
        gpu = Gpu(HostDriver())
        opened.append(gpu)
        return OpenDevice(gpu, "for a test", gpu.driver.use)

    db = gd.connect(device="cpu")
    db.workspace.later = later = LaterGpu(opening, db._turns.enter)
    db._turns._use = later.use
    db.workspace.tune(**(ROWS_ONLY if "gpu_from" in thresholds else {}) | thresholds)
    return db


@pytest.fixture
def opened() -> list[Gpu]:
    return []


@pytest.fixture
def connect(opened: list[Gpu]) -> Iterator[Callable[..., gd.Database]]:
    made: list[gd.Database] = []

    def connecting(**thresholds: float) -> gd.Database:
        made.append(auto(opened, **thresholds))
        made[-1]["E"] = EDGES
        return made[-1]

    yield connecting
    for db in made:
        db.close()


def why_of(text: str) -> list[str]:
    """The lines of an explanation that say where something runs."""
    return [line.lstrip("│ ") for line in text.splitlines() if line.lstrip("│ ").startswith("on ")]


def chosen(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the log says of the device."""
    return [message for message in caplog.messages if message.startswith("device: ")]


def triangles() -> int:
    edges = set(EDGES)
    return sum((y, z) in edges and x < y < z for x, y in edges for w, z in edges if w == x)


def test_small_work_opens_no_gpu(connect: Any, opened: list[Gpu]) -> None:
    db = connect()
    assert db.query(COUNT).fetchall() == [(triangles(),)]
    assert len(db.query(CLOSURE + " ?- p(x, y).")) == 144
    explained = db.explain(COUNT)
    first, where = why_of(str(explained))
    assert first.startswith("on cpu, strategy auto")
    assert where.startswith("on the CPU: about ") and where.endswith(" rows to look at")
    (stratum,) = explained.tree.find("stratum")
    assert dict(stratum.facts)["device"] == "cpu"
    assert f"on the CPU: {dict(stratum.facts)['why']}" == where
    assert " s on cpu, " in str(db.profile(COUNT))
    assert opened == []
    assert (db.device, db.workspace.why) == ("cpu", LATER)
    assert repr(db) == "<gdatalog.Database on cpu: E>"


def test_a_profile_tells_what_opening_the_gpu_took(connect: Any) -> None:
    db = connect(gpu_from=100.0)
    db.workspace.force(strategy="lftj")
    first, again = (dict(db.profile(COUNT).tree.facts) for _ in range(2))
    assert 0.0 < first["opening"] < first["seconds"] and again["opening"] == 0.0


def test_a_call_leaves_no_rows_to_the_garbage_collector(
    connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that wait for it take memory, and a device that lends rows would not have them back."""
    made: list[ref[Evaluator]] = []
    begin = Evaluator.__init__

    def noted(self: Evaluator, *given: Any, **named: Any) -> None:
        begin(self, *given, **named)
        made.append(ref(self))

    monkeypatch.setattr(Evaluator, "__init__", noted)
    db = connect(gpu_from=100.0)
    db.workspace.force(strategy="lftj")
    gc.collect()
    gc.disable()
    try:
        assert db.query(COUNT).fetchall() == [(triangles(),)]
        assert len(db.query(CLOSURE + " ?- p(x, y).")) == 144
        db.workspace.results.clear()
        db.workspace.catalog.bound.clear()
        assert made and [each() for each in made] == [None] * len(made)
    finally:
        gc.enable()


def test_a_large_rule_runs_on_the_gpu(
    connect: Any, opened: list[Gpu], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="gdatalog")
    db = connect(gpu_from=100.0)
    db.workspace.force(strategy="lftj")
    assert db.query(COUNT).fetchall() == [(triangles(),)]
    assert db.query(COUNT).fetchall() == [(triangles(),)]
    (gpu,) = opened
    assert len(gpu.walks._kernels) == 1
    assert (db.device, db.workspace.why) == ("cpu and cuda:0", OPENED)
    assert chosen(caplog) == [f"device: cpu and cuda:0 ({OPENED})"]
    first, where = why_of(str(db.explain(COUNT)))
    assert first.startswith(f"on cuda:0 ({OPENED}), strategy lftj")
    assert where.startswith("on cuda:0: about ") and where.endswith(" rows to look at")
    profile = str(db.profile(COUNT))
    assert " s on cuda:0, " in profile and where in profile
    # What is small stays on the CPU, and a limit asks for a part only.
    assert " s on cpu, " in str(db.profile("s(x) <- E(x, 3)."))
    assert why_of(str(db.explain("s(x) <- E(x, 3).")))[1] == "on the CPU: about 7 rows to look at"
    launches = gpu.walks._kernels.copy()
    assert len(db.query("t(x, y, z) <- E(x, y), E(y, z), E(x, z).", limit=3)) == 3
    assert gpu.walks._kernels == launches


def test_a_query_beside_a_call_that_may_use_the_gpu_runs_on_the_cpu(
    connect: Any, opened: list[Gpu]
) -> None:
    db = connect(gpu_from=100.0)
    db.workspace.force(strategy="lftj")
    inside, go = Event(), Event()

    def hold() -> None:
        with db.call():
            inside.set()
            assert go.wait(60)

    other = Thread(target=hold)
    other.start()
    assert inside.wait(60)
    assert db.query(COUNT).fetchall() == [(triangles(),)]
    assert "on the CPU: another call may use the GPU" in str(db.explain(COUNT))
    assert opened == []
    go.set()
    other.join()
    assert db.query(COUNT).fetchall() == [(triangles(),)]
    assert len(opened) == 1 and "on cuda:0: about" in str(db.explain(COUNT))
    # From now on all calls take turns.
    inside.clear(), go.clear()
    other = Thread(target=hold)
    other.start()
    assert inside.wait(60)
    with pytest.raises(gd.TimeLimitError, match="another call was running"):
        db.query(COUNT, timeout=0.05)
    go.set()
    other.join()


def test_an_explanation_opens_the_gpu_if_the_plan_needs_it(connect: Any, opened: list[Gpu]) -> None:
    db = connect(gpu_from=100.0)
    db.workspace.force(strategy="lftj")
    text = str(db.explain(COUNT))
    size = format_bytes(db.workspace.stored["E"].nbytes)
    assert text.startswith(f"on cuda:0 ({OPENED})")
    assert why_of(text)[1].endswith(f" rows to look at, {size} are copied to it")
    other = connect(gpu_from=100.0)
    other.workspace.force(strategy="lftj")
    profile = str(other.profile(COUNT))
    assert f" rows to look at, {size} are copied to it" in profile
    assert f"{size} were copied to or from the GPU" in profile
    assert len(opened) == 2 and db.device == "cpu and cuda:0"


def test_a_gpu_that_cannot_be_used_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="gdatalog")
    tries: list[int] = []

    def opening() -> OpenDevice:
        tries.append(1)
        return OpenDevice(CPU, "the GPU is not used: CuPy: not installed")

    with gd.connect(device="cpu") as db:
        db.workspace.later = LaterGpu(opening)
        db.workspace.tune(gpu_from=100.0, **ROWS_ONLY)
        db.workspace.force(strategy="lftj")
        db["E"] = EDGES
        for _ in range(2):
            assert db.query(COUNT).fetchall() == [(triangles(),)]
        where = why_of(str(db.explain(COUNT)))[1]
        assert where == "on the CPU: the GPU is not used: CuPy: not installed"
        assert db.device == "cpu" and db.workspace.why == where.removeprefix("on the CPU: ")
    assert tries == [1]
    assert chosen(caplog) == ["device: cpu (the GPU is not used: CuPy: not installed)"]


def test_a_partitioned_fixpoint_runs_on_the_gpu(connect: Any, opened: list[Gpu]) -> None:
    db = connect(gpu_from=1000.0, partitioned_from=0)
    assert len(db.query(CLOSURE + " ?- p(x, y).")) == 144
    (gpu,) = opened
    assert gpu.walks._kernels
    text = str(db.explain(CLOSURE))
    assert why_of(text)[1].startswith("on cuda:0: about 1,300 rows to look at in 3 rounds")
    assert "a fixpoint for each x of p" in text
    # Rounds that take more launches than their rows pay for stay on the CPU.
    db.workspace.tune(gpu_launch=1e-5)
    text = "q(x, y) <- E(x, y). q(x, z) <- q(x, y), q(z, y), x != z."
    where = why_of(str(db.explain(text)))[1]
    assert where.startswith("on the CPU: about ") and where.endswith(" rows to look at in 2 rounds")
    text += " ?- q(x, y)."
    on_cpu = gd.query(text, {"E": EDGES}, device="cpu")
    assert {*db.query(text).fetchall()} == {*on_cpu.fetchall()}


def test_data_on_the_gpu_stays_there_if_it_is_much(
    connect: Any, opened: list[Gpu], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "FETCHED", 0)
    monkeypatch.setattr(row_store, "SORTED_BELOW", 0)
    xp = HostDriver().xp
    columns = {
        "a": xp.asarray([a for a, _ in EDGES]),
        "b": xp.asarray([b for _, b in EDGES]),
    }
    text = "f(y, x) <- D(x, y), x < 6."
    expected = {(y, x) for x, y in EDGES if x < 6}
    few, many = connect(), connect(gpu_bytes=64, gpu_from=0.0, gpu_bus=1e3)
    few["D"] = columns
    assert few.workspace.stored["D"].store.on_host
    assert {*few.query(text).fetchall()} == expected
    assert opened == []
    many["D"] = columns
    assert not many.workspace.stored["D"].store.on_host and len(opened) == 1
    where = why_of(str(many.explain(text)))[1]
    size = many.workspace.stored["D"].nbytes
    assert where == f"on cuda:0: about 50 rows to look at, {format_bytes(size)} of them lie there"
    found = many.query(text)
    assert {*found.fetchall()} == expected
    # Its own rows and those that a rule derives.
    many.run("D(x, x) <- E(x, _).")
    assert {*many["D"].fetchall()} == {*EDGES, *((x, x) for x in range(12))}
    # More rows on the host than there: these are copied.
    many["Long"] = [(x, y, x + y) for x in range(60) for y in range(60)]
    text = "g(x, z) <- Long(x, y, z), D(x, y), x < y."
    assert why_of(str(many.explain(text)))[1].startswith("on the CPU: about ")
    edges = {*EDGES, *((x, x) for x in range(12))}
    assert {*many.query(text).fetchall()} == {(x, x + y) for x, y in edges if x < y}


def test_rules_of_one_relation_run_where_each_pays(connect: Any, opened: list[Gpu]) -> None:
    db = connect(gpu_from=50.0, gpu_rule=5e-7)
    db.workspace.force(strategy="lftj")
    text = (
        "t(x, y, z) <- E(x, y), E(y, z), E(x, z), x < y < z. t(x, x, 0) <- E(x, 3), x < 9. "
        "few(x) <- t(x, x, 0). n(count()) <- t(_, _, _)."
    )
    explained = db.explain(text)
    told = str(explained)
    assert told.startswith(f"on cpu and cuda:0 ({OPENED})")
    assert told.count("run on the CPU: about ") == 1
    rules = explained.tree.find("rule")
    assert [dict(rule.facts)["device"] for rule in rules[:2]] == ["cuda:0", "cpu"]
    profile = db.profile(text)
    assert " s on cpu and cuda:0, " in str(profile)
    own = {dict(rule.facts)["device"] for rule in profile.tree.find("rule")}
    assert own == {"cpu", "cuda:0"}
    loops = {(x, x, 0) for x, y in EDGES if y == 3 and x < 9}
    assert {*db.query(text + " ?- t(x, y, z), x = y.").fetchall()} == loops
    assert db.query(text + " ?- n(c).").fetchall() == [(triangles() + len(loops),)]
    assert {*db.query(text + " ?- few(x).").fetchall()} == {(x,) for x, _, _ in loops}
    assert len(opened) == 1


def test_a_count_leaves_rows_on_the_gpu(
    connect: Any, opened: list[Gpu], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_store, "SORTED_BELOW", 0)
    monkeypatch.setattr(statistics, "FETCHED", 0)
    db = connect(gpu_from=100.0, scanned_from=0, loops_worth=0.0, kernels_worth=0.0)
    text = "t(x, y, z) <- E(x, y), E(y, z), E(x, z), x < y < z. n(count()) <- t(_, _, _)."
    db.run(text)
    assert db["n"].fetchall() == [(triangles(),)]
    (found,) = (found for names, found in db.workspace.results.items() if "t" in names)
    assert not found.relations["t"].store.on_host
    assert why_of(str(db.explain(text)))[-1] == "on the CPU: about 1 row to look at"


def test_a_program_that_is_asked_again_is_placed_once_its_data_lies_there(
    connect: Any, opened: list[Gpu], monkeypatch: pytest.MonkeyPatch
) -> None:
    placings: list[str] = []
    usual = placing.placed

    def counted(*given: Any) -> Any:
        found = usual(*given)
        placings.append(found.device)
        return found

    monkeypatch.setattr(placing, "placed", counted)
    db, settings = connect(gpu_from=100.0), []
    for turn in range(4):
        db.workspace.results.clear()
        db.workspace.force(strategy="lftj")  # with settings of its own, it runs
        settings.append(db.workspace.settings)  # no later ones have their id
        assert db.query(COUNT).fetchall() == [(triangles(),)]
        assert len(placings) == min(turn + 1, 2)  # the first one copies the data
    assert len(opened) == 1
    assert why_of(str(db.explain(COUNT)))[1].endswith(" rows to look at")


def test_a_view_of_the_gpu_follows_new_rows(connect: Any, opened: list[Gpu]) -> None:
    db = connect(gpu_from=100.0)
    db.workspace.force(strategy="lftj")
    db.run("t(x, y, z) <- E(x, y), E(y, z), E(x, z), x < y < z. s(x, y) <- t(x, y, _).")
    assert len(db["t"]) == triangles() and len(opened) == 1
    db.insert("E", [(0, 50), (1, 50), (0, 51), (50, 51)])
    both = {*db["t"].fetchall()}
    assert len(both) == triangles() + 1 + ((0, 1) in set(EDGES))
    assert (0, 50, 51) in both and (0, 50) in {*db["s"].fetchall()}


class Workers:
    """A cluster that nobody asks."""

    def close(self) -> None:
        pass


def test_workers_of_a_cluster_have_the_gpus(connect: Any, opened: list[Gpu]) -> None:
    db = connect(gpu_from=100.0)
    assert db.workspace.auto is not None
    db.workspace.move_to(Workers(), {})  # type: ignore[arg-type]
    assert db.workspace.auto is None
    assert (db.device, db.workspace.why) == ("cpu", "GPUs are for the workers")
    db.workspace.move_to(None, {})
    assert db.workspace.auto is not None and db.workspace.why == LATER


# ------------------------------------------------------------------------------- the same answers


def mixed(
    text: str, data: oracle.Data, defined: set[str], least: float, most: float
) -> oracle.Relations:
    """What is expected to look at `least` rows runs on the GPU, and what reads more than `most`
    bytes that lie there; the rest brings them, however few they are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(placement.Work, "on_device", lambda work, _: inf if work.on_host else 0.0)
        patch.setattr(statistics, "FETCHED", 0)
        patch.setattr(row_store, "SORTED_BELOW", 0)
        with auto([], gpu_from=least, gpu_bytes=int(most), gpu_bus=1e30 if most > 1 else 1e3) as db:
            return oracle.answers(db, text, data, defined)


def drawn_in(
    text: str, data: oracle.Data, defined: set[str], _: Any, *, least: float, most: float
) -> oracle.Relations:
    return mixed(text, data, defined, least, most)


def run_example(example: Example, least: float, most: float) -> None:
    if example.fails:
        with pytest.raises(gd.EvaluationError):
            mixed(example.program, example.data, oracle._heads(example), least, most)
        return
    found = mixed(example.program, example.data, set(example.expected), least, most)
    assert {name: canonical(rows) for name, rows in found.items()} == {
        name: canonical(rows) for name, rows in example.expected.items()
    }


MOST = 1e9  # bytes, which nothing has


@pytest.mark.parametrize("example", (CORNERS + EXAMPLES)[::25], ids=str)
def test_some_examples(example: Example) -> None:
    run_example(example, 3.0, MOST)


@pytest.mark.slow
@pytest.mark.parametrize(("least", "most"), [(0.0, MOST), (2.5, MOST), (6.0, MOST), (2.5, 1.0)])
@pytest.mark.parametrize("example", CORNERS + EXAMPLES, ids=str)
def test_examples(example: Example, least: float, most: float) -> None:
    run_example(example, least, most)


@pytest.mark.slow
@share(5)
@given(relational_programs())
def test_relational_programs(drawn: Drawn) -> None:
    for least, most in ((3.0, MOST), (30.0, MOST), (30.0, 1.0)):
        oracle.agrees_in(partial(drawn_in, least=least, most=most), drawn)


@pytest.mark.slow
@share(5)
@given(recursive_programs())
def test_recursive_programs(drawn: Drawn) -> None:
    for least, most in ((3.0, MOST), (5_000.0, MOST), (5_000.0, 1.0)):
        oracle.agrees_in(partial(drawn_in, least=least, most=most), drawn)


def test_a_query_again_is_bound_where_it_was_placed(
    connect: Callable[..., gd.Database], opened: list[Gpu]
) -> None:
    db = connect(gpu_from=100, loops_worth=100, kernels_worth=0)
    few = "f(y) <- E(3, y), E(y, 4)."
    expected = sum(x < y < z for x, y in EDGES for v, z in EDGES if v == y and (x, z) in EDGES)
    for _ in range(4):
        db.workspace.results.clear()
        assert db.query(COUNT).fetchall() == [(expected,)]
        assert {y for (y,) in db.query(few).fetchall()} == {
            y for x, y in EDGES if x == 3 and (y, 4) in EDGES
        }
    (gpu,) = opened
    assert {type(asked.bound) for asked in db.workspace.catalog.bound.values()} == {BoundRules}
    db.workspace.results.clear()
    assert cost(gpu.driver, lambda: db.query(COUNT).fetchall()) == (1, 1, 0)
    assert cost(gpu.driver, lambda: db.query(few).fetchall()) == (0, 0, 0)


# ------------------------------------------------------------------------------ whole programs

ALTERNATING = """
    big(x, z) <- E(x, y), E(y, z), E(z, w), E(w, x).
    small(x) <- big(x, x).
    few(x, y) <- small(x), E(x, y), y < 3.
    again(x, z) <- few(x, y), big(y, z), big(z, w), big(w, x).
    n(count()) <- again(_, _)."""


def sides_of(text: str) -> str:
    """Where each stratum of an explanation runs: on the GPU, or on the CPU."""
    return "".join("CG"[where.startswith("on cuda:0")] for where in why_of(text)[1:])


@pytest.mark.parametrize(
    ("bus", "expected"),
    [
        (1e30, "GCCGC"),  # copies cost nothing: each stratum runs where it is done sooner
        (1e8, "GGGGC"),  # the rows of `big` stay for `again`, and small strata between them
        (1.0, "CCCCC"),  # no work pays for the copies of E
    ],
)
def test_strata_of_a_program_are_placed_together(
    connect: Any, bus: float, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "FETCHED", 0)  # rows stay on the GPU, however few
    costs = {"gpu_from": 0.0, "gpu_rule": 1e-6, "gpu_rows": 1e10, "gpu_bus": bus}
    text = ALTERNATING + " ?- n(c)."
    for _ in range(2):
        db = connect(**costs)
        db.workspace.force(strategy="lftj")
        explained = str(db.explain(text, passes=True))
        assert sides_of(explained) == expected
    assert "place_strata: each stratum runs where the program takes the least time" in explained
    assert "\n  small: on " in explained and "\n  again: on " in explained
    assert db.query(text).fetchall() == connect().query(text).fetchall()


def test_wrong_estimates_do_not_break_answers(
    connect: Any, opened: list[Gpu], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = CLOSURE + " q(x) <- p(x, x). n(count()) <- p(x, y), q(y), x < y. ?- n(c)."
    right = connect().query(text).fetchall()
    usual = program_sizes.ProgramSizes.add
    for off in (1e-6, 1e6):

        def add(self: Any, *given: Any, off: float = off) -> Any:
            found = usual(self, *given)
            for name, size in self.assumed.items():
                self.assumed[name] = replace(size, rows=max(1, int(size.rows * off)))
            return replace(found, rows=found.rows * off, looked=found.looked * off)

        monkeypatch.setattr(program_sizes.ProgramSizes, "add", add)
        assert connect(gpu_from=1.0).query(text).fetchall() == right


def test_a_process_of_one_program_opens_a_gpu_for_more_than_a_session(connect: Any) -> None:
    db = connect(gpu_from=100.0, gpu_opening=1.0)
    db.workspace.force(strategy="lftj")
    with db._session() as session:
        execution = session.open(COUNT + " ?- n(c).", {})
        evaluator = execution.evaluator
        (stratum, _) = evaluator.strata_of(["?1"])
        assert evaluator.planned(stratum)[0].device == "cuda:0"
        evaluator.let_go, evaluator._placement = evaluator.known.pop, None
        evaluator.kept_plans = None
        assert evaluator.planned(stratum)[0].device == "cpu"


GENERATION = """
    sg(x, y) <- E(p, x), E(p, y), x != y.
    sg(x, y) <- E(a, x), sg(a, b), E(b, y).
    n(count()) <- sg(_, _). ?- n(c)."""


@pytest.mark.parametrize(("nodes", "pays"), [(6_000, True), (60, False)])
def test_rounds_pay_where_their_rows_are_worth_the_launches(nodes: int, pays: bool) -> None:
    """By the costs of the settings; a recursion that is not partitioned by a value."""
    random = Random(5)
    edges = {(random.randrange(nodes), random.randrange(nodes)) for _ in range(nodes * 6 // 5)}
    with gd.connect(device="cpu", threads=16) as db:
        db.workspace.later = LaterGpu(lambda: OpenDevice(CPU, "no GPU today"))
        db["E"] = [*edges]
        where = why_of(str(db.explain(GENERATION)))[1]
    assert (where == "on the CPU: no GPU today") is pays
    assert pays or where.endswith(" rounds")
