"""Interrupts that fall into an import: it is done all the same, and what comes later works."""

from __future__ import annotations

import _imp
import gc
import importlib
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from gdatalog import cancellation, importing
from gdatalog.cancellation import Watch
from gdatalog.importing import uncollected, whole_imports
from gdatalog.threads import Abandoned, CancellableThread

NAME = "a_library_for_a_test"
IN_THE_MIDDLE = """
import {name}.part
began = True
import signal
signal.raise_signal(signal.SIGINT)
for _ in range(1000):
    pass
done = True
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package outside of gdatalog, which is interrupted in the middle of its import."""
    folder = tmp_path / NAME
    folder.mkdir()
    (folder / "__init__.py").write_text(IN_THE_MIDDLE.format(name=NAME))
    (folder / "part.py").write_text("there = True")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in [name for name in sys.modules if name.startswith(NAME)]:
        del sys.modules[name]


def forever() -> None:
    while True:
        pass


@pytest.mark.usefixtures("library")
def test_ctrl_c_waits_for_the_end_of_an_import() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), Watch().call():
        module = importlib.import_module(NAME)
        assert module.done and module.part.there
        forever()  # until what was held back comes
    assert signal.getsignal(signal.SIGINT) is before
    assert sys.modules[NAME].done


@pytest.mark.usefixtures("library")
def test_outside_of_calls_nothing_is_changed() -> None:
    with whole_imports():
        pass
    with pytest.raises(KeyboardInterrupt):
        importlib.import_module(NAME)
    assert NAME not in sys.modules


# A program that is interrupted while a module is imported, in the middle of what it converts first.
CONVERTING = """
import signal, sys

import gdatalog as gd

r = gd.query("n(1, 'a'). n(2, 'b'). ?- n(x, t).".replace("'", '"'))


class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {within!r}:
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)
            for _ in range(1000):
                pass


assert {within!r} not in sys.modules
sys.meta_path.insert(0, Interrupting())
try:
    {call}
    for _ in range(10_000_000):
        pass
    print("not interrupted")
except KeyboardInterrupt:
    pass
assert not any(isinstance(finder, Interrupting) for finder in sys.meta_path)
{call}
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


@pytest.mark.parametrize(
    ("call", "within"),
    [
        ("r.df()", "pandas._libs.tslibs"),
        ("r.df()", "pyarrow.ipc"),
        ("r.to_arrow()", "pyarrow.ipc"),
        ("r.__arrow_c_stream__()", "pyarrow.ipc"),
    ],
)
def test_ctrl_c_in_the_first_conversion_of_a_result(call: str, within: str) -> None:
    """No call of a database runs meanwhile, and the import is done all the same."""
    text = CONVERTING.format(call=call, within=within)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("True\n", "")


@pytest.mark.usefixtures("library")
def test_ctrl_c_just_behind_an_import_leaves_it_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes once handlers are restored, and before Python has noted that the import is done."""
    folder = Path(sys.path[0]) / NAME
    (folder / "__init__.py").write_text("done = True")
    whole = importing.undisturbed

    @contextmanager
    def late(done: Callable[[], bool]) -> Iterator[None]:
        with whole(done):
            yield
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(importing, "undisturbed", late)
    with pytest.raises(KeyboardInterrupt), whole_imports():
        first = importlib.import_module(NAME)
        forever()
    assert sys.modules[NAME] is first


def test_a_thread_that_is_ended_finishes_its_import(library: Path) -> None:
    (library / "__init__.py").write_text(
        f"import threading\nthreading.current_thread().imports.set()\n"
        f"threading.current_thread().go_on.wait(30)\nimport {NAME}.part\ndone = True\n"
    )
    hand = CancellableThread(lambda: watching_import(hand))
    hand.imports, hand.go_on = threading.Event(), threading.Event()  # type: ignore[attr-defined]
    hand.start()
    assert hand.imports.wait(30)  # type: ignore[attr-defined]
    hand.end()
    hand.go_on.set()  # type: ignore[attr-defined]
    assert hand.wait(30)
    assert sys.modules[NAME].done and hand.ended  # type: ignore[attr-defined]


def watching_import(hand: CancellableThread) -> None:
    hand.ended = False  # type: ignore[attr-defined]
    try:
        with whole_imports():
            importlib.import_module(NAME)
        forever()
    except Abandoned:
        hand.ended = True  # type: ignore[attr-defined]
        raise


