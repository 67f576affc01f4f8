"""What a user is told of a GPU: where each rule runs, and why."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext

import pytest

import gdatalog as gd
from benchmarks.gpu import demo
from gdatalog.engine.devices import NO_GPU
from gdatalog.engine.metrics import Metrics, RuleRun
from gdatalog.gpu_ops import lanes
from gdatalog.gpu_ops.device import Gpu
from gdatalog.report import Profile
from gdatalog.shell.output import Output
from gdatalog.shell.repl import Repl
from tests.cuda_host import HostDriver, needs_compiler

TEXT = 'p(x) <- E(x, y), x < y. q(cat(s, "!")) <- N(_, s).'


@pytest.fixture
def db() -> Iterator[gd.Database]:
    with gd.connect(device="cpu") as db:
        db.workspace.device, db.workspace.why = Gpu(HostDriver()), "a GPU is there"
        db.workspace.force(strategy="levelwise")
        db["E"] = [(1, 2), (2, 3), (1, 3)]
        db["N"] = [(1, "a"), (2, "b")]
        yield db


def test_the_device_of_a_database(db: gd.Database) -> None:
    assert db.device == "cuda:0"
    assert repr(db) == "<gdatalog.Database on cuda:0: E, N>"


@needs_compiler
def test_an_explanation_says_where_and_why(db: gd.Database) -> None:
    found = db.explain(TEXT + " r(x, s) <- p(x), q(s).")
    assert str(found).startswith("on cuda:0 (a GPU is there), strategy levelwise")
    assert ("device", "cuda:0") in found.tree.facts
    rules = found.tree.find("rule")
    assert [dict(rule.facts)["device"] for rule in rules] == ["cuda:0", "cpu", "cuda:0"]
    left = [
        rule.label for rule in rules if "run on the CPU: cat() makes new strings" in rule.details
    ]
    assert left == ['q(cat(s, "!")) <- N(_, s).']
    assert str(found).count("run on the CPU") == 1


@needs_compiler
def test_what_is_copied_is_told_and_what_loops_bind(db: gd.Database) -> None:
    metrics = Metrics()
    text = "n(count()) <- E(a, b), E(b, c), E(a, c)."
    session = db.workspace.open(text, None, reports=metrics, strategy="lftj")
    assert session.relation(session.asked()).length == 1
    (run,), (index,) = metrics.runs, metrics.indexes
    assert run.costs.moved == 2 * 3 * 4 and run.costs.moving > 0  # two columns of three rows
    assert 0 < run.costs.compiling < run.seconds and 0 < run.costs.indexing < run.seconds
    assert index.built == 1 and index.bytes == 40  # 2 + 3 values, 2 + 3 offsets, of 4 bytes each
    assert [seen.rows_out for seen in run.seen.values()] == [2, 1, 1]


def test_a_profile_says_where_and_why(db: gd.Database) -> None:
    (stratum,) = db.explain("p(x) <- E(x, y), x < y.").strata
    (rule,) = stratum.rules
    left = RuleRun(rule.plan, left="counts or sums may leave 62 bits", rows=3, seconds=0.5)
    profile = Profile(
        Metrics(runs=[RuleRun(rule.plan, seconds=0.5), left]), 1.0, 2048, None, "cuda:0"
    )
    assert str(profile).startswith("1.000 s on cuda:0, 2.0 KiB held at the most")
    first, second = profile.tree.find("rule")
    assert second.share == 0.5 and ("rows", 3) in second.facts
    assert "run on the CPU: counts or sums may leave 62 bits" in second.details
    assert str(profile).count("on the CPU") == 1
    assert ("device", "cuda:0") in profile.tree.facts
    assert [dict(rule.facts)["device"] for rule in (first, second)] == ["cuda:0", "cpu"]


def test_on_the_cpu_nothing_is_said_of_it() -> None:
    with gd.connect(device="cpu") as db:
        db["E"] = [(1, 2)]
        found = db.explain("p(x) <- E(x, _).")
        assert str(found).startswith("on cpu, strategy auto") and "CPU" not in str(found)
        assert ("device", "cpu") in found.tree.facts
        profile = db.profile("p(x) <- E(x, _).")
        assert " s on cpu, " in str(profile) and "CPU" not in str(profile)
        assert ("device", "cpu") in profile.tree.facts


@pytest.mark.parametrize(
    ("why", "told"),
    [
        ("a GPU is there", False),
        ("asked for", False),
        (NO_GPU, False),
        ("the GPU is not used: CuPy: not installed; gdatalog --doctor tells more", True),
    ],
)
def test_the_prompt_says_where_and_why(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, why: str, told: bool
) -> None:
    lines = iter([".device\n", ""])
    monkeypatch.setattr(sys.stdin, "readline", lambda: next(lines))
    with gd.connect(device="cpu") as db:
        db.workspace.why = why
        if why == "a GPU is there":
            db.workspace.device = Gpu(HostDriver())
        Repl(db, Output(sys.stdout, None), interactive=True).loop()
        out, err = capsys.readouterr()
        assert f"device: {db.device} ({why})\n" in out
        assert f" on {db.device}. A statement ends with a dot." in err
        assert (f"\n{why}\n" in err) == told


def test_the_demo_shows_devices_side_by_side(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "VERTICES", 60)
    monkeypatch.setattr(demo, "EDGES", 400)
    assert demo.main(("cpu",)) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert lines[0].startswith("a graph of 60 vertices, ")
    assert lines[1].split() == ["answer", "cpu,", "first", "then"]
    assert [line[:16].strip() for line in lines[2:-1]] == list(demo.QUERIES)
    assert all(int(line[16:30].replace(",", "")) > 0 for line in lines[2:-1])
    # Answers that differ are shown, and are a failure.
    answers = iter(range(100))
    monkeypatch.setattr(demo, "_asked", lambda db, text: (next(answers), 0.5, 0.25))
    monkeypatch.setattr(gd, "connect", lambda device: nullcontext(_Asked(device)))
    assert demo.main(("cpu", "cuda:0")) == 1
    assert "0 or 4" in capsys.readouterr().out


class _Asked(dict[str, object]):
    """What takes a graph."""

    def __init__(self, device: str) -> None:
        self.device = device


def test_how_many_lanes_walk_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """By how long lists are; each alone where all are short, and there are many."""
    ring = [(x, (x + 1) % 100) for x in range(100)]
    hub = [(0, x) for x in range(1, 100)]
    with gd.connect(device="cpu") as db:
        db["Ring"], db["Hub"], db["All"] = ring, hub, [(x, y) for x in range(9) for y in range(9)]
        tries = {name: db.workspace.stored[name].trie((0, 1)) for name in ("Ring", "Hub", "All")}
    monkeypatch.setattr(lanes, "MANY", 101)
    assert [lanes.lanes_for([tries[name]]) for name in ("Ring", "Hub", "All")] == [8, 32, 32]
    monkeypatch.setattr(lanes, "MANY", 50)
    assert [lanes.lanes_for([tries[name]]) for name in ("Ring", "Hub", "All")] == [1, 32, 16]


@pytest.mark.parametrize("tile", [1, 8])
def test_tiles_intersect_lists_in_every_way_that_is_asked_for(tile: int) -> None:
    edges = [(x, y) for x in range(12) for y in range(x + 1, 12) if (x * y) % 5 != 1]
    cliques = "E(x, y), E(y, z), E(x, z), E(x, w), E(y, w), E(z, w)."
    with gd.connect(device="cpu") as db:
        db["E"] = edges
        texts = f"l(x, y, z, w) <- {cliques}", "n(count()) <- E(x, y), E(y, z), E(x, z)."
        wanted = [sorted(db.query(text).fetchall()) for text in texts]
        db.workspace.device = Gpu(HostDriver())
        for way in ("leapfrog", "merge"):
            db.workspace.force(strategy="lftj", intersect=way, tile=tile)
            assert [sorted(db.query(text).fetchall()) for text in texts] == wanted, way
