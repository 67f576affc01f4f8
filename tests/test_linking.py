"""Code that lies far from all else: a process whose address space is full of other mappings, as
CUDA's are."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest
from test_code_cache import ANSWER, GIVEN, SOURCE, start

# The first mapping of a page gets the only hole there is, and all others lie 3 GiB below.
APART = f"""
import ctypes
from gdatalog.codegen import native

native.load("first", {SOURCE!r})
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

def taken(size):  # private, anonymous, without memory
    return libc.mmap(None, size, 0, 0x4022, -1, 0)

page = 4096
low = taken((3 << 30) + page)
while taken(page) > low:
    pass
libc.munmap(low + (3 << 30), page)
found = native.load("second", {SOURCE!r}.replace("total = 0", "total = 0 * k"))
address = ctypes.cast(found.entry, ctypes.c_void_p).value
print(found{GIVEN}, 0 <= address - low - (3 << 30) < page)
"""


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64",
    reason="where mappings go is known of Linux on x86",
)
def test_code_calls_helpers_that_are_further_than_32_bits_reach(tmp_path: Path) -> None:
    process = start(tmp_path / "cache", APART)
    assert process.communicate(timeout=120) == (f"{ANSWER} True\n", "")
    assert process.returncode == 0
