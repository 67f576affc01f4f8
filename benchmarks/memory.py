"""How much memory this process holds, and the most that it held since a moment.

Linux keeps the most that was resident (VmHWM in /proc/self/status) and lets it be set back, and
unlike getrusage's maxrss it has nothing of the process that started this one. Elsewhere that is
what there is: the most of the process's whole life.
"""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import sys
from contextlib import suppress
from pathlib import Path

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def resident() -> int:
    """Bytes that are resident now."""
    with suppress(OSError, IndexError, ValueError):
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return peak()


def peak() -> int:
    """The most bytes that were resident since `forget`, or else since the process began."""
    with suppress(OSError):
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most << 10


def forget() -> bool:
    """What is free goes back to the system, and the peak is set to what is left, if it can be."""
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    try:
        _CLEAR.write_text("5")
    except OSError:
        return False
    return True
