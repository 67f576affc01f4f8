"""`python -m gdatalog.gpu_ops.wanted`: the extra that this machine's GPU needs, for make.

Where there is no GPU that could be used it says so on stderr, and ends with 3.
"""

from __future__ import annotations

import sys

from gdatalog.gpu_ops.checks import extra, without_cupy
from gdatalog.gpu_ops.probe import Probe, look_at_driver


def wanted(probe: Probe) -> int:
    """Says it; gives the exit code."""
    found = without_cupy(probe)
    if found is None:
        print(extra(probe.cuda, probe.cards))
        return 0
    cure = f"\ncure: {found.cure}" if found.cure else ""
    print(f"this needs an NVIDIA GPU. {found.name}: {found.found}{cure}", file=sys.stderr)
    return 3


if __name__ == "__main__":
    sys.exit(wanted(look_at_driver()))
