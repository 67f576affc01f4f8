"""What a user is told of a GPU: where each rule runs, and why."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext

import pytest

import gdatalog as gd
from benchmarks.gpu import demo
from gdatalog.engine.devices import NO_GPU
from gdatalog.engine.ledger import Ledger, RuleRun
from gdatalog.gpu_ops import tiles
from gdatalog.gpu_ops.device import Gpu
from gdatalog.report import Profile
from gdatalog.shell.output import Output
from gdatalog.shell.repl import Repl
from tests.cuda_host import HostDriver, needs_compiler

TEXT = 'p(x) <- E(x, y), x < y. q(cat(s, "!")) <- N(_, s).'


@pytest.fixture
def db() -> Iterator[gd.Database]:
    with gd.connect(device="cpu") as db:
        db._workspace.device, db._workspace.why = Gpu(HostDriver()), "a GPU is there"
        db._workspace.force(strategy="levelwise")
        db["E"] = [(1, 2), (2, 3), (1, 3)]
        db["N"] = [(1, "a"), (2, "b")]
        yield db


def test_the_device_of_a_database(db: gd.Database) -> None:
    assert db.device == "cuda:0"
    assert repr(db) == "<gdatalog.Database on cuda:0: E, N>"


@needs_compiler
def test_an_explanation_says_where_and_why(db: gd.Database) -> None:
    lines = str(db.explain(TEXT + " r(x, s) <- p(x), q(s).")).splitlines()
    assert lines[0] == "on cuda:0 (a GPU is there)"
    assert lines.count("    run on the CPU: cat() makes new strings") == 1
    at = lines.index("    run on the CPU: cat() makes new strings")
    assert lines[at - 1] == "    give q(~1)"
    assert not any("run breadth-first" in line for line in lines)
    found = db.explain(TEXT + " r(x, s) <- p(x), q(s).").to_dict()
    assert found["device"] == "cuda:0"
    rules = [rule for stratum in found["strata"] for rule in stratum["rules"]]
    assert [rule["device"] for rule in rules] == ["cuda:0", "cpu", "cuda:0"]


def test_a_profile_says_where_and_why(db: gd.Database) -> None:
    (stratum,) = db.explain("p(x) <- E(x, y), x < y.").strata
    (rule,) = stratum.rules
    left = RuleRun(rule.plan, left="counts or sums may leave 62 bits", rows=3, seconds=0.5)
    profile = Profile(
        Ledger(runs=[RuleRun(rule.plan, seconds=0.5), left]), 1.0, 2048, None, "cuda:0"
    )
    lines = str(profile).splitlines()
    assert lines[0] == "1.000 s in all on cuda:0, 2.0 KiB held at the most"
    at = lines.index("p: 3 rows in 0.500 s (50%)")
    assert lines[at + 1] == "  on the CPU: counts or sums may leave 62 bits"
    assert sum("on the CPU" in line for line in lines) == 1
    found = profile.to_dict()
    assert found["device"] == "cuda:0"
    assert [rule["device"] for rule in found["rules"]] == ["cuda:0", "cpu"]


def test_on_the_cpu_nothing_is_said_of_it() -> None:
    with gd.connect(device="cpu") as db:
        db["E"] = [(1, 2)]
        assert str(db.explain("p(x) <- E(x, _).")).startswith("stratum 1: p\n")
        assert db.explain("p(x) <- E(x, _).").to_dict()["device"] == "cpu"
        profile = db.profile("p(x) <- E(x, _).")
        assert "s in all, " in str(profile) and "CPU" not in str(profile)
        assert profile.to_dict()["device"] == "cpu"


@pytest.mark.parametrize(
    ("why", "told"),
    [
        ("a GPU is there", False),
        ("asked for", False),
        (NO_GPU, False),
        ("the GPU is not used: CuPy: not there; gdatalog --doctor tells more", True),
    ],
)
def test_the_prompt_says_where_and_why(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, why: str, told: bool
) -> None:
    lines = iter([".device\n", ""])
    monkeypatch.setattr(sys.stdin, "readline", lambda: next(lines))
    with gd.connect(device="cpu") as db:
        db._workspace.why = why
        if why == "a GPU is there":
            db._workspace.device = Gpu(HostDriver())
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
        tries = {name: db._workspace.stored[name].trie((0, 1)) for name in ("Ring", "Hub", "All")}
    monkeypatch.setattr(tiles, "MANY", 101)
    assert [tiles.lanes_for([tries[name]]) for name in ("Ring", "Hub", "All")] == [8, 32, 32]
    monkeypatch.setattr(tiles, "MANY", 50)
    assert [tiles.lanes_for([tries[name]]) for name in ("Ring", "Hub", "All")] == [1, 32, 16]
