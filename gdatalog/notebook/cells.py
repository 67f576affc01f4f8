"""Which cell runs: what its text is called in errors, and under what its rules are kept."""

from __future__ import annotations

from typing import Any


class NotebookCells:
    """The cell that runs, and the texts that each cell gave when it last ran.

    Front-ends give each cell an id that stays when its text is changed. By it a cell that is run
    again replaces the rules that it gave before. Where there is none (IPython on a terminal, old
    front-ends), it is the name of the result, or else the very text, that tells.
    """

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.id: str | None = None
        self._given: dict[str, list[str]] = {}  # the keys of a cell's texts, by its id
        self._now: list[str] = []

    def begin(self, info: Any) -> None:
        """A cell begins to run."""
        self.id = getattr(info, "cell_id", None)
        self._now = []

    def end(self, result: Any) -> list[str]:
        """A cell has run; gives the keys of the texts that it gave before and does not any more."""
        if self.id is None:
            return []
        before = self._given.pop(self.id, [])
        gone = [key for key in before if key not in self._now]
        if not getattr(result, "success", True):
            self._given[self.id] = [*gone, *self._now]  # nothing is given up by a cell that fails
            return []
        if self._now:
            self._given[self.id] = self._now
        return gone

    def key(self, text: str, name: str | None) -> str:
        """What a text's rules are kept under: they replace those that were kept under it."""
        if self.id is None:
            return text if name is None else f"<cell of {name}>"
        key = f"<cell {self.id}, text {len(self._now) + 1}>"
        self._now.append(key)
        return key

    @property
    def source(self) -> str:
        """What errors call the text, as IPython calls the cell."""
        return f"In[{self.shell.displayhook.prompt_count}]"
