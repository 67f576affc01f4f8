"""Loops that intersect a list with one of each turn, only to add something up."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from gdatalog.gpu_ops.met_lists import MetLists

LOOPS = """
def walk():
    for i0 in turns(i2, e0):
        {first}
        x2 = np.int64(at(buffer0, i0))
        p = find_indexed(low2, index2, x2)
        if p < 0:
            continue
        k1 = intersect(buffer0, {low}, k0, v2, at(o2, p), at(o2, p + 1), buffer1)
        for i1 in range(0, k1):
            x3 = np.int64(at(buffer1, i1))
            m0 = np.int64(k0) - {low}
            if x3 != x2:
                m0 -= 1
            {last}
    {after}
"""
SHARED = """if e0 - i0 > 1 and late():
            e0 = 5 + share_turns(unit0, i0 + 1 - 5, e0 - 5)"""
ADDED = "if leads():\n                came0 += m0"
REWRITTEN = """
def walk():
    holds0 = hold_list(buffer0, {low}, k0)
    for i0 in lanes(i2, e0, unit0, 5):
        x2 = np.int64(at(buffer0, i0))
        p = find_indexed(low2, index2, x2)
        if p < 0:
            continue
        for i1 in spread(at(o2, p), at(o2, p + 1){keys}):
            x3 = np.int64(at(v2, i1))
            if not has_held(holds0, buffer0, {low}, k0, x3):
                continue
            m0 = np.int64(k0) - {low}
            if x3 != x2:
                m0 -= 1
            came0 += m0
    pass
"""


def rewritten(first: str = SHARED, low: str = "0", last: str = ADDED, after: str = "pass") -> str:
    text = dedent(LOOPS).format(first=first, low=low, last=last, after=after)
    (function,) = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)
    MetLists(function).rewrite()
    return ast.unparse(function)


@pytest.mark.parametrize(("low", "keys"), [("0", ", v2, buffer0, k0"), ("l0", "")])
def test_lanes_take_the_turns(low: str, keys: str) -> None:
    """The own values of a list that begins where its array does are looked up in longer ones."""
    expected = ast.unparse(ast.parse(dedent(REWRITTEN.format(low=low, keys=keys))))
    assert rewritten(low=low) == expected


@pytest.mark.parametrize(
    "given",
    [
        {"first": "k0 = p0"},  # the list is another in each turn
        {"first": "emit(x2)"},
        {"last": "emit(m0)"},
        {"last": "came0 += at(buffer1, 0)"},  # common values are read elsewhere
        {"after": "came0 += k1"},
    ],
)
def test_loops_that_stay(given: dict[str, str]) -> None:
    assert "hold_list" not in rewritten(**given)
