"""Recursion: closures, same generation, components, paths, one vertex's reach, new edges.

All sides answer anew from data that is loaded: indexes are part of the time. What a row asks for
is how many times the peer's time ours must be better, or what ours may take or hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchmarks import points_to
from benchmarks.columns import Array, Columns
from benchmarks.graphs import Graph, closure, directed_rmat, weights
from benchmarks.peers import DuckDB, SciPy
from benchmarks.records import Ask, Case, Figure, at_most, faster
from benchmarks.setting import Setting
from benchmarks.sides import Following, Recursive
from benchmarks.worker import Broken, Side, Stopped, Worker

PATH = "path(x, y) <- edge(x, y). path(x, z) <- path(x, y), edge(y, z)."
NON_LINEAR = "path(x, y) <- edge(x, y). path(x, z) <- path(x, y), path(y, z)."
COUNTED = " n(count()) <- path(_, _)."
CLOSURE_SQL = """
    with recursive path(a, b) as (
        select a, b from edge
        union select path.a, edge.b from path join edge on path.b = edge.a)
    select count(*) from path"""

GENERATION = """
    sg(x, y) <- edge(p, x), edge(p, y), x != y.
    sg(x, y) <- edge(a, x), sg(a, b), edge(b, y).
    n(count()) <- sg(_, _)."""
GENERATION_SQL = """
    with recursive sg(a, b) as (
        select l.b, r.b from edge l join edge r on l.a = r.a where l.b <> r.b
        union select l.b, r.b from sg join edge l on sg.a = l.a join edge r on sg.b = r.a)
    select count(*) from sg"""

COMPONENTS = """
    comp(x, min(x)) <- edge(x, _).
    comp(y, min(y)) <- edge(_, y).
    comp(y, min(c)) <- comp(x, c), edge(x, y).
    comp(x, min(c)) <- comp(y, c), edge(x, y).
    n(count(), sum(c)) <- comp(_, c)."""
SHORTEST = """
    dist({source}, 0).
    dist(y, min(d + w)) <- dist(x, d), edge(x, y, w).
    n(count(), sum(d)) <- dist(_, d)."""

SAMPLE, ADDED = 1_000, 10
CLOSURES = (
    ("ego-Facebook", 20.0, 10.0),
    ("wiki-Vote", 20.0, 60.0),
    ("p2p-Gnutella09", 12.0, 90.0),
    ("luxembourg_osm", 8.0, 10.0),
    ("cal.cedge", 3.0, 5.0),
)
NOTE = "indexes are part of all seconds of recursion; loading is not"
FIRST = "what is followed for the first time finds what is known put into an index first"


def run(setting: Setting) -> Iterator[Case]:
    for name, wanted, long in CLOSURES[-1:] if setting.small else CLOSURES:
        yield from _closure(setting, name, wanted, long)
    yield from _generation(setting)
    yield from _non_linear(setting)
    yield from _new_edges(setting)
    yield from _of_weights(setting)
    yield from _reached(setting)
    yield from points_to.run(setting)
    yield from _as_columns(setting)
    yield from _counted(setting)


def _edges(graph: Graph) -> Columns:
    return {"edge": {"a": graph.u, "b": graph.v}}


def _closure(setting: Setting, name: str, wanted: float, long: float) -> Iterator[Case]:
    graph = closure(name)
    what = f"closure, {graph.name}"
    if not setting.wants(what, long):
        return
    data = setting.stored(f"{graph.name} directed", lambda: _edges(graph))
    ours = Recursive(PATH + COUNTED)
    whole = Recursive(PATH + " ?- path(x, y).", label="ours, all tuples")
    sides: list[Side] = [ours, whole, DuckDB(CLOSURE_SQL)]
    case = setting.race("recursion", what, data, sides, notes=(NOTE,), afresh=True)
    case.asks.append(faster(case, ours.name, ["DuckDB"], wanted))
    yield case


def _generation(setting: Setting) -> Iterator[Case]:
    graph = closure("OL.cedge" if setting.small else "ego-Facebook")
    what = f"same generation, {graph.name}"
    peer = DuckDB(GENERATION_SQL)
    if not setting.wants(what, 30 + setting.wait(what, peer)):
        return
    data = setting.stored(f"{graph.name} directed", lambda: _edges(graph))
    ours = Recursive(GENERATION)
    case = setting.race("recursion", what, data, [ours, peer], notes=(NOTE,), afresh=True)
    case.asks.append(faster(case, ours.name, ["DuckDB"], 80.0))
    yield case


def _non_linear(setting: Setting) -> Iterator[Case]:
    """The same closure by a rule that meets itself, against the linear one."""
    names = ["OL.cedge"] if setting.small else ["ego-Facebook", "wiki-Vote", "p2p-Gnutella09"]
    for name in names:
        graph = closure(name)
        what = f"non-linear closure, {graph.name}"
        if not setting.wants(what, 20):
            continue
        data = setting.stored(f"{graph.name} directed", lambda graph=graph: _edges(graph))
        linear = Recursive(PATH + COUNTED, label="ours, linear")
        twice = Recursive(NON_LINEAR + COUNTED, label="ours, non-linear")
        case = setting.race("recursion", what, data, [twice, linear], notes=(NOTE,), afresh=True)
        case.asks.append(faster(case, twice.name, [linear.name], 0.3))
        yield case


def _new_edges(setting: Setting) -> Iterator[Case]:
    graph = closure("OL.cedge" if setting.small else "p2p-Gnutella09")
    what = f"{ADDED} new edges after the closure of {graph.name}"
    if not setting.wants(what, 40):
        return
    data = setting.stored(f"{graph.name} directed", lambda: _edges(graph))
    new = new_edges(graph, 2 * ADDED)
    earlier, added = new[:ADDED], new[ADDED:]
    sides: list[Side] = [
        Following(PATH, added=added, earlier=earlier, way=way)
        for way in ("again", "first", "start")
    ]
    case = setting.race("recursion", what, data, sides, notes=(NOTE, FIRST), afresh=True)
    own = case.figures[0]
    if own.warm is not None:
        ask = at_most(what, "its tuples, new ones too, counted", own.warm, 0.03)
        case.asks.append(replace(ask, met=ask.met and not own.trouble))
    yield case


def new_edges(graph: Graph, count: int, seed: int = 10) -> tuple[tuple[int, int], ...]:
    """Edges between vertices that the graph has, which it has not."""
    random = np.random.default_rng(seed)
    vertices = np.unique(np.concatenate([graph.u, graph.v]))
    there = set(zip(graph.u.tolist(), graph.v.tolist(), strict=True))
    found: dict[tuple[int, int], None] = {}
    while len(found) < count:
        a, b = (int(end) for end in random.choice(vertices, 2))
        if a != b and (a, b) not in there:
            found[a, b] = None
    return tuple(found)


def _rmat(setting: Setting) -> Graph:
    return directed_rmat(10, 8_000) if setting.small else directed_rmat()


def _of_weights(setting: Setting) -> Iterator[Case]:
    """Components and shortest paths."""
    if not setting.wants("components and shortest paths, R-MAT", 60):
        return
    graph = _rmat(setting)
    data = setting.stored(f"{graph.name} directed", lambda: _edges(graph))
    weighted = setting.stored(
        f"{graph.name} weighted", lambda: {"edge": {**_edges(graph)["edge"], "w": weights(graph)}}
    )
    source = busiest(graph)
    works = [
        ("components", data, Recursive(COMPONENTS), SciPy("components"), 0.8),
        ("shortest paths", weighted, Recursive(SHORTEST.format(source=source)),
         SciPy("shortest", source), 1.2),
    ]  # fmt: skip
    for name, folder, ours, peer, wanted in works:
        what = f"{name}, {graph.name}"
        case = setting.race("recursion", what, folder, [ours, peer], notes=(NOTE,), afresh=True)
        case.asks.append(faster(case, ours.name, [peer.name], wanted))
        yield case


def busiest(graph: Graph) -> int:
    """The vertex of largest out-degree."""
    return int(np.bincount(graph.u).argmax())


def _reached(setting: Setting) -> Iterator[Case]:
    """`?- path(c, y).` needs the vertices that c reaches, and no closure."""
    if not setting.wants("reached from one vertex, R-MAT", 30):
        return
    graph = _rmat(setting)
    what = f"reached from one vertex, {graph.name}"
    data = setting.stored(f"{graph.name} directed", lambda: _edges(graph))
    source = busiest(graph)
    ours = Recursive(f"{PATH} ?- path({source}, y).")
    peer = SciPy("reached", source)
    case = setting.race("recursion", what, data, [ours, peer], notes=(NOTE,), afresh=True)
    case.asks.append(faster(case, ours.name, [peer.name], 0.25))
    yield case


def _as_columns(setting: Setting) -> Iterator[Case]:
    graph = closure("OL.cedge" if setting.small else "SF.cedge")
    what = f"closure as columns, {graph.name}"
    if not setting.wants(what, 60):
        return
    data = setting.stored(f"{graph.name} directed", lambda: _edges(graph))
    ours = Recursive(
        PATH + " ?- path(x, y).", arrow=True, label="ours, as a stream of Arrow columns"
    )
    case = setting.race("recursion", what, data, [ours], notes=(NOTE,), afresh=True)
    case.asks += _under(case, case.figures[0], 1500)
    yield case


def _counted(setting: Setting) -> Iterator[Case]:
    """A closure that is only counted, against a search from each vertex, by a sample of them."""
    graph = closure("OL.cedge" if setting.small else "usroads")
    what = f"closure counted, {graph.name}"
    if not setting.wants(what, 90):
        return
    data = setting.stored(f"{graph.name} directed", lambda: _edges(graph))
    ours = Recursive(PATH + COUNTED)
    case = setting.race("recursion", what, data, [ours], notes=(NOTE,), afresh=True)
    sample = sampled(graph, SAMPLE)
    peer, told = _estimated(setting, data, graph, sample)
    case.figures.append(peer)
    case.notes = (*case.notes, told)
    case.asks.append(faster(case, ours.name, [peer.side], 10.0))
    case.asks += _under(case, case.figures[0], 1000)
    yield case


def sampled(graph: Graph, count: int, seed: int = 11) -> Array:
    vertices = np.unique(graph.u)
    random = np.random.default_rng(seed)
    return np.sort(random.choice(vertices, min(count, len(vertices)), replace=False))


def _estimated(setting: Setting, data: object, graph: Graph, sample: Array) -> tuple[Figure, str]:
    """What SciPy would take for all vertices that have edges; what it finds from the sample has
    to be what ours does."""
    peer = SciPy("sampled", sample=tuple(sample.tolist()))
    figure = Figure("SciPy, a search from each vertex")
    folder = setting.stored(
        f"{graph.name} sampled", lambda: {**_edges(graph), "start": {"a": sample}}
    )
    check = Recursive(f"{PATH} n(count()) <- start(x), path(x, y), x != y.")
    try:
        with_peer = Worker(peer, folder, setting.cap)
        try:
            seen = with_peer.cold()
        finally:
            with_peer.close()
        ours = Worker(check, folder, setting.cap)
        try:
            right = ours.cold().answer
        finally:
            ours.close()
    except (Broken, Stopped) as error:
        figure.trouble = str(error)
        return figure, "SciPy's searches could not be timed"
    if right != seen.answer:
        figure.trouble = f"WRONG: of the sample ours are {right}, SciPy's {seen.answer}"
    vertices = len(np.unique(graph.u))
    figure.warm, figure.runs = seen.answering * vertices / len(sample), 1
    return figure, f"SciPy's searches are estimated from {len(sample):,} of {vertices:,} vertices"


def _under(case: Case, figure: Figure, limit: float) -> list[Ask]:
    """That a process holds at most so many MB, all in all."""
    if figure.peak is None:
        return []
    ask = at_most(f"{case.what}: peak memory", "the whole process", figure.peak / 1e6, limit, "MB")
    return [replace(ask, met=ask.met and not figure.trouble)]
