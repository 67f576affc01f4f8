"""The terminal: what it can do, its keys while a query runs, and Ctrl-C."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gdatalog.cancellation import Watch

_kept: list[Callable[[], None]] = []  # what puts the terminal back, the last first


def can_edit() -> bool:
    """Whether a line can be edited, with colours and menus: not in a pipe, or a dumb terminal."""
    if not sys.stdin.isatty() or not (sys.stdout.isatty() or sys.stderr.isatty()):
        return False
    return sys.platform == "win32" or os.environ.get("TERM", "dumb") not in ("", "dumb")


@contextmanager
def interrupts_noted() -> Iterator[list[int]]:
    """Within, Ctrl-C raises nothing, but is noted: the line editor must not stop half made."""
    noted: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: noted.append(number))
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)


def in_foreground() -> bool:
    """Whether this process may set up its terminal: one in the background would be stopped."""
    try:
        return os.getpgrp() == os.tcgetpgrp(sys.stdin.fileno())
    except (AttributeError, OSError):  # Windows, or the terminal is somebody else's
        return False


def keep_keys() -> Callable[[], None]:
    """Keys that nobody reads yet are neither shown nor lost, and Ctrl-C interrupts.

    What is typed while a query runs is then there at the next prompt, and not among the answers.
    Gives what puts the terminal back; that happens at Python's end if nobody does it.
    """
    try:
        import termios
    except ImportError:  # Windows
        return lambda: None
    there = sys.stdin.fileno()
    before = termios.tcgetattr(there)
    now = termios.tcgetattr(there)
    now[3] &= ~(termios.ECHO | termios.ICANON)

    def put_back() -> None:
        atexit.unregister(put_back)
        _kept.remove(put_back)
        termios.tcsetattr(there, termios.TCSANOW, before)

    atexit.register(put_back)
    _kept.append(put_back)
    termios.tcsetattr(there, termios.TCSANOW, now)
    return put_back


def give_back() -> None:
    """Puts the terminal back at once, for an end that Python is not told of."""
    while _kept:
        _kept[-1]()


# Ctrl-C, as the prompt and the command line take it: a call is stopped where it looks for that.
#
# Python raises KeyboardInterrupt wherever it is at that moment, and drops it where that is a
# callback of its collector. So the signal only says that the call is to stop. A call that does not
# look for that in time is stopped as Python does it.

IN_TIME = 0.2  # seconds


@contextmanager
def heeding(watch: Watch) -> Iterator[None]:
    """Within, Ctrl-C stops what is watched."""
    if current_thread() is not main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def asked(*_: Any) -> None:
        if not watch.working:
            raise KeyboardInterrupt
        watch.by_key = True
        watch.stop.set()
        signal.setitimer(signal.ITIMER_REAL, IN_TIME)

    def late(*_: Any) -> None:
        if watch.stop.is_set():
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, late)
    own = signal.signal(signal.SIGINT, asked)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGINT, own)
        signal.signal(signal.SIGALRM, before)
