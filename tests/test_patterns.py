"""Patterns: what they say of themselves, and that counts are those of brute force."""

from __future__ import annotations

from itertools import combinations, permutations
from math import comb
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gdatalog as gd
from gdatalog import patterns
from gdatalog.patterns import orbits, queries
from gdatalog.patterns.pattern import Pattern
from gdatalog.patterns.suites import GRAPHLETS
from gdatalog.shell.cli import run
from tests.cases import cases

EDGES = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=1, max_size=26)
SMALL = [
    patterns.path(3), patterns.cycle(4), patterns.star(3), patterns.biclique(2, 2),
    *(patterns.named(name) for name in ("house", "G6", "G7", "clique4", "G13")),
]  # fmt: skip


def occurrences(
    pattern: Pattern, rows: set[tuple[int, int]], labels: dict[int, int], induced: bool
) -> set[frozenset[tuple[int, int]]]:
    """The sets of edges that are the pattern: one for each occurrence."""
    there = rows if pattern.directed else rows | {(v, u) for u, v in rows}
    vertices = sorted({end for row in rows for end in row})
    names, given = pattern.vertices, dict(pattern.labels)
    found = set()
    for chosen in permutations(vertices, len(names)):
        at = dict(zip(names, chosen, strict=True))
        edges = [(at[u], at[v]) for u, v in pattern.edges]
        told = {(u, v) for u, v in pattern.edges}
        told |= set() if pattern.directed else {(v, u) for u, v in pattern.edges}
        others = [pair for pair in permutations(names, 2) if induced and pair not in told]
        others += pattern.absent
        if (
            all(edge in there for edge in edges)
            and not any((at[u], at[v]) in there for u, v in others)
            and all(labels.get(at[name]) == label for name, label in given.items())
        ):
            found.add(frozenset(e if pattern.directed else (min(e), max(e)) for e in edges))
    return found


def opened(rows: set[tuple[int, int]], labels: dict[int, int] | None = None) -> gd.Database:
    db = gd.connect(device="cpu")
    db["E"] = sorted(rows)
    if labels is not None:
        db["L"] = sorted(labels.items())
    return db


# ------------------------------------------------------------------------------------- shapes


def test_the_patterns_of_papers_have_their_symmetries() -> None:
    known = {
        "P1": 4, "P2": 24, "P3": 4, "P4": 4, "P5": 8, "P6": 12, "P7": 120,
        "P8": 2, "P9": 6, "P10": 4, "P11": 4,
        "house": 2, "q1": 8, "q10": 4, "clique5": 120, "path4": 2, "cycle5": 10, "star4": 24,
        "biclique2_3": 12,
    }  # fmt: skip
    assert {name: patterns.named(name).automorphisms for name in known} == known
    labelled = [patterns.named(f"P{at}") for at in range(12, 23)]
    assert patterns.suite("t-dfs-labelled") == tuple(labelled)
    for plain, one in zip(patterns.suite("t-dfs"), labelled, strict=True):
        assert one.edges == plain.edges and dict(one.labels)["b"] == 1


def test_cuts_patterns_have_most_edges() -> None:
    """They are those that networkx' atlas gives, in its order."""
    atlas = list(enumerate(nx.graph_atlas_g()))
    for size in (5, 6, 7):
        every = [(at, g) for at, g in atlas if len(g) == size and nx.is_connected(g)]
        every.sort(key=lambda one: (-one[1].number_of_edges(), one[0]))
        mine = [one for one in patterns.suite("cuts") if len(one.vertices) == size]
        assert len(mine) == 11
        for pattern, (_, graph) in zip(mine, every[:11], strict=True):
            assert nx.is_isomorphic(nx.Graph(list(pattern.edges)), graph), pattern.name


def test_graphlets_and_their_orbits() -> None:
    """All connected graphs of 2 to 5 vertices, each once; an orbit's vertices are alike."""
    graphs = [nx.Graph(list(one.edges)) for one in patterns.suite("graphlets")]
    assert [sum(len(g) == size for g in graphs) for size in (2, 3, 4, 5)] == [1, 2, 6, 21]
    assert not any(nx.is_isomorphic(a, b) for a, b in combinations(graphs, 2))
    numbers = set()
    for pattern, (_, alone) in zip(patterns.suite("graphlets"), GRAPHLETS, strict=True):
        place = {name: at for at, name in enumerate(pattern.vertices)}
        group = pattern.shape().automorphisms()
        pairs = combinations(list(zip(sorted(pattern.vertices), alone, strict=True)), 2)
        for (u, mine), (v, its) in pairs:
            alike = any(mapping[place[u]] == place[v] for mapping in group)
            assert alike == (mine == its), pattern.name
        numbers |= set(alone)
    assert numbers == set(range(73))


