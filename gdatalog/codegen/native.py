"""Compiles functions of the loop language to machine code that Python can call.

A module is compiled on first use, in a few hundredths of a second, or read from the cache. The
cache key has everything that the code depends on: the source without comments, the helpers, the
versions of gdatalog and LLVM, and the processor.
"""

from __future__ import annotations

import atexit
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from math import inf
from queue import PriorityQueue
from threading import Event, Lock, RLock, Thread
from typing import TYPE_CHECKING, Any

from gdatalog.codegen import cache as code_cache
from gdatalog.codegen.loop_language import CompileError, LoopError
from gdatalog.codegen.native_calls import Native
from gdatalog.overhead import spending

if TYPE_CHECKING:
    from gdatalog.codegen.function_trees import Function
    from gdatalog.codegen.machine import Tier


_lock = RLock()  # held while a function is compiled
_counts = Lock()  # held briefly: for `_rows`, and to start the compiling thread
_native: dict[str, Native] = {}
# By function of the light tier: its calls, and the rows that they have processed.
_rows: dict[str, tuple[int, float]] = {}
# Rows that are worth the tier `full`: at once, which takes some 20 ms more, and in the background.
# A function that was called often will be called often: later calls count up to four times.
MUCH, OFTEN = 8_000_000.0, 3_000_000.0
COUNTED = 4


def load(name: str, source: str, rows: float = 0.0) -> Native:
    """The function of a printed text, which is about to process `rows` rows.

    The name is from `named`. The tier `light` comes first. A function with much work is compiled in
    the tier `full`: at once, or, if it is called often, in the background, for later calls.
    """
    found = _native.get(name)
    if found is None:
        found = _loaded(name, lambda: _printed(source), _tier_for(rows))
    if found.tier == "light":
        with _counts:
            calls, before = _rows.get(name, (0, 0.0))
            total = before + rows * min(calls + 1, COUNTED)
            _rows[name] = calls + 1, total
        if total >= OFTEN > before:
            _put(name, source, "full", 0.0)
    return found


def _tier_for(rows: float) -> Tier:
    return "full" if rows >= MUCH else "light"


def loaded(name: str) -> bool:
    """Whether a function is in memory."""
    return name in _native


def load_soon(name: str, source: str, rows: float) -> Native | None:
    """The function, if it is in memory. Otherwise None, until the compiling thread has read or
    compiled it. That thread takes the function with the most `rows` first."""
    found = _native.get(name)
    if found is None and name not in _asked:
        _asked.add(name)
        _put(name, source, _tier_for(rows), rows)
    return found


def _printed(source: str) -> tuple[Function, Sequence[str]]:
    from gdatalog.codegen.function_trees import printed

    found, types = printed(source)
    return found, tuple(types.values())


def of(helper: Callable[..., object], *given: str) -> Native:
    """A helper for arguments of these types, as a function that Python can call."""
    from gdatalog.codegen.function_trees import helper as parsed
    from gdatalog.codegen.function_trees import home

    name = ".".join(("entry", home(helper.__module__), helper.__name__, *given))
    found = _native.get(name)
    if found is not None:
        return found

    def function() -> tuple[Function, Sequence[str]]:
        return parsed(helper), given

    return _loaded(name, function, "full")


def _loaded(
    name: str, function: Callable[[], tuple[Function, Sequence[str]]], tier: Tier
) -> Native:
    with spending("compiling"), _lock:
        found = _native.get(name)
        if found is None:
            found = _kept(name)
        if found is None:
            with _explained(name):
                found = _compiled(name, *function(), tier)
        _native[name] = found
        return found


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Raises any error as a `LoopError`, since queries can run without compiled code."""
    try:
        yield
    except LoopError:
        raise
    except Exception as problem:
        message = f"{name}: {type(problem).__name__}: {problem}"
        raise CompileError(message) from problem


def _compiled(name: str, found: Function, given: Sequence[str], tier: Tier) -> Native:
    from gdatalog.codegen import ir_modules, object_files
    from gdatalog.codegen.types import infer

    ir, parts = ir_modules.module_of(found, given)
    code = object_files.object_file(name, ir, tier)
    addresses = object_files.parts(parts)
    result = infer(found, tuple(given)).result
    metadata = {"given": list(given), "result": result, "parts": list(parts), "tier": tier}
    code_cache.keep(object_files.file_name(name), json.dumps(metadata).encode() + b"\n" + code)
    return _linked(name, code, metadata, addresses)


def _kept(name: str) -> Native | None:
    """A function from the cache; None if any part of it is missing."""
    from gdatalog.codegen import object_files

    found = object_files.read(name)
    if found is None:
        return None
    with suppress(LoopError, KeyError):  # an undamaged file may have other contents
        return _linked(name, *found)
    return None


def _linked(
    name: str, code: bytes, metadata: Mapping[str, Any], addresses: Mapping[str, int]
) -> Native:
    from gdatalog.codegen import machine

    (address,), result = machine.linked(code, ["entry"], addresses), metadata["result"]
    result = tuple(result) if isinstance(result, list) else result
    return Native(name, machine.ENTRY(address), tuple(metadata["given"]), result, metadata["tier"])


# The tasks of the compiling thread: those with the most rows first, then in the order of requests.
_waiting: PriorityQueue[tuple[float, int, str, str, Tier]] = PriorityQueue()
_numbers = count()
_asked: set[str] = set()  # functions requested by `load_soon`
_worker: Thread | None = None
_busy = Lock()  # held while the compiling thread compiles
_ending = Event()


def _put(name: str, source: str, tier: Tier, rows: float) -> None:
    """Queues a function for the compiling thread. If no thread can start, the caller that needs the
    function compiles it."""
    global _worker
    _waiting.put((-rows, next(_numbers), name, source, tier))
    with _counts:
        if _worker is None:
            worker = Thread(target=_work, name="compiling", daemon=True)
            with suppress(RuntimeError):
                worker.start()
                _worker = worker
                atexit.register(_end)


def _work() -> None:
    waiting = _waiting
    while not _ending.is_set():
        _, _, name, source, tier = waiting.get()
        try:
            if _ending.is_set():
                return
            with _busy, suppress(LoopError), _explained(name):
                if name not in _native:
                    _loaded(name, partial(_printed, source), tier)
                elif _native[name].tier == "light" != tier:
                    _native[name] = _compiled(name, *_printed(source), tier)
        finally:
            waiting.task_done()


def _end() -> None:
    """Waits for a compilation, at most tenths of a second: LLVM must not be shut down before."""
    _ending.set()
    _waiting.put((-inf, 0, "", "", "light"))
    if _worker is not None:
        _worker.join()


_held: list[Lock | RLock] = []  # locks, by the thread that forks


def _before_fork() -> None:
    """Waits for compilations: the threads that hold these locks do not exist in a child."""
    for lock in (_busy, _lock):
        lock.acquire()
        _held.append(lock)


def _forked_here() -> None:
    while _held:
        _held.pop().release()


def _forked() -> None:
    """Resets a forked child, which has no other threads."""
    global _worker, _lock, _busy, _counts, _waiting
    _worker, _lock, _busy, _counts = None, RLock(), Lock(), Lock()
    _waiting = PriorityQueue()
    _asked.clear()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_forked_here, after_in_child=_forked)
