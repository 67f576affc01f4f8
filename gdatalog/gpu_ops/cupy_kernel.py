"""Kernels of a real GPU: NVRTC compiles them to machine code, which is cached beside that of the
CPU's loops; CuPy loads and launches them.

If a kernel does not compile, the error shows NVRTC's messages next to the lines of the source.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from ctypes import addressof, c_int64
from struct import Struct
from threading import local
from typing import Any

import numpy as np

from gdatalog.codegen import cache
from gdatalog.gpu_ops.compile_errors import compile_error
from gdatalog.gpu_ops.copies import explaining_failure
from gdatalog.records import dataclass

# Without --fmad, products and sums are rounded separately, as in NumPy. Suppressed warnings:
# functions that a source includes and does not use (177), variables that generated code sets and
# does not use (550), code that a template cannot reach with one lane (111, 128).
OPTIONS = ("-std=c++17", "--fmad=false", "--diag-suppress=111,128,177,550")

# A comment on a line of its own, or after code. A quote after `//` means that it is in a string.
_COMMENT = re.compile(r'^[ ]*//.*$|[ ]*//[^"\n]*$', re.MULTILINE)

HALF = 1 << 63
RESERVED = 1024  # bytes of shared memory that CUDA takes of each block
# CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK and others, and two of cudaDeviceAttr.
_THREADS, _SHARED, _LOCAL, _REGISTERS, _MOST_SHARED = 0, 1, 3, 4, 8
_PROCESSORS, _ROOM = 16, 97


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources of a kernel, as the compiler reports them: registers, spilled bytes, shared
    bytes."""

    registers: int
    spilled: int
    shared: int


class PackedArguments:
    """A kernel's arguments in one block of 64-bit words, and the address of each, as CUDA takes
    them."""

    __slots__ = ("_block", "_pack", "address", "arrays")

    def __init__(self, count: int) -> None:
        self._block = (c_int64 * (2 * count))()
        begin = addressof(self._block)
        self.address = begin + 8 * count
        self._block[count:] = [*range(begin, self.address, 8)]
        self._pack = Struct(f"{count}q").pack_into
        self.arrays: Sequence[Any] = ()  # that it keeps alive

    def fill(self, args: Sequence[Any], gaps: bool) -> None:
        self._pack(self._block, 0, *[_word(value, gaps) for value in args])


class _OfThread(local):
    """The arguments of a thread's present launch, by their number: CUDA copies them."""

    def __init__(self) -> None:
        self.blocks: dict[int, PackedArguments] = {}


_here = _OfThread()


class CupyKernel:
    """A compiled kernel. `function`: CuPy's Function; `occupancy`: how many blocks of so many
    threads the device runs at once; `cuda`: CuPy's module."""

    def __init__(
        self, function: Any, name: str, occupancy: Callable[[int, int], int], cuda: Any
    ) -> None:
        self._function = function  # keeps the module
        self._name = name
        self._pointer = function.ptr
        self._cuda = cuda
        self._launch, self._stream = cuda.driver.launchKernel, cuda.get_current_stream
        self._occupancy = occupancy
        self._resident: dict[int, int] = {}
        self._enlarged = 0

    @property
    def resources(self) -> Resources:
        found = [
            self._cuda.driver.funcGetAttribute(attribute, self._pointer)
            for attribute in (_REGISTERS, _LOCAL, _SHARED)
        ]
        return Resources(*found)

    def packed(self, args: Sequence[Any]) -> PackedArguments:
        """Arguments for any number of launches: arrays, ints (64 bits) and floats."""
        found = PackedArguments(len(args))
        found.fill(args, False)
        found.arrays = args
        return found

    def launch(
        self,
        blocks: int,
        threads: int,
        args: Sequence[Any] | PackedArguments,
        gaps: bool = False,
        shared: int = 0,
    ) -> None:
        """Launches `blocks` blocks of `threads` threads. `gaps`: whether arrays may have gaps
        between their entries. `shared`: bytes of shared memory of each block."""
        if blocks <= 0:
            return  # CUDA would refuse it
        if isinstance(args, PackedArguments):
            packed = args
        else:
            count = len(args)
            packed = _here.blocks.get(count) or _here.blocks.setdefault(
                count, PackedArguments(count)
            )
            packed.fill(args, gaps)
        with explaining_failure(self._name):
            stream, address = self._stream().ptr, packed.address
            self._launch(self._pointer, blocks, 1, 1, threads, 1, 1, shared, stream, address, 0)

    def room(self, blocks: int) -> tuple[int, int, int]:
        """The bytes of shared memory that each of so many blocks of a multiprocessor may ask for,
        the most threads of a block, and the number of multiprocessors."""
        most, own = (
            int(self._cuda.driver.funcGetAttribute(attribute, self._pointer))
            for attribute in (_THREADS, _SHARED)
        )
        runtime = self._cuda.runtime
        device = runtime.getDevice()
        room, processors = (
            int(runtime.deviceGetAttribute(attribute, device)) for attribute in (_ROOM, _PROCESSORS)
        )
        return (room + RESERVED) // blocks - own - RESERVED, most, processors

    def enlarge(self, shared: int) -> None:
        """Allows launches to ask for so many bytes of shared memory."""
        if shared > self._enlarged:
            self._cuda.driver.funcSetAttribute(self._pointer, _MOST_SHARED, shared)
            self._enlarged = shared

    def resident(self, threads: int) -> int:
        """How many blocks of `threads` threads the whole device runs at once."""
        found = self._resident.get(threads)
        if found is None:
            found = self._resident[threads] = self._occupancy(self._pointer, threads)
        return found


