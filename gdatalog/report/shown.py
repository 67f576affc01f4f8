"""What explanations and profiles have in common: a tree, and the ways to see it."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import Any

from gdatalog.engine.knobs import FORMS
from gdatalog.errors import UsageError
from gdatalog.report.tree import Node

_ENDINGS = {".html": "html", ".json": "json", ".mmd": "mermaid", ".txt": "text"}


class Shown:
    """A tree that prints, draws and saves itself."""

    title = "gdatalog"

    def _tree(self) -> Node:
        raise NotImplementedError

    @cached_property
    def tree(self) -> Node:
        """The tree itself: nodes of plain data."""
        return self._tree()

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return self.to_text()

    def to_text(self, width: int = 100) -> str:
        """The tree as lines, for a terminal of this width."""
        from gdatalog.report.text import text

        return text(self.tree, width)

    def to_dict(self) -> dict[str, Any]:
        """The tree as dicts, lists, texts and numbers."""
        return self.tree.to_dict()

    def to_json(self) -> str:
        """The same as JSON."""
        import json

        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    def to_mermaid(self) -> str:
        """The tree as a mermaid flowchart."""
        from gdatalog.report.mermaid import mermaid

        return mermaid(self.tree)

    def to_html(self) -> str:
        """A page of its own, which needs no network and no other file."""
        from gdatalog.report.html import page

        return page(self.tree, self.title)

    def _repr_html_(self) -> str:
        from gdatalog.report.html import fragment

        return fragment(self.tree)

    def render(self, form: str) -> str:
        """The tree as "text", "json", "mermaid" or "html"."""
        made = {
            "text": self.to_text,
            "json": self.to_json,
            "mermaid": self.to_mermaid,
            "html": self.to_html,
        }.get(form)
        if made is None:
            forms = ", ".join(f'"{name}"' for name in FORMS)
            raise UsageError(f"a plan has no form {form!r}", hint=f"one of {forms}")
        return made()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file, whose ending says how: .html, .json, .mmd (mermaid) or .txt."""
        form = _ENDINGS.get(Path(path).suffix.lower())
        if form is None:
            endings = ", ".join(_ENDINGS)
            raise UsageError(
                f"the ending of {os.fspath(path)} does not say as what a plan is to be saved",
                hint=f"one of {endings}",
            )
        from gdatalog.storage.writers import write_text

        write_text(self.render(form) + "\n", path)
