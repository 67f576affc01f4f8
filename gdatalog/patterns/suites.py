"""Patterns by name, and in the suites in which papers measure them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from gdatalog.errors import UsageError, meant
from gdatalog.patterns.pattern import Pattern, biclique, clique, cycle, from_edges, path, star
from gdatalog.records import replace

_FAMILIES = {"clique": clique, "path": path, "cycle": cycle, "star": star, "biclique": biclique}

# Of T-DFS; the next seven are the same with labels 0 to 3 in the order of the vertices.
_T_DFS = (
    "ab ac ad bc bd",
    "ab ac ad bc bd cd",
    "ab ac ad ae bc bd be cd",
    "ab ac ad bc bd ce de",
    "ab ac ad ae bc be cd de",
    "ab ac ad ae bc bd be cd de",
    "ab ac ad ae bc bd be cd ce de",
)
_T_DFS_LABELS = 4
# Of STMatch and GraphSet.
_STMATCH = {"house": "ab ac ae bc bd de", "q1": "ab ac bc cd ce de", "q10": "ab ac ad bc bd cf de"}
_GRAPHSET = {
    "G_P2": "ab ac ae af bc bd be cd cf",
    "G_P3": "ab ac ad ae af bc cd ce cf de ef",
    "G_P4": "ab ac ad ae bc bd bf ef",
}
# Of cuTS: the eleven connected graphs with most edges of 5, 6 and 7 vertices; those with as many
# edges are in the order of networkx' graph atlas.
_CUTS = {
    5: (
        "ab ac ad ae bc bd be cd ce de",
        "ab ad ae bc bd be cd ce de",
        "ab ad ae bd be cd ce de",
        "ab ad ae bc be cd ce de",
        "ae bc bd be cd ce de",
        "ad ae bd be cd ce de",
        "ab ae bc bd be cd de",
        "ac ad ae bc bd be ce",
        "ab bc bd be cd ce",
        "ab bd be cd ce de",
        "ab ae be cd ce de",
    ),
    6: (
        "ab ac ad ae af bc bd be bf cd ce cf de df ef",
        "ab ac ae af bc bd be bf cd ce cf de df ef",
        "ab ac ad ae af bc bd be bf cd ce de ef",
        "ab ac ad ae af bc bd bf cd ce de df ef",
        "ab ac ad ae bc bd be cd ce de df ef",
        "ab ac ad ae af bc bd be bf cd ce cf",
        "ab ac ae af be bf cd ce cf de df ef",
        "ab ac ad af bc bd be bf cd ce de ef",
        "ab ac ae af bc bd bf cd ce de df ef",
        "ab ac ad ae bc bd be bf cd ce de",
        "ab ac ad bc bd be bf cd ce cf df",
    ),
    7: (
        "ab ac ad ae af ag bc bd be bf bg cd ce cf cg de df dg ef eg fg",
        "ab ac ad af ag bc bd be bf bg cd ce cf cg de df dg ef eg fg",
        "ab ac ad ae af ag bc bd be bf bg cd ce de df dg ef eg fg",
        "ab ac ad af ag bc bd be bf bg cd ce cf cg de dg ef eg fg",
        "ab ac ad ae af ag bc bd be bf bg cd ce cf de df ef fg",
        "ab ac ad ae af ag bc bd be bf bg cd ce cf cg de df dg",
        "ab ac ad ae af ag bc be bf cd ce cf cg de dg ef eg fg",
        "ab ac ad af ag bc bd be bf bg cd ce de df dg ef eg fg",
        "ab ac ad ae ag bd be bf bg cd ce cf cg df dg ef eg fg",
        "ab ac ad ae af bc bd be bf bg cd ce cf cg de df ef",
        "ab ac ad ae af ag bc bd be bf bg cd ce cf cg ef eg",
    ),
}
# G0 to G29, and the orbit of each vertex a, b, c, ... in the numbers of Przulj (2007).
GRAPHLETS = (
    ("ab", (0, 0)),
    ("ab bc", (1, 2, 1)),
    ("ab ac bc", (3, 3, 3)),
    ("ab bc cd", (4, 5, 5, 4)),
    ("ab ac ad", (7, 6, 6, 6)),
    ("ab bc cd ad", (8, 8, 8, 8)),
    ("ab bc bd cd", (9, 11, 10, 10)),
    ("ab bc cd ad ac", (13, 12, 13, 12)),
    ("ab ac ad bc bd cd", (14, 14, 14, 14)),
    ("ab bc cd de", (15, 16, 17, 16, 15)),
    ("ab bc cd ce", (18, 20, 21, 19, 19)),
    ("ab ac ad ae", (23, 22, 22, 22, 22)),
    ("ab bc bd cd de", (24, 26, 25, 26, 24)),
    ("ab bc cd ce de", (27, 28, 30, 29, 29)),
    ("ab ac ad ae bc", (33, 32, 32, 31, 31)),
    ("ab bc cd de ae", (34, 34, 34, 34, 34)),
    ("ab bc cd de be", (35, 38, 37, 36, 37)),
    ("ab bc bd be cd de", (39, 42, 40, 41, 40)),
    ("ab ac bc ad ae de", (44, 43, 43, 43, 43)),
    ("ab bc bd cd ce de", (45, 47, 48, 48, 46)),
    ("ac ad ae bc bd be", (50, 50, 49, 49, 49)),
    ("ab bc cd ad be ce", (51, 53, 53, 51, 52)),
    ("ab ac ad ae bc bd be", (55, 55, 54, 54, 54)),
    ("ab ac ad bc bd cd ae", (58, 57, 57, 57, 56)),
    ("ab ac ad ae bc cd de", (61, 59, 60, 60, 59)),
    ("ab ac ad bc cd de be", (64, 63, 64, 63, 62)),
    ("ab ac ad bc bd cd ae be", (67, 67, 66, 66, 65)),
    ("ab ac ad ae bc cd de be", (69, 68, 68, 68, 68)),
    ("ab ac bc ad bd cd ae be ce", (71, 71, 71, 70, 70)),
    ("ab ac ad ae bc bd be cd ce de", (72, 72, 72, 72, 72)),
)


# What people call patterns that have a name of a suite or a family.
_USUAL = {"triangle": "clique3", "wedge": "path3", "square": "cycle4", "diamond": "P1"}


def suite(name: str) -> tuple[Pattern, ...]:
    """A paper's patterns: "t-dfs", "t-dfs-labelled", "stmatch", "graphset", "cuts", "graphlets".

    >>> from gdatalog import patterns
    >>> [pattern.name for pattern in patterns.suite("stmatch")]
    ['house', 'q1', 'q10']
    """
    found = _suites().get(name)
    if found is None:
        raise UsageError(f"there is no suite {name!r}", hint=f"one of: {', '.join(_suites())}")
    return found


def named(name: str) -> Pattern:
    """A pattern of a suite or a family, by its name; or by a common one: triangle, wedge, square,
    diamond.

    >>> from gdatalog import patterns
    >>> patterns.named("house").vertices
    ('a', 'b', 'c', 'e', 'd')
    >>> patterns.named("cycle4").automorphisms
    8
    >>> print(patterns.named("triangle"))
    triangle(a, b, c) <- E(a, b), E(a, c), E(b, c), a < b, b < c, distinct(a, b, c).
    """
    if usual := _USUAL.get(name.lower()):
        return replace(named(usual), name=name.lower())
    for patterns in _suites().values():
        for pattern in patterns:
            if pattern.name.lower() == name.lower():
                return pattern
    if family := re.fullmatch(r"(clique|path|cycle|star|biclique)(\d+)(?:_(\d+))?", name):
        made: Any = _FAMILIES[family[1]]
        if (family[3] is not None) == (made is biclique):
            return made(*(int(size) for size in family.groups()[1:] if size))  # type: ignore[no-any-return]
    names = [pattern.name for suite in _suites().values() for pattern in suite]
    close = meant(name, [*names, *_USUAL, *(f"{family}4" for family in _FAMILIES)])
    hint = "clique4, path5, cycle4, star3, biclique2_3, house, q10, P1 to P7, G0 to G29, ..."
    raise UsageError(
        f"there is no pattern {name!r}", hint=f"did you mean {close}?" if close else hint
    )


def graphlets(size: int) -> tuple[Pattern, ...]:
    """The connected graphs of so many vertices: 2 to 5."""
    return tuple(one for one in suite("graphlets") if len(one.vertices) == size)


@cache
def _suites() -> dict[str, tuple[Pattern, ...]]:
    plain = [from_edges(edges, name=f"P{at}") for at, edges in enumerate(_T_DFS, 1)]
    return {
        "t-dfs": tuple(plain),
        "t-dfs-labelled": tuple(_labelled(plain)),
        "stmatch": tuple(from_edges(edges, name=name) for name, edges in _STMATCH.items()),
        "graphset": tuple(from_edges(edges, name=name) for name, edges in _GRAPHSET.items()),
        "cuts": tuple(
            from_edges(edges, name=f"cuts{size}_{at}")
            for size, every in _CUTS.items()
            for at, edges in enumerate(every, 1)
        ),
        "graphlets": tuple(
            from_edges(edges, name=f"G{at}") for at, (edges, _) in enumerate(GRAPHLETS)
        ),
    }


def _labelled(plain: list[Pattern]) -> Iterator[Pattern]:
    for at, pattern in enumerate(plain, len(plain) + 1):
        names = sorted(pattern.vertices)
        told = pattern.labelled({name: i % _T_DFS_LABELS for i, name in enumerate(names)})
        yield Pattern(f"P{at}", told.edges, told.absent, told.labels, told.directed)
