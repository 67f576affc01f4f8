"""Cells that run in an IPython shell within this process, as a notebook's would in its kernel."""

from __future__ import annotations

import builtins
import re
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

_OUT = re.compile(r"^Out\[\d+\]: ?\n?", re.MULTILINE)


class Cells:
    """A shell. It is the only one of this process until `close`, for IPython wants that."""

    def __init__(self, folder: Path) -> None:
        """`folder`: where IPython keeps what it keeps."""
        self._main = sys.modules["__main__"]
        config = Config()
        config.HistoryManager.enabled = False
        config.InteractiveShell.colors = "nocolor"
        self.shell: Any = InteractiveShell.instance(config=config, ipython_dir=str(folder))
        self.variables: dict[str, Any] = self.shell.user_ns
        self.out = self.err = ""
        self.displayed: list[dict[str, str]] = []
        self.error: BaseException | None = None

    def run(self, text: str, cell_id: str | None = None) -> Any:
        """Runs a cell; gives the value that is its output."""
        with capture_output() as captured:
            # As front-ends do: each cell has an id that lasts.
            done = self.shell.run_cell(text, store_history=True, cell_id=cell_id or uuid4().hex)
        self.out, self.err = captured.stdout, captured.stderr
        self.displayed = [output.data for output in captured.outputs]
        self.error = done.error_in_exec or done.error_before_exec
        return done.result

    def shown(self, text: str) -> str:
        """Runs a cell; gives what is to be seen of it as text."""
        self.run(text)
        displayed = "".join(f"{data['text/plain']}\n" for data in self.displayed)
        return self.err + displayed + _OUT.sub("", self.out)

    def close(self) -> None:
        """Leaves the process as other tests want it."""
        InteractiveShell.clear_instance()
        sys.modules["__main__"] = self._main
        for name in ("__IPYTHON__", "display"):
            vars(builtins).pop(name, None)
