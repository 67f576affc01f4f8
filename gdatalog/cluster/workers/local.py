"""Workers on this machine: a process of their own starts, watches and ends them.

So the driver has no scheduler, which would wait while the driver computes; scripts need no `if
__name__ == "__main__":`; Ctrl-C does not reach workers; Dask's logs are not shown; and if the
driver is killed, the workers end too.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from importlib import import_module
from multiprocessing import forkserver
from pathlib import Path

from gdatalog.cancellation import PATIENCE
from gdatalog.errors import DeviceError
from gdatalog.records import dataclass
from gdatalog.threads import CancellableThread

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


ENDING = 5.0  # seconds that the processes may take to end
_PROGRAM = (
    "import json, sys; given = json.loads(sys.argv[1]); sys.path[:] = given.pop('path');"
    "from gdatalog.cluster.workers.local import serve; serve(**given)"
)


@dataclass(slots=True)
class LocalWorkers:
    """A scheduler and its workers; they run until this is closed."""

    process: subprocess.Popen[bytes]
    folder: str  # their files
    address: str = ""  # the scheduler's; "" until it has started

    @staticmethod
    def start(workers: int, memory: int) -> LocalWorkers:
        """Starts single-threaded workers, which share `memory` bytes."""
        folder = tempfile.mkdtemp(prefix="gdatalog-cluster-")
        given = {"path": sys.path, "workers": workers, "memory": memory, "folder": folder}
        said = Path(folder, "log")
        with said.open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, json.dumps(given)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        own = LocalWorkers(process, folder)
        try:
            with suppress(ImportError):  # reported on first use
                import_module("distributed")  # takes as long as starting the others
            own.address = _first_line(process)
        except BaseException:
            own.close()
            raise
        if not own.address:
            lines = said.read_text(errors="replace").split("\n") if said.exists() else []
            own.close()
            why = next((line.strip() for line in reversed(lines) if line.strip()), "unknown reason")
            raise DeviceError(
                f"no workers could be started on this machine: {why}",
                hint="start fewer: gdatalog -j 1, or threads=1; or leave out cluster=",
            )
        return own

    def close(self) -> None:
        """Ends all processes, and deletes their files."""
        with suppress(OSError):
            self.process.stdin.close()  # type: ignore[union-attr]  # it is a pipe
        try:
            self.process.wait(ENDING if self.address else 0)
        except subprocess.TimeoutExpired:
            kill_group(self.process.pid)
            self.process.wait(ENDING)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.process.stdout.close()  # type: ignore[union-attr]  # it is a pipe


def _first_line(process: subprocess.Popen[bytes]) -> str:
    """The first line that the process prints; "" if it ends before. Ctrl-C works meanwhile."""
    found: list[bytes] = []
    hand = CancellableThread(lambda: found.append(process.stdout.readline()))  # type: ignore[union-attr]  # it is a pipe
    hand.start()
    while not hand.wait(PATIENCE):
        pass
    return found[0].decode().strip()
