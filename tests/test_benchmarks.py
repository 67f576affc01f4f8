"""What the benchmarks stand on: data, queries, clocks and memory; no figure is judged here."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations
from pathlib import Path
from time import sleep
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks import memory, paths, patterns, points_to, recursion, social_network
from benchmarks.columns import read_columns, write_columns
from benchmarks.graphs import Graph, directed_rmat, rmat, short, uniform, weights, wu
from benchmarks.machine import LOAD, same_machine, wait_until_quiet
from benchmarks.peers import DuckDB, SciPy
from benchmarks.pictures import draw
from benchmarks.race import Race
from benchmarks.records import Ask, Case, Figure, at_most, faster, missed, seconds
from benchmarks.remembered import Remembered
from benchmarks.report import markdown
from benchmarks.retail import retail
from benchmarks.sides import Following, Gdatalog, Recursive, digest
from benchmarks.worker import Cold

PATTERNS = [patterns.clique(3), patterns.clique(4), patterns.clique(5)]
PATTERNS += [patterns.P1, patterns.P3, patterns.P4, patterns.P5, patterns.P6]
PATTERNS += [patterns.HOUSE, patterns.Q10]


def embeddings(pattern: patterns.Pattern, graph: Graph) -> int:
    """Injective maps of the pattern's vertices, by trying all."""
    edges = set(zip(graph.u.tolist(), graph.v.tolist(), strict=True))
    edges |= {(v, u) for u, v in edges}
    vertices = sorted({vertex for edge in edges for vertex in edge})
    places = [tuple(pattern.vertices.index(v) for v in edge) for edge in pattern.edges.split()]
    return sum(
        all((at[x], at[y]) in edges for x, y in places)
        for at in permutations(vertices, len(pattern.vertices))
    )


@pytest.fixture(scope="module")
def small() -> Graph:
    """Eight vertices: five of them a clique, and the others joined to some of it."""
    pairs = [(0, 2), (0, 4), (2, 4), (0, 5), (2, 5), (4, 5), (0, 7), (2, 7), (4, 7), (5, 7)]
    pairs += [(0, 1), (1, 2), (1, 3), (2, 3), (3, 6), (5, 6), (6, 7)]
    u, v = np.array(sorted(pairs)).T
    return Graph("small", u, v)


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.name)
def test_rules_and_sql_of_a_pattern_count_the_same(pattern: patterns.Pattern, small: Graph) -> None:
    maps = embeddings(pattern, small)
    assert maps > 0 and maps % pattern.automorphisms == 0
    columns = small.columns()
    ours = Gdatalog(pattern.distinct_rule(), strategy="levelwise")
    assert ours.answer(ours.build(ours.load(columns))) == maps
    theirs = DuckDB(pattern.sql(f"{pattern.automorphisms} * count(*)"))
    assert theirs.answer(theirs.build(theirs.load(columns))) == maps


@pytest.mark.parametrize("size", [3, 4, 5])
def test_cliques_are_counted_once_each(size: int, small: Graph) -> None:
    pattern = patterns.clique(size)
    ours = Gdatalog(pattern.rule(), strategy="levelwise")
    once = embeddings(pattern, small) // pattern.automorphisms
    assert ours.answer(ours.build(ours.load(small.columns()))) == once


def test_sql_staged_by_hand_counts_the_same() -> None:
    columns = Graph("dense", *uniform(30, 100, seed=6)).columns()
    for pattern, staged in (
        (patterns.clique(4), patterns.K4_STAGED),
        (patterns.P1, patterns.P1_STAGED),
    ):
        plain, by_hand = (
            side.answer(side.build(side.load(columns)))
            for side in (DuckDB(pattern.sql()), DuckDB(staged))
        )
        assert plain == by_hand > 0


