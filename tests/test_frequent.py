"""Frequent patterns of a labelled graph: supports are those of brute force, by either measure."""

from __future__ import annotations

from itertools import combinations, permutations
from pathlib import Path
from typing import Any, Literal

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gdatalog as gd
from gdatalog import patterns
from gdatalog.patterns.drawn import drawn
from gdatalog.patterns.grown import grown
from gdatalog.patterns.pattern import Pattern
from gdatalog.progress import Progress
from gdatalog.shell.cli import run
from tests.cases import cases

Edge = tuple[int, int]
Form = tuple[tuple[Any, ...], tuple[Edge, ...]]  # labels and edges of vertices 0, 1, 2, ...
Measure = Literal["mni", "instances"]
GRAPHS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=14)


def forms(edges: tuple[Edge, ...], labels: dict[int, Any]) -> list[tuple[Form, tuple[int, ...]]]:
    """A graph with its vertices in each order, and the vertices."""
    found = []
    for order in permutations(sorted({v for edge in edges for v in edge})):
        place = {vertex: at for at, vertex in enumerate(order)}
        renamed = tuple(sorted((place[u], place[v]) for u, v in edges))
        found.append(((tuple(labels[v] for v in order), renamed), order))
    return found


def supports(
    rows: set[Edge], labels: dict[int, Any], k_edges: int, directed: bool, measure: Measure
) -> dict[Form, int]:
    """Of all connected graphs of so many edges that there are, by trying all sets of edges."""
    rows = {(u, v) for u, v in rows if u != v and u in labels and v in labels}
    if not directed:
        rows = {(min(edge), max(edge)) for edge in rows}
    instances: dict[Form, int] = {}
    images: dict[Form, list[set[int]]] = {}
    for size in range(1, k_edges + 1):
        for chosen in combinations(sorted(rows), size):
            if not nx.is_connected(nx.Graph(chosen)):
                continue
            both = tuple({*chosen, *(() if directed else ((v, u) for u, v in chosen))})
            ways = forms(both, labels)
            least = min(form for form, _ in ways)
            instances[least] = instances.get(least, 0) + 1
            at = images.setdefault(least, [set() for _ in least[0]])
            for form, order in ways:
                for place, vertex in enumerate(order if form == least else ()):
                    at[place].add(vertex)
    if measure == "instances":
        return instances
    return {form: min(map(len, at)) for form, at in images.items()}


def form_of(pattern: Pattern) -> Form:
    names = {name: at for at, name in enumerate(sorted(pattern.vertices))}
    edges = {(names[u], names[v]) for u, v in pattern.edges}
    edges |= set() if pattern.directed else {(v, u) for u, v in edges}
    told = {names[name]: label for name, label in pattern.labels}
    return min(form for form, _ in forms(tuple(edges), told or dict.fromkeys(names.values(), 0)))


def opened(rows: set[Edge], labels: dict[int, Any], **options: Any) -> gd.Database:
    db = gd.connect(device="cpu", **options)
    db["E"] = sorted(rows)
    db["L"] = sorted(labels.items())
    return db


@settings(max_examples=cases(25), deadline=None)
@given(
    rows=GRAPHS.map(set),
    named=st.lists(st.sampled_from("xyz"), min_size=5, max_size=7),
    support=st.integers(1, 3),
    directed=st.booleans(),
    measure=st.sampled_from(["mni", "instances"]),
    labelled=st.booleans(),
)
def test_supports_are_those_of_brute_force(
    rows: set[Edge],
    named: list[str],
    support: int,
    directed: bool,
    measure: Measure,
    labelled: bool,
) -> None:
    """Loops, edges one way and both ways, vertices without a label; texts as labels."""
    labels: dict[int, Any] = dict(enumerate(named)) if labelled else dict.fromkeys(range(7), 0)
    k_edges = 2 if directed else 3
    wanted = supports(rows, labels, k_edges, directed, measure)
    with opened(rows, labels) as db:
        given = {"measure": measure, "directed": directed, "labels": "L" if labelled else None}
        table = db.frequent(k_edges, support, **given)
        found = {form_of(pattern): count for pattern, count
                 in zip(table["pattern"], table["support"], strict=True)}  # fmt: skip
        assert len(found) == len(table)
        assert found == {form: count for form, count in wanted.items() if count >= support}
        for pattern, count in list(zip(table["pattern"], table["support"], strict=True))[-4:]:
            if measure == "instances":
                assert db.count(pattern) == count


