"""All CUDA that there is, as NVRTC is to see it: (what it is of, source)."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gdatalog as gd
from gdatalog.calls import LoopRun
from gdatalog.engine import depth
from gdatalog.engine.depth import Form, form_of_bag
from gdatalog.engine.device import CPU, Cpu
from gdatalog.gpu_ops.fused_level import FusedLevel
from gdatalog.gpu_ops.loops import loops_of
from gdatalog.gpu_ops.sources import whole
from gdatalog.gpu_ops.sums import Sums
from gdatalog.plan.join_plan import JoinPlan, TrieRef
from gdatalog.printer.distinct import NewRows
from gdatalog.printer.expressions import Unprintable
from gdatalog.printer.layouts import layouts_of
from gdatalog.printer.leaves import RowLeaf
from gdatalog.printer.module import PrintedPlan, print_plan
from gdatalog.storage.relation import Relation
from gdatalog.storage.trie import Choice, ListEntries, ListRanges, Lookup
from tests import test_plans
from tests.interpreted import interpreted
from tests.test_local_counts import skewed

Source = tuple[str, str]

# Every function of a tile, so that they are compiled for each width, and not only read.
WIDTHS = """
typedef Tile<{width}> T;
KERNEL(tile_{width})(ARRAY(const i64) values, ARRAY(i64) out, i64 count) {{
    const T t = tile_here<{width}>();
    SHARED(i64, part, 32);
    i64 total = 0, low = 0, high = 0;
    for (i64 i = tile_of_grid<{width}>(); i < count; i += tiles_of_grid<{width}>()) {{
        const i64 value = values[i] + t.rank;
        total += sum(t, value);
        low += least(t, value);
        high += greatest(t, value);
        const u32 odd = ballot(t, (value & 1) != 0);
        total += before(t, odd) + bits_of(odd) + lowest_bit(odd);
        if (any(t, value > 9) && !all(t, value > 9)) total += from_rank(t, value, 0);
        sync(t);
    }}
    if (thread_of_block() < 32) part[thread_of_block()] = total;
    block_sync();
    if (t.rank == 0) atomic_add(out, 0, part[t.first & 31]);
    atomic_min(out, 1, low);
    atomic_max(out, 2, high);
}}
"""


HERE = Path(__file__).parent
# Types that a text leaves open, which who launches its kernels names.
_OPEN = re.compile(r"ARRAY\((?:const )?([A-Z_]+)\)")


def files_of_kernels() -> Iterator[Source]:
    """The files of `kernels/`, each with what it includes."""
    for path in sorted((files("gdatalog.gpu_ops") / "kernels").iterdir(), key=lambda p: p.name):
        if path.name.endswith(".cuh"):
            yield from _typed(path.name, f'#include "{path.name}"\n')


def files_of_tests() -> Iterator[Source]:
    """Kernels that use the helpers, which the host's tests run."""
    for path in sorted(HERE.glob("cuda_*/*.cuh")):
        yield from _typed(path.name, path.read_text(encoding="utf-8"))


def _typed(told: str, text: str) -> Iterator[Source]:
    """A text once for each type, if it leaves some open."""
    names = sorted({name for name in _OPEN.findall(whole(text)) if name != "T"})
    for kind in ("i32", "i64") if names else ("",):
        types = "".join(f"typedef {kind} {name};\n" for name in names)
        yield f"{told} {kind}".rstrip(), whole(f'#include "prelude.cuh"\n{types}{text}')


def tiles() -> Iterator[Source]:
    for width in (1, 2, 4, 8, 16, 32):
        yield f"tiles of {width}", whole('#include "tile.cuh"\n' + WIDTHS.format(width=width))


# Plans of different kinds: what levels meet, what becomes of rows, what expressions compute.
PLANS = {
    "triangles": "tr(x, y, z) <- E(x, y), E(y, z), E(x, z), x < y < z.",
    "4-cliques": "k(count()) <- E(a, b), E(a, c), E(a, d), E(b, c), E(b, d), E(c, d), "
    "a < b < c < d.",
    "sums by group": "s(x, sum(w), min(w), count()) <- E(x, y), W(y, w), w > 0.5.",
    "witnesses": "p(x) <- E(x, y), !W(y, _), E(y, z), z != x.",
    "arithmetic": "q(x, w * 2.0 + 1.0) <- W(x, w), E(x, y), y % 3 = 1, w < to_float(x).",
    "texts": 't(x, s) <- N(x, s), s < "m", strlen(s) > 1.',
}
EDGES = [(a, b) for a in range(40) for b in range(40) if (a * b + a + b) % 3 == 1]
DATA = {
    "E": sorted({*EDGES, *((b, a) for a, b in EDGES)}),
    "W": [(x, x / 4) for x in range(40)],
    "N": [(x, f"name{x}") for x in range(40)],
}
TILES = {"triangles": (8,), "witnesses": (1,), "arithmetic": (1,)}


