"""Transitive closure and same generation, counted, on the graphs of GPULog's paper and others.

The CPU runs beside the GPU on the larger graphs, with two threads and with all cores. Every count
is one that is known.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.gpu.cliques import CPU
from benchmarks.gpu.forced import Forced
from benchmarks.gpu.race import Ours, Side, at_least, race
from benchmarks.gpu.setting import Setting
from benchmarks.records import Ask, Case

SUITE = "recursion"
CLOSURE = "path(x, y) <- E(x, y). path(x, z) <- path(x, y), E(y, z). n(count()) <- path(_, _)."
GENERATION = """
    sg(x, y) <- E(p, x), E(p, y), x != y.
    sg(x, y) <- E(a, x), sg(a, b), E(b, y).
    n(count()) <- sg(_, _)."""
GPU, ROUNDS, CORES = "as chosen", "by rounds", "CPU, two threads"
# Rows of the closure and of the same generation; 0: not known.
KNOWN = {
    "OL.cedge": (146_120, 285_431),
    "cal.cedge": (501_755, 23_519),
    "ego-Facebook": (2_508_102, 15_018_986),
    "luxembourg_osm": (5_022_084, 245_221),
    "delaunay_n16": (6_137_959, 25_994_011),
    "wiki-Vote": (11_947_132, 5_376_338),
    "p2p-Gnutella09": (21_402_960, 62_056_583),
    "p2p-Gnutella04": (47_059_527, 116_931_333),
    "CA-HepTh": (74_619_885, 74_618_689),
    "SF.cedge": (80_498_014, 0),
    "fe_body": (156_120_489, 408_443_204),
    "usroads": (871_365_688, 3_137_407_481),
    "p2p-Gnutella31": (884_179_859, 3_700_737_910),
    "fe_ocean": (1_669_750_513, 65_941_441),
}
AGAINST_CORES = ("fe_body", "usroads", "p2p-Gnutella31")
FEW_BY_ROUNDS = ("ego-Facebook", "luxembourg_osm", "p2p-Gnutella09")
MANY = 3_000_000_000  # rows: a last try, for they may not fit


def run(setting: Setting) -> Iterator[Case]:
    for name, (rows, _) in setting.few(list(KNOWN.items())):
        if setting.wants(f"recursion: closure, {name}", 6.0):
            yield _closure(setting, name, rows)
    for name, (_, rows) in sorted(setting.few(list(KNOWN.items())), key=lambda item: item[1][1]):
        if rows and setting.wants(f"recursion: same generation, {name}", 5.0 + rows / 5e7):
            yield _generation(setting, name, rows)


def _closure(setting: Setting, name: str, rows: int) -> Case:
    edges = setting.closure(name)
    sides: list[Side] = [Ours(GPU, CLOSURE, Forced("auto"))]
    if name in FEW_BY_ROUNDS:
        sides.append(Ours(ROUNDS, CLOSURE, Forced("auto", split="never")))
    if name in AGAINST_CORES:
        sides.append(Ours(CORES, CLOSURE, Forced("auto", threads=2), gpu=False))
        sides.append(Ours(CPU, CLOSURE, Forced("auto"), gpu=False))
    case = race(setting, SUITE, f"closure, {edges.name}", edges, sides, _told(edges.real, rows))
    if name in AGAINST_CORES:
        case.asks = [at_least(case, [GPU], [CORES], 10.0, wall=True)]
    if name == "fe_ocean":
        case.asks = [_finishes(case)]
    return case


def _generation(setting: Setting, name: str, rows: int) -> Case:
    edges = setting.closure(name)
    sides = [Ours(GPU, GENERATION, Forced("auto"))]
    case = race(
        setting, SUITE, f"same generation, {edges.name}", edges, sides, _told(edges.real, rows)
    )
    if rows > MANY:
        case.notes = (f"{edges.name}: {rows:,} rows of the same generation need not fit",)
    return case


def _told(real: bool, rows: int) -> int | None:
    """What the answer has to be, on the graph itself."""
    return rows if real else None


def _finishes(case: Case) -> Ask:
    """GPULog runs out of memory there, on an A100."""
    (figure,) = case.figures
    done = figure.warm is not None and not figure.trouble
    seen = f"{1e3 * (figure.warm or 0.0):.0f} ms" if done else figure.trouble or "not measured"
    return Ask(case.what, "GPULog: out of memory", "finishes", seen, done)
