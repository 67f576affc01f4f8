"""The magics of notebooks, `%%datalog` first of all. `%load_ext gdatalog` calls what is here."""

from __future__ import annotations

from typing import Any


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext gdatalog` does: the magics, and completion in them."""
    from gdatalog.notebook.magics import Magics

    Magics.of(shell).register()


def unload_ipython_extension(shell: Any) -> None:
    """What `%unload_ext gdatalog` does: takes both away again."""
    from gdatalog.notebook.magics import Magics

    Magics.of(shell).unregister()
