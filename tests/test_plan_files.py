"""Plans on disk: another process plans nothing, and has the plans that it would have made."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import gdatalog as gd
from gdatalog.codegen import cache
from gdatalog.engine import plan_files, rule_plans
from gdatalog.plan import join_plan as plan
from gdatalog.plan.join_plan import RulePlan
from gdatalog.plan.stored import CLASSES, Places, UnknownFormat, packed, unpacked
from gdatalog.planner import rule as planner
from gdatalog.planner.observed import Observed, observing, same_answers
from gdatalog.records import is_dataclass
from gdatalog.storage.degrees import AdjacencyLists, Degrees
from tests.draw import Drawn, programs
from tests.draw_recursion import recursions
from tests.test_engine_oracle import frame

ROOT = Path(__file__).resolve().parent.parent

PROGRAM = """
.decl E(x: int, y: int)
.decl label(x: int, name: symbol)
E(1, 2). E(2, 3). E(3, 1). E(3, 4). E(4, 5).
label(1, "one"). label(3, "three").
path(x, y) <- E(x, y).
path(x, z) <- path(x, y), E(y, z).
tr(x, y, z) <- E(x, y), E(y, z), E(z, x), x < y, x < z.
far(n, y) <- label(x, n), path(x, y), not E(x, y).
many(x, count()) <- path(x, y), E(y, z), z > $least.
last(x, min(d)) <- E(x, y), d = y / 2.
last(x, min(d + 1)) <- last(y, d), E(x, y), label(x, n).
"""
ASKED = "path", "tr", "far", "many", "last"


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The relations whose rules were planned. Plans are in a folder of the test's own."""
    monkeypatch.setenv("GDATALOG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_place", cache._CacheFolder())
    monkeypatch.setattr(rule_plans, "LONG_TEXT", 0)
    another_process(monkeypatch)
    return watched(monkeypatch)


def watched(patch: pytest.MonkeyPatch) -> list[str]:
    done: list[str] = []
    plan_rule = planner.plan_rule

    def watching(rule: Any, *args: Any, **options: Any) -> RulePlan:
        done.append(rule.head.name)
        return plan_rule(rule, *args, **options)

    patch.setattr(planner, "plan_rule", watching)
    return done


def another_process(patch: pytest.MonkeyPatch) -> None:
    """Forgets what a process remembers of the files."""
    patch.setattr(plan_files, "files", plan_files.PlanFiles())


def answers(least: int = 2, more: str = "") -> dict[str, list[Any]]:
    with gd.connect(device="cpu") as db:
        db.run(more)
        db.run(PROGRAM, params={"least": least})
        return {name: sorted(db.query(f"?- {name}.")) for name in ASKED}


