"""The code cache: what is kept, and that nothing a disk does keeps a query from its answer.

Numba runs in processes of their own, each with a cache folder of its test's.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gdatalog.cpu_ops import code_cache

HERE = Path(__file__).resolve().parent.parent

SOURCE = """# p(n) <- range(n): the sum of what is below
from numba import njit


@njit("int64(int64)", cache=True)
def half(n):
    return n // 2


@njit("int64(int64)", cache=True, nogil=True)
def run(n):
    total = 0
    for i in range(n):
        total += i ^ half(i)
    return total
"""
NAME = code_cache.versioned("sum range(n)", SOURCE)
ANSWER = sum(i ^ i // 2 for i in range(9))

# Loads the module, and tells: the answer, functions read from disk, trouble, compiled before.
PROGRAM = f"""
import sys
from gdatalog.cpu_ops import code_cache
before = code_cache.compiled({NAME!r})
module = code_cache.load({NAME!r}, {SOURCE!r})
hits = sum(sum(f.stats.cache_hits.values()) for f in (module.half, module.run))
print(module.run(9), hits, code_cache.trouble(), before, sep="|")
"""


def start(cache, program=PROGRAM, **variables):
    env = {**os.environ, "PYTHONPATH": str(HERE), "GDATALOG_CACHE": str(cache), **variables}
    env.pop("NUMBA_CACHE_DIR", None) if "NUMBA_CACHE_DIR" not in variables else None
    command = [sys.executable, "-c", program]
    return subprocess.Popen(command, env=env, text=True, stdout=-1, stderr=-1)


def ended(process):
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, ""), err
    return out.strip().split("|")


def run(cache, program=PROGRAM, **variables):
    return ended(start(cache, program, **variables))


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A cache that has the module, and what the process that made it said."""
    cache = tmp_path_factory.mktemp("cache") / "ours"
    return cache, run(cache)