def generated() -> Iterator[Source]:
    """The kernels of these plans."""
    for told, text in PLANS.items():
        yield from kernels_of(told, text, DATA, TILES.get(told, (32,)))


# Recursion: what follows given rows, all of them or those that are new, and fixpoints that split.
RECURSIVE = {
    "closure": "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z).",
    "same generation": "g(x, y) <- E(a, x), E(a, y), x != y. g(x, y) <- E(a, x), g(a, b), E(b, y).",
    "lists that meet": "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z), E(z, x), !E(z, z).",
    "mutual": "r(x) <- N(x, _). s(x, y) <- r(x), E(x, y). s(x, z) <- s(x, y), E(y, z). "
    "r(x) <- s(x, x).",
    "three columns": "t(x, y, z) <- E(x, y), E(y, z). t(x, z, w) <- t(x, y, z), E(z, w), E(y, w).",
}


class _Tiled(Cpu):
    """Notes the kernels of fixpoints that split, and runs none."""

    def __init__(self, lanes: int) -> None:
        self.count = lanes
        self.sources: list[str] = []

    def tile(self, settings: Any) -> int:
        return self.count

    def follow(self, run: LoopRun, rooms: Sequence[Any], first: int | None) -> list[list[Any]]:
        self.sources.append(loops_of(run.printed).source)
        return [[] for _ in rooms]


def recursion(tiles: tuple[int, ...] = (1, 32)) -> Iterator[Source]:
    """The kernels of recursive rules."""
    for told, text in RECURSIVE.items():
        for lanes in tiles:
            with gd.connect(device="cpu") as db, warnings.catch_warnings():
                warnings.simplefilter("ignore", gd.ProgramWarning)
                for name in ("E", "N"):
                    db[name] = DATA[name]
                strata = db.explain(text).strata
                plans = [rule.plan for stratum in strata for rule in stratum.rules]
                stored = db.workspace.stored
                for join in (join for plan in plans for join in plan.joins if join.given):
                    tries = [CPU.trie(_relation(stored, ref), ref) for ref in join.tries]
                    given = ["int32"] * len(join.given.slots)
                    for leaf in (RowLeaf(join.outputs, False), NewRows(join.outputs)):
                        printed = print_plan(join, layouts_of(tries), leaf, "auto", lanes, given)
                        what = type(leaf).__name__.lower()
                        yield f"{lanes} lanes: {told}, {what}", loops_of(printed).source
                db.workspace.device = device = _Tiled(lanes)
                db.workspace.force(split="always")
                db.query(text)
                for number, source in enumerate(device.sources):
                    yield f"{lanes} lanes: {told}, fixpoint {number}", source


def of_test_plans() -> Iterator[Source]:
    """The kernels of the plans in `plans/snapshots.txt`, by turns for tiles of 1, 8 and 32."""
    blocks = test_plans.SNAPSHOTS.read_text(encoding="utf-8").split("====\n")
    for number, block in enumerate(blocks):
        told, _, text = block.partition("----\n")[0].partition("\n")
        if text.strip():
            yield from kernels_of(
                told.removeprefix("// "), text, test_plans.DATA, ((1, 8, 32)[number % 3],)
            )


def counted() -> Iterator[Source]:
    """What a profile runs of these plans: it counts what is bound."""
    for told, text in PLANS.items():
        lanes = TILES.get(told, (32,))
        yield from kernels_of(f"{told}, counted", text, DATA, lanes, counted=True)


def kernels_of(
    told: str, text: str, data: dict[str, Any], tiles: tuple[int, ...], counted: bool = False
) -> Iterator[Source]:
    """The kernels of a program's joins, those that can be printed. Its own relations are empty."""
    with gd.connect(device="cpu") as db, warnings.catch_warnings():
        warnings.simplefilter("ignore", gd.ProgramWarning)
        for name, rows in data.items():
            db[name] = rows
        params = {"k": 3} if "$k" in text else {}
        plans = [
            rule.plan for stratum in db.explain(text, params).strata for rule in stratum.rules
        ]  # fmt: skip
        stored = db.workspace.stored
        for plan in plans:
            for join in plan.joins:
                form = form_of_bag(plan.keys, plan.gathers) if plan.gathers else Form(join.outputs)
                tries = [CPU.trie(_relation(stored, ref), ref) for ref in join.tries]
                for lanes in tiles:
                    try:
                        given = ["int32"] * len(join.given.slots if join.given else ())
                        printed = print_plan(
                            join, layouts_of(tries), form.leaf(join), "auto", lanes, given, counted
                        )
                    except Unprintable:
                        continue
                    yield f"{lanes} lanes: {told}", loops_of(printed).source


