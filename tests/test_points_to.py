"""Andersen's points-to analysis of a real C program (hmmer), on names rather than numbers.

The facts come with two outputs of an analysis whose rules do not: which loads and stores of
pointers it found. Every pointer that is followed there must point somewhere here; and the rules
in souffle/hmmer.dl, which were worked out from the outputs, give each of their rows and no other.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from data import HMMER, hmmer, needs

import gdatalog as gd

RULES = """
    .decl StackAlloc(x: symbol, o: symbol)  .input StackAlloc
    .decl HeapAlloc(x: symbol, o: symbol)   .input HeapAlloc
    .decl Global(x: symbol, o: symbol)      .input Global
    .decl Function(x: symbol, o: symbol)    .input Function
    .decl DirectFlow(x: symbol, y: symbol)  .input DirectFlow
    .decl ExtReturn(x: symbol, y: symbol)   .input ExtReturn
    .decl Load(x: symbol, p: symbol)        .input Load
    .decl Store(x: symbol, p: symbol)       .input Store

    // x may point to the object o; the object o may hold a pointer to h
    points(x, o) <- StackAlloc(x, o) ; HeapAlloc(x, o) ; Global(x, o) ; Function(x, o).
    points(y, o) <- (DirectFlow(x, y) ; ExtReturn(x, y)), points(x, o).
    points(x, h) <- Load(x, p), points(p, o), holds(o, h).
    holds(o, h)  <- Store(x, p), points(p, o), points(x, h).
    loads(x, p)  <- Load(x, p), points(p, _).
    stores(x, p) <- Store(x, p), points(p, _).
    .output points, holds, loads, stores
"""

# How many pairs a worklist over Python sets, written for nothing else, finds.
POINTS, HOLDS = 1_166_829, 27_637


OUTPUTS = {"CPtrLoad": 2649, "CPtrStore": 255}  # rows


def _rows(file: Path) -> set[str]:
    """The rows of a file: none may come twice."""
    lines = file.read_text().splitlines()
    assert len(lines) == len(set(lines))
    return set(lines)


@pytest.mark.slow
@needs(HMMER)
def test_points_to(tmp_path: Path) -> None:
    folder = hmmer(tmp_path)
    program = tmp_path / "points_to.dl"
    program.write_text(RULES)
    found = gd.connect().run_file(program, facts=folder / "facts", out=tmp_path)
    assert len(found["points"]) == POINTS
    assert len(found["holds"]) == HOLDS
    for ours, theirs in (("loads", "CPtrLoad"), ("stores", "CPtrStore")):
        expected = {tuple(row.split("\t")) for row in _rows(folder / f"{theirs}.csv")}
        assert len(expected) == OUTPUTS[theirs]
        assert expected <= set(found[ours].fetchall())


@pytest.mark.slow
@needs(HMMER)
def test_its_published_outputs(tmp_path: Path) -> None:
    folder = hmmer(tmp_path)
    program = Path(__file__).parent / "souffle" / "hmmer.dl"
    found = gd.connect().run_file(program, facts=folder / "facts", out=tmp_path)
    for name, rows in OUTPUTS.items():
        written = _rows(tmp_path / f"{name}.csv")
        assert len(found[name]) == len(written) == rows
        assert written == _rows(folder / f"{name}.csv")
