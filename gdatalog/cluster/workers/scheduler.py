"""What the scheduler is asked to run, now and then while a stage waits.

In a module of its own, for the scheduler imports nothing else of the package.
"""

from __future__ import annotations

from typing import Any


def set_free(dask_scheduler: Any) -> None:
    """Lets tasks run that may run anywhere, but that should have run on a worker which died when
    there was no other: Dask (2026.8) looks at them only when that very worker comes back."""
    stuck = {ts.key: "processing" for ts in dask_scheduler.unrunnable if ts.loose_restrictions}
    if stuck and dask_scheduler.running:
        dask_scheduler.transitions(stuck, stimulus_id="gdatalog-set-free")
