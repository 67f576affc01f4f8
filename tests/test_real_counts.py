"""Counts on real graphs that other programs have computed too, twice each."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from data import both_ways, closure_edges, closure_path, graph, graph_path, needs

import gdatalog as gd

# Patterns as edges in both directions give them: unique subgraphs by chains of `<`, ordered
# embeddings by `distinct`; and the order of the pattern's group of automorphisms.
TRIANGLE = "E(a, b), E(b, c), E(a, c)"
K4 = "E(a, b), E(a, c), E(a, d), E(b, c), E(b, d), E(c, d)"
P1 = "E(a, b), E(a, c), E(a, d), E(b, c), E(b, d)"
UNIQUE = {
    "triangle": f"{TRIANGLE}, a < b < c",
    "K4": f"{K4}, a < b < c < d",
    "P1": f"{P1}, a < b, c < d",
}
EMBEDDINGS = {
    "triangle": f"{TRIANGLE}, distinct(a, b, c)",
    "K4": f"{K4}, distinct(a, b, c, d)",
    "P1": f"{P1}, distinct(a, b, c, d)",
}
AUTOMORPHISMS = {"triangle": 6, "K4": 24, "P1": 4}
COUNTS = {
    "wiki-Vote": {"triangle": 608_389, "K4": 2_077_903, "P1": 40_544_543},
    "email-Enron": {"triangle": 727_044, "K4": 2_341_639, "P1": 36_528_276},
}

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
def directed(name: str) -> gd.Database:
    db = gd.connect()
    db["E"] = np.stack(closure_edges(name), axis=1)
    return db


def count(db: gd.Database, rules: str) -> int:
    ((number,),) = db.query(rules).fetchall()
    return int(number)


def graphs(*slow: str) -> list[object]:
    """Each graph and pattern; those in `slow` are marked so."""
    return [
        pytest.param(
            name,
            pattern,
            marks=[needs(graph_path(name)), *([pytest.mark.slow] if pattern in slow else [])],
            id=f"{name}-{pattern}",
        )
        for name in COUNTS
        for pattern in UNIQUE
    ]


@pytest.mark.parametrize(("name", "pattern"), graphs("P1"))
def test_unique_subgraphs(name: str, pattern: str) -> None:
    found = count(undirected(name), f"n(count()) <- {UNIQUE[pattern]}.")
    assert found == COUNTS[name][pattern]


@pytest.mark.parametrize(("name", "pattern"), graphs("K4", "P1"))
def test_ordered_embeddings(name: str, pattern: str) -> None:
    found = count(undirected(name), f"n(count()) <- {EMBEDDINGS[pattern]}.")
    assert found == COUNTS[name][pattern] * AUTOMORPHISMS[pattern]


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