def brute_shapes(size: int, directed: bool) -> list[Any]:
    kind: Any = nx.DiGraph if directed else nx.Graph
    pairs = permutations if directed else combinations
    found: list[Any] = []
    for chosen in combinations(pairs(range(size + 1), 2), size):
        graph = kind(chosen)
        connected = nx.is_weakly_connected(graph) if directed else nx.is_connected(graph)
        if connected and not any(nx.is_isomorphic(graph, other) for other in found):
            found.append(graph)
    return found


@pytest.mark.parametrize(("most", "directed"), [(5, False), (3, True)])
def test_shapes_are_all_connected_graphs_of_so_many_edges(most: int, directed: bool) -> None:
    for size in range(1, most + 1):
        wanted = brute_shapes(size, directed)
        kind = type(wanted[0])
        made = [kind(sorted(shape.edges)) for shape in grown(size, directed)]
        assert len(made) == len(wanted)
        assert all(any(nx.is_isomorphic(a, b) for b in made) for a in wanted)


def drawn_graph(vertices: int, edges: int, labels: int) -> tuple[set[Edge], dict[int, Any]]:
    graph = nx.gnm_random_graph(vertices, edges, seed=5)
    return set(graph.edges), {vertex: vertex * 7 % 11 % labels for vertex in graph}


def test_the_support_of_parts_is_no_less() -> None:
    """With MNI; instances may be more where an edge more is."""
    rows, labels = drawn_graph(60, 150, 3)
    with opened(rows, labels) as db:
        table = db.frequent(4, 6)
        found = {form_of(pattern): count for pattern, count
                 in zip(table["pattern"], table["support"], strict=True)}  # fmt: skip
        assert {pattern.edges for pattern in table["pattern"] if len(pattern.edges) == 4}
        for pattern, count in zip(table["pattern"], table["support"], strict=True):
            for edge in pattern.edges if len(pattern.edges) > 1 else ():
                rest = tuple(other for other in pattern.edges if other != edge)
                left = {end for other in rest for end in other}
                told = tuple((name, label) for name, label in pattern.labels if name in left)
                if nx.is_connected(nx.Graph(rest)):
                    assert found[form_of(Pattern("part", rest, (), told))] >= count
    star = {(0, at) for at in range(1, 8)}
    with opened(star, dict.fromkeys(range(8), "x")) as db:
        assert db.frequent(3, 8, measure="instances")["support"].tolist() == [21, 35]


@pytest.mark.slow
def test_little_memory_is_enough() -> None:
    """Embeddings are not kept: only tuples of labels are, with a count."""
    rows, labels = drawn_graph(400, 6000, 3)
    with opened(rows, labels) as free, opened(rows, labels, memory_limit="2MiB") as bound:
        wanted = free.frequent(3, 20).drop(columns="pattern")
        assert len(wanted) > 50 and bound.frequent(3, 20).drop(columns="pattern").equals(wanted)
        profile = bound.profile(patterns.frequent_rules(3, 20, edges="E"))
        assert profile.peak <= 2 << 20


def test_making_rules_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    grown.cache_clear()
    rows, labels = drawn_graph(6, 8, 3)
    seen: list[str] = []
    with opened(rows, labels) as db:
        monkeypatch.setattr(gd.Database, "query", None)  # it does not come to that
        with pytest.raises(gd.TimeLimitError, match="planning frequent patterns"):
            db.frequent(7, 1, timeout=0.05)
        with pytest.raises(gd.Interrupted, match="planning frequent patterns"):
            db.frequent(7, 1, on_progress=lambda now: [seen.append(str(now)), db.interrupt()])
    assert seen == ["planning frequent patterns"]