def test_a_pattern_is_its_rule() -> None:
    assert str(patterns.clique(3)) == (
        "clique3(a, b, c) <- E(a, b), E(a, c), E(b, c), a < b, b < c, distinct(a, b, c)."
    )
    with opened({(1, 2), (2, 3), (3, 1), (2, 1), (3, 2), (1, 3)}) as db:
        assert db.query(str(patterns.clique(3))).fetchall() == [(1, 2, 3)]


# ------------------------------------------------------------------------------------- counts


@settings(max_examples=cases(25), deadline=None)
@given(
    rows=EDGES,
    pattern=st.sampled_from(SMALL),
    induced=st.booleans(),
    directed=st.booleans(),
    seed=st.integers(0, 3),
)
def test_counts_and_matches_are_those_of_brute_force(
    rows: list[tuple[int, int]], pattern: Pattern, induced: bool, directed: bool, seed: int
) -> None:
    """Loops, edges one way and both ways, labels."""
    labels = {vertex: (vertex + seed) % 2 for vertex in range(8)}
    if seed:
        names = pattern.vertices[:2]
        pattern = pattern.labelled({name: at for at, name in enumerate(names)})
    edges = set(rows)
    given = Pattern(pattern.name, pattern.edges, (), pattern.labels, directed)
    wanted = occurrences(given, edges, labels, induced)
    with opened(edges, labels) as db:
        assert db.count(pattern, induced=induced, directed=directed) == len(wanted)
        found = db.match(pattern, induced=induced, directed=directed)
        assert len(found) == len(wanted)
        at = [dict(zip(pattern.vertices, row, strict=True)) for row in found.fetchall()]
        sets = {
            frozenset(
                e if directed else (min(e), max(e))
                for e in ((one[u], one[v]) for u, v in given.edges)
            )
            for one in at
        }
        assert sets == wanted


@settings(max_examples=3, deadline=None)
@given(rows=EDGES)
def test_motifs_and_orbits_are_those_of_brute_force(rows: list[tuple[int, int]]) -> None:
    edges = set(rows)
    graph = nx.Graph([row for row in edges if row[0] != row[1]])
    motifs = {one.name: 0 for one in patterns.suite("graphlets")}
    degrees = {vertex: [0] * 73 for vertex in graph}
    known = [nx.Graph(list(one.edges)) for one in patterns.suite("graphlets")]
    for size in (2, 3, 4):
        for chosen in combinations(graph, size):
            part = graph.subgraph(chosen)
            for number, one in enumerate(known):
                matcher = nx.isomorphism.GraphMatcher(part, one)
                if len(one) == size and matcher.is_isomorphic():
                    motifs[f"G{number}"] += 1
                    own = dict(zip(sorted(one), GRAPHLETS[number][1], strict=True))
                    for vertex, name in matcher.mapping.items():
                        degrees[vertex][own[name]] += 1
    with opened(edges) as db:
        for size in (3, 4):
            assert db.motifs(size) == {
                one.name: motifs[one.name] for one in patterns.graphlets(size)
            }
        table = db.orbits(4)
        assert list(table.columns) == ["vertex", *(f"O{at}" for at in range(15))]
        told = {row[0]: list(row[1:]) for row in table.itertuples(index=False)}
        assert told == {vertex: counts[:15] for vertex, counts in degrees.items()}


@pytest.mark.parametrize("kind", ["both ways", "one way, loops", "texts"])
def test_orbits_of_five_vertices_fit_together(kind: str) -> None:
    """Each graphlet is in the orbits of all of its vertices; a count by embeddings agrees."""
    graph = nx.gnp_random_graph(30, 0.3, seed=5)
    rows: list[tuple[Any, Any]] = list(graph.edges)
    if kind == "both ways":
        rows += [(v, u) for u, v in rows]
    elif kind == "texts":
        rows = [(f"v{u}", f"v{v}") for u, v in rows]
    else:
        rows += [(3, 3), (4, 4)]
    with gd.connect(device="cpu") as db:
        db["E"] = rows
        totals = db.orbits(5).iloc[:, 1:].sum()
        motifs = {name: count for size in (3, 4, 5) for name, count in db.motifs(size).items()}
        for one in orbits.orbits():
            if one.size > 2:
                assert totals[f"O{one.number}"] == motifs[one.pattern.name] * one.members
        for name in ("G15", "G25", "G27"):
            assert db.count(name, induced=True) == motifs[name]


