"""Imports that interrupts do not break, and interrupts that are not lost.

A half-imported C library cannot be imported again: every later call would fail. While gdatalog
imports other packages, Ctrl-C waits until the import is done; so does the end of a thread that
works aside.

Python swallows exceptions in callbacks, such as those of weak references: it prints "Exception
ignored in ..." and continues. If that was Ctrl-C or the end of a thread that works aside, nothing
is printed, and it is raised again after the callback.
"""

from __future__ import annotations

import gc
import sys
from _thread import interrupt_main
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.machinery import ModuleSpec
from threading import current_thread, local, main_thread
from types import ModuleType
from typing import Any

from gdatalog.threads import Abandoned, CancellableThread, release_import_lock, soon

_ours = frozenset({"gdatalog", "__main__"})


class _ThreadState(local):
    """State of a thread."""

    within = 0  # calls of gdatalog, one within another
    importing = False  # whether an import is under way that nothing breaks off


_here = _ThreadState()


@contextmanager
def whole_imports() -> Iterator[None]:
    """Within this context, Ctrl-C does not interrupt this thread's imports."""
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    if not getattr(sys.unraisablehook, _MARK, False):
        sys.unraisablehook = _raising_again(sys.unraisablehook)
    _here.within += 1
    try:
        yield
    except BaseException:  # a handler of a signal may raise what it likes
        release_import_lock()
        raise
    finally:
        _here.within -= 1


@contextmanager
def uncollected() -> Iterator[None]:
    """Within this context no garbage is collected: what imports make stays, and to look at it
    takes a tenth of their time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@contextmanager
def undisturbed(done: Callable[[], bool]) -> Iterator[None]:
    """Within this context, neither Ctrl-C nor the end of this thread is raised; they are raised
    once it is `done`: an import would treat them as its own failure."""
    thread = current_thread()
    if isinstance(thread, CancellableThread):
        with thread.held(done):
            yield
        return
    if thread is not main_thread():
        yield
        return
    import signal

    came: list[signal.Signals] = []

    def note(number: int, _: Any) -> None:
        came.append(signal.Signals(number))

    before: dict[signal.Signals, Any] = {}
    # The shell's own handlers raise when a timer goes off.
    for number in (signal.SIGINT, getattr(signal, "SIGALRM", signal.SIGINT)):
        if callable(signal.getsignal(number)):
            before.setdefault(number, signal.getsignal(number))
            signal.signal(number, note)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for late in dict.fromkeys(came):
            soon(partial(interrupt_main, late), done)


_MARK = "raises_again"


def _raising_again(otherwise: Callable[[Any], object]) -> Callable[[Any], None]:
    """A hook for exceptions that Python swallows; `otherwise`: the hook for all other ones."""

    def swallowed(lost: Any) -> None:
        thread = current_thread()
        if lost.exc_type in (Abandoned, KeyboardInterrupt):  # perhaps of a callback of an import
            release_import_lock()
        if lost.exc_type is Abandoned and isinstance(thread, CancellableThread):
            soon(thread.end, _a_moment())
        elif lost.exc_type is KeyboardInterrupt and thread is main_thread() and _here.within:
            soon(interrupt_main, _a_moment())
        else:
            otherwise(lost)

    setattr(swallowed, _MARK, True)
    return swallowed


def _a_moment() -> Callable[[], bool]:
    """Returns True from the second call on."""
    waits = iter((False,))
    return lambda: next(waits, True)


class _Finder:
    """Finds nothing itself, but makes found modules load without interruption."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        top = name.partition(".")[0]
        if not _here.within or _here.importing or top in sys.stdlib_module_names or top in _ours:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec: ModuleSpec | None = find(name, path, target)
            if spec is not None:
                _load_whole(spec.loader)
                return spec
        return None


def _load_whole(loader: Any) -> None:
    """Makes a loader, which is of one module, execute it undisturbed."""
    execute = getattr(loader, "exec_module", None)
    if execute is None or not hasattr(loader, "__dict__"):
        return

    def exec_module(module: ModuleType) -> None:
        vars(loader).pop("exec_module", None)
        with undisturbed(lambda: not getattr(module.__spec__, "_initializing", False)):
            _here.importing = True
            try:
                with uncollected():
                    execute(module)
            finally:
                _here.importing = False

    loader.exec_module = exec_module


_finder: Any = _Finder()
