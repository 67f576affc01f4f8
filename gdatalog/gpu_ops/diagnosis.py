"""Diagnoses a CUDA installation from a probe."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from gdatalog.distribution import install
from gdatalog.gpu_ops.probe import LEAST_CUDA, Card, Probe, look_at_driver
from gdatalog.records import dataclass

LEAST_CAPABILITY = (7, 0)  # of the GPU: independent thread scheduling, acquire and release
LEAST_OF_13 = (7, 5)  # CUDA 13 supports no older GPU
LEAST_CUPY = 14  # major version; its packages have the extra `ctk`

NO_DEVICE = "CUDA_ERROR_NO_DEVICE"
# Errors of the driver's initialisation, and how to fix them.
_CURES = {
    NO_DEVICE: "check with nvidia-smi which GPUs the driver sees; start containers with "
    "`--gpus all`",
    "CUDA_ERROR_STUB_LIBRARY": "remove the toolkit's folder of stubs from LD_LIBRARY_PATH",
    "CUDA_ERROR_SYSTEM_NOT_READY": "sudo systemctl start nvidia-fabricmanager",
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": "the driver was updated: restart the machine",
    "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE": "remove the folder of cuda-compat from "
    "LD_LIBRARY_PATH: it does not support this GPU",
    "CUDA_ERROR_UNKNOWN": "sudo modprobe nvidia-uvm, or restart the machine",
}


@dataclass(frozen=True, slots=True)
class Check:
    """One step of the diagnosis: what the probe found, and how to fix it if it is wrong.

    `absent`: the machine lacks it, which is not an error.
    """

    name: str
    found: str
    cure: str | None = None
    absent: bool = False


def extra(cuda: tuple[int, int] | None, cards: tuple[Card, ...] = ()) -> str:
    """The extra of gdatalog to install for a driver and its GPUs.

    >>> extra((12, 8)), extra((13, 0))
    ('cuda12', 'cuda13')
    """
    old = any(card.capability < LEAST_OF_13 for card in cards)
    return "cuda13" if cuda is not None and cuda >= (13, 0) and not old else "cuda12"


def checks(probe: Probe, number: int = 0) -> list[Check]:
    """The checks in order, up to the first that fails."""
    found: list[Check] = []
    for check in (_driver(probe), _cards(probe, number), _cupy(probe), *_compiler(probe)):
        found.append(check)
        if check.absent or check.cure is not None:
            break
    return found


def trouble(probe: Probe, number: int = 0) -> Check | None:
    """Why the GPU cannot be used; None if it can."""
    last = checks(probe, number)[-1]
    return last if last.absent or last.cure is not None else None


def without_cupy(probe: Probe) -> Check | None:
    """Why the GPU could not be used even with CuPy installed; None if it could."""
    for check in (_driver(probe), _cards(probe, 0)):
        if check.absent or check.cure is not None:
            return check
    return None


def _driver(probe: Probe) -> Check:
    name = "GPU driver"
    if not probe.library:
        if probe.hardware:
            cure = "install NVIDIA's driver (Ubuntu: sudo ubuntu-drivers install; else: "
            cure += "https://www.nvidia.com/drivers)"
            return Check(name, "there is an NVIDIA GPU, but no driver for it", cure)
        cure = 'use device="cpu"'
        return Check("GPU", "there is no NVIDIA GPU", cure, absent=True)
    if probe.visible is not None and probe.visible.strip() in ("", "-1"):
        text = f"CUDA_VISIBLE_DEVICES={probe.visible!r} hides all GPUs"
        return Check("GPU", text, "unset CUDA_VISIBLE_DEVICES", absent=True)
    if probe.refusal is not None:
        cure = _CURES.get(probe.refusal, "check the driver with nvidia-smi")
        if probe.refusal == NO_DEVICE:
            found = "the driver sees no GPU"
            if probe.visible is not None:
                found += f" (CUDA_VISIBLE_DEVICES={probe.visible!r})"
            return Check(name, found, cure, absent=not probe.hardware)
        return Check(name, f"does not start: {probe.refusal}", cure)
    shown = f"{probe.driver or 'installed'}, supports CUDA up to {_dotted(probe.cuda)}"
    if probe.cuda is None or probe.cuda < LEAST_CUDA:
        cure = "update NVIDIA's driver, to 525 or later (580 or later supports CUDA 13)"
        return Check(name, f"{shown}: too old, CUDA 12 is needed", cure)
    return Check(name, shown)


def _cards(probe: Probe, number: int) -> Check:
    shown = "; ".join(f"cuda:{at} {card}" for at, card in enumerate(probe.cards))
    if not probe.cards:
        return Check("GPU", "the driver sees none", _CURES[NO_DEVICE], absent=True)
    if number >= len(probe.cards):
        last = len(probe.cards) - 1
        there = "cuda:0" if last == 0 else f"cuda:0 to cuda:{last}"
        return Check("GPU", f"there is no cuda:{number}", f"there is {there}: {shown}")
    if probe.cards[number].capability < LEAST_CAPABILITY:
        least = _dotted(LEAST_CAPABILITY)
        cure = 'use another GPU, or device="cpu"'
        return Check("GPU", f"{shown}: too old, compute capability {least} is needed", cure, True)
    return Check("GPU", shown)


def _cupy(probe: Probe) -> Check:
    name, wanted = "CuPy", extra(probe.cuda, probe.cards)
    if not probe.packages and probe.broken is not None:
        return Check(name, "not installed", install(wanted))
    shown = " and ".join(f"{package} {version}" for package, version in probe.packages)
    again = install(wanted, without=[package for package, _ in probe.packages])
    if len(probe.packages) > 1:
        return Check(name, f"{shown}: they overwrite each other's files", again)
    if probe.broken is not None:
        return Check(name, f"{shown}, but its import fails: {probe.broken}", again)
    if any(_major(version) < LEAST_CUPY for _, version in probe.packages):
        return Check(name, f"{shown}: too old, {LEAST_CUPY} is needed", again)
    if probe.built is not None and probe.cuda is not None and probe.built > probe.cuda[0]:
        text = f"{shown} is for CUDA {probe.built}, but the driver supports {_dotted(probe.cuda)}"
        return Check(name, text, f"{again} (or update the driver)")
    card = probe.cards[0] if probe.cards else None
    if probe.built == 13 and card is not None and card.capability < LEAST_OF_13:
        text = f"{shown} is for CUDA 13, which does not support this GPU"
        return Check(name, text, again)
    return Check(name, shown or "installed")


def _compiler(probe: Probe) -> Iterator[Check]:
    name = "GPU compiler"
    major = probe.built or (probe.cuda[0] if probe.cuda is not None else 12)
    cure = install(f"cuda{major}")
    if probe.no_nvrtc is not None:
        yield Check(name, f"CuPy finds no NVRTC: {probe.no_nvrtc}", cure)
        return
    if probe.nvrtc is None:
        return
    yield Check(name, f"NVRTC {_dotted(probe.nvrtc)}")
    if probe.trial is None:
        yield Check("a kernel", "compiled and run")
    else:
        cure = "check with nvidia-smi that the GPU is idle and healthy; if it is, report this error"
        yield Check("a kernel", f"fails: {probe.trial}", cure)


def _dotted(version: tuple[int, int] | None) -> str:
    return "?" if version is None else f"{version[0]}.{version[1]}"


def _major(version: str) -> int:
    digits = version.split(".")[0]
    return int(digits) if digits.isdecimal() else 0


def wanted(probe: Probe) -> int:
    """Prints the extra for this machine's GPU; returns the exit code."""
    found = without_cupy(probe)
    if found is None:
        print(extra(probe.cuda, probe.cards))
        return 0
    cure = f"\ncure: {found.cure}" if found.cure else ""
    print(f"this needs an NVIDIA GPU. {found.name}: {found.found}{cure}", file=sys.stderr)
    return 3


if __name__ == "__main__":
    sys.exit(wanted(look_at_driver()))
