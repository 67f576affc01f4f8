"""What magics show besides answers: errors, warnings, the list of relations, progress."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from threading import Event, Thread
from typing import Any

from gdatalog.cancellation import Watch, interrupt_message
from gdatalog.database import Database
from gdatalog.errors import Error
from gdatalog.present import html_table
from gdatalog.progress import duration
from gdatalog.records import dataclass
from gdatalog.relations import catalog
from gdatalog.shell.messages import ProgressLine, aligned, say
from gdatalog.shell.statements import known_size
from gdatalog.values import visible_html, visible_lines


@contextmanager
def short_errors() -> Iterator[None]:
    """Errors pass, and are shown as our text alone; `%tb` shows where they came from."""
    try:
        yield
    except Error as error:
        _show_once(error, str(error))
        raise
    except KeyboardInterrupt as stopped:
        _show_once(stopped, interrupt_message(stopped))
        raise


def _show_once(error: BaseException, text: str) -> None:
    """IPython asks an exception how it is shown. It is asked once when the cell fails, and again
    by `%tb`, which is answered with the traceback."""

    def render() -> list[str]:
        del error._render_traceback_  # type: ignore[attr-defined]  # IPython asks for it
        return visible_lines(text).splitlines()

    error._render_traceback_ = render  # type: ignore[attr-defined]  # IPython asks for it


@contextmanager
def warnings_on_stderr(db: Database) -> Iterator[None]:
    """What is worth a warning is a text on stderr, not a Python warning about our own code."""
    with db.workspace.warnings_to(lambda caution: say(caution.format())):
        yield


# The relations of a database as a table: what `%datalog_relations` shows.

INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class Listing:
    """Of each relation its name, its columns, how many rows it has as far as that is known, and
    its origin; of one that is invalid why that is."""

    lines: tuple[tuple[str, str, str, str], ...]

    def __repr__(self) -> str:
        if not self.lines:
            return (
                "no relations yet: %datalog_load E edges.csv, or a cell that begins with %%datalog"
            )
        return aligned(
            (name if rows == INVALID else f"{name}({columns})", rows, origin)
            for name, columns, rows, origin in self.lines
        )

    def _repr_html_(self) -> str:
        if not self.lines:
            return f"<p>{visible_html(repr(self))}</p>"
        names, kinds = (
            ("relation", "columns", "rows", "from"),
            ("symbol", "symbol", "int", "symbol"),
        )
        return html_table(names, kinds, self.lines, types=False)


def list_relations(db: Database) -> Listing:
    """All relations, with their sizes as far as they are known; nothing is evaluated."""
    with db.call():
        return Listing(
            tuple(
                (entry.name, entry.columns, known_size(entry), entry.origin)
                for entry in catalog(db.workspace)
            )
        )


# A progress bar in the output of a cell, which goes away when the work is done.
#
# It shows what the database of the magics does, whether a magic asks or Python.

AFTER = 0.5  # seconds: what is quicker needs no bar
EVERY = 0.2

# What is shown: kinds of content by their MIME types.
Bundle = dict[str, str]
NOTHING: Bundle = {"text/plain": "", "text/html": ""}


class ProgressBar:
    """While it is on, the bar is there whenever a call of a database has taken a while.

    It has a thread of its own, which looks at the watch of the database: what takes longest tells
    nothing by itself meanwhile. `show` is called with what to show, and whether that replaces
    what was shown.
    """

    def __init__(
        self,
        show: Callable[[Bundle, bool], None],
        watch: Callable[[], Watch | None],
        after: float = AFTER,
    ) -> None:
        self.show = show
        self.watch = watch
        self.after = after
        self._ended = Event()
        # In the context of the cell, so that what the thread shows lands in the cell's output.
        context = copy_context()
        self._thread = Thread(target=lambda: context.run(self._run), daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        placed = shown = False
        while not self._ended.wait(EVERY):
            watch = self.watch()
            seconds = None if watch is None else watch.seconds
            if watch is not None and seconds is not None and seconds >= self.after:
                self.show(bundle(watch, seconds), placed)
                placed = shown = True
            elif shown:
                self.show(NOTHING, True)
                shown = False
        if shown:
            self.show(NOTHING, True)


def bundle(watch: Watch, seconds: float) -> Bundle:
    """The bar as it is now. Where the end is unknown it has no value: then it only moves."""
    progress, parts = watch.status()
    title, share = ("running", None) if progress is None else (progress.title, progress.share)
    if progress is None or progress.left is None:
        parts.append(duration(seconds))
    text = f"{title}: {', '.join(parts)}"
    value = "" if share is None else f' value="{share:.3f}"'
    html = (
        '<div style="display:flex;align-items:center;gap:0.8em">'
        f'<progress max="1"{value} style="width:14em"></progress>'
        f"<span>{visible_html(text)}</span></div>"
    )
    return {"text/plain": text, "text/html": html}


def bar_of(shell: Any, watch: Callable[[], Watch | None]) -> ProgressBar | None:
    """A bar for the cell that runs, where cells have outputs of their own."""
    if getattr(shell, "kernel", None) is None:
        return None
    return ProgressBar(_displayer(), watch)


def line_of(shell: Any, watch: Watch) -> AbstractContextManager[None]:
    """What shows progress within, where cells have none: a line on stderr."""
    if getattr(shell, "kernel", None) is not None:
        return nullcontext()
    return ProgressLine(sys.stderr, watch, AFTER)


def _displayer() -> Callable[[Bundle, bool], None]:
    """Shows in the cell's output, always in the same place."""
    from uuid import uuid4

    from IPython.display import display

    place = uuid4().hex

    def show(bundle: Bundle, again: bool) -> None:
        display(bundle, raw=True, display_id=place, update=again)

    return show
