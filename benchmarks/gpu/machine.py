"""What kind of GPU this is, and what drives it; nothing that tells which one."""

from __future__ import annotations

import os
from typing import Any

from benchmarks.gpu.clocks import cuda_of
from benchmarks.machine import cores, machine

Facts = dict[str, str | int | float]


def facts(driver: Any) -> Facts:
    """`threads of each side` and peers' versions say nothing here."""
    kept = ("system", "processor", "python", "numpy", "llvmlite")
    told: Facts = {key: value for key, value in machine().items() if key in kept}
    return {**gpu(driver), **told, "cores": cores(), "load before": round(os.getloadavg()[0], 1)}


def gpu(driver: Any) -> Facts:
    cuda = cuda_of(driver)
    if cuda is None:
        return {"GPU": "none: kernels ran on the host, figures mean nothing"}
    runtime = cuda.runtime
    properties = runtime.getDeviceProperties(runtime.getDevice())
    name = properties["name"]
    return {
        "GPU": name.decode() if isinstance(name, bytes) else str(name),
        "SMs": int(properties["multiProcessorCount"]),
        "GPU memory GiB": round(int(properties["totalGlobalMem"]) / (1 << 30)),
        "driver": int(runtime.driverGetVersion()),
        "CUDA": int(runtime.runtimeGetVersion()),
        "cupy": str(getattr(driver.xp, "raw", driver.xp).__version__),
    }
