"""Tables of programs and what is said about them: `tests/checks/*.txt`.

A program, a line `----`, and the whole message; `====` between one and the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from checked import check

from gdatalog.errors import Error
from gdatalog.parser import parse
from gdatalog.planner.check import Checked, Schema
from gdatalog.values import TypeName


def table(name: str) -> list[Any]:
    """The cases of a file, each under the first lines of its program."""
    text = (Path(__file__).parent / "checks" / f"{name}.txt").read_text(encoding="utf-8")
    cases = []
    for case in text.split("====\n"):
        program, says = case.split("\n----\n")
        cases.append(pytest.param(program, says.rstrip("\n"), id=program.replace("\n", " ")[:60]))
    return cases


def checked(
    text: str,
    known: Mapping[str, Schema] | None = None,
    params: Mapping[str, TypeName] | None = None,
) -> Checked:
    return check(parse(text, "p.dl"), known or {}, params or {})


def said(text: str, known: Mapping[str, Schema] | None = None) -> str:
    """What the error says that the program must end in."""
    with pytest.raises(Error) as caught:
        checked(text, known)
    return str(caught.value)


def schema(name: str, **types: TypeName) -> Schema:
    return Schema(name, tuple(types), tuple(types.values()))
