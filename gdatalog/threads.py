"""Threads: a pool, and threads that can be ended wherever they are."""

from __future__ import annotations

import _imp
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import c_ulong, py_object, pythonapi
from queue import SimpleQueue
from threading import Event, Lock, Thread
from time import sleep

MOMENT = 0.005  # seconds


class PoolTask:
    """A task of a pool thread."""

    __slots__ = ("_ended", "_running", "_work")

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._ended = False
        self._running = Lock()
        self._running.acquire()

    def wait(self, seconds: float = -1) -> bool:
        """Waits at most this long; returns whether it has ended. Ctrl-C ends the wait only."""
        if not self._ended and self._running.acquire(timeout=seconds):
            self._running.release()  # which Ctrl-C may come before
        return self._ended

    def run(self) -> None:
        try:
            self._work()
        finally:
            self._ended = True
            self._running.release()


class _Pooled(Thread):
    """A thread that returns to the pool after each task: waking it takes microseconds."""

    def __init__(self) -> None:
        super().__init__(name="gdatalog", daemon=True)
        self.tasks: SimpleQueue[PoolTask] = SimpleQueue()

    def run(self) -> None:
        while True:
            task = self.tasks.get()
            task.run()
            del task  # and what it holds
            _idle.append(self)


_idle: list[_Pooled] = []  # whose `append` and `pop` are atomic


def begun(work: Callable[[], None]) -> PoolTask:
    """Starts a task in a pool thread. It must end by itself and raise nothing."""
    task = PoolTask(work)
    try:
        thread = _idle.pop()
    except IndexError:
        thread = _Pooled()
        thread.start()
    thread.tasks.put(task)
    return task


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # a child has none of these threads


def release_import_lock() -> None:
    """Releases Python's import lock if this thread still has it after an exception from outside
    ended an import, possibly before Python could release the lock; otherwise no other thread could
    import anything."""
    while _imp.lock_held():
        try:
            _imp.release_lock()
        except RuntimeError:  # another thread has it, for a moment
            return


class Abandoned(BaseException):
    """Ends work that ran aside and has been abandoned."""


class CancellableThread(Thread):
    """A thread that can be waited for: when Ctrl-C ends `Thread.join(seconds)`, Python assumes that
    the thread has ended (bpo-46726)."""

    def __init__(
        self, target: Callable[[], None], name: str | None = None, daemon: bool = True
    ) -> None:
        super().__init__(name=name, daemon=daemon)
        self._work: Callable[[], None] | None = target
        self._ended = Event()
        self._gate = Lock()
        self._open = True  # whether it can be ended
        self._held = 0  # how often it is within `held`
        self._wanted = False  # whether it was to be ended meanwhile

    def run(self) -> None:
        try:
            while True:
                try:
                    if self._work is not None:
                        work, self._work = self._work, None
                        work()
                    with self._gate:
                        self._open = False
                    _raised()
                    return
                except Abandoned:
                    release_import_lock()
                    continue
        finally:
            release_import_lock()  # whatever came between: a thread that ends must not keep it
            self._ended.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Waits at most this long; returns whether the thread has ended."""
        return self._ended.wait(seconds)

    def end(self) -> None:
        """Raises `Abandoned` in it, wherever it is; inside a C call once that returns."""
        with self._gate:
            if not self._open or self.ident is None:
                return
            if self._held:
                self._wanted = True
            else:
                pythonapi.PyThreadState_SetAsyncExc(c_ulong(self.ident), py_object(Abandoned))

    @contextmanager
    def held(self, done: Callable[[], bool]) -> Iterator[None]:
        """Within this context, entered by the thread itself, it is not ended until it is `done`."""
        with self._gate:
            self._held += 1
        try:
            _raised()
            yield
        finally:
            with self._gate:
                self._held -= 1
                wanted = self._wanted and not self._held
                self._wanted = self._wanted and not wanted
            if wanted:
                soon(self.end, done)


def soon(call: Callable[[], None], when: Callable[[], bool]) -> None:
    """Has another thread make a call as soon as possible."""

    def wait() -> None:
        while not when():
            sleep(MOMENT)
        call()

    Thread(target=wait, daemon=True).start()


def _raised() -> None:
    """Returns after pending asynchronous exceptions of this thread were raised."""
    for _ in range(10):  # Python looks for that where a loop begins anew
        pass
