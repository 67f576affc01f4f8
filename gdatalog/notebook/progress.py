"""A progress bar in the output of a cell, which goes away when the work is done.

It shows what the database of the magics does, whether a magic asks or Python.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from threading import Event, Thread
from typing import Any

from gdatalog.cancellation import Watch
from gdatalog.progress import duration
from gdatalog.shell.progress import ProgressLine
from gdatalog.widths import visible_html

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