def test_homomorphisms_onto_graphlets() -> None:
    """Of the path of three vertices from its end: onto an edge, a path and a triangle."""
    assert orbits.onto(1) == {0: 1, 1: 1, 3: 2}


def test_motifs_and_orbits_beyond_64_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Motifs are counted by embeddings then, whose counts may be as large as they like."""
    with opened(set(nx.gnp_random_graph(12, 0.5, seed=3).edges)) as db:
        motifs = db.motifs(5)
        monkeypatch.setattr(queries, "_fits", lambda *_: False)
        assert db.motifs(5) == motifs
    monkeypatch.undo()
    with opened({(0, at) for at in range(1, 60_001)}) as db:
        with pytest.raises(gd.EvaluationError, match="64 bits"):
            db.orbits(5)
        assert db.motifs(4)["G4"] == comb(60_000, 3)


@pytest.mark.slow
def test_motifs_and_orbits_of_five_vertices() -> None:
    graph = nx.gnp_random_graph(12, 0.45, seed=4)
    known = [nx.Graph(list(one.edges)) for one in patterns.suite("graphlets")]
    motifs = [0] * 30
    degrees = {vertex: [0] * 73 for vertex in graph}
    for chosen in combinations(graph, 5):
        part = graph.subgraph(chosen)
        for number, one in enumerate(known):
            matcher = nx.isomorphism.GraphMatcher(part, one)
            if len(one) == 5 and matcher.is_isomorphic():
                motifs[number] += 1
                own = dict(zip(sorted(one), GRAPHLETS[number][1], strict=True))
                for vertex, name in matcher.mapping.items():
                    degrees[vertex][own[name]] += 1
    with opened(set(graph.edges)) as db:
        assert list(db.motifs(5).values()) == motifs[9:]
        told = {row[0]: list(row[16:]) for row in db.orbits(5).itertuples(index=False)}
    assert told == {vertex: counts[15:] for vertex, counts in degrees.items()}


def test_several_at_once() -> None:
    with opened({(1, 2), (2, 3), (3, 1), (3, 4)}) as db:
        assert db.count(["clique3", patterns.path(3)]) == [1, 5]
        assert db.count([]) == []


@pytest.mark.parametrize("name", ["both_ways", "counts", "counts0", "matches", "clique3", "orbits"])
def test_names_that_a_rule_would_take(name: str) -> None:
    with opened({(1, 2), (2, 3), (3, 1), (3, 4)}) as db:
        db[name] = [(0, 800, 1)]
        assert db.count("clique3") == 1 and db.match("clique3").fetchall() == [(1, 2, 3)]
        assert db.orbits(3)["O3"].tolist() == [1, 1, 1, 0]
        edges = [(1, 2), (2, 3), (1, 3)]
        db[name] = edges
        assert db.count("clique3", edges=name) == 1


def test_counts_beyond_64_bits() -> None:
    """Of one of several patterns, too."""
    with opened({(0, at) for at in range(1, 60_001)}) as db:
        assert db.count(["star5", "path3"]) == [comb(60_000, 5), comb(60_000, 2)]


# -------------------------------------------------------------------------------- other texts


def test_dotmotif() -> None:
    told = patterns.from_dotmotif(
        """
        # a loop that goes one way
        oneway(A, B) {
            A -> B   # there
            B !> A
        }
        oneway(x, y); oneway(y, z)
        x <- z
        x ~> z
        x.label = 3
        y.label = 'blue; # or not'
        """,
        name="ring",
    )
    assert told.directed and told.edges == (("x", "y"), ("y", "z"), ("z", "x"))
    assert told.absent == (("y", "x"), ("z", "y"), ("x", "z"))
    assert dict(told.labels) == {"x": 3, "y": "blue; # or not"}
    odd = patterns.from_dotmotif("_a -> in; _a !> in; in -> min")
    assert str(odd).startswith("pattern(v_a, vin, vmin) <- E(v_a, vin), E(vin, vmin), not E(v_a,")
    for text, problem in (
        ("A -> B; A.size > 3", "no statement of a motif: A.size > 3"),
        ("A -> B; C !> B", "C is on no edge"),
        ("p(A, B) { A -> B }\n p(x)", "p takes 2 vertices, not 1"),
    ):
        with pytest.raises(gd.UsageError, match=problem):
            patterns.from_dotmotif(text)


def test_networkx() -> None:
    graph = nx.DiGraph([("left one", 2), (2, 3)])
    graph.nodes[2]["label"] = 'a "b"'
    told = patterns.from_networkx(graph)
    assert told.directed and told.vertices == ("vleft_one", "v2", "v3")
    assert 'L(v2, "a \\"b\\"")' in str(told)
    with opened({(1, 2)}) as db:
        db["L"] = [(1, "a\nb"), (2, "c")]
        assert db.count(patterns.path(2).labelled(["a\nb", "c"])) == 1
        assert db.count(patterns.from_edges([("exists", "min")], name="not")) == 1


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: patterns.from_edges("ab ba aa"), "a is connected to itself"),
        (lambda: patterns.from_edges("abc"), "two ends"),
        (lambda: patterns.from_edges([]), "at least one edge"),
        (lambda: patterns.clique(1), "from 2 to 10"),
        (lambda: patterns.cycle(2), "from 3 to 10"),
        (lambda: patterns.biclique(0, 3), "each side"),
        (lambda: patterns.named("hous"), "no pattern 'hous'"),
        (lambda: patterns.suite("t-dsf"), "no suite"),
        (lambda: patterns.path(3).labelled({"z": 1}), "no vertex 'z'"),
        (lambda: patterns.path(3).labelled([1]), "3 vertices"),
        (lambda: str(patterns.path(2).labelled([1.5, 2])), "whole number"),
        (lambda: patterns.named("clique99999999999"), "from 2 to 10"),
        (lambda: patterns.named(3), "gdatalog.patterns, or its name, not 3"),  # type: ignore[arg-type]
        (lambda: patterns.path("3"), "a number of vertices is whole, not '3'"),  # type: ignore[arg-type]
        (lambda: patterns.star(2.5), "a number of vertices is whole, not 2.5"),  # type: ignore[arg-type]
        (lambda: patterns.from_edges(None), "not a list of edges: None"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_pattern(make: object, problem: str) -> None:
    with pytest.raises(gd.UsageError, match=problem):
        make()  # type: ignore[operator]


def test_what_has_no_edges() -> None:
    with opened({(1, 2)}) as db:
        with pytest.raises(gd.Error, match="G"):
            db.count("clique3", edges="G")
        db["F"] = [(1, "a")]
        with pytest.raises(gd.UsageError, match="F is no relation of edges"):
            db.count("clique3", edges="F")
        with pytest.raises(gd.UsageError, match="3, 4 or 5"):
            db.motifs(6)
        for ask in (db.count, db.match):
            with pytest.raises(gd.UsageError, match="P12 has labels, but there is no relation L"):
                ask("P12")
        db["L"], db["U"] = [(1, "a"), (2, "b")], [(1,)]
        path: Any = patterns.path(2)
        wrong: tuple[Any, ...] = (
            (
                lambda: db.count(None),
                "a pattern is one of gdatalog.patterns, or its name, not None",
            ),
            (lambda: db.count([path, 5]), "not 5"),
            (lambda: db.match([path]), r"not \[Pattern"),
            (lambda: db.count(path, edges=None), "there is no relation None"),
            (lambda: db.count(path.labelled([1, 2])), "the label 1, and the labels of L are texts"),
            (
                lambda: db.count(path.labelled("ab"), labels="U"),
                "no relation of vertices and labels",
            ),
            (lambda: db.match(path, limit="x"), "a limit is a number of rows, not 'x'"),
            (lambda: db.query("?- E.", max_rows=1.5), "max_rows is a number of rows, not 1.5"),
            (lambda: db.motifs("3"), "not '3'"),
            (lambda: db.load("Q", ""), "the path of a file is empty"),
            (lambda: gd.connect(device=5), "there is no device '5'"),
        )
        for act, problem in wrong:
            with pytest.raises(gd.Error, match=problem):
                act()


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = tmp_path / "graph.csv"
    graph.write_text("a,b\n1,2\n2,3\n3,1\n3,4\n")
    asked = ["count", "--device", "cpu", "--pattern", "clique3", "--pattern", "path3"]
    assert run([*asked, str(graph)]) == 0
    assert capsys.readouterr().out == "clique3\t1\npath3\t5\n"
    assert run([*asked, "--induced", "-j", "1", str(graph)]) == 0
    assert capsys.readouterr().out == "clique3\t1\npath3\t2\n"
    graph.write_text("a,b\n1,2\n1,2\n2,3\n")
    assert run([*asked, str(graph)]) == 0
    err = capsys.readouterr().err
    assert err.startswith("warning: E: 1 of 3 rows is a duplicate") and "row_id" not in err
    assert run(["count", "--pattern", "P12", str(graph)]) == 2
    assert "--labels FILE" in capsys.readouterr().err
    assert run([*asked, str(tmp_path / "none.csv")]) == 1
    assert "there is no such file" in capsys.readouterr().err
    assert run(["count", "--pattern", "hous", str(graph)]) == 2
    assert "did you mean house?" in capsys.readouterr().err
