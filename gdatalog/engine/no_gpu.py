"""Whether a machine plainly has no NVIDIA GPU: a look that costs nothing, and loads nothing."""

from __future__ import annotations

import os
import sys

# What a driver of NVIDIA's makes when it starts: by itself, for Windows' Linux, on boards.
FILES = ("/dev/nvidiactl", "/dev/dxg", "/dev/nvhost-gpu", "/dev/nvgpu")


def plainly_none() -> bool:
    """True: there is none. False: it takes a closer look to know."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and visible.strip() in ("", "-1"):
        return True
    if sys.platform == "linux":
        return not any(map(os.path.exists, FILES))
    return sys.platform == "darwin"
