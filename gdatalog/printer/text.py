"""The text of a function as it is printed: lines at a depth, names that are taken once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gdatalog.printer.expressions import Unprintable

MOST_LOOPS = 20  # inside each other, as Python allows
TYPES = frozenset({"i32", "i64"})  # what kernels call types, and no variable


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
        """A local name that nothing else has: names that are not made here have a `_` before
        their number."""
        assert not stem.endswith("_"), stem
        number = self._taken.get(stem, 0)
        number += f"{stem}{number}" in TYPES
        self._taken[stem] = number + 1
        return f"{stem}{number}"
