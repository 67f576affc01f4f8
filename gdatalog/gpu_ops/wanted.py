"""`python -m gdatalog.gpu_ops.wanted`: prints the extra for this machine's GPU, for make.

Without a usable GPU it says so on stderr, and exits with 3.
"""

from __future__ import annotations

import sys

from gdatalog.gpu_ops.probe import Probe, extra, look_at_driver, without_cupy


def wanted(probe: Probe) -> int:
    """Prints it; returns the exit code."""
    found = without_cupy(probe)
    if found is None:
        print(extra(probe.cuda, probe.cards))
        return 0
    cure = f"\ncure: {found.cure}" if found.cure else ""
    print(f"this needs an NVIDIA GPU. {found.name}: {found.found}{cure}", file=sys.stderr)
    return 3


if __name__ == "__main__":
    sys.exit(wanted(look_at_driver()))
