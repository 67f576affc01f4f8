"""Starts workers on this machine, in the process that watches them."""

from __future__ import annotations

import logging
import multiprocessing
import os
import shutil
import signal
import sys
from contextlib import suppress
from multiprocessing import forkserver

# Imported once: workers are forked from a process that has imported these.
_PRELOADED = ("distributed", "distributed.nanny", "gdatalog.cluster.joins")
# Dask's profiler samples the running line of Python 100 times a second. It says nothing about
# compiled loops, and takes 5 % of a core.
_QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
}


def kill_group(leader: int) -> None:
    """Kills a process and all processes that it started."""
    with suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(leader, signal.SIGKILL)
        else:
            os.kill(leader, signal.SIGTERM)


def serve(workers: int, memory: int, folder: str) -> None:
    """Starts the workers, prints their scheduler's address, and ends them when stdin closes."""
    answers = os.dup(1)
    os.dup2(2, 1)  # workers' output must not mix with the address
    if sys.platform == "linux":
        multiprocessing.set_forkserver_preload(list(_PRELOADED))
        forkserver.ensure_running()  # it imports in parallel with this process
    import dask
    from distributed import LocalCluster

    dask.config.set(_QUIET)
    if sys.platform == "linux":
        dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})
    cluster = LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        memory_limit=memory // workers,
        local_directory=folder,
        dashboard_address="127.0.0.1:8787",
        silence_logs=logging.ERROR,
    )
    os.write(answers, f"{cluster.scheduler_address}\n".encode())
    sys.stdin.buffer.read()
    shutil.rmtree(folder, ignore_errors=True)
    kill_group(os.getpid())
