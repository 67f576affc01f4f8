"""The messages of the command line and the prompt, on stderr."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import traceback
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from gdatalog.distribution import VERSION
from gdatalog.errors import Error
from gdatalog.progress import amount
from gdatalog.terminal_text import brief, visible, visible_lines, width

if TYPE_CHECKING:
    from gdatalog.storage.relation import Relation

RED, YELLOW, CALM = "31", "33", "36"
_KINDS = "|".join(sorted({"error", "internal error", *(k.kind for k in Error.__subclasses__())}))
# Coloured are the kind of an error, but not its place, and carets and hints.
_PAINTED = (
    (re.compile(rf"^((?:.+:\d+:\d+: )?)((?:{_KINDS}):)", re.M), f"1;{RED}"),
    (re.compile(r"^((?:.+:\d+:\d+: )?)(warning:)", re.M), f"1;{YELLOW}"),
    (re.compile(r"^( *\|\s*)(\^+)", re.M), f"1;{RED}"),
    (re.compile(r"^( *)(hint: .*)", re.M), CALM),
)

PROMPT = "gdatalog> "
GOES_ON = "     ...> "


def took(seconds: float, whom: str) -> str:
    """Formats a duration, with the device unless that is the CPU."""
    return f"{seconds:.3f} s" if whom == "cpu" else f"{seconds:.3f} s, {whom}"


def say(text: str) -> None:
    """Prints text on stderr, with control characters escaped and long names cut, and colours on a
    terminal that has them, unless the user disabled them."""
    text = visible_lines(brief(text))
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
    with contextlib.suppress(OSError):
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        if not plain and sys.stderr.isatty():
            for what, colour in _PAINTED:
                text = what.sub(rf"\1\033[{colour}m\2\033[0m", text)
        print(text, file=sys.stderr, flush=True)


def say_error(error: BaseException) -> None:
    """Prints a user's error with its place and hint."""
    if isinstance(error, Error):
        say(str(error))
    else:
        say(f"error: {error or type(error).__name__}")


def say_unexpected(error: BaseException) -> None:
    """Prints an internal error, and asks to report it."""
    what = " ".join(f"{type(error).__name__}: {error}".split())
    say(
        f"internal error: {what} -- please report this with what you ran "
        "(GDATALOG_DEBUG=1 shows where it happened)"
    )
    if os.environ.get("GDATALOG_DEBUG"):
        say("".join(traceback.format_exception(error)).rstrip())


def size_of(relation: Relation) -> str:
    """The size of a relation; an upper bound where workers have not removed duplicates yet."""
    if relation.counted:
        return amount(relation.length, "tuples")
    return f"at most {amount(relation.at_most, 'tuples')}, on the workers"


def aligned(rows: Iterable[Sequence[str]], right: Collection[int] = ()) -> str:
    """Lines of columns; those at the positions `right` are aligned right."""
    shown = [list(map(visible, row)) for row in rows]
    widths = [max(map(width, column)) for column in zip(*shown, strict=True)]
    lines = []
    for row in shown:
        pads = [" " * (size - width(cell)) for cell, size in zip(row, widths, strict=True)]
        cells = [
            pad + cell if at in right else cell + pad
            for at, (cell, pad) in enumerate(zip(row, pads, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def banner(device: str = "") -> str:
    """The first line of the prompt."""
    where = f" on {device}" if device else ""
    return f"gdatalog {VERSION}{where}. A statement ends with a dot. .help helps, Ctrl-D leaves."
