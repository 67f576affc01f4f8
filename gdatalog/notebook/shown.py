"""What magics show besides answers: errors without a traceback, and lines on stderr."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gdatalog.cancellation import interrupt_message
from gdatalog.database import Database
from gdatalog.errors import Error
from gdatalog.shell.messages import say
from gdatalog.widths import visible_lines


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
        del error._render_traceback_  # type: ignore[attr-defined]
        return visible_lines(text).splitlines()

    error._render_traceback_ = render  # type: ignore[attr-defined]


@contextmanager
def warnings_on_stderr(db: Database) -> Iterator[None]:
    """What is worth a warning is a text on stderr, not a Python warning about our own code."""
    with db.workspace.warnings_to(lambda caution: say(caution.format())):
        yield
