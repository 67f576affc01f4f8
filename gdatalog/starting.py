"""Checks the arguments of `connect` at once; the first query imports the engine.

Importing the engine takes several times as long as `connect`, and many programs connect before they
know whether they run a query.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any

from gdatalog.account import default_limit
from gdatalog.cancellation import Watch
from gdatalog.engine.devices import (
    LATER,
    LaterGpu,
    kind_of,
    log_device,
    open_device,
    usable,
    why_no_gpu,
)
from gdatalog.errors import Caution, UsageError, meant
from gdatalog.importing import uncollected, whole_imports
from gdatalog.options import parse_size, seconds_of, threads_of
from gdatalog.records import dataclass

if TYPE_CHECKING:
    from gdatalog.workspace import Workspace

MEMORY = 512 << 20  # bytes: default memory limit with `untrusted`
SECONDS = 10.0  # default time limit with `untrusted`
FILES = ("all", "read", "none")
# The settings that are arguments of `connect`, and attributes of `Start`.
ARGUMENTS = {
    "threads": "threads", "timeout": "timeout", "memory_limit": "limit", "temp_limit": "temp_limit",
}  # fmt: skip

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


def check_files(files: object) -> None:
    """Raises unless `files` is a word that `connect` knows, or a folder."""
    if files in FILES or (isinstance(files, str | os.PathLike) and os.path.isdir(files)):
        return
    near = meant(files, FILES) if isinstance(files, str) else None
    raise UsageError(
        f"files={files!r} is neither a known word nor a folder",
        hint=f'{f"did you mean {near!r}? " if near else ""}files is "all", "read", "none", or a '
        "folder that exists",
    )


@dataclass(eq=False)
class Start:
    """The checked arguments of `connect`. Opens a GPU at once if it is asked for by name.

    `later`: the GPU that "auto" opens when the first work pays there.
    """

    device: str
    limit: str | int | None
    temp_directory: str | os.PathLike[str] | None
    threads: int | None
    timeout: float | None
    files: str | os.PathLike[str]
    cluster: Any
    untrusted: bool
    temp_limit: str | int | None = None
    settings: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        own = {} if self.settings is None else self._own_settings(self.settings)
        if self.untrusted and own.get("strategy", "auto") == "auto":
            own["strategy"] = "levelwise"
        if self.untrusted:
            if self.cluster is not None or kind_of(self.device) == "cuda":
                where = self.device if self.cluster is None else "a cluster"
                message = "untrusted=True runs queries on the CPU of this process, not on "
                raise UsageError(message + where)
            self.device = "cpu"
            self.limit = MEMORY if self.limit is None else self.limit
            self.timeout = SECONDS if self.timeout is None else self.timeout
        check_files(self.files)
        self._limit = None if self.limit is None else parse_size(self.limit)
        self.memory_limit = default_limit() if self._limit is None else self._limit
        self._kind = kind_of(self.device)
        # With a cluster, the workers use the GPUs.
        here = "cpu" if self.cluster is not None else self._kind
        self._opened = open_device(self.device, self._limit) if here == "cuda" else None
        self._why, self.later = None, None
        if here == "auto":
            self._why = why_no_gpu()
            self.later = None if self._why else LaterGpu(partial(usable, self._limit))
            log_device("cpu", self._why or LATER)
        timeout, threads = seconds_of(self.timeout), threads_of(self.threads)
        self._temporary = folder_of(self.temp_directory)
        self._temp_limit = None
        if self.temp_limit is not None:
            self._temp_limit = parse_size(self.temp_limit, "a limit of temporary files")
            if self.untrusted or self._temporary == "":
                why = "untrusted=True" if self.untrusted else 'temp_directory=""'
                message = f"temp_limit limits temporary files, and with {why} there are none"
                raise UsageError(message, hint="leave out one of the two")
        self.changed = {
            **own, "memory_limit": self.memory_limit, "temp_limit": self._temp_limit,
            "timeout": timeout, "threads": threads,
        }  # fmt: skip

    def _own_settings(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The checked settings of `settings`. Those that are arguments too become the argument."""
        from gdatalog.user_settings import checked_settings

        if not isinstance(given, Mapping):
            hint = 'as in settings={"magic_sets": "never"}'
            raise UsageError(
                f"settings is a mapping, not of type {type(given).__name__}", hint=hint
            )
        own = checked_settings(given)
        for name, argument in ARGUMENTS.items():
            if name in own:
                if getattr(self, argument) is not None:
                    raise UsageError(f"{name} is given twice", hint="leave it out of the settings")
                setattr(self, argument, own.pop(name) or None)
        return own

    @property
    def use(self) -> Callable[[], AbstractContextManager[None]]:
        """Returns a context in which a thread uses the device."""
        if self.later is not None:
            return self.later.use
        return nullcontext if self._opened is None else self._opened.use

    def workspace(self, on_caution: Callable[[Caution], None], watch: Watch) -> Workspace:
        """Creates the database's state; imports the engine."""
        with _importing, whole_imports(), uncollected():
            from gdatalog.storage.spill import Spill
            from gdatalog.workspace import Workspace

        spill = None
        if not self.untrusted and self._temporary != "":
            limit = self._temp_limit
            spill = Spill(self._temporary, memory=self.memory_limit, limit=limit)
        workspace = Workspace(self.changed, self.files, on_caution, watch, spill)
        if self.untrusted:
            workspace.untrusted = True
        workspace.later = self.later
        if self._opened is not None:
            workspace.device, workspace.why = self._opened.device, self._opened.why
        elif self._why is not None:
            workspace.why = self._why
        if self.cluster is not None:
            from gdatalog.cluster import spread_over

            workspace.cluster = spread_over(
                self.cluster, self.memory_limit, self.changed["threads"], self._kind
            )
        return workspace