def test_generated_graphs_are_simple_and_the_same_each_time() -> None:
    for make in (lambda: wu(2_000, 3), lambda: wu(2_000, 4), lambda: rmat(9, 2_000)):
        graph, again = make(), make()
        assert len(graph.u) == 2_000
        assert (graph.u < graph.v).all()
        assert len(set(zip(graph.u.tolist(), graph.v.tolist(), strict=True))) == 2_000
        assert np.array_equal(graph.u, again.u) and np.array_equal(graph.v, again.v)
    assert wu(10_000, 3).v.max() < 10_000
    assert wu(10_000, 4).v.max() < 1_000


def test_every_foreign_key_is_found_once() -> None:
    tables = retail(6_000)
    keys = {"ord": "orders", "cust": "customer", "part": "part", "supp": "supplier"}
    keys |= {"day": "calendar", "store": "store", "nation": "nation"}
    for relation, columns in tables.items():
        for column, values in columns.items():
            if keys.get(column, relation) != relation:
                found = tables[keys[column]][column]
                assert len(np.unique(found)) == len(found)
                assert np.isin(values, found).all()
    for fact in ("item", "sale"):
        rows = np.stack(list(tables[fact].values()), axis=1)
        assert len(np.unique(rows, axis=0)) == len(rows) == 6_000


def test_a_digest_is_of_a_set_of_sets() -> None:
    rows = np.array([[1, 2, 3], [4, 5, 6], [1, 5, 3]])
    turned = np.array([[3, 5, 1], [2, 1, 3], [6, 4, 5]])
    assert digest(list(rows.T)) == digest(list(turned.T))
    rows[0, 0] = 0
    assert digest(list(rows.T)) != digest(list(turned.T))


