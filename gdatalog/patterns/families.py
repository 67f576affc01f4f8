"""Families of patterns: cliques, paths, cycles, stars and bicliques."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations, product
from numbers import Integral

from gdatalog.errors import UsageError
from gdatalog.patterns.pattern import MOST_VERTICES, NAMES, Pattern, from_edges


def clique(size: int) -> Pattern:
    """The complete graph of `size` vertices."""
    return _made(f"clique{size}", _whole(size), 2, lambda: combinations(range(size), 2))


def path(size: int) -> Pattern:
    """A path of `size` vertices."""
    return _made(f"path{size}", _whole(size), 2, lambda: ((at, at + 1) for at in range(size - 1)))


def cycle(size: int) -> Pattern:
    """A cycle of `size` vertices."""
    return _made(
        f"cycle{size}", _whole(size), 3, lambda: ((at, (at + 1) % size) for at in range(size))
    )


def star(leaves: int) -> Pattern:
    """A vertex with `leaves` neighbours."""
    return _made(
        f"star{leaves}", _whole(leaves) + 1, 2, lambda: ((0, at + 1) for at in range(leaves))
    )


def biclique(left: int, right: int) -> Pattern:
    """The complete bipartite graph of `left` and `right` vertices."""
    if _whole(left) < 1 or _whole(right) < 1:
        raise UsageError("each side of a biclique has a vertex at least")
    name = f"biclique{left}_{right}"
    sides = range(left), range(left, left + right)
    return _made(name, left + right, 2, lambda: product(*sides))


FAMILIES = {"clique": clique, "path": path, "cycle": cycle, "star": star, "biclique": biclique}


def _whole(size: object) -> int:
    if not isinstance(size, Integral):
        raise UsageError(f"a number of vertices is whole, not {size!r}")
    return int(size)


def _made(
    name: str, size: int, least: int, pairs: Callable[[], Iterable[tuple[int, int]]]
) -> Pattern:
    if not least <= size <= MOST_VERTICES:
        raise UsageError(f"{name} would have {size} vertices: from {least} to {MOST_VERTICES}")
    return from_edges([(NAMES[u], NAMES[v]) for u, v in pairs()], name=name)
