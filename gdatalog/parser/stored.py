"""Statements that an earlier process has parsed: a text that came before does not load Lark.

A process that has to load Lark for a text stores the text's statements in the user's cache folder,
as JSON. Until a process has loaded Lark, it looks for its texts there. Facts need no file, since
they are read without the grammar.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

from gdatalog.distribution import VERSION
from gdatalog.errors import SourceText, Span
from gdatalog.own_files import check_owner, home, open_own, own, write_whole
from gdatalog.parser import syntax as s
from gdatalog.records import fields

LONGEST = 20_000  # characters: longer texts are not stored
MOST_FILES = 256  # of which the newest half stays

_CLASSES: dict[str, type[Any]] = {
    name: kind for name, kind in vars(s).items() if hasattr(kind, "__match_args__")
}
_TUPLE, _SPAN = "", "@"  # in place of the name of a class


class StoredText:
    """The statements of a text that the grammar parses, by where they start. `wanted`: whether they
    are looked for and stored."""

    def __init__(self, source: SourceText, bare: bool, wanted: bool) -> None:
        self._source, self._bare = source, bare
        self._wanted = wanted and len(source.text) <= LONGEST
        self._statements: dict[int, s.Statement] | None = None
        self._missing = False  # whether they were looked for and not found

    def at(self, start: int) -> s.Statement | None:
        """The stored statement that starts at a place. Once Lark is loaded, parsing is faster."""
        if self._statements is None:
            self._statements = {}
            if self._wanted and "gdatalog.parser.grammar" not in sys.modules:
                with suppress(OSError, LookupError, TypeError, ValueError, RecursionError):
                    self._statements = self._read()
                self._missing = not self._statements
        return self._statements.get(start)

    def add(self, start: int, read: s.Statement) -> None:
        """Adds a statement that was parsed."""
        assert self._statements is not None, "it was looked for"
        self._statements[start] = read

    def keep(self) -> None:
        """Stores the statements if they were looked for and not found."""
        if not self._missing:
            return
        with suppress(OSError, RecursionError):
            stored = [(start, packed(each)) for start, each in (self._statements or {}).items()]
            data = json.dumps((self._key(), stored), separators=(",", ":")).encode()
            own(_folder())
            write_whole(self._path(), b"%d " % crc32(data) + data)
            _let_go()

    def _read(self) -> dict[int, s.Statement]:
        check_owner(_folder())
        with os.fdopen(open_own(self._path(), os.O_RDONLY), "rb") as file:
            crc, data = file.read().split(b" ", 1)
        key, statements = json.loads(data)
        if int(crc) != crc32(data) or key != self._key():
            return {}
        return {start: unpacked(each, self._source) for start, each in statements}

    def _key(self) -> list[Any]:
        return [_version(), self._bare, self._source.text]

    def _path(self) -> Path:
        return _folder() / f"{crc32(json.dumps(self._key()).encode()):08x}.json"


def packed(value: Any) -> Any:
    """A node as lists. All its places are in its text."""
    if isinstance(value, Span):
        return [_SPAN, value.start, value.end]
    if isinstance(value, tuple):
        return [_TUPLE, *map(packed, value)]
    name = type(value).__name__
    if name not in _CLASSES:
        return value
    return [name, *(packed(getattr(value, field.name)) for field in fields(value))]


def unpacked(stored: Any, source: SourceText) -> Any:
    """The node that `packed` made these lists of."""
    if not isinstance(stored, list):
        return stored
    name, *parts = stored
    if name == _SPAN:
        return Span(source, *parts)
    values = tuple([unpacked(part, source) for part in parts])
    return values if name == _TUPLE else _CLASSES[name](*values)


def _folder() -> Path:
    return home() / "parsed"


@cache
def _version() -> list[Any]:
    """What identifies the parser: its version, and when its files were changed."""
    with os.scandir(Path(__file__).parent) as entries:
        files = sorted([(each.name, each.stat().st_mtime_ns) for each in entries if each.is_file()])
    return [VERSION, *map(list, files)]


def _let_go() -> None:
    """Deletes the oldest files if there are too many."""
    found = sorted(_folder().iterdir(), key=lambda path: path.stat().st_mtime)
    if len(found) > MOST_FILES:
        for path in found[: -MOST_FILES // 2]:
            path.unlink(missing_ok=True)
