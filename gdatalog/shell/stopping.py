"""Ctrl-C, as the prompt and the command line take it: a call is stopped where it looks for that.

Python raises KeyboardInterrupt wherever it is at that moment, and drops it where that is a callback
of its collector. So the signal only says that the call is to stop. A call that does not look for
that in time is stopped as Python does it.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import Any

from gdatalog.cancellation import Watch

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
