"""Programs on a cluster of one to four workers against the oracle, replicated and partitioned.

Examples, the corners where rewriting is known to be unsound, and drawn programs: everything that
can be spread is, however small it is.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given

import gdatalog
from gdatalog.errors import Error, EvaluationError
from gdatalog.parser import parse
from tests.cases import share
from tests.clusters import Workers
from tests.corners import CORNERS, Example
from tests.draw import (
    Drawn,
    aggregate_programs,
    graph_programs,
    programs,
    recursive_programs,
    relational_programs,
    string_programs,
)
from tests.examples import EXAMPLES
from tests.oracle_values import canonical
from tests.test_engine_oracle import Data, Relations, agrees_in, answers

pytestmark = pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")

SPREAD = ("replicate", "partition")
KINDS = {
    "any": (programs, 2),
    "graphs": (graph_programs, 1),
    "relations": (relational_programs, 1),
    "recursion": (recursive_programs, 1),
    "aggregates": (aggregate_programs, 1),
    "texts": (string_programs, 1),
}


def run(
    client: Any, spread: str, text: str, data: Data, defined: set[str], number: Any = 0
) -> Relations:
    """What a database gives whose rules run on workers."""
    with gdatalog.connect(device="cpu", cluster=client) as db:
        db.workspace.force(spread=spread)
        return answers(db, text, data, defined)


@pytest.mark.slow
@pytest.mark.parametrize("spread", SPREAD)
@pytest.mark.parametrize("example", CORNERS, ids=str)
def test_corners(cluster: Workers, example: Example, spread: str) -> None:
    agrees_with(cluster(2), spread, example)


@pytest.mark.slow
@pytest.mark.parametrize("spread", SPREAD)
@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_examples(cluster: Workers, example: Example, spread: str) -> None:
    agrees_with(cluster(2), spread, example)


def agrees_with(client: Any, spread: str, example: Example) -> None:
    heads = Drawn(parse(example.program), {}, 0).defined
    if example.fails:
        with pytest.raises(EvaluationError) as caught:
            run(client, spread, example.program, example.data, heads)
        assert isinstance(caught.value, Error) and caught.value.span is not None
        return
    found = run(client, spread, example.program, example.data, set(example.expected))
    assert {name: canonical(rows) for name, rows in found.items()} == {
        name: canonical(rows) for name, rows in example.expected.items()
    }


@pytest.mark.parametrize("spread", SPREAD)
@pytest.mark.parametrize("kind", KINDS)
def test_programs(cluster: Workers, kind: str, spread: str) -> None:
    drawn_programs(cluster(2), kind, spread)


@pytest.mark.slow
@pytest.mark.drawn
@pytest.mark.parametrize("number", [1, 3, 4])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("spread", SPREAD)
def test_programs_on_more_or_fewer(cluster: Workers, number: int, kind: str, spread: str) -> None:
    drawn_programs(cluster(number), kind, spread)


def drawn_programs(client: Any, kind: str, spread: str) -> None:
    draw, percent = KINDS[kind]

    @share(percent)
    @given(draw())
    def agree(drawn: Drawn) -> None:
        agrees_in(partial(run, client, spread), drawn)

    agree()
