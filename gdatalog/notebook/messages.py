"""Errors, warnings, the list of relations and progress, in a notebook."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gdatalog.cancellation import Watch, interrupt_message
from gdatalog.database import Database
from gdatalog.errors import Error
from gdatalog.present import html_table
from gdatalog.progress import duration
from gdatalog.records import dataclass
from gdatalog.relations import catalog
from gdatalog.shell.messages import aligned
from gdatalog.shell.progress_line import ProgressPoll
from gdatalog.shell.statements import known_size
from gdatalog.values import visible_html, visible_lines


@contextmanager
def short_errors() -> Iterator[None]:
    """A context in which errors are shown without a traceback; `%tb` shows it."""
    try:
        yield
    except Error as error:
        _show_once(error, str(error))
        raise
    except KeyboardInterrupt as stopped:
        _show_once(stopped, interrupt_message(stopped))
        raise


def _show_once(error: BaseException, text: str) -> None:
    """Replaces the traceback of an exception, once: IPython renders it when the cell fails, and
    again for `%tb`, which shows the full traceback."""

    def render() -> list[str]:
        del error._render_traceback_  # type: ignore[attr-defined]  # IPython asks for it
        return visible_lines(text).splitlines()

    error._render_traceback_ = render  # type: ignore[attr-defined]  # IPython asks for it


# The table of relations that `%datalog_relations` shows.

INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class Listing:
    """For each relation its name, columns, number of rows if known, and origin; for an invalid one,
    the error."""

    lines: tuple[tuple[str, str, str, str], ...]

    def __repr__(self) -> str:
        if not self.lines:
            return (
                "no relations yet: %datalog_load E edges.csv, or a cell that begins with %%datalog"
            )
        rows = (
            (name if rows == INVALID else f"{name}({columns})", rows, origin)
            for name, columns, rows, origin in self.lines
        )
        return aligned(rows, right=(1,))

    def _repr_html_(self) -> str:
        if not self.lines:
            return f"<p>{visible_html(repr(self))}</p>"
        names = ("relation", "columns", "rows", "from")
        kinds = ("symbol", "symbol", "int", "symbol")
        return html_table(names, kinds, self.lines, types=False)


def list_relations(db: Database) -> Listing:
    """All relations, with their sizes if known without evaluation."""
    with db.call():
        entries = catalog(db.workspace)
        return Listing(tuple((e.name, e.columns, known_size(e), e.origin) for e in entries))


# A progress bar in the output of a cell, which disappears when the work is done.
#
# It shows the work of the magics' database, started by a magic or from Python.

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
