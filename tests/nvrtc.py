"""NVRTC, NVIDIA's compiler as a library: it needs no GPU and no driver.

It compiles all kernels in CI, with the options that the driver of a GPU gives it.

    python -m tests.nvrtc        shows what each kernel takes, and how long its source compiled
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import perf_counter

from gdatalog.gpu_ops.cupy_kernel import OPTIONS, Resources, bare

ARCHITECTURES = ("sm_80", "sm_90")

_KERNEL = re.compile(
    r"Compiling entry function '(\w+)' for '\w+'.*?"
    r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads.*?"
    r"Used (\d+) registers([^\n]*)",
    re.DOTALL,
)
_SHARED = re.compile(r"(\d+) bytes smem")


class CompileException(Exception):
    """What CuPy raises by this name: NVRTC refused a source; prints as its log."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A source for one architecture."""

    architecture: str
    cubin: bytes
    log: str
    seconds: float

    @property
    def kernels(self) -> dict[str, Resources]:
        """What each kernel takes, in the order of their names."""
        found = {}
        for name, stack, stored, read, registers, rest in sorted(_KERNEL.findall(self.log)):
            shared = _SHARED.search(rest)
            spilled = max(int(stack), int(stored), int(read))
            found[name] = Resources(int(registers), spilled, int(shared[1]) if shared else 0)
        return found


def _candidates() -> Iterator[str]:
    for folder in sys.path:
        for pattern in ("nvidia/cuda_nvrtc/lib/libnvrtc.so.*", "nvidia/cu*/lib/libnvrtc.so.*"):
            found = [path for path in Path(folder).glob(pattern) if ".alt." not in path.name]
            yield from map(str, sorted(found, reverse=True))
    yield from ("libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12")


@cache
def library() -> ctypes.CDLL | None:
    """NVRTC, if it is there: of the package nvidia-cuda-nvrtc-cu12, or of the system."""
    for name in _candidates():
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def version() -> str:
    major, minor = ctypes.c_int(), ctypes.c_int()
    _loaded().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return f"{major.value}.{minor.value}"


def _loaded() -> ctypes.CDLL:
    found = library()
    assert found is not None, "there is no NVRTC"
    return found


@cache
def compile(source: str, architecture: str = "sm_90", name: str = "kernels.cu") -> Compiled:
    """A source's machine code. It may hold no header: there is no folder of them."""
    nvrtc, program = _loaded(), ctypes.c_void_p()
    told = [*OPTIONS, f"-arch={architecture}", "--ptxas-options=-v"]
    started = perf_counter()
    nvrtc.nvrtcCreateProgram(
        ctypes.byref(program), bare(source).encode(), name.encode(), 0, None, None
    )  # fmt: skip
    try:
        given = (ctypes.c_char_p * len(told))(*(option.encode() for option in told))
        failed = nvrtc.nvrtcCompileProgram(program, len(told), given)
        log = _bytes(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
        text = log.rstrip(b"\0").decode()
        if failed:
            raise CompileException(text)
        cubin = _bytes(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
        return Compiled(architecture, cubin, text, perf_counter() - started)
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _bytes(size_of, copy, program: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t()
    size_of(program, ctypes.byref(size))
    held = ctypes.create_string_buffer(size.value)
    copy(program, held)
    return held.raw


def table(compiled: Iterable[tuple[str, Compiled]]) -> str:
    """Registers, spilled and shared bytes of every kernel, and the seconds of its source."""
    lines = [
        f"{'source':<44} {'kernel':<20} {'':<6} {'regs':>5} {'spills':>6} {'shared':>6} {'s':>6}"
    ]
    for told, done in compiled:
        seconds = f"{done.seconds:6.2f}"
        for kernel, took in done.kernels.items():
            lines.append(
                f"{told[:44]:<44} {kernel[:20]:<20} {done.architecture:<6} {took.registers:>5} "
                f"{took.spilled:>6} {took.shared:>6} {seconds:>6}"
            )
            seconds = ""
    return "\n".join(lines)


def main() -> None:
    from tests.kernel_sources import everything

    if library() is None:
        sys.exit("there is no NVRTC: pip install nvidia-cuda-nvrtc-cu12")
    print(f"NVRTC {version()}")
    print(
        table(
            (told, compile(source, architecture))
            for told, source in everything()
            for architecture in ARCHITECTURES
        )
    )


if __name__ == "__main__":
    main()
