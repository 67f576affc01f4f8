"""Workers on this machine: a process of their own starts, watches and ends them.

So the driver has no scheduler, which would wait while the driver computes; scripts need no `if
__name__ == "__main__":`; Ctrl-C does not reach workers; Dask's logs are not shown; and if the
driver is killed, the workers end too.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from gdatalog.cancellation import PATIENCE
from gdatalog.cluster.workers.serving import kill_group
from gdatalog.errors import DeviceError
from gdatalog.records import dataclass
from gdatalog.threads import CancellableThread

ENDING = 5.0  # seconds that the processes may take to end
_PROGRAM = (
    "import json, sys; given = json.loads(sys.argv[1]); sys.path[:] = given.pop('path');"
    "from gdatalog.cluster.workers.serving import serve; serve(**given)"
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
