"""Patterns by name, from the suites of papers, and from DotMotif texts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from gdatalog.errors import UsageError, meant
from gdatalog.patterns.families import FAMILIES, biclique
from gdatalog.patterns.pattern import Pair, Pattern, from_edges, variable
from gdatalog.patterns.shapes import Label
from gdatalog.records import dataclass, field, replace

# T-DFS: P1 to P11; P12 to P22 are these with labels 0 to 3 in the order of the vertices. P8 to P11,
# which its public code lacks, are the patterns of six vertices of G2-AIMD, by the same authors.
_T_DFS = (
    "ab ac ad bc bd",
    "ab ac ad bc bd cd",
    "ab ac ad ae bc bd be cd",
    "ab ac ad bc bd ce de",
    "ab ac ad ae bc be cd de",
    "ab ac ad ae bc bd be cd de",
    "ab ac ad ae bc bd be cd ce de",
    "ab ac ad ae af bc cd de ef",
    "ab ac ad af bc bd be ce cf",
    "ab ac bc bd be bf cd ce cf de ef",
    "ab ac bd cd ce cf de df",
)
_T_DFS_LABELS = 4
# STMatch and GraphSet.
_STMATCH = {"house": "ab ac ae bc bd de", "q1": "ab ac bc cd ce de", "q10": "ab ac ad bc bd cf de"}
_GRAPHSET = {
    "G_P2": "ab ac ae af bc bd be cd cf",
    "G_P3": "ab ac ad ae af bc cd ce cf de ef",
    "G_P4": "ab ac ad ae bc bd bf ef",
}
# cuTS: the eleven connected graphs with most edges, of 5, 6 and 7 vertices; ties in the order of
# networkx' graph atlas.
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
# G0 to G29, and the orbit of each vertex a, b, c, ... by the numbers of Przulj (2007).
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


# Common names of patterns.
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
    """A pattern by its name in a suite or a family, or by a common name: triangle, wedge, square,
    diamond.

    >>> from gdatalog import patterns
    >>> patterns.named("house").vertices
    ('a', 'b', 'c', 'e', 'd')
    >>> patterns.named("cycle4").automorphisms
    8
    >>> print(patterns.named("triangle"))
    triangle(a, b, c) <- E(a, b), E(a, c), E(b, c), a < b, b < c, distinct(a, b, c).
    """
    if not isinstance(name, str):
        raise UsageError(f"a pattern is one of gdatalog.patterns, or its name, not {name!r}")
    if usual := _USUAL.get(name.lower()):
        return replace(named(usual), name=name.lower())
    for patterns in _suites().values():
        for pattern in patterns:
            if pattern.name.lower() == name.lower():
                return pattern
    if family := re.fullmatch(r"(clique|path|cycle|star|biclique)(\d+)(?:_(\d+))?", name):
        made: Any = FAMILIES[family[1]]
        if (family[3] is not None) == (made is biclique):
            return made(*(int(size) for size in family.groups()[1:] if size))  # type: ignore[no-any-return]  # families have several signatures
    names = [pattern.name for suite in _suites().values() for pattern in suite]
    close = meant(name, [*names, *_USUAL, *(f"{family}4" for family in FAMILIES)])
    hint = "clique4, path5, cycle4, star3, biclique2_3, house, q10, P1 to P22, G0 to G29, ..."
    raise UsageError(
        f"there is no pattern {name!r}", hint=f"did you mean {close}?" if close else hint
    )


def graphlets(size: int) -> tuple[Pattern, ...]:
    """The connected graphs of `size` vertices, from 2 to 5."""
    return tuple(one for one in suite("graphlets") if len(one.vertices) == size)


def _t_dfs_labels(pattern: Pattern) -> dict[str, Label]:
    return {vertex: at % _T_DFS_LABELS for at, vertex in enumerate(sorted(pattern.vertices))}


@cache
def _suites() -> dict[str, tuple[Pattern, ...]]:
    plain = [from_edges(edges, name=f"P{at}") for at, edges in enumerate(_T_DFS, 1)]
    return {
        "t-dfs": tuple(plain),
        "t-dfs-labelled": tuple(
            replace(pattern.labelled(_t_dfs_labels(pattern)), name=f"P{at}")
            for at, pattern in enumerate(plain, len(plain) + 1)
        ),
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


# Patterns in DotMotif's language: edges, edges that must not be, macros and labels.
#
# # a feed-forward loop that nothing closes
# edge(A, B) {
#     A -> B
#     B !> A
# }
# edge(x, y)
# y -> z
# x -> z
# x.label = 3

_NAME = r"[A-Za-z_]\w*"
_QUOTED = r"\"[^\"\n]*\"|'[^'\n]*'"
_STATEMENT = re.compile(rf"(?:{_QUOTED}|[^;\n])+")
_EDGE = re.compile(rf"({_NAME})\s*(->|<-|!>|~>)\s*({_NAME})$")
_LABEL = re.compile(rf"({_NAME})\.label\s*=\s*(?:(-?\d+)|\"([^\"]*)\"|'([^']*)')$")
_CALL = re.compile(rf"({_NAME})\s*\(([^()]*)\)$")
_MACRO = re.compile(rf"({_NAME})\s*\(([^()]*)\)\s*\{{([^{{}}]*)\}}")
_DEEPEST = 100  # most nested calls of macros


@dataclass(slots=True)
class _Motif:
    """What a DotMotif text says. `macros`: by name, their parameters and statements."""

    macros: dict[str, tuple[list[str], str]]
    edges: list[Pair] = field(default_factory=list)
    absent: list[Pair] = field(default_factory=list)
    labels: dict[str, Label] = field(default_factory=dict)

    def read(self, text: str, called: Mapping[str, str], depth: int) -> None:
        """Parses statements, with a macro's parameters replaced by the vertices it was `called`
        with."""
        for line in filter(None, map(str.strip, _STATEMENT.findall(text))):
            if edge := _EDGE.match(line):
                u, v = (called.get(edge[at], edge[at]) for at in (1, 3))
                pair = (v, u) if edge[2] == "<-" else (u, v)
                (self.absent if edge[2] in ("!>", "~>") else self.edges).append(pair)
            elif label := _LABEL.match(line):
                vertex = called.get(label[1], label[1])
                self.labels[vertex] = int(label[2]) if label[2] else label[3] or label[4] or ""
            elif (call := _CALL.match(line)) and call[1] in self.macros and depth < _DEEPEST:
                names, body = self.macros[call[1]]
                given = [called.get(one, one) for one in _names(call[2])]
                if len(given) != len(names):
                    wanted = f"{len(names)} vertices, not {len(given)}"
                    raise UsageError(f"{call[1]} takes {wanted}: {line}")
                self.read(body, dict(zip(names, given, strict=True)), depth + 1)
            else:
                hint = "A -> B, A <- B, A !> B, A.label = 3, or a macro that the text defines"
                raise UsageError(f"this is no statement of a motif: {line}", hint=hint)


def from_dotmotif(text: str, *, name: str = "pattern") -> Pattern:
    """The pattern of a DotMotif text; edges are directed.

    `A -> B` and `B <- A` are edges; `A !> B` and `A ~> B` are absent edges; `A.label = 3` is a
    label; `pair(A, B) { A -> B; B -> A }` defines a macro, and `pair(x, y)` calls it; `#` starts a
    comment.

    >>> from gdatalog import patterns
    >>> print(patterns.from_dotmotif("A -> B; B -> C; A !> C", name="open_chain"))
    open_chain(A, B, C) <- E(A, B), E(B, C), not E(A, C), distinct(A, B, C).
    """
    text = re.sub(rf"({_QUOTED})|#[^\n]*", lambda found: found[1] or "", text)
    found = _Motif({each[1]: (_names(each[2]), each[3]) for each in _MACRO.finditer(text)})
    found.read(_MACRO.sub("", text), {}, 0)
    made = from_edges(found.edges, name=name, labels=found.labels, directed=True)
    ends = {vertex for pair in found.edges for vertex in pair}
    if outside := [vertex for pair in found.absent for vertex in pair if vertex not in ends]:
        raise UsageError(f"{outside[0]} is on no edge of the pattern")
    absent = dict.fromkeys((variable(u), variable(v)) for u, v in found.absent)
    return Pattern(name, made.edges, tuple(absent), made.labels, True)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
