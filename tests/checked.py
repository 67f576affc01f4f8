"""Checks whole programs, as a database does that keeps no rules."""

from __future__ import annotations

from collections.abc import Mapping

from gdatalog.parser.syntax import Program
from gdatalog.planner.check import Checked, Schema
from gdatalog.planner.check.validity import check_with
from gdatalog.values import ParamType


def check(
    program: Program,
    known: Mapping[str, Schema],
    params: Mapping[str, ParamType] | None = None,
    *,
    whole: bool = True,
) -> Checked:
    """The checked program; raises all of its errors."""
    return check_with((), program.statements, known, params or {}, {}, None, whole)[0]
