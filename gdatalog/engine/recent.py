"""A cache of the most recently used values."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

MOST_VALUES = 256  # values
LENGTH = 500_000  # characters of their texts; each takes about 100 bytes

Value = TypeVar("Value")


class Recent(Generic[Value]):
    """The values used most recently, by key; their texts have at most `length` characters.
    Thread-safe."""

    def __init__(self, most: int = MOST_VALUES, length: int = LENGTH) -> None:
        self.most = most
        self.length = length
        self._held = 0
        self._lock = Lock()
        self._found: OrderedDict[Hashable, tuple[Value, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: Hashable) -> Value | None:
        with self._lock:
            found = self._found.get(key)
            if found is None:
                return None
            self._found.move_to_end(key)
            return found[0]

    def put(self, key: Hashable, value: Value, length: int = 0) -> None:
        """Caches a value. `length`: the length of the text that it was made from."""
        with self._lock:
            _, before = self._found.pop(key, (None, 0))
            self._found[key] = value, length
            self._held += length - before
            found = self._found
            while len(found) > self.most or (self._held > self.length and len(found) > 1):
                _, (_, gone) = found.popitem(last=False)
                self._held -= gone

    def clear(self) -> None:
        with self._lock:
            self._found.clear()
            self._held = 0
