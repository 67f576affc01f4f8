"""Triangles and P1 to P7, counted: against kernels written by hand, and our own executors."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import patterns
from benchmarks.gpu.forced import Forced
from benchmarks.gpu.hand import TEAMS
from benchmarks.gpu.made import Edges
from benchmarks.gpu.race import ByHand, Side, at_least, ours, race
from benchmarks.gpu.setting import Setting
from benchmarks.patterns import KNOWN, Pattern, clique
from benchmarks.records import Case

SUITE = "cliques"
AUTO, CPU, BREADTH = "tile as chosen", "CPU, all cores", "breadth-first"
SHOWN = (32, 8, 1)
# In the order of T-DFS's names; those with kernels written by hand come first.
NAMED = {
    "triangles": clique(3),
    "P2": clique(4),
    "P3": patterns.P3,
    "P7": clique(5),
    "P1": patterns.P1,
    "P4": patterns.P4,
    "P5": patterns.P5,
    "P6": patterns.P6,
}
BY_HAND = {"triangles": ("triangles",), "P2": ("k4", "k4_bits"), "P3": ("p3",)}
SPARSE, DENSE = ("email-Enron", "ego-Twitter", "cnr-2000"), ("triangles", "P2", "P7")
FEW_BREADTH_FIRST = ("triangles", "P2")
RMAT = (22, 16 << 20)  # scale, edges: 4 to a vertex, for K5 are 3 billion then
TOO_LONG = 5.0  # seconds: what takes longer on one graph is not tried on a larger one


def run(setting: Setting) -> Iterator[Case]:
    long: set[str] = set()
    for name, pattern in setting.few(list(NAMED.items()), 2):
        for graph in setting.few((*SPARSE, "ogbl-ddi", "R-MAT")):
            if graph not in SPARSE and name not in DENSE:
                continue
            if not setting.wants(f"{name}, {graph}", 6.0):
                continue
            if name in long and graph in SPARSE:
                setting.left_out.append(f"{name}, {graph}: long on a smaller graph")
                continue
            case = _case(setting, name, pattern, graph_of(setting, graph))
            if max((figure.warm or 0.0 for figure in case.figures[:1]), default=0.0) > TOO_LONG:
                long.add(name)
            yield case


def graph_of(setting: Setting, name: str) -> Edges:
    return setting.rmat(*RMAT) if name == "R-MAT" else setting.graph(name)


def by_hand(name: str) -> list[ByHand]:
    """The kernels for a pattern; those by recoding choose their lanes themselves."""
    return [
        ByHand(kernel, lanes)
        for kernel in BY_HAND.get(name, ())
        for lanes in (TEAMS if kernel != "k4_bits" else TEAMS[-1:])
    ]


def tiled(pattern: Pattern, tile: int) -> Side:
    return ours(pattern, f"tile {tile}", Forced(tile=tile))


def _case(setting: Setting, name: str, pattern: Pattern, edges: Edges) -> Case:
    sides: list[Side] = [ours(pattern, AUTO, Forced())]
    sides += [tiled(pattern, tile) for tile in setting.few(SHOWN)]
    if name in FEW_BREADTH_FIRST and edges.real:
        sides.append(ours(pattern, BREADTH, Forced("levelwise")))
    hand = setting.few(by_hand(name))
    sides += hand
    sides.append(ours(pattern, CPU, Forced(), gpu=False))
    expected = KNOWN.get((edges.name, pattern.name))
    case = race(setting, SUITE, f"{name}, {edges.name}", edges, sides, expected)
    if name in ("P2", "P3"):
        names = [side.name for side in hand]
        case.asks = [at_least(case, [mine], names, 0.85) for mine in ("tile 32", AUTO)]
    if not edges.real:
        case.notes = (f"{edges.name}: a made-up graph",)
    return case
