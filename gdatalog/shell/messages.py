"""What is said to the user beside answers: on stderr, after what stands on stdout so far."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback

from gdatalog import __version__
from gdatalog.errors import Error


def say(text: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def say_error(error: BaseException) -> None:
    """An error of the user's, with its place and hint."""
    if isinstance(error, Error):
        say(str(error))
    else:
        say(f"error: {error or type(error).__name__}")


def say_unexpected(error: BaseException) -> None:
    """An error of ours: a line that asks to report it."""
    what = " ".join(f"{type(error).__name__}: {error}".split())
    say(
        f"internal error: {what} -- please report this with what you ran "
        "(GDATALOG_DEBUG=1 shows where it happened)"
    )
    if os.environ.get("GDATALOG_DEBUG"):
        say("".join(traceback.format_exception(error)).rstrip())


def tuples(count: int) -> str:
    return "1 tuple" if count == 1 else f"{count:,} tuples"


def banner(device: str = "") -> str:
    """What the prompt says first."""
    where = f" on {device}" if device else ""
    return (
        f"gdatalog {__version__}{where}. A statement ends with a dot. .help helps, Ctrl-D leaves."
    )
