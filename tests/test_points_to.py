"""Andersen's points-to analysis of a real C program (hmmer), on names rather than numbers.

The facts come with two outputs of an analysis whose rules do not: which loads and stores of
pointers it found. Every pointer that is followed there must point somewhere here.
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


@pytest.mark.slow
@needs(HMMER)
def test_points_to(tmp_path: Path) -> None:
    folder = hmmer(tmp_path)
    program = tmp_path / "points_to.dl"
    program.write_text(RULES)
    found = gd.connect().run_file(program, facts=folder / "facts", out=tmp_path)
    assert len(found["points"]) == POINTS
    assert len(found["holds"]) == HOLDS
    for ours, theirs, rows in (("loads", "CPtrLoad", 2649), ("stores", "CPtrStore", 255)):
        lines = (folder / f"{theirs}.csv").read_text().splitlines()
        expected = {tuple(line.split("\t")) for line in lines}
        assert len(expected) == rows
        assert expected <= set(found[ours].fetchall())
