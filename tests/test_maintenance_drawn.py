"""Answers that follow what is new, of drawn programs: they are those of a fresh run."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given

import gdatalog as gd
from tests.cases import share
from tests.draw import Drawn, aggregate_programs, programs, recursive_programs
from tests.test_engine_oracle import Data, Relations, agrees_in, plain
from tests.test_engine_oracle import frame as typed
from tests.test_maintenance import as_if_many, connected

pytestmark = pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")


def in_two_steps(text: str, data: Data, defined: set[str], seed: int) -> Relations:
    """What a database gives to which most rows came when all had been answered before."""
    with connected() as db:
        for name, (types, given) in data.items():
            db[name] = typed(types, given[: seed % (len(given) + 1)])
        db.run(text)
        for name in sorted(defined):
            with suppress(gd.EvaluationError):  # of some rows
                len(db[name])
        for name, (types, given) in data.items():
            half = (seed + len(given)) // 2
            db.insert(name, typed(types, given[:half]))
            if seed % 2:
                with suppress(gd.EvaluationError):
                    len(db[sorted(defined)[0]])
            db.insert(name, typed(types, given[half:]))
        found = {name: db[name].fetchall() for name in defined}
    for name, those in found.items():
        assert len(those) == len(set(those)), f"{name} is not a set: {those}"
    return {name: {tuple(map(plain, row)) for row in those} for name, those in found.items()}


@pytest.mark.drawn
@share(10)
@given(programs())
def test_drawn_programs(drawn: Drawn) -> None:
    agrees_in(in_two_steps, drawn)


@pytest.mark.drawn
@share(10)
@given(recursive_programs())
def test_drawn_recursive_programs(drawn: Drawn) -> None:
    with pytest.MonkeyPatch.context() as patch:
        as_if_many(patch, 4)
        agrees_in(in_two_steps, drawn)


@pytest.mark.drawn
@share(5)
@given(aggregate_programs())
def test_drawn_aggregates(drawn: Drawn) -> None:
    agrees_in(in_two_steps, drawn)
