"""A progress bar in the output of a cell, which disappears when the work is done.

It shows the work of the magics' database, started by a magic or from Python.
"""

from __future__ import annotations

from collections.abc import Callable

from gdatalog.cancellation import Watch
from gdatalog.progress import duration
from gdatalog.shell.progress_line import ProgressPoll
from gdatalog.terminal_text import visible_html

AFTER = 0.5  # seconds until the bar appears
# Content to display, by MIME type.
Bundle = dict[str, str]
NOTHING: Bundle = {"text/plain": "", "text/html": ""}


class ProgressBar(ProgressPoll):
    """Shows a progress bar whenever a call of a database takes longer than `after`.

    `show` is called with the content, and with whether it replaces the previous content.
    """

    def __init__(
        self,
        show: Callable[[Bundle, bool], None],
        watch: Callable[[], Watch | None],
        after: float = AFTER,
    ) -> None:
        super().__init__()
        self.show = show
        self.watch = watch
        self.after = after
        self._placed = False

    def _show(self) -> bool:
        watch = self.watch()
        seconds = None if watch is None else watch.seconds
        if watch is None or seconds is None or seconds < self.after:
            return False
        self.show(bundle(watch, seconds), self._placed)
        self._placed = True
        return True

    def _clear(self) -> None:
        self.show(NOTHING, True)


def bundle(watch: Watch, seconds: float) -> Bundle:
    """The bar as it is now. Without a known end it has no value, which makes it indeterminate."""
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


def displayer() -> Callable[[Bundle, bool], None]:
    """Returns a function that displays in the cell's output, always in the same place."""
    from uuid import uuid4

    from IPython.display import display

    place = uuid4().hex

    def show(bundle: Bundle, again: bool) -> None:
        display(bundle, raw=True, display_id=place, update=again)

    return show
