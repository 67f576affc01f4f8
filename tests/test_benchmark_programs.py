"""Programs of the benchmarks that are made up: their facts, what they give, how they are run."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import gdatalog as gd
from benchmarks.made_programs import MADE, Made
from benchmarks.programs import TAKEUCHI
from benchmarks.whole_processes import files_of_profile, ours
from gdatalog.parser import parse
from tests.oracle import evaluate

# Sizes that the oracle, which tries all rows of each atom, can do; and numbers below which all are.
TINY = {"CFL reachability": (4, 1000), "Steensgaard": (1, 9), "access control": (8, 1000)}


@pytest.mark.parametrize("made", MADE, ids=lambda made: made.name)
def test_facts_are_the_same_each_time(made: Made) -> None:
    facts, again = made.facts(30), made.facts(30)
    assert facts.keys() == again.keys() and len(facts) >= 3
    for name, columns in facts.items():
        assert min(map(len, columns)) == max(map(len, columns)) > 0
        assert all(map(np.array_equal, columns, again[name]))


@pytest.mark.parametrize("made", MADE, ids=lambda made: made.name)
def test_programs_give_what_they_mean(made: Made) -> None:
    size, below = TINY[made.name]
    data = {
        name: {
            tuple(x % below if isinstance(x, int) else x for x in row)
            for row in list(zip(*(column.tolist() for column in columns), strict=True))[-40:]
        }
        for name, columns in made.facts(size).items()
    }
    rules = "\n".join(line for line in made.text.splitlines() if not line.startswith(".input"))
    meant = evaluate(parse(rules), data, {})
    asked = [line.split()[1] for line in rules.splitlines() if line.startswith(".printsize")]
    with gd.connect() as db:
        for name, rows in data.items():
            db[name] = sorted(rows)
        db.run(rules)
        for name in asked:
            assert set(db[name].fetchall()) == meant[name] and meant[name]
    assert made.name != "access control" or meant["may"] < meant["granted"]


@cache
def tak(x: int, y: int, z: int) -> int:
    return z if x <= y else tak(tak(x - 1, y, z), tak(y - 1, z, x), tak(z - 1, x, y))


def test_takeuchis_function_is_what_it_is() -> None:
    text = TAKEUCHI.format(size=2) + "?- tak(x, y, z, r)."
    found = gd.query(text, strategy="levelwise").fetchall()
    assert found and all(tak(x, y, z) == r for x, y, z, r in found)
    arguments = {row[:3] for row in found}
    values = range(-2, 3)
    assert {(x, y, z) for x in values for y in values for z in values} <= arguments
    assert tak.cache_info().currsize == len(arguments) == len(found)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no wait4")
def test_a_whole_process_tells_its_rows_and_its_memory(tmp_path: Path) -> None:
    program = tmp_path / "p.dl"
    program.write_text(
        ".decl e(x: int, y: int)\n.input e\n.printsize e\n.output p\np(x) <- e(x, _)."
    )
    (tmp_path / "e.facts").write_text("1\t2\n1\t3\n")
    ended = ours(program, tmp_path, str(tmp_path / "cache"))
    assert ended.trouble == "" and ended.counts == {"e": 2, "p": 1}
    assert ended.files is not None and 0 < ended.files < ended.seconds and ended.peak > 1 << 20
    program.write_text("?- x = 1 / 0.")
    assert "division by zero" in ours(program, tmp_path, str(tmp_path / "cache")).trouble


def test_a_profile_of_souffle_tells_what_files_took() -> None:
    relations = {
        "e": {"loadtime": {"start": 1_000_000, "end": 1_250_000}, "num-tuples": 7},
        "p": {"savetime": {"start": 3_000_000, "end": 3_500_000}},
    }
    assert files_of_profile({"root": {"program": {"relation": relations}}}) == 0.75
