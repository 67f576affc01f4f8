"""The oracle against examples computed by hand, one for every feature of the language."""

from __future__ import annotations

import pytest

from gdatalog.parser import parse
from tests.corners import CORNERS, Example
from tests.examples import EXAMPLES
from tests.oracle import answers, evaluate
from tests.oracle_values import Failure


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
