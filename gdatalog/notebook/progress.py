"""A progress bar in the output of a cell, which goes away when the work is done."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from html import escape
from threading import Event, Thread
from time import perf_counter
from types import TracebackType
from typing import Any

from gdatalog.database import Database
from gdatalog.progress import duration
from gdatalog.shell.progress import ProgressLine
from gdatalog.watching import Watch

AFTER = 0.5  # seconds: what is quicker needs no bar
EVERY = 0.2

# What is shown: kinds of content by their MIME types.
Bundle = dict[str, str]


class ProgressBar:
    """Used around a call of a database, whose `watch` tells how far it is.

    It has a thread of its own, for what takes longest tells nothing by itself meanwhile. `show`
    is called with what to show, and whether that replaces what was shown.
    """

    def __init__(
        self, show: Callable[[Bundle, bool], None], watch: Watch, after: float = AFTER
    ) -> None:
        self.show = show
        self.watch = watch
        self.after = after
        self._ended = Event()
        self._thread: Thread | None = None
        self._started = 0.0

    def __enter__(self) -> None:
        self._started = perf_counter()
        # In the context of the cell, so that what the thread shows lands in the cell's output.
        context = copy_context()
        self._thread = Thread(target=lambda: context.run(self._run), daemon=True)
        self._thread.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        if self._ended.wait(self.after):
            return
        self.show(self.bundle(), False)
        while not self._ended.wait(EVERY):
            self.show(self.bundle(), True)
        self.show({"text/plain": "", "text/html": ""}, True)

    def bundle(self) -> Bundle:
        """The bar as it is now. Where the end is unknown it has no value: then it only moves."""
        progress, told = self.watch.told()
        title, share = ("running", None) if progress is None else (progress.title, progress.share)
        if progress is None or progress.left is None:
            told.append(duration(perf_counter() - self._started))
        text = f"{title}: {', '.join(told)}"
        value = "" if share is None else f' value="{share:.3f}"'
        html = (
            '<div style="display:flex;align-items:center;gap:0.8em">'
            f'<progress max="1"{value} style="width:14em"></progress>'
            f"<span>{escape(text)}</span></div>"
        )
        return {"text/plain": text, "text/html": html}


@contextmanager
def progress_of(shell: Any, db: Database) -> Iterator[None]:
    """Shows progress as this shell can: a bar in a notebook, a line on a terminal."""
    watch = db._workspace.watch
    notebook = getattr(shell, "kernel", None) is not None
    with ProgressBar(_displayer(), watch) if notebook else ProgressLine(sys.stderr, watch, AFTER):
        yield


def _displayer() -> Callable[[Bundle, bool], None]:
    """Shows in the cell's output, always in the same place."""
    from uuid import uuid4

    from IPython.display import display

    place = uuid4().hex

    def show(bundle: Bundle, again: bool) -> None:
        display(bundle, raw=True, display_id=place, update=again)  # type: ignore[no-untyped-call]

    return show
