"""What is said to the user beside answers: on stderr, after what stands on stdout so far."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import traceback
from typing import TYPE_CHECKING

from gdatalog import __version__
from gdatalog.errors import Error
from gdatalog.widths import visible_lines

if TYPE_CHECKING:
    from gdatalog.storage.relation import Relation

RED, YELLOW, CALM = "31", "33", "36"
_KINDS = "|".join(sorted({"error", "internal error", *(k.kind for k in Error.__subclasses__())}))
# What stands in colour: the kind of an error with its place left plain, carets, hints.
_PAINTED = (
    (re.compile(rf"^((?:.+:\d+:\d+: )?)((?:{_KINDS}):)", re.M), f"1;{RED}"),
    (re.compile(r"^((?:.+:\d+:\d+: )?)(warning:)", re.M), f"1;{YELLOW}"),
    (re.compile(r"^( *\|\s*)(\^+)", re.M), f"1;{RED}"),
    (re.compile(r"^( *)(hint: .*)", re.M), CALM),
)

PROMPT = "gdatalog> "
GOES_ON = "     ...> "


def took(seconds: float, whom: str) -> str:
    """How long something took, and what did it, if that is worth a word."""
    return f"{seconds:.3f} s" if whom == "cpu" else f"{seconds:.3f} s, {whom}"


def say(text: str) -> None:
    """Says a text of some lines, without the control characters that names may bring along."""
    text = visible_lines(text)
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
    with contextlib.suppress(OSError):
        print(painted(text) if _has_colours() else text, file=sys.stderr, flush=True)


def _has_colours() -> bool:
    """Whether stderr is a terminal that shows colours to somebody who wants them."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return not plain and sys.stderr.isatty()


def painted(text: str) -> str:
    """What is said, with the colours of a terminal."""
    for what, colour in _PAINTED:
        text = what.sub(rf"\1\033[{colour}m\2\033[0m", text)
    return text


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


def size_of(relation: Relation) -> str:
    """How many tuples a relation has; where workers would have to compare all, at most how many."""
    if relation.counted:
        return tuples(relation.length)
    return f"at most {tuples(relation.at_most)}, on the workers"


def short_size_of(relation: Relation) -> str:
    """The same, as a number."""
    return f"{relation.length:,}" if relation.counted else f"≤ {relation.at_most:,}"


def banner(device: str = "") -> str:
    """What the prompt says first."""
    where = f" on {device}" if device else ""
    return (
        f"gdatalog {__version__}{where}. A statement ends with a dot. .help helps, Ctrl-D leaves."
    )
