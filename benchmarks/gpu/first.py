"""How long first answers take: in a new process, with and without what earlier ones have compiled.

A process asks for the triangles of a graph, then for another pattern, then for all motifs of five
vertices. Some of the kernels that it compiled are then compiled again by several threads.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, time_ns

import numpy as np

from benchmarks.gpu.forced import columns
from benchmarks.gpu.setting import Setting
from benchmarks.records import Ask, Case, Figure
from gdatalog.gpu_ops import cupy_kernel

SUITE = "first answers"
ROOT = Path(__file__).resolve().parents[2]
TIMES = 3
LIMIT = 120.0  # seconds of a process
# What is asked in a process, and how many seconds it may take on a bare machine.
ASKED = {
    "triangles": ('db.query("n(count()) <- E(x, y), E(y, z), E(x, z), x < y < z.")', 2.5),
    "four cycles": (
        'db.query("n(count()) <- E(a, b), E(b, c), E(c, d), E(d, a), a < b, a < c, a < d, b < d.")',
        0.4,
    ),
    "motifs of five vertices": ("db.motifs(5)", 4.0),
}
FULL = 0.15  # seconds of the first query, if all is compiled
BESIDE = 0.3  # seconds that `connect` may take beside a context
THREADS, LONGEST = (1, 2, 4, 8), 8
_CONTEXT = """
import ctypes, time
began = time.perf_counter()
cuda, made = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
cuda.cuInit(0)
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(made), 0)
print(time.perf_counter() - began)
"""
_ASKS = """
import json, time
import numpy as np
began, seconds, sources = time.perf_counter(), {{}}, []
import gdatalog as gd
from gdatalog.gpu_ops import cupy_kernel
compiled = cupy_kernel._compiled
def noted(nvrtc, capability, source, label, linked):
    begun = time.perf_counter()
    code = compiled(nvrtc, capability, source, label, linked)
    sources.append((label, source, time.perf_counter() - begun))
    return code
cupy_kernel._compiled = noted
def step(what, work):
    begun = time.perf_counter()
    found = work()
    if hasattr(found, "fetchall"):
        found.fetchall()
    seconds[what] = time.perf_counter() - begun
db = gd.connect(device={device!r})
seconds["connect"] = time.perf_counter() - began
db["E"] = dict(np.load({data!r}))
{steps}
print(json.dumps([seconds, sources]))
"""


def run(setting: Setting) -> Iterator[Case]:
    if not setting.wants("first answers", 60):
        return
    edges = setting.graph("email-Enron")
    with TemporaryDirectory(prefix="gdatalog-first-") as folder:
        data = Path(folder) / "edges.npz"
        np.savez(data, **columns(edges, setting.xp, on_device=False))
        steps = "\n".join(f"step({what!r}, lambda: {ask})" for what, (ask, _) in ASKED.items())
        device = "cpu" if setting.small else "cuda"
        program = _ASKS.format(device=device, data=str(data), steps=steps)
        caches = {"GDATALOG_CACHE": str(Path(folder) / "code")}
        bare, sources = json.loads(_printed(program, caches))
        full = [
            json.loads(_printed(program, caches))[0] for _ in range(1 if setting.small else TIMES)
        ]
    case = Case(SUITE, f"a process over {edges.name}", [])
    for what in bare:
        warm = median(each[what] for each in full)
        case.figures.append(Figure(what, warm=warm, cold=bare[what], runs=len(full)))
    if not setting.small:
        context = median(float(_printed(_CONTEXT)) for _ in range(TIMES))
        case.figures.append(Figure("a bare context", warm=context, runs=TIMES))
        case.asks.append(_under("connect, caches full", case, "connect", context + BESIDE))
        case.asks.append(_under("the first query, caches full", case, "triangles", FULL))
        for what, (_, most) in ASKED.items():
            case.asks.append(_under(f"{what}, a bare machine", case, what, most, cold=True))
    case.notes = ("first answers: *first* is on a bare machine, *wall* with full caches",)
    yield case
    if sources:
        yield _compiled(setting, sources)


def told(cases: Sequence[Case]) -> Iterator[str]:
    """A line for each figure: milliseconds on a bare machine, and with full caches."""
    for figure in [figure for case in cases if case.suite == SUITE for figure in case.figures]:
        both = [f"{1e3 * (each or 0):.1f}" for each in (figure.cold, figure.warm)]
        yield f"{figure.side}: first {both[0]} ms, later {both[1]} ms"


def _compiled(setting: Setting, sources: list[tuple[str, str, float]]) -> Case:
    """The sources that the process compiled, and all of them by some threads."""
    figures = [
        Figure(f"{label} ({source.count(chr(10))} lines, {len(source):,} bytes)", cold=seconds)
        for label, source, seconds in sorted(sources, key=lambda each: -each[2])
    ]
    for threads in THREADS:
        mark = f"\n// {threads} {time_ns()}\nstatic __device__ int mark{threads};\n"
        began = perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            longest = sorted((source for _, source, _ in sources), key=len)[-LONGEST:]
            list(pool.map(partial(_compile, setting), [source + mark for source in longest]))
        figures.append(
            Figure(
                f"the {len(longest)} longest, by {threads} threads",
                warm=perf_counter() - began,
                runs=1,
            )
        )
    return Case(SUITE, "what it compiled", figures)


def _compile(setting: Setting, source: str) -> None:
    cuda = setting.xp.raw.cuda
    cupy_kernel._compiled(cuda.nvrtc, cuda.Device().compute_capability, source, "", False)


def _under(told: str, case: Case, what: str, most: float, cold: bool = False) -> Ask:
    figure = case.figure(what)
    assert figure is not None
    seen = (figure.cold if cold else figure.warm) or 0.0
    return Ask(told, "a clock", f"under {most:.3f} s", f"{seen:.3f} s", seen <= most)


def _printed(program: str, environment: Mapping[str, str] = {}) -> str:  # is read
    """What a new process prints last."""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env={**os.environ, **environment}, check=True,
        capture_output=True, text=True, timeout=LIMIT,
    )  # fmt: skip
    return done.stdout.splitlines()[-1]
