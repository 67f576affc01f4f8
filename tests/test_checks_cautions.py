"""Cautions: what a program may say but probably did not mean."""

from __future__ import annotations

import pytest
from checked import check

from gdatalog.parser import parse
from tests.tables import checked, schema, table


@pytest.mark.parametrize(("program", "says"), table("cautions"))
def test_says(program: str, says: str) -> None:
    found = "\n\n".join(caution.format() for caution in checked(program).cautions)
    assert (found or "nothing") == says


def test_declared_relations_may_be_empty_in_a_part_of_a_program() -> None:
    assert not check(parse(".decl e(x: int)"), {}).cautions  # its data may be loaded next
    program = parse(".decl e(x: int) ?- e.")
    assert check(program, {}).cautions
    assert not check(program, {}, whole=False).cautions
    assert not check(program, {"e": schema("e", x="int")}).cautions
