"""Counts on real graphs that other programs have computed too, twice each."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

import numpy as np
import pytest
from data import both_ways, closure_edges, closure_path, graph, graph_path, needs

import gdatalog as gd

# Patterns as edges in both directions give them, each vertex a digit, and the order of the group
# of automorphisms; then how many subgraphs there are.
PATTERNS = {
    "triangle": ("01 02 12", 6),
    "C4": ("01 12 23 30", 8),
    "P1": ("01 02 03 12 13", 4),
    "K4": ("01 02 03 12 13 23", 24),
    "P3": ("01 02 03 04 12 13 14 23", 4),
    "P5": ("01 02 03 04 12 14 23 34", 8),
    "P6": ("01 02 03 04 12 13 14 23 34", 12),
    "K5": ("01 02 03 04 12 13 14 23 24 34", 120),
}
COUNTS = {
    "wiki-Vote": {
        "triangle": 608_389, "C4": 57_654_491, "P1": 40_544_543, "K4": 2_077_903,
        "P3": 810_216_972, "P5": 301_301_877, "P6": 98_471_630, "K5": 4_514_137,
    },
    "email-Enron": {
        "triangle": 727_044, "C4": 36_262_229, "P1": 36_528_276, "K4": 2_341_639,
        "P3": 719_709_974, "P5": 243_184_738, "P6": 101_383_042, "K5": 5_809_356,
    },
}  # fmt: skip
# Chains that leave one of each orbit.
CHAINS = {"triangle": "v0 < v1 < v2", "K4": "v0 < v1 < v2 < v3", "P1": "v0 < v1, v2 < v3"}

TC = "path(x, y) <- E(x, y). path(x, z) <- path(x, y), E(y, z). n(count()) <- path(_, _)."
SG = """
    sg(x, y) <- E(p, x), E(p, y), x != y.
    sg(x, y) <- E(a, x), sg(a, b), E(b, y).
    n(count()) <- sg(_, _)."""
CLOSURES = {
    "OL.cedge": (7_029, 146_120, 285_431),
    "cal.cedge": (21_693, 501_755, 23_519),
    "luxembourg_osm": (119_666, 5_022_084, 245_221),
    "ego-Facebook": (88_234, 2_508_102, 15_018_986),
}


@cache
def undirected(name: str) -> gd.Database:
    _, u, v = graph(name)
    db = gd.connect()
    db["E"] = np.stack(both_ways(u, v), axis=1)
    return db


@cache
def upward(name: str) -> gd.Database:
    _, u, v = graph(name)
    db = gd.connect()
    db["U"] = np.stack([u, v], axis=1)
    return db


@cache
def directed(name: str) -> gd.Database:
    db = gd.connect()
    db["E"] = np.stack(closure_edges(name), axis=1)
    return db


def count(db: gd.Database, rules: str) -> int:
    ((number,),) = db.query(rules).fetchall()
    return int(number)


def atoms(pattern: str, relation: str) -> str:
    edges, _ = PATTERNS[pattern]
    return ", ".join(f"{relation}(v{edge[0]}, v{edge[1]})" for edge in edges.split())


def vertices(pattern: str) -> str:
    edges, _ = PATTERNS[pattern]
    return ", ".join(f"v{vertex}" for vertex in sorted(set(edges) - {" "}))


def graphs(*quick: str, among: Collection[str] = PATTERNS) -> list[object]:
    """Each graph and pattern; those that are not quick are slow."""
    return [
        pytest.param(
            name,
            pattern,
            marks=[needs(graph_path(name)), *([pytest.mark.slow] * (pattern not in quick))],
            id=f"{name}-{pattern}",
        )
        for name in COUNTS
        for pattern in among
    ]


@pytest.mark.parametrize(("name", "pattern"), graphs("triangle", "K4", among=CHAINS))
def test_unique_subgraphs(name: str, pattern: str) -> None:
    body = f"{atoms(pattern, 'E')}, {CHAINS[pattern]}"
    assert count(undirected(name), f"n(count()) <- {body}.") == COUNTS[name][pattern]


@pytest.mark.parametrize(("name", "pattern"), graphs("triangle", "K4"))
def test_ordered_embeddings(name: str, pattern: str) -> None:
    body = f"{atoms(pattern, 'E')}, distinct({vertices(pattern)})"
    found = count(undirected(name), f"n(count()) <- {body}.")
    assert found == COUNTS[name][pattern] * PATTERNS[pattern][1]


@pytest.mark.parametrize(("name", "pattern"), graphs("triangle", among=("triangle", "K4", "K5")))
def test_edges_by_the_lower_vertex(name: str, pattern: str) -> None:
    assert count(upward(name), f"n(count()) <- {atoms(pattern, 'U')}.") == COUNTS[name][pattern]


def closures(*slow: str) -> list[object]:
    return [
        pytest.param(
            name, marks=[needs(closure_path(name)), *([pytest.mark.slow] * (name in slow))]
        )
        for name in CLOSURES
    ]


@pytest.mark.parametrize("name", closures("luxembourg_osm", "ego-Facebook"))
def test_transitive_closure(name: str) -> None:
    edges, paths, _ = CLOSURES[name]
    assert len(directed(name)["E"]) == edges
    assert count(directed(name), TC) == paths


@pytest.mark.parametrize("name", closures("ego-Facebook"))
def test_same_generation(name: str) -> None:
    assert count(directed(name), SG) == CLOSURES[name][2]
