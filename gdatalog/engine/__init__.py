"""The engine: evaluates sessions, strata and rules on devices.

Here is a cheap test, which loads nothing, of whether a machine plainly has no NVIDIA GPU.
"""

from __future__ import annotations

import os
import sys

# Files of NVIDIA's driver: of its own, on WSL, on embedded boards.
FILES = ("/dev/nvidiactl", "/dev/dxg", "/dev/nvhost-gpu", "/dev/nvgpu")


def plainly_none() -> bool:
    """Returns True if there is none, and False if it takes a closer look to know."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and visible.strip() in ("", "-1"):
        return True
    if sys.platform == "linux":
        return not any(map(os.path.exists, FILES))
    return sys.platform == "darwin"
