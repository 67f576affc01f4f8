"""A thread pool, threads that can be cancelled anywhere, and imports that cannot be interrupted.

A half-imported C library cannot be imported again: every later call would fail. So Ctrl-C and
cancellation wait until an import of another package is done.

Python swallows exceptions in callbacks, such as those of weak references: it prints "Exception
ignored in ..." and continues. This module raises a swallowed Ctrl-C or cancellation again after the
callback.
"""

from __future__ import annotations

import _imp
import gc
import os
import sys
from _thread import interrupt_main
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from ctypes import c_ulong, py_object, pythonapi
from functools import partial
from importlib import import_module
from importlib.machinery import ModuleSpec
from queue import SimpleQueue
from threading import Event, Lock, RLock, Thread, Timer, current_thread, local, main_thread
from time import sleep
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sys import UnraisableHookArgs as Lost

MOMENT = 0.005  # seconds
GIVES_WAY = 10  # how much lower the priority of the pool's threads is
_UNCOLLECTED = RLock()  # held to change the next two
_uncollected = 0  # contexts that have disabled garbage collection
_collects = True  # whether the first of them found it enabled


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


# Imports, and interrupts within them.


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
            Timer(MOMENT, thread.end).start()
        elif lost.exc_type is KeyboardInterrupt and thread is main_thread() and _here.within:
            Timer(MOMENT, interrupt_main).start()
        else:
            otherwise(lost)

    setattr(swallowed, _MARK, True)
    return swallowed


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
