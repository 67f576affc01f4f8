"""What the scheduler is asked to run, now and then while a stage waits.

In a module of its own, for the scheduler imports nothing else of the package.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def set_free(dask_scheduler: Any, wanted: Sequence[str] = ()) -> None:
    """Lets tasks go on that Dask (2026.8) has forgotten.

    Those that may run anywhere, but that should have run on a worker which died when there was no
    other: they are looked at only when that very worker comes back. And those that are `wanted`, or
    that these wait for, and that were lost when one that they need had failed before: they would
    wait for it for ever. It is tried again, and what it ends in comes to them."""
    stuck = {ts.key: "processing" for ts in dask_scheduler.unrunnable if ts.loose_restrictions}
    if stuck and dask_scheduler.running:
        dask_scheduler.transitions(stuck, stimulus_id="gdatalog-set-free")
    forgotten, failed = set(), set()
    there = [dask_scheduler.tasks[key] for key in wanted if key in dask_scheduler.tasks]
    todo = [task for task in there if task.state != "erred"]
    while todo:
        task = todo.pop()
        if task.state in ("waiting", "released") and task not in forgotten:
            forgotten.add(task)
            todo += task.dependencies
        elif task.state == "erred":
            failed.add(task.key)
    if failed:
        again = {task.key: "waiting" for task in forgotten if task.state == "released"}
        dask_scheduler.stimulus_retry(keys=list(failed))
        dask_scheduler.transitions(again, stimulus_id="gdatalog-set-free")
