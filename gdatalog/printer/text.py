"""The text of a function: indented lines, and unique names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gdatalog.printer.expressions import Unprintable

MOST_LOOPS = 20  # Python's limit on nested blocks
TYPES = frozenset({"i32", "i64"})  # names of types in kernels


class LoopText:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 1
        self.loops = 0
        self._taken: dict[str, int] = {}

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        loop = head.startswith(("for ", "while "))
        self.loops += loop
        if self.loops > MOST_LOOPS:
            raise Unprintable(f"more than {MOST_LOOPS} loops inside each other")
        self.line(head + ":")
        self.depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1
        self.loops -= loop

    def name(self, stem: str) -> str:
        """A unique local name. Names that are not made here have a `_` before their number."""
        assert not stem.endswith("_"), stem
        number = self._taken.get(stem, 0)
        number += f"{stem}{number}" in TYPES
        self._taken[stem] = number + 1
        return f"{stem}{number}"
