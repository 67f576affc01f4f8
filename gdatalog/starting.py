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
from gdatalog.engine.devices import NO_GPU, OpenDevice, kind_of, open_device, plainly_cpu
from gdatalog.engine.session import parse_size, seconds_of, threads_of
from gdatalog.errors import Caution, UsageError
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


class Start:
    """The checked arguments of `connect`. Probes for a GPU at once, if there may be one."""

    def __init__(
        self,
        device: str = "auto",
        memory_limit: str | int | None = None,
        temp_directory: str | os.PathLike[str] | None = None,
        threads: int | None = None,
        timeout: float | None = None,
        files: str | os.PathLike[str] = "all",
        cluster: Any = None,
        untrusted: bool = False,
    ) -> None:
        if untrusted:
            if cluster is not None or kind_of(device) == "cuda":
                raise UsageError(
                    "untrusted=True runs queries on the CPU of this process, not on "
                    + ("a cluster" if cluster is not None else device)
                )
            device = "cpu"
            memory_limit = MEMORY if memory_limit is None else memory_limit
            timeout = SECONDS if timeout is None else timeout
        self._limit = None if memory_limit is None else parse_size(memory_limit)
        self.memory_limit = default_limit() if self._limit is None else self._limit
        self._kind = kind_of(device)
        # With a cluster, the workers use the GPUs.
        self._device = device if cluster is None else "cpu"
        self._opened = None if plainly_cpu(self._device) else self._open()
        if self._kind == "auto" and cluster is None:
            self._log()
        self._threads = threads_of(threads)
        self._timeout = seconds_of(timeout)
        self._files = files
        self._temporary = folder_of(temp_directory)
        self.cluster = cluster
        self._untrusted = untrusted

    @property
    def use(self) -> Callable[[], AbstractContextManager[None]]:
        """Returns a context in which a thread uses the device."""
        return nullcontext if self._opened is None else self._opened.use

    def workspace(self, on_caution: Callable[[Caution], None], watch: Watch) -> Workspace:
        """Creates the database's state; imports the engine."""
        with _importing, whole_imports(), uncollected():
            from gdatalog.engine.facts import FilePolicy
            from gdatalog.storage.spill import Spill
            from gdatalog.workspace import Workspace

        spill = None if self._untrusted or self._temporary == "" else Spill(self._temporary)
        policy = FilePolicy(self._files)
        workspace = Workspace(self.memory_limit, policy, on_caution, watch, spill)
        workspace.force(threads=self._threads)
        if self._untrusted:
            workspace.untrusted = True
            workspace.force(strategy="levelwise")
        workspace.timeout = self._timeout
        opened = self._opened or self._open()
        workspace.device, workspace.why = opened.device, opened.why
        if self.cluster is not None:
            from gdatalog.cluster import spread_over

            workspace.cluster = spread_over(
                self.cluster, self.memory_limit, self._threads, self._kind
            )
        return workspace

    def _open(self) -> OpenDevice:
        return open_device(self._device, self._limit)

    def _log(self) -> None:
        if "logging" not in sys.modules:
            return  # logging is not used
        import logging

        opened = self._opened
        name, why = ("cpu", NO_GPU) if opened is None else (opened.device.name, opened.why)
        logging.getLogger("gdatalog").info("device: %s (%s)", name, why)