def _word(value: Any, gaps: bool) -> int:
    """An argument in 64 bits: the address of an array, a number as kernels expect it."""
    if type(value) is int and -HALF <= value < HALF:
        return value
    if isinstance(value, (int, np.integer)):
        return (int(value) + HALF) % (2 * HALF) - HALF
    if isinstance(value, (float, np.floating)):
        return int(np.float64(value).view(np.int64))
    if not gaps and not value.flags.c_contiguous:
        raise ValueError("a kernel reads arrays from their first byte on, without gaps")
    found: int = value.data.ptr
    return found


def bare(source: str) -> str:
    """A source without comments: rules that differ only there share the compiled kernel.

    Line numbers stay. Other characters than ASCII are escaped.

    >>> bare("int x;  // of p(x)\\n// y\\nint y;")
    'int x;\\n\\nint y;'
    """
    return _COMMENT.sub("", source).encode("ascii", "backslashreplace").decode()


def loaded(
    cuda: Any, version: str, capability: str, source: str, label: str, linked: bool = False
) -> Any:
    """A source as a CUDA module: its machine code is read from the cache, or compiled and cached.

    `cuda`: CuPy's module; `version`: of CuPy, whose package chooses the compiler; `capability`: of
    the GPU, such as "90"; `label`: the rule, for errors; `linked`: as PTX, whose unknown functions
    the driver links.
    """
    source = bare(source)
    name = stored_name(cuda, version, capability, source, linked)
    code = cache.read(name)
    if code is None:
        code = _compiled(cuda.nvrtc, capability, source, label, linked)
        cache.keep(name, code)
    module = cuda.function.Module()
    module.load(code)
    return module


def stored_name(cuda: Any, version: str, capability: str, source: str, linked: bool = False) -> str:
    """The name under which the machine code of a source without comments is cached."""
    parts = (version, cuda.runtime.driverGetVersion(), capability, OPTIONS, source, linked)
    return "cuda-" + hashlib.sha256(repr(parts).encode()).hexdigest()


def _compiled(nvrtc: Any, capability: str, source: str, label: str, linked: bool) -> bytes:
    """Machine code; or PTX, which the driver compiles, if it is to be linked, or for a GPU newer
    than NVRTC."""
    newest = min(int(capability), max(nvrtc.getSupportedArchs()))
    known = newest == int(capability) and not linked
    architecture = f"-arch=sm_{capability}" if known else f"-arch=compute_{newest}"
    program = nvrtc.createProgram(source, "kernels.cu", (), ())
    try:
        try:
            nvrtc.compileProgram(program, (*OPTIONS, architecture))
        except nvrtc.NVRTCError:
            raise compile_error(nvrtc.getProgramLog(program), source, label) from None
        code: bytes = nvrtc.getCUBIN(program) if known else nvrtc.getPTX(program)
        return code
    finally:
        nvrtc.destroyProgram(program)
