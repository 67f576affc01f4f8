"""Work that several threads need: one does it, and the others wait for its result.

A thread that waits polls its own watch, so time limits and Ctrl-C end the wait. If the work fails
or is interrupted, a thread that waits does it. A thread that does such work waits for no other:
what it needs meanwhile, as when its progress listener asks a query, it does itself. So threads
cannot wait for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, local
from typing import Any, Generic, TypeVar

from gdatalog.cancellation import PATIENCE

Made = TypeVar("Made")


class Claim(Generic[Made]):
    """Work that one thread does. `found`: its result, for the threads that wait."""

    __slots__ = ("_runs", "found", "what")

    def __init__(self, what: object) -> None:
        self.what = what
        self.found: Made | None = None
        self._runs = Lock()  # held until the work ends
        self._runs.acquire()

    def wait(self, seconds: float) -> bool:
        """Waits at most this long; returns whether the work has ended."""
        if not self._runs.acquire(timeout=seconds):
            return False
        self._runs.release()
        return True

    def end(self) -> None:
        self._runs.release()


class _Held(local):
    """The claims of a thread."""

    def __init__(self) -> None:
        self.claims: list[tuple[Claims[Any], Claim[Any]]] = []


_here = _Held()


class Claims(Generic[Made]):
    """The work that runs now, by what it is: equal work is done once."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._running: list[Claim[Made]] = []

    @contextmanager
    def on(self, what: object, poll: Callable[[], None]) -> Iterator[Claim[Made]]:
        """A context in which this thread does the work, and sets `found`; where another thread
        does it already, waits and takes over what that one `found`."""
        mine: Claim[Made] = Claim(what)
        while True:
            with self._lock:
                other = next((each for each in self._running if each.what == what), None)
                if other is None or _here.claims:
                    self._running.append(mine)
                    break
            while not other.wait(PATIENCE):
                poll()
            if other.found is not None:
                yield other
                return
        held = self, mine
        _here.claims.append(held)
        try:
            yield mine
        finally:
            self._end(mine)
            if held in _here.claims:
                _here.claims.remove(held)

    def _end(self, claim: Claim[Made]) -> None:
        with self._lock:
            if claim in self._running:
                self._running.remove(claim)
                claim.end()


def give_up() -> None:
    """Gives up the claims of this thread, before it waits for another: threads that wait for them
    do the work themselves."""
    while _here.claims:
        claims, claim = _here.claims.pop()
        claims._end(claim)
