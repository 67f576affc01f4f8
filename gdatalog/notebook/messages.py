"""Errors and warnings in a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gdatalog.cancellation import interrupt_message
from gdatalog.errors import Error
from gdatalog.terminal_text import visible_lines


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