def test_a_thread_is_ended_wherever_it_is() -> None:
    watch, there = Watch(), threading.Event()
    ended: list[str] = []

    def work() -> None:
        try:
            there.set()
            forever()
        except Abandoned:
            ended.append(threading.current_thread().name)
            raise

    def stop() -> None:
        there.wait(30)
        watch.stop.set()

    stopping = threading.Thread(target=stop)
    stopping.start()
    with pytest.raises(cancellation.Interrupted), watch.call():
        watch.aside(work, ended=True)
    stopping.join(30)
    for thread in threading.enumerate():
        if isinstance(thread, CancellableThread):
            assert thread.wait(30)
    assert len(ended) == 1


def test_a_thread_that_has_ended_is_not_ended_once_more() -> None:
    hand = CancellableThread(lambda: None)
    hand.start()
    assert hand.wait(30)
    hand.end()
    hand.join(30)
    assert not hand.is_alive()


# ------------------------------------------------------------------- within callbacks of Python


class _Referred:
    pass


def in_a_callback(call: Callable[[], object]) -> None:
    """Has Python call back, and swallow what that raises."""
    referred = _Referred()

    def called(_: object) -> None:
        call()
        for _ in range(1000):
            pass

    kept = weakref.ref(referred, called)
    del referred
    assert kept() is None


def test_ctrl_c_in_a_callback_is_raised_behind_it(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), Watch().call():
        in_a_callback(lambda: signal.raise_signal(signal.SIGINT))
        forever()
    assert "ignored" not in capfd.readouterr().err


def test_the_end_of_a_thread_in_a_callback_is_raised_behind_it(
    capfd: pytest.CaptureFixture[str],
) -> None:
    hands: list[CancellableThread] = []
    swallowed: list[bool] = []

    def work() -> None:
        with whole_imports():
            in_a_callback(hands[0].end)
            swallowed.append(True)
            forever()

    hands.append(CancellableThread(work))
    hands[0].start()
    assert hands[0].wait(30) and swallowed
    assert "ignored" not in capfd.readouterr().err


def test_other_errors_in_callbacks_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[type] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda about: told.append(about.exc_type))

    def fail() -> None:
        raise ValueError

    with whole_imports():
        in_a_callback(fail)
    with whole_imports():
        in_a_callback(fail)
    assert told == [ValueError, ValueError]


def acquired_by_another() -> bool:
    """Whether another thread can have Python's import lock."""
    had: list[bool] = []

    def take() -> None:
        _imp.acquire_lock()
        _imp.release_lock()
        had.append(True)

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    thread.join(10)
    return bool(had)


def test_an_interrupt_in_an_import_leaves_imports_to_other_threads() -> None:
    """It may come when the lock has been taken, and before the `try` that releases it."""
    with pytest.raises(KeyboardInterrupt), whole_imports():
        _imp.acquire_lock()
        raise KeyboardInterrupt
    assert acquired_by_another()


def test_the_end_of_a_thread_in_an_import_leaves_imports_to_others() -> None:
    def work() -> None:
        _imp.acquire_lock()
        raise Abandoned

    hand = CancellableThread(work)
    hand.start()
    assert hand.wait(10)
    assert acquired_by_another()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("error", [ZeroDivisionError, Abandoned])
def test_what_a_callback_swallows(error: type[BaseException]) -> None:
    """Within an import, a callback's own failure leaves the lock to it; the end of a thread that
    fell into the callback may have left it taken, so it is released."""
    held: list[bool] = []

    def work() -> None:
        with whole_imports():
            _imp.acquire_lock()
            sys.unraisablehook(SimpleNamespace(exc_type=error, exc_value=error()))  # type: ignore[arg-type]
            held.append(_imp.lock_held())
            if held[0]:
                _imp.release_lock()

    thread = threading.Thread(target=work)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "unraisablehook", lambda told: None)
        thread.start()
        thread.join()
    assert held == [error is ZeroDivisionError] and acquired_by_another()


def test_collections_wait_for_imports_only() -> None:
    with uncollected():
        assert not gc.isenabled()
        with uncollected():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_collections_go_on_after_the_last_of_two_threads() -> None:
    first, second = uncollected(), uncollected()
    with first:
        second.__enter__()
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()