def test_another_process_plans_nothing(planned: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    first = answers()
    assert set(planned) >= set(ASKED)
    planned.clear()
    another_process(monkeypatch)
    assert answers() == first
    assert planned == []


def test_other_data_and_parameters_are_planned_for(
    planned: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers()
    planned.clear()
    another_process(monkeypatch)
    answers(least=4)
    assert set(planned) == {"many"}
    planned.clear()
    another_process(monkeypatch)
    answers(more="\n".join(f"E({at}, {at + 1})." for at in range(50, 90)))
    assert set(planned) >= {"tr", "far"}


def test_a_rule_is_the_same_wherever_it_stands(
    planned: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A changed rule of a file is planned; the others are found, and errors name their places."""
    path = tmp_path / "program.dl"
    text = PROGRAM.replace("$least", "2") + "bad(x, to_int(n)) <- label(x, n), E(x, y), E(y, z).\n"

    def run(text: str) -> str:
        path.write_text(text)
        with gd.connect(device="cpu") as db:
            db.run_file(path)
            for name in ASKED:
                db.query(f"?- {name}.").fetchall()
            with pytest.raises(gd.Error) as error:
                db.query("?- bad.").fetchall()
            return str(error.value)

    first = run(text)
    line = text.count("\n")
    assert f":{line}:" in first
    planned.clear()
    another_process(monkeypatch)
    changed = "// a remark\n" + text.replace("x < y, x < z", "x < y")
    assert run(changed) == first.replace(f":{line}:", f":{line + 1}:").replace(
        f"\n {line} |", f"\n {line + 1} |"
    )
    assert planned == ["tr"]


def test_processes(tmp_path: Path) -> None:
    """Two processes at once, then one that finds what they have stored."""
    path = tmp_path / "program.dl"
    asked = "".join(f"?- {name}.\n" for name in ASKED)
    path.write_text("/* long */".ljust(1000) + PROGRAM.replace("$least", "2") + asked)
    program = (
        "import sys\n"
        "from gdatalog.planner import rule\n"
        "from gdatalog.shell import cli\n"
        "plan_rule, done = rule.plan_rule, []\n"
        "def watching(rule, *args, **options):\n"
        "    done.append(rule.head.name)\n"
        "    return plan_rule(rule, *args, **options)\n"
        "rule.plan_rule = watching\n"
        f"status = cli.run(['--no-warnings', '--device', 'cpu', {str(path)!r}])\n"
        "print('planned', len(done), status)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT), "GDATALOG_CACHE": str(tmp_path / "cache")}

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, "-c", program], env=env, text=True, stdout=-1)

    both = [start(), start()]
    first, other = (process.communicate(timeout=120)[0] for process in both)
    again = start().communicate(timeout=120)[0]
    nothing = "planned 0 0\n"
    assert not (first.endswith(nothing) and other.endswith(nothing)) and again.endswith(nothing)
    rows = first.rpartition("planned")[0]
    assert rows and other.rpartition("planned")[0] == rows == again.rpartition("planned")[0]


# ------------------------------------------------------------------------- drawn programs


def plans_of(drawn: Drawn, data: dict[str, Any]) -> list[RulePlan]:
    """The plans of a program over data, in the order in which the engine asks for them."""
    made: list[RulePlan] = []
    plan_rule = rule_plans.plan_rule

    def noting(*args: Any, **options: Any) -> RulePlan:
        made.append(plan_rule(*args, **options))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ("draft", "replanning", "operators.incremental"):
            patch.setattr(f"gdatalog.engine.{name}.plan_rule", noting)
        with gd.connect(device="cpu", threads=1) as db:
            for name, (types, rows) in data.items():
                db[name] = frame(types, rows)
            with suppress(gd.Error):
                db.run(drawn.text)
                for name in sorted(drawn.defined):
                    with suppress(gd.Error):
                        db.query(f"?- {name}.").fetchall()
    return made


def changed(data: dict[str, Any], random: Random) -> dict[str, Any]:
    """The data without some rows, often with all."""
    if random.random() < 0.4:
        return data
    return {
        name: (types, [row for row in rows if random.random() < 0.9])
        for name, (types, rows) in data.items()
    }


@pytest.mark.drawn
@given(programs() | recursions())
def test_a_stored_plan_is_the_one_that_planning_anew_gives(
    tmp_path_factory: pytest.TempPathFactory, drawn: Drawn
) -> None:
    random = Random(drawn.seed)
    other = changed(drawn.data, random)
    anew = [plans_of(drawn, data) for data in (drawn.data, other)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GDATALOG_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(cache, "_place", cache._CacheFolder())
        patch.setattr(rule_plans, "LONG_TEXT", 0)
        for data, plans in ((drawn.data, anew[0]), (other, anew[1]), (drawn.data, anew[0])):
            another_process(patch)
            # `repr` has the estimates, too.
            assert list(map(repr, plans_of(drawn, data))) == list(map(repr, plans))


class Rows:
    """Statistics of some rows."""

    assumed = codes = False

    def __init__(self, rows: int, values: int) -> None:
        self.rows = rows
        self.values = values

    def distinct(self, columns: frozenset[int]) -> int:
        return self.values

    def degrees(self, column: int, tests: Any, ranked: bool) -> Degrees:
        return Degrees(7, (float(self.values), float(self.rows), 3.0 * self.rows))


@pytest.mark.parametrize(
    ("rows", "other", "alike"),
    [
        ((1000, 100), (1000, 100), True),
        ((1000, 100), (1000, 101), False),
        ((1000, 100), (1001, 100), False),
        ((10**6, 100), (10**6, 120), True),  # estimated from some rows
        ((10**6, 100), (10**6, 170), False),
        ((10**6, 100), (10**6 + 1, 100), False),
    ],
)
def test_answers_that_are_alike(rows: tuple[int, int], other: tuple[int, int], alike: bool) -> None:
    observed = Observed()
    size = observing(lambda name, version: Rows(*rows), observed)("E", "full")  # type: ignore[arg-type,return-value]
    assert size.rows == rows[0] and size.distinct(frozenset({0})) == rows[1]
    assert size.degrees(0).powers[0] == rows[1]
    asked = [*observed.asked.items()]
    for sizes, same in ((rows, True), (other, alike)):
        now = Rows(*sizes)
        assert same_answers(asked, lambda name, version: now, {}) == same  # type: ignore[arg-type,return-value]  # noqa: B023


def test_a_search_notes_what_planning_has_asked_before() -> None:
    """An order that is found again stands for all questions of its search."""
    observed = Observed()
    size = observing(lambda name, version: Rows(1000, 100), observed)("E", "full")  # type: ignore[arg-type,return-value]
    before = size.rows, size.distinct(frozenset({0}))
    with observed.apart() as inner:
        assert (size.rows, size.distinct(frozenset({0}))) == before
    assert {question[2] for question in inner.asked} == {"rows", "distinct"}
    assert inner.asked.items() <= observed.asked.items()


class Edges(Rows):
    """Statistics of edges; `codes`: between texts."""

    def __init__(self, edges: list[tuple[int, int]], codes: bool) -> None:
        super().__init__(len(edges), 1)
        self.codes = codes
        left, right = np.array(sorted(edges)).T
        self.all = AdjacencyLists.of(left, np.ascontiguousarray(right))

    def lists(self, column: int, tests: Any, ranked: bool) -> AdjacencyLists:
        return self.all


@pytest.mark.parametrize("codes", [False, True])
def test_codes_of_texts_may_be_others(codes: bool) -> None:
    """The same edges have other codes in another process, and as many lists of each length."""
    edges, renamed = [(1, 2), (1, 3), (2, 3)], [(7, 2), (7, 5), (4, 5)]
    others = [(1, 2), (2, 3), (3, 1)]
    observed = Observed()
    size = observing(lambda name, version: Edges(edges, codes), observed)("E", "full")  # type: ignore[arg-type,return-value]
    assert size.lists(0) is not None and observed.whole
    asked = [*observed.asked.items()]
    for now, alike in ((edges, True), (renamed, codes), (others, False)):
        other = Edges(now, codes)
        assert same_answers(asked, lambda name, version: other, {}) == alike  # type: ignore[arg-type,return-value]  # noqa: B023


# ------------------------------------------------------------------------------- the format


def test_every_record_of_plans_has_a_number() -> None:
    own = [each for each in vars(plan).values() if getattr(each, "__module__", "") == plan.__name__]
    assert {each for each in own if is_dataclass(each)} == set(CLASSES)


@pytest.mark.parametrize(
    "stored",
    [[], ["x"], [99, 1], [-7, 1], [0, "x"], [0, "x", "int", 1], [True, "x", "int"], [-2, 0, 1, 2],
     [-2, 0, 1], {"x": 1}, [-1, [99]]],
)  # fmt: skip
def test_what_the_format_does_not_have_is_refused(stored: Any) -> None:
    with pytest.raises(UnknownFormat):
        unpacked(stored, Places(()))


def test_values_that_the_format_does_not_have_are_not_stored() -> None:
    for value in (object(), [1], {"x": 1}, (1, b"x")):
        with pytest.raises(UnknownFormat):
            packed(value, Places(()))


# ---------------------------------------------------------------------------- the folder


def damaged(path: Path, random: Random) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(200):
        data[random.randrange(len(data))] = random.randrange(256)
    path.write_bytes(data)


def cut_short(path: Path, random: Random) -> None:
    path.write_bytes(path.read_bytes()[: random.randrange(1, path.stat().st_size)])


def of_another_format(path: Path, random: Random) -> None:
    lines = [line.split(b" ", 2) for line in path.read_bytes().split(b"\n") if line]
    found = []
    for _, key, _ in lines:
        other = json.dumps([-1, [-1], [-1], [77, 1]]).encode()
        found.append(plan_files._digest(key + other) + b" " + key + b" " + other)
    path.write_bytes(b"\n".join(found))


def gone(path: Path, random: Random) -> None:
    path.unlink()


def a_folder(path: Path, random: Random) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("harm", [damaged, cut_short, of_another_format, gone, a_folder])
def test_a_file_that_is_no_use(
    planned: list[str],
    monkeypatch: pytest.MonkeyPatch,
    harm: Callable[[Path, Random], None],
) -> None:
    first = answers()
    (path,) = cache.folder().glob("*.plans")
    harm(path, Random(1))
    another_process(monkeypatch)
    planned.clear()
    assert answers() == first and planned
    another_process(monkeypatch)
    planned.clear()
    assert answers() == first
    assert bool(planned) == (harm is a_folder)


def test_a_folder_that_cannot_be_used(
    planned: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GDATALOG_CACHE", str(tmp_path / "file"))
    first = answers()
    another_process(monkeypatch)
    planned.clear()
    assert answers() == first and planned


def test_a_file_does_not_grow_without_end(
    planned: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers()
    (path,) = cache.folder().glob("*.plans")
    monkeypatch.setattr(plan_files, "MOST_BYTES", path.stat().st_size - 1)
    another_process(monkeypatch)
    planned.clear()
    answers()
    assert planned and path.stat().st_size <= plan_files.MOST_BYTES + 1


def test_another_planner_has_files_of_its_own(
    planned: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers()
    monkeypatch.setattr(plan_files, "_planner", lambda: "another")
    another_process(monkeypatch)
    planned.clear()
    answers()
    assert planned and len(list(cache.folder().glob("*.plans"))) == 2


def test_the_cache_is_cleared_with_its_plans(planned: list[str]) -> None:
    answers()
    assert cache.size().bytes > 0
    cache.clear()
    assert not list(cache.folder().glob("*.plans"))
