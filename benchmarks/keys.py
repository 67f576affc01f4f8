"""The prompt at a pseudo-terminal: when it is there, when the engine is, how long a key takes."""

from __future__ import annotations

import os
import select
import struct
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).resolve().parents[1]
WHERE = b"\x1b[6n"  # asks a terminal where its cursor stands
AT_MOST = 20.0  # seconds that anything is waited for


@dataclass(frozen=True, slots=True)
class Typed:
    """Seconds: from the start to the prompt, to the engine, and from each key to the screen."""

    prompt: float
    engine: float
    keys: tuple[float, ...]


def typed(text: str = "path(x, z) <- e(x, y), path(y, z)", options: Sequence[str] = ()) -> Typed:
    """Starts gdatalog, waits for it, and types a rule, key by key."""
    import fcntl
    import pty
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)}
    began = perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "gdatalog", *options], stdin=theirs, stdout=theirs, stderr=theirs,
        env=environment, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    try:
        seen = _read_to(ours, b"gdatalog>", b"")
        prompt = perf_counter() - began
        _read_to(ours, b" relations", seen)  # the bar
        engine = perf_counter() - began
        keys = []
        for key in text:
            began = perf_counter()
            os.write(ours, key.encode())
            _read_to(ours, b"", b"")
            keys.append(perf_counter() - began)
        return Typed(prompt, engine, tuple(keys))
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _read_to(end: int, wanted: bytes, seen: bytes) -> bytes:
    """Reads until this has come, or anything if nothing is wanted; gives all that came."""
    until = perf_counter() + AT_MOST
    while not seen or wanted not in seen:
        ready, _, _ = select.select([end], [], [], max(0.0, until - perf_counter()))
        if not ready:
            raise TimeoutError(f"{wanted!r} did not come after {seen!r}")
        more = os.read(end, 65536)
        if WHERE in more:
            os.write(end, b"\x1b[3;1R")
        seen += more
    return seen
