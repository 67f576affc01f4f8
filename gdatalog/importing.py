"""Imports that cannot be interrupted.

A half-imported C library cannot be imported again: every later call would fail. So Ctrl-C and
cancellation wait until an import of another package is done.

Python swallows exceptions in callbacks, such as those of weak references: it prints "Exception
ignored in ..." and continues. This module raises a swallowed Ctrl-C or cancellation again after the
callback.
"""

from __future__ import annotations

import gc
import sys
from _thread import interrupt_main, start_new_thread
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from importlib.machinery import ModuleSpec
from threading import RLock, current_thread, local, main_thread
from time import sleep
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any

from gdatalog.threads import MOMENT, Abandoned, CancellableThread, release_import_lock, soon

if TYPE_CHECKING:
    from sys import UnraisableHookArgs as Lost


_UNCOLLECTED = RLock()  # held to change the next two
_uncollected = 0  # contexts that have disabled garbage collection
_collects = True  # whether the first of them found it enabled


_ours = frozenset({"gdatalog", "__main__"})

_unfinished: list[bool] = []  # not empty: an import may have been interrupted


def _import_packages() -> None:
    """Imports the packages that an interrupted import has left out while it imported some of their
    modules: these would be imported in another order than the package's."""
    for name in sorted(sys.modules):
        package = name.rpartition(".")[0]
        if name.startswith("gdatalog.") and package not in sys.modules:
            import_module(package)
    _unfinished.clear()


class _ThreadState(local):
    """State of a thread."""

    within = 0  # depth of nested calls of gdatalog
    importing = False  # whether an uninterruptible import runs


_here = _ThreadState()


class whole_imports:
    """Within this context, Ctrl-C does not interrupt this thread's imports."""

    __slots__ = ()

    def __enter__(self) -> None:
        if _finder not in sys.meta_path:
            sys.meta_path.insert(0, _finder)
        if not getattr(sys.unraisablehook, _MARK, False):
            sys.unraisablehook = _raising_again(sys.unraisablehook)
        _here.within += 1
        try:
            if _unfinished:
                _import_packages()
        except BaseException as error:
            self.__exit__(None, error, None)
            raise

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        _here.within -= 1
        if error is not None:  # signal handlers may raise anything
            release_import_lock()
            _unfinished.append(True)


@contextmanager
def uncollected() -> Iterator[None]:
    """Disables garbage collection within this context: imports and plans leave no garbage, and
    collecting would take a tenth of their time. The last of several threads enables it again."""
    global _uncollected, _collects
    entered = False
    try:
        with _UNCOLLECTED:
            if not _uncollected:
                _collects = gc.isenabled()
            _uncollected += 1
            entered = True
            gc.disable()
        yield
    finally:
        if entered:
            with _UNCOLLECTED:
                _uncollected -= 1
                if not _uncollected and _collects:
                    gc.enable()


@contextmanager
def undisturbed(done: Callable[[], bool]) -> Iterator[None]:
    """Delays Ctrl-C and cancellation of this thread within this context, until `done`: an import
    would treat them as its own failure."""
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

    def note(number: int, _: object) -> None:
        came.append(signal.Signals(number))

    before: dict[signal.Signals, Any] = {}
    try:
        # The shell also raises from the handlers of a timer and of its end.
        others = (getattr(signal, n, signal.SIGINT) for n in ("SIGALRM", "SIGTERM", "SIGHUP"))
        for number in (signal.SIGINT, *others):
            if callable(signal.getsignal(number)):
                before.setdefault(number, signal.getsignal(number))
                signal.signal(number, note)
        yield
    finally:
        for number, handler in reversed(before.items()):
            signal.signal(number, handler)
        for late in dict.fromkeys(came):
            soon(partial(interrupt_main, late), done)


_MARK = "raises_again"


def _raising_again(otherwise: Callable[[Lost], object]) -> Callable[[Lost], None]:
    """A hook for swallowed exceptions that raises cancellation and Ctrl-C again; `otherwise`: the
    hook for all others."""

    def swallowed(lost: Lost) -> None:
        thread = current_thread()
        if lost.exc_type in (Abandoned, KeyboardInterrupt):
            release_import_lock()  # it may have been in a callback during an import
        if lost.exc_type is Abandoned and isinstance(thread, CancellableThread):
            _later(thread.end)
        elif lost.exc_type is KeyboardInterrupt and thread is main_thread() and _here.within:
            _later(interrupt_main)
        else:
            otherwise(lost)

    setattr(swallowed, _MARK, True)
    return swallowed


def _later(call: Callable[[], object]) -> None:
    """Makes a call in a moment. Does not wait until a thread has begun: on a busy machine, what the
    call raises here would come before the callback has ended, and be swallowed again."""

    def made() -> None:
        sleep(MOMENT)
        call()

    start_new_thread(made, ())


class _Finder:
    """An import finder that delegates to the others, and makes modules load uninterrupted."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        top = name.partition(".")[0]
        if _here.importing or top in sys.stdlib_module_names or top in _ours:
            return None
        if not (_here.within or _asked_by_us()):
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


def _asked_by_us() -> bool:
    """Whether code of this package waits for the import that looks for a module. The answer to an
    import within another one was given with that one."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and _package_of(frame) == "importlib":
        frame = frame.f_back
    while frame is not None and _package_of(frame) != "importlib":
        if _package_of(frame) == "gdatalog" and frame.f_globals is not globals():
            return True
        frame = frame.f_back
    return False


def _package_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__")).partition(".")[0]


def _load_whole(loader: Any) -> None:
    """Makes a module's loader execute it uninterrupted."""
    execute = getattr(loader, "exec_module", None)
    if execute is None or not hasattr(loader, "__dict__"):
        return

    def exec_module(module: ModuleType) -> None:
        vars(loader).pop("exec_module", None)

        def done() -> bool:
            return not getattr(module.__spec__, "_initializing", False)

        complete = False
        try:
            with undisturbed(done):
                _here.importing = True
                try:
                    with uncollected():
                        execute(module)
                    complete = True
                finally:
                    _here.importing = False
        except KeyboardInterrupt:
            if not complete:
                raise
            soon(interrupt_main, done)  # it came just behind the import

    loader.exec_module = exec_module


_finder = _Finder()
