"""The programs that are replayed, each with its data. They are the same in each run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.doc_fences import Block, asks, blocks_of, split_statements

ROOT = Path(__file__).resolve().parents[2]
DRAWN = 500
_INPUT = re.compile(r"\.input (\w+)")
_PARAMETER = re.compile(r"-M (\w+)=(\S+)")


@dataclass(frozen=True, slots=True)
class Program:
    """`data`: for each relation rows, or the types of its columns and rows. `files`: texts that
    stand beside it. `path`: where it stands itself; None: in a folder with its files.

    `every`: all is printed in every form; else in some, by turns. `goes_on`: it begins with the
    rules of the program before, whose loops are not printed again.
    """

    name: str
    text: str
    data: Mapping[str, Any] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    path: Path | None = None
    facts: Path = ROOT
    every: bool = True
    goes_on: bool = False


def programs(words: Sequence[str] = ()) -> Iterator[Program]:
    """All programs, or those whose names hold one of some words; no two have the same name."""

    def wanted(name: str) -> bool:
        return not words or any(word in name for word in words)

    seen: set[str] = set()
    for program in _all(wanted):
        if wanted(program.name):
            assert program.name not in seen, program.name
            seen.add(program.name)
            yield program


def _all(wanted: Callable[[str], bool]) -> Iterator[Program]:
    for path in sorted((ROOT / "queries").glob("*.dl")):
        yield Program(f"queries: {path.stem}", path.read_text(encoding="utf-8"), path=path)
    yield from _souffle(ROOT / "tests" / "souffle")
    for path in sorted((ROOT / "docs").rglob("*.md")):
        yield from _page(path)
    yield from _examples()
    yield from _snapshots()
    yield from _of_kernels()
    yield from _drawn(wanted)


def _souffle(folder: Path) -> Iterator[Program]:
    courses, hmmer = (
        (folder / f"{name}.dl").read_text(encoding="utf-8") for name in ("courses", "hmmer")
    )
    yield Program("souffle: courses", courses, path=folder / "courses.dl", facts=folder / "facts")
    # The facts of this one are not kept here: it gets a few pairs.
    names = _INPUT.findall(hmmer)
    pairs = [(f"v{at}", f"v{at * at % 7}") for at in range(12)]
    data = dict.fromkeys(names, (("symbol", "symbol"), pairs))
    yield Program("souffle: hmmer", _INPUT.sub("", hmmer), data)


def _page(path: Path) -> Iterator[Program]:
    """The programs of a page, each with the files that the page has shown by then."""
    files: dict[str, str] = {}
    before: list[str] = []
    number = 0
    for block in blocks_of(path.read_text(encoding="utf-8")):
        if block.is_file:
            files[block.title] = block.text
        elif block.language == "datalog" and "skip" not in block.options:
            number += 1
            more = "more" in block.options
            before = before if more else []
            text = "\n".join([*before, block.text])
            name = f"{path.relative_to(ROOT).as_posix()}: {block.title or number}"
            yield Program(
                name, text, params=_params(block), files=dict(files), every=False, goes_on=more
            )
            before += [each for each in split_statements(block.text) if not asks(each)]


def _params(block: Block) -> dict[str, Any]:
    given = _PARAMETER.findall(block.options.get("args", ""))
    return {name: int(value) if value.isdigit() else value for name, value in given}


def _examples() -> Iterator[Program]:
    from tests.corners import CORNERS
    from tests.examples import EXAMPLES

    for kind, examples in (("corner", CORNERS), ("example", EXAMPLES)):
        for example in examples:
            yield Program(f"{kind}: {example.name}", example.program, example.data, every=False)


def _snapshots() -> Iterator[Program]:
    from tests import test_plans

    for text, _ in test_plans.snapshots():
        told, _, rules = text.partition("\n")
        params = {"k": 3} if "$k" in rules else {}
        yield Program(f"snapshot: {told.removeprefix('// ')}", rules, test_plans.DATA, params)


def _of_kernels() -> Iterator[Program]:
    from tests.kernel_sources import DATA, PLANS, RECURSIVE

    for name, text in {**PLANS, **RECURSIVE}.items():
        yield Program(f"kernels: {name}", text, DATA)


def _drawn(wanted: Callable[[str], bool]) -> Iterator[Program]:
    from tests.draw import PROFILES, drawn
    from tests.draw_patterns import drawn_pattern
    from tests.draw_recursion import drawn_recursion

    makers: dict[str, Any] = {
        name: lambda seed, profile=profile: drawn(seed, profile)
        for name, profile in PROFILES.items()
    }
    makers |= {"recursion": drawn_recursion, "pattern": drawn_pattern}
    for number in range(DRAWN):
        seed, which = divmod(number, len(makers))
        kind = list(makers)[which]
        name = f"drawn: {kind} {seed}"
        if wanted(name):
            found = makers[kind](seed)
            yield Program(name, found.text, found.data, every=False)
