"""The running cell: its name in errors, and the keys of its rules."""

from __future__ import annotations

from typing import Any


class NotebookCells:
    """The running cell, and the keys of the texts of each cell's last run.

    Front-ends give each cell an id that survives edits: a cell that runs again replaces the rules
    of its last run. Without ids (IPython on a terminal, old front-ends), the key is the result's
    name or the text itself.
    """

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.id: str | None = None
        self._given: dict[str, list[str]] = {}  # keys of a cell's texts, by cell id
        self._now: list[str] = []

    def begin(self, info: Any) -> None:
        """Called when a cell starts."""
        self.id = getattr(info, "cell_id", None)
        self._now = []

    def end(self, result: Any) -> list[str]:
        """Called when a cell has run; returns the keys of texts that the cell no longer
        contains."""
        if self.id is None:
            return []
        before = self._given.pop(self.id, [])
        gone = [key for key in before if key not in self._now]
        if not getattr(result, "success", True):
            self._given[self.id] = [*gone, *self._now]  # a failed cell keeps its old texts
            return []
        if self._now:
            self._given[self.id] = self._now
        return gone

    def key(self, text: str, name: str | None) -> str:
        """The key of a text's rules; they replace the rules under the same key."""
        if self.id is None:
            return text if name is None else f"<cell of {name}>"
        key = f"<cell {self.id}, text {len(self._now) + 1}>"
        self._now.append(key)
        return key

    @property
    def source(self) -> str:
        """The text's name in errors, which is IPython's name of the cell."""
        return f"In[{self.shell.displayhook.prompt_count}]"
