"""A thread pool, and threads that can be cancelled anywhere."""

from __future__ import annotations

import _imp
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from ctypes import c_ulong, py_object, pythonapi
from queue import SimpleQueue
from threading import Event, Lock, Thread
from time import sleep

MOMENT = 0.005  # seconds
GIVES_WAY = 10  # how much lower the priority of the pool's threads is


class PoolTask:
    """A task of a pool thread."""

    __slots__ = ("_ended", "_running", "_work")

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._ended = False
        self._running = Lock()
        self._running.acquire()

    def wait(self, seconds: float = -1) -> bool:
        """Waits at most this long; returns whether the task has ended. Ctrl-C ends the wait."""
        if not self._ended and self._running.acquire(timeout=seconds):
            self._running.release()  # Ctrl-C may prevent this, so `_ended` decides
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
        _pool.append(self)

    def run(self) -> None:
        if _gives_way:
            self.lower()
        while True:
            task = self.tasks.get()
            task.run()
            del task  # release its data
            _idle.append(self)

    def lower(self) -> None:
        """Lowers its priority, where threads have their own: on Linux."""
        if sys.platform == "linux" and self.native_id is not None:
            with suppress(OSError):  # not allowed here
                usual = os.getpriority(os.PRIO_PROCESS, os.getpid())
                os.setpriority(os.PRIO_PROCESS, self.native_id, usual + GIVES_WAY)


_idle: list[_Pooled] = []  # `append` and `pop` are atomic
_pool: list[_Pooled] = []  # all threads
_gives_way = False


def give_way() -> None:
    """Lowers the priority of the pool's threads, because several threads make calls: a short one
    does not wait until a long one, whose loops have all cores, has used its time slices."""
    global _gives_way
    if not _gives_way:
        _gives_way = True  # for threads that start now
        for thread in list(_pool):
            thread.lower()


def begun(work: Callable[[], None]) -> PoolTask:
    """Starts a task in a pool thread. The task must end by itself and not raise."""
    task = PoolTask(work)
    try:
        thread = _idle.pop()
    except IndexError:
        thread = _Pooled()
        thread.start()
    thread.tasks.put(task)
    return task


def _forked() -> None:
    """Resets a forked child: threads do not survive a fork."""
    global _gives_way
    _gives_way = False
    _idle.clear()
    _pool.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def release_import_lock() -> None:
    """Releases Python's import lock if this thread still holds it, because an asynchronous
    exception ended an import before Python released it; otherwise no other thread could import."""
    while _imp.lock_held():
        try:
            _imp.release_lock()
        except RuntimeError:  # another thread holds it briefly
            return


class Abandoned(BaseException):
    """Raised in a thread whose work was abandoned."""


class CancellableThread(Thread):
    """A thread that can be cancelled and reliably waited for: when Ctrl-C ends
    `Thread.join(seconds)`, Python assumes that the thread has ended (bpo-46726)."""

    def __init__(self, target: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._work: Callable[[], None] | None = target
        self._ended = Event()
        self._gate = Lock()
        self._open = True  # whether it can be cancelled
        self._held = 0  # depth of nested `held` contexts
        self._wanted = False  # whether cancellation was requested meanwhile

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
            release_import_lock()  # in any case: an ended thread must not hold it
            self._ended.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Waits at most this long; returns whether the thread has ended."""
        return self._ended.wait(seconds)

    def end(self) -> None:
        """Raises `Abandoned` in the thread, wherever it is; inside a C call, when that returns."""
        with self._gate:
            if not self._open or self.ident is None:
                return
            if self._held:
                self._wanted = True
            else:
                pythonapi.PyThreadState_SetAsyncExc(c_ulong(self.ident), py_object(Abandoned))

    @contextmanager
    def held(self, done: Callable[[], bool]) -> Iterator[None]:
        """Delays cancellation within this context, which the thread itself enters, until `done`."""
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
    """Makes a call from another thread, once `when` holds."""

    def wait() -> None:
        while not when():
            sleep(MOMENT)
        call()

    Thread(target=wait, daemon=True).start()


def _raised() -> None:
    """Lets pending asynchronous exceptions of this thread be raised here."""
    for _ in range(10):  # Python checks at each iteration of a loop
        pass
