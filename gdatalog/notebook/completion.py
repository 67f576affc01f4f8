"""Completion in the magics, by the completer that IPython asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gdatalog.notebook.magics import Magics


class Completer:
    """What is offered after Tab in a cell or a line of ours."""

    def __init__(self, magics: Magics) -> None:
        self.magics = magics
        self._matcher: Any = None

    def register(self) -> None:
        pass

    def unregister(self) -> None:
        pass
