"""The common base of explanations and profiles: a tree, and the ways to view it."""

from __future__ import annotations

import os
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from gdatalog.engine.session.knobs import FORMS
from gdatalog.errors import UsageError
from gdatalog.report.folded import folded, is_large, part_of
from gdatalog.report.tree import ReportNode

_ENDINGS = {".html": "html", ".json": "json", ".mmd": "mermaid", ".txt": "text"}


class Shown:
    """A tree that prints, draws and saves itself."""

    title = "gdatalog"
    folds = True  # if there are many rules

    def _tree(self) -> ReportNode:
        raise NotImplementedError

    @cached_property
    def tree(self) -> ReportNode:
        """The tree: nodes of plain data."""
        return self._tree()

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return self.to_text()

    def of(self, which: str | int) -> Self:
        """Returns the rules of one relation in full, by its name; those of a stratum by its number
        (3), one rule by its number ("3.2"), or all rules ("*").

        Printing and drawing fold plans with many rules.

        >>> import gdatalog as gd
        >>> db = gd.connect(device="cpu")
        >>> db["E"] = [(1, 2), (2, 3)]
        >>> print(db.explain("p(x) <- E(x, _). q(y) <- p(y), E(_, y).").of("p"))
        on cpu, strategy auto, a thread for each core  expected
        stratum 1: p
        └ p(x) <- E(x, _~1).
          │ breadth-first: about 2 rows to look at
          ├ x in E([x])                                      ~2
          └ give p(x)
        """
        part = copy(self)
        part.__dict__["tree"] = part_of(self.tree, str(which))
        part.folds = False
        return part

    @property
    def _folded(self) -> bool:
        return self.folds and is_large(self.tree)

    def to_text(self, width: int = 100) -> str:
        """The tree as lines for a terminal of this width; plans with many rules are folded."""
        from gdatalog.report.text import text

        return text(folded(self.tree) if self._folded else self.tree, width)

    def to_dict(self) -> dict[str, Any]:
        """The tree as dicts, lists, strings and numbers."""
        return self.tree.to_dict()

    def to_json(self) -> str:
        """The same as JSON."""
        import json

        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    def to_mermaid(self) -> str:
        """The tree as a mermaid flowchart."""
        from gdatalog.report.html import mermaid

        return mermaid(self.tree)

    def to_html(self) -> str:
        """A complete page, which needs no network and no other file."""
        from gdatalog.report.html import page

        return page(self.tree, self.title, self._folded)

    def _repr_html_(self) -> str:
        from gdatalog.report.html import fragment

        return fragment(self.tree, self._folded)

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
        """Writes the tree to a file, as its suffix says: .html, .json, .mmd (mermaid) or .txt."""
        form = _ENDINGS.get(Path(path).suffix.lower())
        if form is None:
            endings = ", ".join(_ENDINGS)
            raise UsageError(
                f"the ending of {os.fspath(path)} does not say as what a plan is to be saved",
                hint=f"one of {endings}",
            )
        from gdatalog.storage.writers import write_text

        write_text(self.render(form) + "\n", path)
