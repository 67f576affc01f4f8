"""Peers that are slow or do not end are run once on a kind of machine, and remembered."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks.machine import same_machine
from benchmarks.peers import installed, package_of
from benchmarks.records import Figure
from benchmarks.worker import Side

WORTH = 30.0  # seconds: what takes less is run each time


class Remembered:
    """Figures by machine and version, of a JSON file."""

    def __init__(self, path: Path | None, *, again: bool = False, keeps: bool = True) -> None:
        """`again`: nothing is taken from the file. Without `keeps` nothing is written to it."""
        self.path, self.keeps = path, keeps
        self._versions = installed()
        self._machine = same_machine()
        self._kept: list[dict[str, Any]] = []
        if path is not None and path.exists():
            self._kept = json.loads(path.read_text())
        self._usable = {} if again else {self._key(entry): entry for entry in self._kept}

    def of(self, what: str, side: Side) -> Figure | None:
        """What a side was seen to take, if that is remembered for such a machine."""
        entry = self._usable.get(self._key_of(what, side))
        return None if entry is None else Figure(**{**entry["figure"], "remembered": True})

    def keep(self, what: str, side: Side, figure: Figure) -> None:
        slow = figure.stopped or (figure.warm or 0.0) >= WORTH
        if (
            self.path is None
            or not self.keeps
            or figure.remembered
            or not slow
            or not self._version(side)
        ):
            return
        machine, work, name, version = self._key_of(what, side)
        entry = {"machine": machine, "work": work, "side": name, "version": version}
        entry["figure"] = asdict(replace(figure, remembered=False))
        others = [kept for kept in self._kept if self._key(kept) != self._key(entry)]
        self._kept = [*others, entry]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self._kept, indent=1) + "\n")

    def _version(self, side: Side) -> str:
        """Only peers are remembered: ours changes."""
        return self._versions.get(package_of(side) or "", "")

    def _key_of(self, what: str, side: Side) -> tuple[str, str, str, str]:
        return self._machine, what, side.name, self._version(side)

    def _key(self, entry: dict[str, Any]) -> tuple[str, str, str, str]:
        return entry["machine"], entry["work"], entry["side"], entry["version"]
