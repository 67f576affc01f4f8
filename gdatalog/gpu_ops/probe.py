"""Probes this machine's CUDA: driver, GPUs, CuPy, its compiler, and whether a kernel runs. Says
what is missing, and which command fixes it.

`look` probes stage by stage and stops at the first that fails. `checks` explains the resulting
`Probe`; tests explain made-up ones.

`python -m gdatalog.gpu_ops.probe`, for make, prints the extra to install for this machine's GPU.
Without a usable GPU it prints the reason on stderr, and exits with status 3.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

from gdatalog.gpu_ops.context import begin, driver_library
from gdatalog.progress import format_bytes
from gdatalog.records import dataclass, replace

LEAST_CUDA = (12, 0)  # of the driver: what CuPy's packages need

# Packages of CuPy; two of them overwrite each other's files.
PACKAGES = ("cupy", "cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x")


@dataclass(frozen=True, slots=True)
class Card:
    """A GPU as its driver describes it."""

    name: str
    memory: int  # bytes
    capability: tuple[int, int]

    def __str__(self) -> str:
        major, minor = self.capability
        memory = format_bytes(self.memory)
        return f"{self.name}, {memory}, compute capability {major}.{minor}"


@dataclass(frozen=True, slots=True)
class Probe:
    """What `look` found. Fields after the first failure have their defaults."""

    visible: str | None = None  # CUDA_VISIBLE_DEVICES
    hardware: bool = False  # the system has an NVIDIA GPU
    library: bool = False  # the driver's library can be loaded
    refusal: str | None = None  # the driver's error when it starts
    driver: str | None = None  # its version
    cuda: tuple[int, int] | None = None  # the newest that the driver runs
    cards: tuple[Card, ...] = ()
    packages: tuple[tuple[str, str], ...] = ()  # of CuPy: name, version
    broken: str | None = None  # the error of importing CuPy
    built: int | None = None  # the CUDA that CuPy was built for: 12, 13
    nvrtc: tuple[int, int] | None = None  # the compiler that CuPy loads
    no_nvrtc: str | None = None  # the error of loading it
    trial: str | None = None  # the error of a first kernel


def look(number: int = 0, trial: bool = True) -> Probe:
    """Probes this machine, and with `trial` whether GPU `number` runs a kernel."""
    seen = look_at_driver()
    if number >= len(seen.cards) or (seen.cuda or (0, 0)) < LEAST_CUDA or len(seen.packages) > 1:
        return seen
    return _with_cupy(seen, number, trial)


def look_at_driver() -> Probe:
    """Probes driver, GPUs and packages; imports nothing."""
    visible, library = os.environ.get("CUDA_VISIBLE_DEVICES"), driver_library()
    seen = Probe(visible, _hardware(), library is not None, packages=tuple(_packages()))
    if library is None or (visible is not None and visible.strip() in ("", "-1")):
        return seen
    status = library.cuInit(0)
    if status != 0:
        return replace(seen, refusal=_refusal(library, status))
    newest = ctypes.c_int()
    library.cuDriverGetVersion(ctypes.byref(newest))
    cuda = newest.value // 1000, newest.value % 1000 // 10
    return replace(seen, driver=_version(), cuda=cuda, cards=tuple(_cards_of(library)))


def _with_cupy(seen: Probe, number: int, trial: bool) -> Probe:
    """Adds what CuPy reports. Once CuPy is imported, this process keeps the GPU open."""
    context = begin(number)
    try:
        import cupy
    except Exception as problem:
        return replace(seen, broken=_said(problem))
    finally:
        context.wait()
    built = int(cupy.cuda.driver.get_build_version()) // 1000
    seen = replace(seen, built=built)
    if seen.cuda is not None and built > seen.cuda[0]:
        return seen
    try:
        major, minor = cupy.cuda.nvrtc.getVersion()
    except Exception as problem:
        return replace(seen, no_nvrtc=_said(problem))
    seen = replace(seen, nvrtc=(int(major), int(minor)))
    return replace(seen, trial=_trial(number)) if trial else seen


def _trial(number: int) -> str | None:
    """The error of a first kernel."""
    from gdatalog.gpu_ops.cupy_driver import CupyDriver

    try:
        driver = CupyDriver(number)
        with driver.use():
            found = int(driver.xp.arange(5).sum())
    except Exception as problem:
        return _said(problem)
    return None if found == 10 else "1 + 2 + 3 + 4 is not 10 there"


def _said(problem: Exception) -> str:
    text = " ".join(f"{type(problem).__name__}: {problem}".split())
    return text if len(text) <= 300 else f"{text[:297]}..."


def _hardware() -> bool:
    """Whether the system has an NVIDIA GPU, even without a driver."""
    if Path("/dev/nvidiactl").exists() or Path("/dev/dxg").exists():
        return True
    for vendor in Path("/sys/bus/pci/devices").glob("*/vendor"):
        try:
            if vendor.read_text().strip() == "0x10de":
                kind = (vendor.parent / "class").read_text().strip()
                if kind.startswith("0x03"):  # display or compute; the other is audio
                    return True
        except OSError:
            continue
    return False


def _refusal(library: ctypes.CDLL, status: int) -> str:
    text = ctypes.c_char_p()
    library.cuGetErrorName(status, ctypes.byref(text))
    return text.value.decode() if text.value else f"error {status}"


def _cards_of(library: ctypes.CDLL) -> Iterator[Card]:
    count, device = ctypes.c_int(), ctypes.c_int()
    library.cuDeviceGetCount(ctypes.byref(count))
    for number in range(count.value):
        if library.cuDeviceGet(ctypes.byref(device), number) != 0:
            continue
        name, memory = ctypes.create_string_buffer(256), ctypes.c_size_t()
        library.cuDeviceGetName(name, len(name), device)
        library.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
        capability = []
        for attribute in (75, 76):  # COMPUTE_CAPABILITY_MAJOR, _MINOR
            value = ctypes.c_int()
            library.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
            capability.append(value.value)
        yield Card(name.value.decode(), memory.value, (capability[0], capability[1]))


def _version() -> str | None:
    """The driver's version, if a file of the system says it."""
    try:
        return Path("/sys/module/nvidia/version").read_text().strip()
    except OSError:
        return None


def _packages() -> Iterator[tuple[str, str]]:
    from importlib.metadata import PackageNotFoundError, version

    for package in PACKAGES:
        try:
            yield package, version(package)
        except PackageNotFoundError:
            continue
