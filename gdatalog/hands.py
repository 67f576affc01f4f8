"""Threads that can be waited for a while, and ended wherever they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import c_ulong, py_object, pythonapi
from threading import Event, Lock, Thread
from time import sleep

MOMENT = 0.005  # seconds


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
                except Left:
                    continue
        finally:
            self._ended.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Whether it has ended, by then."""
        return self._ended.wait(seconds)

    def end(self) -> None:
        """Raises `Left` in it, wherever it is: inside a call of C once that returns."""
        with self._gate:
            if not self._open or self.ident is None:
                return
            if self._held:
                self._wanted = True
            else:
                pythonapi.PyThreadState_SetAsyncExc(c_ulong(self.ident), py_object(Left))

    @contextmanager
    def held(self, done: Callable[[], bool]) -> Iterator[None]:
        """Within, which only this thread itself is, it is not ended; but once that is `done`."""
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
    """Has another thread do a call as soon as it may."""

    def wait() -> None:
        while not when():
            sleep(MOMENT)
        call()

    Thread(target=wait, daemon=True).start()


def _raised() -> None:
    """What is to be raised in this thread has been, once this has returned."""
    for _ in range(10):  # Python looks for that where a loop begins anew
        pass
