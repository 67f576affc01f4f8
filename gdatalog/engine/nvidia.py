"""A cheap test for machines without an NVIDIA GPU, which imports no CUDA library."""

from __future__ import annotations

import os
import sys

# Device files of NVIDIA's driver: on Linux, on WSL, on embedded boards.
FILES = ("/dev/nvidiactl", "/dev/dxg", "/dev/nvhost-gpu", "/dev/nvgpu")


def plainly_none() -> bool:
    """Returns True if the machine has no NVIDIA GPU, and False if it may have one."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and visible.strip() in ("", "-1"):
        return True
    if sys.platform == "linux":
        return not any(map(os.path.exists, FILES))
    return sys.platform == "darwin"
