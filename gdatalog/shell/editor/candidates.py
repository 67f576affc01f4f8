"""Completions of a word: what can stand in its place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gdatalog.records import dataclass


@dataclass(frozen=True, slots=True)
class Completion:
    """`text` replaces the text from `start` to the cursor; a menu shows `about` beside it.

    `shown`: what a menu shows instead of `text`.
    """

    text: str
    start: int
    about: str = ""
    shown: str = ""


Found = Iterator[tuple[str, str, str]]  # text, about, and shown of a completion


def completions_of(found: Found, word: str, cursor: int) -> list[Completion]:
    """Completions that replace the word before the cursor."""
    start = cursor - len(word)
    return [Completion(put, start, about, shown) for put, about, shown in found]


def starting_with(word: str, names: Iterable[str]) -> list[str]:
    """The names that start with the word, ignoring case."""
    low = word.lower()
    return [name for name in dict.fromkeys(names) if name.lower().startswith(low)]