# Counts whose joins read tables, by edges that the pattern has.
COUNTS = {
    "squares": "ab bc cd da", "diamonds": "ab ac ad bc bd", "house": "ab ac ae bc bd de",
    "K4 at an edge": "ab ac ad bc bd cd ae be", "bowtie": "ab ac bc cd ce de",
}  # fmt: skip
BRANCHES = {"branches, cut": "ab ac ad ae bc bd be cd", "branches": "ab ac ad ae bc be cd de"}


def tables() -> Iterator[Source]:
    """The kernels of joins that keep tables of counts, fill one together, or read one; and of
    those whose branches count bits."""
    made: list[PrintedPlan] = []
    plain = depth._print

    def noted(join: JoinPlan, form: Any, layouts: Any, intersect: str, *rest: Any) -> Any:
        found = plain(join, form, layouts, intersect, *rest)
        if not isinstance(found, str):
            made.append(print_plan(join, layouts, form.leaf(join), intersect, 32))
        return found

    edges = skewed(150)
    for told, shape in {**COUNTS, **BRANCHES}.items():
        with gd.connect(device="cpu") as db, pytest.MonkeyPatch.context() as patch, interpreted():
            patch.setattr(depth, "_print", noted)
            db["E"] = edges if told == "squares" else [pair for pair in edges if max(pair) < 40]
            algebra = "suffixes" if told in BRANCHES else "quotients"
            db.workspace.force(algebra=algebra, strategy="lftj")
            body = ", ".join(f"E({a}, {b})" for a, b in shape.split())
            distinct = ", distinct(a, b, c, d, e)" if told in BRANCHES else ""
            db.query(f"n(count()) <- {body}{distinct}.").fetchall()
        for number, source in enumerate(dict.fromkeys(loops_of(each).source for each in made)):
            yield f"{told}, {number}", source
        made.clear()


def _relation(stored: Mapping[str, Relation], ref: TrieRef) -> Relation:
    """A relation that is stored; for one that rules make, one without rows."""
    if ref.relation in stored:
        return stored[ref.relation]
    width = 1 + max((*ref.columns, *(max(left, right) for left, _, right in ref.tests)), default=0)
    columns = [np.empty(0, np.int64)] * width
    names = tuple(f"c{at}" for at in range(width))
    return Relation.from_rows(names, ("int",) * width, columns, 0)


class _Recorder:
    """A driver that notes what it is to compile, and runs nothing."""

    name, xp, compiles_ahead = "cuda:0", np, False

    def __init__(self) -> None:
        self.sources: list[str] = []

    def kernels(self, source: str, names: list[str], told: str) -> dict[str, Any]:
        self.sources.append(source)
        return dict.fromkeys(names, self)

    def launch(
        self, blocks: int, threads: int, args: list[Any], *more: Any, **rest: Any
    ) -> None: ...

    def resident(self, threads: int) -> int:
        return 1


def fused() -> Iterator[Source]:
    """Levels: which lists to expand; their expansion, with the search of other lists (at a root
    that is dense, at one that is not, below parents) and with tests."""
    recorder = _Recorder()
    ops: Any = Sums(recorder)  # type: ignore[arg-type]
    for kind in (np.int32, np.int64):
        dense = ops.level_of(np.arange(9, dtype=kind), np.array([0, 9]))
        sparse = ops.level_of(dense.values * 10_000, np.array([0, 4, 9], np.int32))
        parents = np.zeros(2, np.int32)
        starts = lengths = np.array([2, 3])
        cuts = [("<", starts), (">=", dense.values[:2])]
        choices = [
            Choice(lists, Lookup(lists.level, parents, lists.level is sparse))
            for lists in (ListRanges(level, parents, cuts, 0) for level in (dense, sparse))
        ]
        choices.append(Choice(ListEntries(dense.values, starts, lengths, 5), choices[0].lookup))
        for count, others in (
            (1, [Lookup(dense, None, True)]),
            (2, []),
            (3, [Lookup(sparse, None, False)]),
        ):
            tests = [("!=", starts), ("<", parents)] if count == 1 else []
            level = FusedLevel(ops, choices[:count], others, tests, 2)
            for way in ("expand", "counts", "count"):
                recorder.sources += map(whole, level.texts(way).values())
        ops.ranges(sparse, parents, cuts)
    for source in recorder.sources:
        yield "expansions", source


def of_the_package() -> Iterator[Source]:
    yield from files_of_kernels()
    yield from fused()
    yield from generated()


def everything() -> Iterator[Source]:
    yield from of_the_package()
    yield from tiles()
    yield from files_of_tests()
    yield from of_test_plans()
