"""The notebook magics, such as `%%datalog`, and their IPython extension."""

from __future__ import annotations

from typing import Any


def load_ipython_extension(shell: Any) -> None:
    """Registers the magics and their completion, for `%load_ext gdatalog`."""
    from gdatalog.notebook.magics import Magics

    Magics.of(shell).register()


def unload_ipython_extension(shell: Any) -> None:
    """Removes them, for `%unload_ext gdatalog`."""
    from gdatalog.notebook.magics import Magics

    Magics.of(shell).unregister()
