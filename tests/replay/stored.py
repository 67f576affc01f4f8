"""Texts in a file, and what differs between two collections of them."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import unified_diff
from hashlib import sha256
from pathlib import Path

from tests.replay.recorder import SEPARATOR

NAME = "replay.json.gz"
GROUPS = ("plans", "estimates", "loops", "CUDA")
OUTCOMES = ("same", "changed", "gone", "new")
MOST_LINES = 60  # of a difference that is shown
MOST_NAMES = 5


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def store(texts: Mapping[str, str], folder: Path) -> None:
    """Writes them, each with its SHA-256; equal ones once."""
    hashes = {key: digest(text) for key, text in texts.items()}
    found = {hashes[key]: text for key, text in texts.items()}
    folder.mkdir(parents=True, exist_ok=True)
    content = json.dumps({"hashes": hashes, "texts": found}).encode()
    (folder / NAME).write_bytes(gzip.compress(content, compresslevel=3, mtime=0))


def load(folder: Path) -> dict[str, str]:
    content = json.loads(gzip.decompress((folder / NAME).read_bytes()))
    texts = content["texts"]
    return {key: texts[hashed] for key, hashed in content["hashes"].items()}


@dataclass(frozen=True, slots=True)
class Comparison:
    """What became of each text: of each kind, by outcome, the keys."""

    before: Mapping[str, str]
    after: Mapping[str, str]
    keys: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    @property
    def differs(self) -> bool:
        return any(outcome != "same" for _, outcome in self.keys)

    def of(self, outcome: str) -> list[str]:
        return [key for group in GROUPS for key in self.keys.get((group, outcome), ())]

    def report(self, most: int) -> Iterator[str]:
        """A table; then differences, of each kind at most so many, which most texts share first."""
        yield f"{'':<10}" + "".join(f"{outcome:>10}" for outcome in OUTCOMES)
        for group in GROUPS:
            counts = (len(self.keys.get((group, outcome), ())) for outcome in OUTCOMES)
            yield f"{group:<10}" + "".join(f"{count:>10,}" for count in counts)
        for group in GROUPS:
            yield from self._differences(group, most)
        for outcome in ("gone", "new"):
            found = self.of(outcome)
            if found:
                yield f"\n{outcome}:"
                yield from (f"  {key}" for key in found[:MOST_NAMES])
            if len(found) > MOST_NAMES:
                yield f"  and {len(found) - MOST_NAMES:,} more"

    def _differences(self, group: str, most: int) -> Iterator[str]:
        alike: dict[object, list[str]] = {}
        for key in self.keys.get((group, "changed"), ()):
            alike.setdefault(_lines_changed(self.before[key], self.after[key]), []).append(key)
        ordered = sorted(alike.values(), key=len, reverse=True)
        for keys in ordered[:most]:
            others = f", and {len(keys) - 1:,} more by the same lines" if len(keys) > 1 else ""
            yield f"\n{keys[0]}{others}"
            yield from self._difference(keys[0])
        if len(ordered) > most:
            rest = sum(map(len, ordered[most:]))
            yield f"\n{group}: {rest:,} more changed, by other lines (--show says how many to show)"

    def _difference(self, key: str) -> Iterator[str]:
        old, new = (texts[key].splitlines() for texts in (self.before, self.after))
        lines = list(unified_diff(old, new, "before", "after", lineterm=""))
        yield from (f"  {line}" for line in lines[:MOST_LINES])
        if len(lines) > MOST_LINES:
            yield f"  ({len(lines) - MOST_LINES:,} more lines)"


def compare(before: Mapping[str, str], after: Mapping[str, str]) -> Comparison:
    found = Comparison(before, after)
    for key in [*before, *(key for key in after if key not in before)]:
        if key not in after:
            outcome = "gone"
        elif key not in before:
            outcome = "new"
        else:
            outcome = "same" if before[key] == after[key] else "changed"
        found.keys.setdefault((_group(key), outcome), []).append(key)
    return found


def without(pattern: re.Pattern[str], texts: Mapping[str, str]) -> dict[str, str]:
    """The texts, but for the lines that hold a pattern."""
    return {
        key: "\n".join(line for line in text.splitlines() if not pattern.search(line))
        for key, text in texts.items()
    }


def _group(key: str) -> str:
    """Whether a key is of a plan, of loops..."""
    return key.rsplit(SEPARATOR, 2)[1].partition(":")[0]


def _lines_changed(old: str, new: str) -> object:
    """The lines that are in one text only: texts that share them have changed alike."""
    before, after = (Counter(map(str.strip, text.splitlines())) for text in (old, new))
    return frozenset((before - after).items()), frozenset((after - before).items())
