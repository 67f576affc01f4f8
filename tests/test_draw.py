"""What the strategies draw: programs that pass the checks, say something, and print and parse."""

from __future__ import annotations

import re

import pytest
from checked import check

from gdatalog.errors import Error
from gdatalog.parser import parse
from gdatalog.planner.check import Schema
from tests.draw import PROFILES, Drawn, drawn
from tests.oracle import evaluate
from tests.oracle_values import Failure
from tests.reduce import reduced

NUMBERS = range(60)


def schemas(program: Drawn) -> dict[str, Schema]:
    return {
        name: Schema(name, tuple(f"c{at}" for at in range(len(kinds))), kinds)
        for name, kinds in program.types.items()
    }


@pytest.mark.parametrize("profile", PROFILES)
def test_most_pass_the_checks(profile: str) -> None:
    refused = []
    for number in NUMBERS:
        program = drawn(number, PROFILES[profile])
        try:
            check(parse(program.text), schemas(program))
        except Error as error:
            refused.append((number, error))
    assert len(refused) <= len(NUMBERS) // 10, refused[:3]


@pytest.mark.parametrize("profile", PROFILES)
def test_most_are_different_and_say_something(profile: str) -> None:
    programs = [drawn(number, PROFILES[profile]) for number in NUMBERS]
    assert len({program.text for program in programs}) >= 0.95 * len(NUMBERS)
    defined = nonempty = failed = 0
    for program in programs:
        try:
            found = evaluate(program.program, program.rows, program.types)
        except Failure:
            failed += 1
            continue
        defined += len(program.defined)
        nonempty += sum(bool(found[name]) for name in program.defined)
    assert nonempty > 0.35 * defined
    assert failed < 0.15 * len(NUMBERS)


@pytest.mark.parametrize("profile", PROFILES)
def test_they_print_and_parse(profile: str) -> None:
    for number in NUMBERS:
        program = drawn(number, PROFILES[profile])
        assert repr(parse(program.text)) == _as_read(repr(program.program)), program


def _as_read(shown: str) -> str:
    """Decimals are read as floats, whose texts say what decimals they are."""
    scaled = re.compile(r"Const\(type='decimal\(18,2\)', value=(-?\d+)\)")
    return scaled.sub(lambda found: f"Const(type='float', value={int(found[1]) / 100})", shown)


def test_reduced() -> None:
    """Of a large program of which one relation matters, what gives it one row is left."""

    def fails(program: Drawn) -> str | None:
        if "p1" not in program.defined:
            return None
        try:
            check(parse(program.text), schemas(program))
        except Error:
            return None
        found = evaluate(program.program, program.rows, program.types)
        return "p1 has a row" if found["p1"] else None

    large = next(
        program
        for number in NUMBERS
        if fails(program := drawn(number, PROFILES["graph"]))
        and len(program.program.statements) > 3
        and sum(map(len, program.rows.values())) > 20
    )
    small = reduced(large, fails)
    assert fails(small)
    assert len(small.program.statements) == 1
    assert sum(map(len, small.rows.values())) <= 2
