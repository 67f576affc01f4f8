"""Threads that can be waited for a while, and ended wherever they are."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_ulong, py_object, pythonapi
from threading import Event, Lock, Thread


class Left(BaseException):
    """Work that ran aside, and that nobody waits for any more, ends with this."""


class Hand(Thread):
    """A thread that can be waited for a while: where Ctrl-C ends `Thread.join(seconds)`, Python
    takes the thread for one that has ended (bpo-46726)."""

    def __init__(
        self, target: Callable[[], None], name: str | None = None, daemon: bool = True
    ) -> None:
        super().__init__(name=name, daemon=daemon)
        self._work: Callable[[], None] | None = target
        self._ended = Event()
        self._gate = Lock()
        self._open = True  # whether it can be ended

    def run(self) -> None:
        try:
            while True:
                try:
                    if self._work is not None:
                        work, self._work = self._work, None
                        work()
                    with self._gate:
                        self._open = False
                    for _ in range(10):  # if it is to be ended, `Left` is raised in here
                        pass
                    return
                except Left:
                    continue
        finally:
            self._ended.set()

    def end(self) -> None:
        """Raises `Left` in it, wherever it is; inside a call of C once that returns."""
        with self._gate:
            if self._open and self.ident is not None:
                pythonapi.PyThreadState_SetAsyncExc(c_ulong(self.ident), py_object(Left))

    def wait(self, seconds: float | None = None) -> bool:
        """Whether it has ended, by then."""
        return self._ended.wait(seconds)
