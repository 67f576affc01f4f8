"""The calls of a database: those that read run together, those that write take turns.

A thread has a watch of its own for its calls, so each call has its own time limit and its own
progress, also while it waits for its turn. A database whose device serves one call at a time gives
each call the turn.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from threading import RLock, get_ident, local
from time import sleep
from typing import Any
from weakref import WeakSet

from gdatalog.cancellation import PATIENCE, Watch, out_of_time
from gdatalog.claims import give_up
from gdatalog.errors import UsageError
from gdatalog.progress import OnProgress
from gdatalog.threads import give_way

_every: WeakSet[Turns] = WeakSet()


def _forked() -> None:
    for turns in _every:
        turns._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class _Calls(local):
    """The calls of a thread. `session`: what the present one reads or changes. `until_end`: the
    contexts that end with the outermost one. `uses`: whether it works on the device."""

    watch: Watch | None = None
    session: Any = None
    until_end: ExitStack | None = None
    uses = False


class Turns:
    """Which calls of a database run, and whose turn it is to write."""

    def __init__(self, use: Callable[[], AbstractContextManager[None]], watch: Watch) -> None:
        """`use`: a context in which a thread works on the device. `watch`: that of this thread."""
        self.here = _Calls()
        self.here.watch = watch
        self._first = watch
        self._use = use
        self._lock = RLock()  # held by the call whose turn it is
        self._running: dict[int, Watch] = {}  # by thread
        self._lost = False  # whether a thread that does not exist in this child process was in one
        _every.add(self)

    def _forked(self) -> None:
        """In a forked child: threads that were in calls do not exist here."""
        if self._running.keys() - {get_ident()}:
            self._lock, self._lost = RLock(), True

    @property
    def watch(self) -> Watch:
        """The watch of this thread's calls."""
        found = self.here.watch
        if found is None:
            found = self.here.watch = Watch()
            found.clock = self._first.clock
        return found

    def adopt(self) -> None:
        """Makes the watch of the thread that opened the database that of this thread; the other one
        calls it no more."""
        self.here.watch = self._first

    @contextmanager
    def call(
        self, on_progress: OnProgress | None = None, seconds: float | None = None
    ) -> Iterator[Watch]:
        """Within this context, the thread is in a call (`Watch.call`)."""
        if self._lost:
            raise UsageError(
                "another thread was using this database when the process forked",
                hint="open a database of its own in the child, or start processes by "
                'multiprocessing.get_context("spawn")',
            )
        watch, here = self.watch, self.here
        nested = watch.calls
        try:
            with watch.call(on_progress, seconds):
                if not nested:
                    self._running[get_ident()] = watch
                    if len(self._running) > 1:
                        give_way()
                yield watch
        finally:
            if not nested:
                self._running.pop(get_ident(), None)
                ends, here.until_end, here.uses = here.until_end, None, False
                if ends is not None:
                    ends.close()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Waits until it is this call's turn, which lasts until the context ends; the thread works
        on the device meanwhile."""
        if not self._lock.acquire(blocking=False):
            give_up()
            watch = self.watch
            while not self._lock.acquire(timeout=PATIENCE):
                if watch.is_late():
                    raise out_of_time(watch.allowed, "another call was running all that time")
                watch.poll()
        try:
            with self._use(), self._known(self._use):
                yield
        finally:
            self._lock.release()

    @contextmanager
    def free(self) -> Iterator[bool]:
        """A context in which it is this call's turn, if it is no other call's; whether it is."""
        taken = self._lock.acquire(blocking=False)
        try:
            yield taken
        finally:
            if taken:
                self._lock.release()

    def enter(self, use: Callable[[], AbstractContextManager[None]]) -> bool:
        """Gives this thread's call the turn until it ends, and enters a context until then. Returns
        False if it is another call's turn."""
        here = self.here
        if not here.uses:
            if not self._lock.acquire(blocking=False):
                return False
            here.uses = True
            here.until_end = here.until_end or ExitStack()
            here.until_end.callback(self._lock.release)
            here.until_end.enter_context(use())
            here.until_end.enter_context(self._known(use))
        return True

    @contextmanager
    def _known(self, use: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
        """Threads that work aside for this thread's call work on the device, too."""
        watch = self.watch
        before, watch.use = watch.use, use
        try:
            yield
        finally:
            watch.use = before

    def stop(self) -> None:
        """Stops all calls that run."""
        for watch in list(self._running.values()):
            watch.stop.set()

    def stop_others(self) -> None:
        """Stops the calls of all other threads, and waits until they have ended."""
        while others := self._running.keys() - {get_ident()}:
            for thread in others:
                watch = self._running.get(thread)
                if watch is not None:
                    watch.stop.set()
            sleep(PATIENCE)