def test_limits_progress_and_names() -> None:
    rows, labels = drawn_graph(60, 150, 3)
    seen: list[Progress] = []
    with opened(rows, labels) as db:
        db["frequent0"] = [(1,)]
        db.frequent(3, 1, on_progress=seen.append)
        with pytest.raises(gd.RowLimitError):
            db.frequent(3, 2, max_rows=10)
        many = len(db.frequent(3, 2))
        assert len(db.frequent(3, 2, max_rows=many)) == many
        with pytest.raises(gd.RowLimitError, match=f"max_rows={many - 1} allows"):
            db.frequent(3, 2, max_rows=many - 1)
        with pytest.raises(gd.TimeLimitError):
            db.frequent(6, 1, timeout=0.01)
        with pytest.raises(gd.Interrupted):
            db.frequent(6, 1, on_progress=lambda _: db.interrupt())
        assert sorted(db) == ["E", "L", "frequent0"]
        for wrong, problem in (
            (lambda: db.frequent(0, 1), "1 to 7 edges"),
            (lambda: db.frequent(8, 1), "1 to 7 edges"),
            (lambda: db.frequent(2.0, 1), "1 to 7 edges, not 2.0"),
            (lambda: db.frequent(2, 2.5), "a whole number"),
            (lambda: db.frequent(2, 1 << 63), "a whole number"),
            (lambda: db.frequent(1, 0), "1 at least"),
            (lambda: db.frequent(1, 1, measure="mis"), '"mni" or "instances"'),  # type: ignore[arg-type]
            (lambda: db.frequent(1, 1, labels="frequent0"), "no relation of vertices and labels"),
        ):
            with pytest.raises(gd.UsageError, match=problem):
                wrong()
        with pytest.raises(gd.UsageError, match=r"(?s)no relation K of vertices.*labels=None"):
            db.frequent(1, 1, labels="K")
    assert seen


@pytest.mark.parametrize(
    ("pattern", "picture"),
    [
        (patterns.path(3).labelled([0, 1, 0]), "(a:0)-(b:1)-(c:0)"),
        (patterns.star(3), "(b)-(a)-(c), (a)-(d)"),
        (patterns.cycle(4), "(a)-(b)-(c)-(d)-(a)"),
        (patterns.clique(4), "(a)-(b)-(c)-(a)-(d)-(b), (c)-(d)"),
        (patterns.from_edges("ab cb", directed=True), "(a)->(b)<-(c)"),
    ],
)
def test_a_pattern_is_drawn_on_a_line(pattern: Pattern, picture: str) -> None:
    assert drawn(pattern) == picture


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph, labels = tmp_path / "graph.csv", tmp_path / "labels.csv"
    graph.write_text("a,b\n1,2\n2,3\n3,4\n")
    labels.write_text("v,l\n1,x\n2,y\n3,x\n4,y\n")
    asked = ["frequent", "--device", "cpu", "--edges", "2", "--support", "2"]
    assert run([*asked, "--labels", str(labels), str(graph)]) == 0
    assert capsys.readouterr().out == "2\t(a:x)-(b:y)\n"
    assert run([*asked, "--measure", "instances", str(graph)]) == 0
    assert capsys.readouterr().out == "3\t(a)-(b)\n2\t(b)-(a)-(c)\n"
    assert run(["frequent", "--edges", "0", "--support", "2", str(graph)]) == 2
    assert "1 to 7 edges" in capsys.readouterr().err


def test_the_columns_of_edges_are_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named, bare, one = (str(tmp_path / name) for name in ("named.csv", "bare.csv", "one.csv"))
    Path(named).write_text("id,src,dst\n0,1,2\n1,2,3\n2,3,1\n")
    Path(bare).write_text("1,5,2\n2,5,3\n3,5,1\n")
    Path(one).write_text("a\n1\n")
    asked = ["count", "--device", "cpu", "--pattern", "clique3"]
    assert run([*asked, "--columns", "src, dst", named]) == 0
    assert run([*asked, "--columns", "column0,column2", bare]) == 0
    assert capsys.readouterr().out == "clique3\t1\n" * 2
    for args, told in (
        ([named], f"edges have two columns, {named} has 3: id, src, dst\n"
                  "  hint: --columns id,src chooses two"),
        ([bare], "--columns column0,column1"),
        ([one], "has 1: a"),
        (["--columns", "src,dts", named], "there is no column 'dts': did you mean 'dst'?"),
        (["--columns", "src", named], "has 1: src"),
        (["--columns", "src,src", named], "names a column twice"),
    ):  # fmt: skip
        assert run([*asked, *args]) in (1, 2), args
        assert told in capsys.readouterr().err


def test_what_is_mistyped_is_told_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for args, told in (
        ("frequent", "Missing argument 'FILE'\n  hint: gdatalog frequent --help"),
        ("frequent g.csv", "Missing option '--edges'\n  hint: gdatalog frequent --help"),
        ("frequent --suport 2 g.csv", "no option --suport\n  hint: did you mean --support?"),
        ("count g.csv", "Missing option '--pattern'\n  hint: gdatalog count --help"),
        ("--explian g.dl", "no option --explian\n  hint: did you mean --explain?"),
    ):
        assert run(args.split()) == 2
        assert told in capsys.readouterr().err
    (tmp_path / "frequent").write_text("p(1). ?- p(x).")
    assert run(["frequent", "--device", "cpu"]) == 0
