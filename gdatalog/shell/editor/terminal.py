"""The terminal that somebody types at: what it can do, and its keys while a query runs."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
