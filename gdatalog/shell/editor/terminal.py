"""The terminal: its abilities, keys typed while a query runs, and Ctrl-C."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gdatalog.cancellation import Watch

_kept: list[Callable[[], None]] = []  # functions that restore the terminal


def can_edit() -> bool:
    """Whether the terminal supports a line editor: not in a pipe, nor on a dumb terminal."""
    if not sys.stdin.isatty() or not (sys.stdout.isatty() or sys.stderr.isatty()):
        return False
    return sys.platform == "win32" or os.environ.get("TERM", "dumb") not in ("", "dumb")


@contextmanager
def interrupts_noted() -> Iterator[list[int]]:
    """A context in which Ctrl-C is recorded instead of raised, so that the line editor is never
    left half-initialised."""
    noted: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: noted.append(number))
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)


def in_foreground() -> bool:
    """Whether this process may change the terminal's settings; in the background it would be
    stopped."""
    try:
        return os.getpgrp() == os.tcgetpgrp(sys.stdin.fileno())
    except (AttributeError, OSError):  # Windows, or another process's terminal
        return False


def keep_keys() -> Callable[[], None]:
    """Keeps keys that are typed while a query runs, unechoed, for the next prompt; Ctrl-C still
    works.

    Returns a function that restores the terminal; it also runs at Python's exit.
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
    """Restores the terminal, before an exit that skips Python's exit handlers."""
    while _kept:
        _kept[-1]()


# Ctrl-C at the prompt and the command line cancels a call at its next check.
#
# Python raises KeyboardInterrupt at any instruction, and drops it inside callbacks of the garbage
# collector. So the signal only requests cancellation. A call that does not check in time gets
# Python's KeyboardInterrupt.

#
# SIGTERM and the loss of the terminal cancel it, too, so that nothing is left half written; then
# the process ends.

IN_TIME = 0.2  # seconds
SIGNALLED = 128  # exit codes above it are of signals


@contextmanager
def heeding(watch: Watch) -> Iterator[None]:
    """A context in which Ctrl-C cancels the watched calls. SIGTERM does so and raises `SystemExit`
    at its end."""
    if current_thread() is not main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def asked(*_: object) -> None:
        if not watch.calls:
            raise KeyboardInterrupt
        watch.by_key = True
        watch.stop.set()
        signal.setitimer(signal.ITIMER_REAL, IN_TIME)

    def late(*_: object) -> None:
        if watch.stop.is_set():
            raise KeyboardInterrupt

    ended: list[int] = []

    def ending(number: int, _: object) -> None:
        ended.append(number)
        asked()

    handlers: dict[signal.Signals, Callable[..., None]] = {
        signal.SIGALRM: late,
        signal.SIGINT: asked,
    }
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:  # nohup ignores it
            handlers[number] = ending
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
        if ended:
            raise SystemExit(SIGNALLED + ended[0])
