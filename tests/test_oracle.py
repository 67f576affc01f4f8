"""The oracle against examples computed by hand, one for every feature of the language."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from gdatalog.parser import parse
from tests.cases import cases
from tests.corners import CORNERS, Example
from tests.draw import Drawn, graph_programs, relational_programs
from tests.examples import EXAMPLES
from tests.oracle import TooLong, answers, evaluate
from tests.oracle_values import Failure, canonical
from tests.sql import Unsupported, run_sql


@pytest.mark.parametrize("example", CORNERS + EXAMPLES, ids=str)
def test_example(example: Example) -> None:
    data = {name: rows for name, (_, rows) in example.data.items()}
    types = {name: kinds for name, (kinds, _) in example.data.items()}
    program = parse(example.program)
    if example.fails:
        with pytest.raises(Failure):
            evaluate(program, data, types)
        return
    found = evaluate(program, data, types)
    kinds = {name: [tuple(map(type, row)) for row in rows] for name, rows in found.items()}
    for name, rows in example.expected.items():
        assert found[name] == rows, name
        assert set(kinds[name]) <= {tuple(map(type, row)) for row in rows}, name
    assert found.keys() == example.expected.keys() | data.keys()


def test_queries() -> None:
    program = parse(
        """
        tr(x, y) <- E(x, y).
        ?- tr(1, y), E(y, z), !E(z, _), 0 = count : { E(z, w) }.
        ?- tr.
        ?- E(1, 2), !E(2, 1).
        ?- E(2, 1).
        ?- E($start, y).
        """
    )
    edges = {(1, 2), (2, 3)}
    found = answers(program, {"E": edges}, {"E": ("int", "int")}, {"start": 2})
    assert found == [
        (("y", "z"), {(2, 3)}),
        ((), edges),
        ((), {()}),
        ((), set()),
        (("y",), {(3,)}),
    ]


@pytest.mark.slow
@settings(
    max_examples=cases(150),
    deadline=None,
    phases=[Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.filter_too_much],
)
@given(st.one_of(relational_programs(), graph_programs()))
def test_against_sql(drawn: Drawn) -> None:
    try:
        expected = run_sql(drawn.program, drawn.types, drawn.rows)
        found = evaluate(drawn.program, drawn.rows, drawn.types)
    except (Unsupported, TooLong, Failure):
        assume(False)
    for name, rows in expected.items():
        assert canonical(found[name]) == canonical(rows), (name, drawn)
