"""Checks the arguments of `connect` at once; the first query imports the engine.

Importing the engine takes several times as long as `connect`, and many programs connect before they
know whether they run a query.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from threading import RLock
from typing import TYPE_CHECKING, Any

from gdatalog.account import default_limit
from gdatalog.cancellation import Watch
from gdatalog.engine.devices import NO_GPU, kind_of, open_device, plainly_cpu
from gdatalog.engine.options import parse_size, seconds_of, threads_of
from gdatalog.errors import Caution, UsageError
from gdatalog.records import dataclass
from gdatalog.threads import uncollected, whole_imports

if TYPE_CHECKING:
    from gdatalog.workspace import Workspace

MEMORY = 512 << 20  # bytes: default memory limit with `untrusted`
SECONDS = 10.0  # default time limit with `untrusted`

# Threads that import modules of one package concurrently may see half-initialised ones.
_importing = RLock()


def folder_of(temp_directory: str | os.PathLike[str] | None) -> str | None:
    """The absolute path of the folder for temporary files, which must exist; None is the system's
    folder, "" disables temporary files."""
    if not temp_directory:
        return None if temp_directory is None else ""
    folder = os.path.abspath(os.path.expanduser(os.fspath(temp_directory)))
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        what = "does not exist"
        if os.path.exists(folder):
            what = "cannot be written to" if os.path.isdir(folder) else "is not a folder"
        hint = "temp_directory names a folder for what is larger than memory_limit"
        raise UsageError(f"the temporary folder {folder!r} {what}", hint=hint)
    return folder


@dataclass(eq=False)
class Start:
    """The checked arguments of `connect`. Looks for a GPU at once, if there may be one."""

    device: str
    limit: str | int | None
    temp_directory: str | os.PathLike[str] | None
    threads: int | None
    timeout: float | None
    files: str | os.PathLike[str]
    cluster: Any
    untrusted: bool

    def __post_init__(self) -> None:
        if self.untrusted:
            if self.cluster is not None or kind_of(self.device) == "cuda":
                where = self.device if self.cluster is None else "a cluster"
                message = "untrusted=True runs queries on the CPU of this process, not on "
                raise UsageError(message + where)
            self.device = "cpu"
            self.limit = MEMORY if self.limit is None else self.limit
            self.timeout = SECONDS if self.timeout is None else self.timeout
        self._limit = None if self.limit is None else parse_size(self.limit)
        self.memory_limit = default_limit() if self._limit is None else self._limit
        self._kind = kind_of(self.device)
        # With a cluster, the workers use the GPUs.
        self._device = self.device if self.cluster is None else "cpu"
        plainly = plainly_cpu(self._device)
        self._opened = None if plainly else open_device(self._device, self._limit)
        if self._kind == "auto" and self.cluster is None:
            self._log()
        self._threads = threads_of(self.threads)
        self.timeout = seconds_of(self.timeout)
        self._temporary = folder_of(self.temp_directory)

    @property
    def use(self) -> Callable[[], AbstractContextManager[None]]:
        """Returns a context in which a thread uses the device."""
        return nullcontext if self._opened is None else self._opened.use

    def workspace(self, on_caution: Callable[[Caution], None], watch: Watch) -> Workspace:
        """Creates the database's state; imports the engine."""
        with _importing, whole_imports(), uncollected():
            from gdatalog.storage.spill import Spill
            from gdatalog.workspace import Workspace

        spill = None if self.untrusted or self._temporary == "" else Spill(self._temporary)
        workspace = Workspace(self.memory_limit, self.files, on_caution, watch, spill)
        workspace.force(threads=self._threads)
        if self.untrusted:
            workspace.untrusted = True
            workspace.force(strategy="levelwise")
        workspace.timeout = self.timeout
        if self._opened is not None:
            workspace.device, workspace.why = self._opened.device, self._opened.why
        elif self._device == "auto":
            workspace.why = NO_GPU
        if self.cluster is not None:
            from gdatalog.cluster import spread_over

            workspace.cluster = spread_over(
                self.cluster, self.memory_limit, self._threads, self._kind
            )
        return workspace

    def _log(self) -> None:
        if "logging" not in sys.modules:
            return  # logging is not used
        import logging

        opened = self._opened
        name, why = ("cpu", NO_GPU) if opened is None else (opened.device.name, opened.why)
        logging.getLogger("gdatalog").info("device: %s (%s)", name, why)