def test_columns_come_back_as_they_were_written(tmp_path: Path) -> None:
    columns = {"E": {"b": np.arange(3, dtype=np.int32), "a": np.ones(3)}, "L": {"x": np.arange(2)}}
    back = read_columns(write_columns(tmp_path / "data", columns))
    assert {name: list(relation) for name, relation in back.items()} == {
        "E": ["b", "a"],
        "L": ["x"],
    }
    assert back["E"]["b"].dtype == np.int32 and back["E"]["b"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("work", social_network.WORKS, ids=lambda work: work.what)
def test_rules_and_sql_of_a_network_agree(work: social_network.Work, sparse: bool) -> None:
    data = social_network.network(2_000, sparse=sparse)
    rows = sum(len(next(iter(columns.values()))) for columns in data.values())
    assert 1_500 < rows < 3_000
    ours, peer = Gdatalog(work.rule, strategy="auto"), DuckDB(work.sql)
    db = ours.build(ours.load(data))
    expected = peer.answer(peer.build(peer.load(data)))
    for way in ("auto", "always", "never"):
        db.workspace.force(algebra=way)
        assert ours.answer(db) == expected > 0, way


@pytest.mark.parametrize("work", social_network.OPTIONAL, ids=lambda work: work.what)
def test_optional_matches_agree_with_left_joins(work: social_network.Work) -> None:
    data = social_network.network(2_000)
    ours = Gdatalog(work.rule, strategy="auto", arrow=work.listed)
    peer = DuckDB(work.sql, arrow=work.listed)
    sides: list[Any] = [ours, peer]
    found = [side.value(side.answer(side.build(side.load(data)))) for side in sides]
    assert found[0] == found[1]


# ------------------------------------------------------------------------------------- recursion


@pytest.fixture(scope="module")
def directed() -> dict[str, dict[str, Any]]:
    graph = directed_rmat(7, 300)
    assert len(graph.u) == 300 and len(set(zip(graph.u, graph.v, strict=True))) == 300
    assert (graph.u != graph.v).all() and max(graph.u.max(), graph.v.max()) < 128
    return {"edge": {"a": graph.u, "b": graph.v, "w": weights(graph)}}


def asked(side: Any, data: Any) -> Any:
    return side.value(side.answer(side.build(side.load(data))))


def test_sides_of_paths_agree(directed: dict[str, dict[str, Any]]) -> None:
    graph = Graph("drawn", directed["edge"]["a"], directed["edge"]["b"])
    sources = paths.busiest_of(graph, 3)
    several = Recursive(paths.SEVERAL.format(sources=", ".join(map(str, sources))))
    assert asked(several, directed) == asked(paths.SciPy(sources=sources), directed)
    floats = paths.weighted(graph, True)
    ours = Recursive(paths.FLOATS.format(source=sources[0]))
    assert asked(ours, floats) == asked(paths.SciPy(sources=sources[:1]), floats)


def test_sides_of_recursion_agree(directed: dict[str, dict[str, Any]]) -> None:
    pairs = {"edge": {name: directed["edge"][name] for name in "ab"}}
    source = recursion.busiest(Graph("drawn", pairs["edge"]["a"], pairs["edge"]["b"]))
    assert asked(Recursive(recursion.COMPONENTS), pairs) == asked(SciPy("components"), pairs)
    shortest = Recursive(recursion.SHORTEST.format(source=source))
    assert asked(shortest, directed) == asked(SciPy("shortest", source), directed)
    reached = Recursive(f"{recursion.PATH} ?- path({source}, y).")
    assert asked(reached, pairs) == asked(SciPy("reached", source), pairs) > 50
    closed = asked(Recursive(recursion.PATH + recursion.COUNTED), pairs)
    assert closed == asked(DuckDB(recursion.CLOSURE_SQL), pairs)
    assert closed == asked(Recursive(recursion.NON_LINEAR + recursion.COUNTED), pairs)
    generations = asked(Recursive(recursion.GENERATION), pairs)
    assert generations == asked(DuckDB(recursion.GENERATION_SQL), pairs)
    every = {**pairs, "start": {"a": np.unique(pairs["edge"]["a"])}}
    without = Recursive(f"{recursion.PATH} n(count()) <- start(x), path(x, y), x != y.")
    sample = tuple(every["start"]["a"].tolist())
    assert asked(without, every) == asked(SciPy("sampled", sample=sample), pairs)


@pytest.mark.parametrize("way", ["auto", "always", "never"])
def test_rules_and_sql_of_points_to_agree(way: str) -> None:
    data = points_to.constraints(300)
    again = points_to.constraints(300)
    assert all((again[name]["of"] == data[name]["of"]).all() for name in points_to.KINDS)
    statements = {
        "allocated": data["address_of"],
        "flow": {"x": data["copy"]["of"], "y": data["copy"]["to"]},
        "load": data["load"],
        "store": {"x": data["store"]["of"], "y": data["store"]["to"]},
    }
    program = {name: dict(zip("xy", c.values(), strict=True)) for name, c in statements.items()}
    for rules, sql, given in (
        (points_to.MADE, points_to.MADE_SQL, data),
        (points_to.PROGRAM, points_to.PROGRAM_SQL, program),
    ):
        ours, peer = Recursive(rules), DuckDB(sql)
        db = ours.build(ours.load(given))
        db.workspace.force(dead_variables=way)
        found = ours.value(ours.answer(db))
        assert found == peer.answer(peer.build(peer.load(given))) > 100


def test_new_edges_are_followed(directed: dict[str, dict[str, Any]]) -> None:
    pairs = {"edge": {name: directed["edge"][name] for name in "ab"}}
    graph = Graph("drawn", pairs["edge"]["a"], pairs["edge"]["b"])
    added = recursion.new_edges(graph, 10)
    assert len(set(added)) == 10 and not set(added) & set(zip(graph.u, graph.v, strict=True))
    ways = {"added": added[:5], "earlier": added[5:]}
    more = np.array(added).T
    both = {"a": np.append(graph.u, more[0]), "b": np.append(graph.v, more[1])}
    right = asked(Recursive(recursion.PATH + recursion.COUNTED), {"edge": both})
    for way in ("again", "first", "start"):
        assert asked(Following(recursion.PATH, way=way, **ways), pairs) == right


# ---------------------------------------------------------------------------------------- races


@dataclass(frozen=True, slots=True)
class Adding:
    """Adds up a column. Or sleeps, or fails, or is wrong, as its name says."""

    name: str
    threads: int = 1

    def load(self, data: Any) -> Any:
        return data["R"]["x"]

    def build(self, given: Any) -> Any:
        if self.name == "hungry":
            return np.ones(40_000_000)  # 320 MB
        return given

    def answer(self, state: Any) -> int:
        if self.name == "asleep":
            sleep(60)
        if self.name == "failing":
            raise ValueError("it cannot be done")
        return int(state[:3].sum()) + (self.name == "wrong")

    def value(self, answer: Any) -> Any:
        return answer


@pytest.fixture
def race(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Race:
    monkeypatch.setattr("benchmarks.race.CAP", 0.5)
    monkeypatch.setattr("benchmarks.race.ROUNDS", 2)
    monkeypatch.setattr("benchmarks.race.COLD_ROUNDS", 1)
    data = write_columns(tmp_path / "data", {"R": {"x": np.ones(3, dtype=np.int64)}})
    return Race(Case("adding", "three ones", []), data, Remembered(None), 0.5, tmp_path)


@pytest.mark.slow
def test_sides_are_timed_measured_and_stopped(race: Race) -> None:
    names = ["quick", "asleep", "failing", "hungry"]
    case = race.run([Adding(name) for name in names], 3, timed_compiling=False)
    quick, asleep, failing, hungry = case.figures
    assert quick.answer == 3 and quick.runs > 1 and not quick.trouble
    assert quick.warm is not None and quick.cold is not None and quick.warm < 0.5
    assert asleep.stopped and asleep.warm == 0.5 and asleep.answer is None
    assert "it cannot be done" in failing.trouble and not failing.usable
    assert quick.peak is not None and quick.resident is not None
    assert hungry.grown is not None and hungry.grown > 300e6
    assert hungry.resident is not None and hungry.resident > quick.resident + 300e6
    assert hungry.answer == 3


def test_asked_afresh_indexes_are_part_of_the_time(race: Race) -> None:
    case = race.run([Adding("quick"), Adding("hungry")], 3, timed_compiling=False, afresh=True)
    quick, hungry = case.figures
    assert quick.answer == hungry.answer == 3 and quick.runs > 1
    assert quick.peak is not None and hungry.peak is not None
    assert hungry.peak > quick.peak + 300e6 and hungry.resident is None


def test_a_cold_run_that_compiles_does_not_count(race: Race) -> None:
    runs = [Cold(0.25, 0.75, 3, 0), Cold(0.5, 6.5, 3, 0, compiled=True), Cold(0.5, 1.5, 3, 0)]
    worker = SimpleNamespace(side=Adding("quick"), compiles=True, cold=lambda: runs.pop(0))
    race.case.figures.append(Figure("quick", warm=1.0, cold=3.0))
    race._workers[0] = worker  # type: ignore[assignment]
    race._again_cold(0)
    (figure,) = race.case.figures
    assert (figure.cold, figure.warm, runs) == (2.0, 1.5, [])
    assert figure.compiling == 3.0 + 1.0 + 7.0 - 3 * 2.0


def test_a_wrong_answer_is_told(race: Race) -> None:
    case = race.run([Adding("quick"), Adding("wrong")], 3, timed_compiling=False)
    assert not case.figures[0].trouble
    assert case.figures[1].trouble == "WRONG: 4, not 3"
    assert faster(case, "wrong", ["quick"], 0.001).met is False


def test_memory_that_was_let_go_of_is_forgotten() -> None:
    held = np.ones(10_000_000)
    before = memory.peak()
    assert before >= held.nbytes
    del held
    if memory.forget():  # not every system can
        assert memory.peak() < before
    assert 0 < memory.resident() <= memory.peak()


def test_slow_peers_are_remembered_by_machine_and_version(tmp_path: Path) -> None:
    path, side = tmp_path / "slow.json", DuckDB("select 1")
    slow = Figure("DuckDB", 120.0, 120.0, stopped=True)
    Remembered(path, keeps=False).keep("slow work", side, slow)
    known = Remembered(path)
    known.keep("quick work", side, Figure("DuckDB", 1.0, 1.0, answer=7))
    known.keep("our work", Gdatalog("n(1)."), Figure("ours", 100.0, 100.0, answer=7))
    assert not path.exists()
    known.keep("slow work", side, slow)
    assert Remembered(path).of("quick work", side) is None
    figure = Remembered(path).of("slow work", side)
    assert figure is not None and figure.remembered and figure.stopped and figure.warm == 120.0
    assert Remembered(path, again=True).of("slow work", side) is None
    path.write_text(path.read_text().replace(same_machine(), "another machine"))
    assert Remembered(path).of("slow work", side) is None


# -------------------------------------------------------------------------------------- reports


def seen() -> list[Case]:
    cases = []
    for edges in (10_000, 100_000):
        figures = [
            Figure("ours, depth-first", edges / 1e7, 0.2, 0.5, 100_000_000, 101_000_000, edges),
            Figure("ours, breadth-first", edges / 1e6, 0.3, grown=10 * edges, answer=5),
            Figure("DuckDB", 120.0, 120.0, trouble="not done in 120 s", stopped=True),
        ]
        case = Case("random graphs", f"triangles, {short(edges)} random edges", figures)
        case.asks = [faster(case, "ours, depth-first", ["DuckDB"], 6)]
        case.edges = edges
        cases.append(case)
    return cases


def test_asks_compare_with_the_best_peer() -> None:
    figures = [Figure("ours", 2.0, 5.0), Figure("A", 6.0, 4.0), Figure("B", 5.0, 9.0)]
    case = Case("suite", "work", figures)
    assert faster(case, "ours", ["A", "B"], 2) == Ask(
        "work", "B", "2x", "2.5x (2.000 to 5.000 s)", True
    )
    assert faster(case, "ours", ["A", "B"], 0.9, cold=True).met is False
    assert faster(case, "ours", ["C"], 2).met is None
    assert at_most("work", "a clock", 1.2, 1.5).met
    assert not at_most("work", "a clock", 1.6, 1.5).met
    assert [seconds(value) for value in (0.01234, 1.5, 12.34, 123.4)] == [
        "0.0123", "1.500", "12.3", "123",
    ]  # fmt: skip


def test_a_report_begins_with_how_many_times_as_fast() -> None:
    case = seen()[0]
    facts = {"processor": "Some CPU", "cores": 2, "memory GiB": 24, LOAD: 0.4}
    pictures = [("a.png", "a picture")]
    text = markdown([case], facts, ["the rest"], pictures, "make bench-full")
    head, table, figures = (text.index(part) for part in ("# Random", "## How many", "## How it"))
    assert head == 0 < table < figures
    assert "on\nSome CPU, 2 cores, 24 GiB of memory.\n`make bench-full` repeats it" in text[:table]
    ratios = "| DuckDB | more than 1.2e+05x | more than 600x | 0.0010 | 120\\* |"
    assert f"| triangles, 10K random edges {ratios}" in text[table:figures]
    assert "ours" not in text and "| gdatalog, breadth-first | 0.0100 | 10 |" in text
    assert "| DuckDB | 120\\* | 1.2e+05 |" in text
    assert "![a picture](a.png)" in text
    assert "No time was left for the rest" in text


def test_a_report_compares_with_the_fastest_way_of_each_other_engine() -> None:
    figures = [
        Figure("ours", 2.0, 8.0),
        Figure("A, one way", 6.0, 4.0),
        Figure("A, another", 5.0, None),
        Figure("B", 1.0, 8.0),
        Figure("C", None, None, trouble="WRONG"),
        Figure("ours, otherwise", 1.0, 1.0),
    ]
    text = markdown([Case("suite", "work", figures)], {}, [], [])
    assert (
        "| work | A | 2.5x | 0.5x | 2.000 | 5.000 |\n|  | B | 0.5x | 1x | 2.000 | 1.000 |" in text
    )
    assert "| C |" not in text.partition("## How it was measured")[0]
    wrong = [replace(figures[0], trouble="WRONG"), *figures[1:]]
    assert "times as fast" not in markdown([Case("suite", "work", wrong)], {}, [], [])


def test_what_is_asked_for_is_told_to_those_who_work_on_gdatalog_alone() -> None:
    case = seen()[0]
    case.asks.append(at_most("work", "a clock", 1.6, 1.5))
    assert list(missed([case])) == [
        "missed: work: under 1.5 s of a clock; seen: 1.600 s",
    ]
    kept = case.to_dict()
    assert "asks" not in kept and Case.from_dict(kept) == replace(case, asks=[])
    text = markdown([case], {}, [], [])
    assert "1.5 s" not in text and "asked" not in text and "met" not in text.split()


def test_published_pages_say_the_machine_first_and_have_no_targets() -> None:
    pages = sorted((Path(__file__).parent.parent / "docs" / "benchmarks").rglob("README.md"))
    assert len(pages) == 4
    for page in pages:
        text = page.read_text(encoding="utf-8")
        head = text.partition("\n## ")[0]
        assert "repeats it on your" in head and "GiB of memory" in head, page
        for target in ("met**", "| met |", "| asked |", "asked for", "mean little"):
            assert target not in text, (page, target)


@pytest.mark.parametrize(
    ("loads", "args", "waits", "written"),
    [
        ([0.4], [], 0, "docs"),
        ([3.0, 2.0, 0.9], [], 2, "docs"),
        ([3.0] * 100, [], 60, None),  # the good report stays
        ([3.0] * 100, ["--wait", "0"], 0, None),
        ([3.0] * 100, ["--wait", "0", "--out", "elsewhere"], 0, "elsewhere"),
        ([0.4], ["cliques"], 0, None),
    ],
)
def test_a_report_of_a_busy_machine_is_not_published(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    loads: list[float],
    args: list[str],
    waits: int,
    written: str | None,
) -> None:
    paused: list[float] = []
    after, ours = iter(loads), [Case("cliques", "K3", [Figure("ours", 0.1)])]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["benchmarks", *args])
    monkeypatch.setattr(command, "OUT", tmp_path / "docs")
    monkeypatch.setattr(command, "machine", lambda: {LOAD: 9.9})
    monkeypatch.setattr(command, "wait_until_quiet", partial(wait_until_quiet, pause=paused.append))
    monkeypatch.setattr("benchmarks.machine.load", lambda: next(after))
    monkeypatch.setattr(command, "_run", lambda options, idle: (ours, []))
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "README.md").write_text("the good report")
    assert command.main() == 0
    shown = capsys.readouterr()
    assert len(paused) == waits and ("waiting for at most" in shown.err) == (waits > 0)
    busy = loads[waits] > 1
    assert (
        ("Others used the machine too" in shown.out) == busy == ("not to be trusted" in shown.err)
    )
    page = tmp_path / (written or "docs") / "README.md"
    assert page.read_text() == ("the good report" if written is None else shown.out[:-1])


def test_pictures_are_drawn_of_what_there_is(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    parts = Case("breadth-first by part", "triangles, G", [Figure("widening", 0.1)])
    kinds = Case("depth-first by intersection", "triangles, G", [Figure("merge", 0.1)])
    names = [name for name, _ in draw([*seen(), parts, kinds], tmp_path)]
    assert names == ["throughput-triangles.png", "memory-triangles.png", "breakdown.png"]
    assert all((tmp_path / name).stat().st_size > 5_000 for name in names)


@pytest.mark.slow
def test_large_files_are_written_and_read_alike(tmp_path: Path) -> None:
    from benchmarks import large_files

    found = large_files.compared(tmp_path, 1 << 20, "32MiB")
    assert [(seen.side, seen.work) for seen in found] == [
        (side, work) for work in ("write", "read", "CSV") for side in ("ours", "DuckDB")
    ]
    assert all(found[at].answer == found[at + 1].answer for at in (0, 2, 4))


@pytest.mark.slow
def test_less_memory_gives_the_same_answers() -> None:
    from benchmarks import less_memory

    what = "closure"
    free, bound = (less_memory.measured(what, limit, True) for limit in (None, 1 << 20))
    assert free.answer == bound.answer and free.answer[0] > 1000
