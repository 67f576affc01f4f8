"""Stored plans: a rule that an earlier process has planned is not planned again.

Plans are in files beside the compiled code: one for each file of rules, and `TEXTS` for all other
texts. A line is a plan, with the questions that planning asked about relations and parameters
(`planner/observed.py`), and their answers. A plan is used if all questions have the same answers
now: then planning would give this plan. Its key is a hash of the rule and of all settings that
planning reads; the file's name depends on the planner's own files, so another version makes plans
of its own.

A line is appended by one write, and starts with its checksum: processes may write at the same time,
and damaged lines are ignored. If the folder of code cannot be used, plans are not stored.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from threading import RLock
from time import time
from zlib import crc32

from gdatalog.codegen import cache as code_cache
from gdatalog.distribution import VERSION
from gdatalog.own_files import open_own
from gdatalog.plan.join_plan import RulePlan
from gdatalog.plan.stored import FORMAT, Places, UnknownFormat, packed, unpacked
from gdatalog.planner import rule as planner
from gdatalog.planner.check import CheckedRule
from gdatalog.planner.check.walk import without_places
from gdatalog.planner.observed import Observed, ObservedValues, observing, same_answers
from gdatalog.planner.order.plan_inputs import PlanInputs
from gdatalog.planner.statistics import Looked
from gdatalog.records import replace
from gdatalog.settings import Thresholds

MOST_BYTES = 4 << 20  # of a file: a longer one is begun anew
MOST_FILES = 16  # files whose lines are kept in memory
TEXTS = 256  # files for the rules of texts that are not in files
MOST_TRIED = 8  # plans of one rule, the newest ones first
MOST_WRITTEN = 4096  # plans that a process stores

# The lines of a file by their keys, newest last.
Lines = dict[bytes, list[bytes]]


class PlanLookup:
    """A rule whose plan is looked up in the files, and stored there if it is not found."""

    def __init__(self, rule: CheckedRule, settings: object, inputs: PlanInputs) -> None:
        """`settings`: what else planning reads."""
        self._inputs = inputs
        parts = rule.parts
        self._places = places = Places([rule.span, *[part.span for part in parts]])
        thresholds = "" if inputs.thresholds == Thresholds() else inputs.thresholds
        types = sorted(rule.types.items())
        what = repr((without_places(parts), types, [*places.known], settings, thresholds))
        self._path, self._key = _path(_named(places)), _digest(what)
        self._questions, self._looked = Observed(), list[Looked]()
        self.observed = inputs  # to plan the rule, so that what planning asks is noted

    def found(self) -> RulePlan | None:
        """The stored plan."""
        if self._path is None:
            return None
        for line in reversed(files.found(self._path, self._key)):
            plan = _read(line, self._places, self._inputs)
            if plan is not None:
                return plan
        given, questions = self._inputs, self._questions
        sizes, values = observing(given.sizes, questions), ObservedValues(given.values, questions)
        self.observed = replace(
            given, sizes=sizes, values=values, looked=self._looked, observed=questions
        )
        return None

    def store(self, plan: RulePlan) -> None:
        """Stores the plan that was made instead, unless planning has looked at what is not
        noted."""
        self._inputs.looked.extend(self._looked)
        if self._path is not None and self._questions.whole:
            with suppress(UnknownFormat):
                line = _line(plan, self._looked, self._questions, self._places)
                files.add(self._path, self._key, line)


def _named(places: Places) -> str:
    """What identifies the file of a rule's plans."""
    source = places.sources[0]
    if source.name.startswith("<"):
        return f"<{crc32(source.text.encode('utf-8', 'surrogatepass')) % TEXTS}>"
    return source.name


def _path(name: str) -> Path | None:
    """The file of this name; None if plans are not stored."""
    try:
        folder = code_cache.folder()
    except OSError:
        return None
    if code_cache.trouble() is not None:  # it is a temporary one
        return None
    return _file(folder, _planner(), name)


@lru_cache(MOST_FILES)
def _file(folder: Path, planner: str, name: str) -> Path:
    return folder / f"{_digest(planner + name).decode()}.plans"


class PlanFiles:
    """The files of this process's folder."""

    def __init__(self) -> None:
        self._written = 0
        self._lines: dict[Path, Lines] = {}
        self._lock = RLock()

    def found(self, path: Path, key: bytes) -> list[bytes]:
        """The lines of a key, of which few are tried."""
        with self._lock:
            lines = self._lines.pop(path, None)
            if lines is None:
                lines = _lines_of(path)
                while len(self._lines) >= MOST_FILES:
                    del self._lines[next(iter(self._lines))]
            self._lines[path] = lines
            return lines.get(key, [])[-MOST_TRIED:]

    def add(self, path: Path, key: bytes, line: bytes) -> None:
        with self._lock:
            self._lines.setdefault(path, {}).setdefault(key, []).append(line)
            if self._written >= MOST_WRITTEN:
                return
            self._written += 1
        with suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            handle = open_own(path, flags)
            try:
                # A line that another process could not finish ends here.
                os.write(handle, b"\n" + _digest(key + line) + b" " + key + b" " + line + b"\n")
            finally:
                os.close(handle)
            code_cache.count()


files = PlanFiles()


def _lines_of(path: Path) -> Lines:
    """The lines of a file by their keys; damaged ones are left out."""
    found: Lines = {}
    try:
        with os.fdopen(open_own(path, os.O_RDONLY), "rb") as file:
            state = os.fstat(file.fileno())
            data = file.read() if state.st_size <= MOST_BYTES else None
        if data is None:
            path.unlink()
            return found
        if time() - state.st_mtime > code_cache.DAY:
            os.utime(path)  # the time of last use
    except OSError:
        return found
    for line in data.split(b"\n"):
        parts = line.split(b" ", 2)
        if len(parts) == 3 and _digest(parts[1] + parts[2]) == parts[0]:
            found.setdefault(parts[1], []).append(parts[2])
    return found


def _line(plan: RulePlan, looked: Sequence[Looked], observed: Observed, places: Places) -> bytes:
    selectivity = tuple((e.relation, e.column, e.bounds, e.shares) for e in looked)
    asked = tuple(observed.asked.items())
    stored = packed((asked, selectivity, plan), places)
    return json.dumps(stored, separators=(",", ":")).encode()


def _read(line: bytes, places: Places, inputs: PlanInputs) -> RulePlan | None:
    """The plan of a line, if planning would give it."""
    try:
        _, asked, selectivity, stored = json.loads(line)
        if not same_answers(unpacked(asked, places), inputs.sizes, inputs.values):
            return None
        looked = [Looked(*each) for each in unpacked(selectivity, places)]
        plan = unpacked(stored, places)
    except (ValueError, TypeError, UnknownFormat, RecursionError):
        return None
    inputs.looked.extend(looked)
    return plan if isinstance(plan, RulePlan) else None


def _digest(text: str | bytes) -> bytes:
    from hashlib import blake2b

    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return blake2b(data, digest_size=16).hexdigest().encode()


@cache
def _planner() -> str:
    """What identifies the planner: its version, and when its files were changed."""
    package = Path(planner.__file__).parent
    folders = [package, *(package / name for name in ("check", "order", "rewrite"))]
    found = [VERSION, sys.version, str(FORMAT)]
    for folder in (*folders, package.parent / "plan"):
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.name.endswith(".py"):
                    state = entry.stat()
                    found.append(f"{entry.name} {state.st_size} {state.st_mtime_ns}")
    return "\n".join(found)
