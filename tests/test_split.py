"""Fixpoints that split, against the oracle: what rules may look like, and what values may be.

The printed worklists are run by Python itself (`interpreted.py`); a few are compiled. Blocks of a
few rows make nearly every value begin anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gdatalog
from gdatalog.engine import splits
from gdatalog.parser import parse
from tests import test_engine_oracle as oracle
from tests.draw import Drawn, recursive_programs
from tests.interpreted import interpreted
from tests.oracle_values import Value

pytestmark = pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")

# Each splits: by the first column, but where it says otherwise.
SHAPES = {
    "left linear": "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z).",
    "right linear": "p(x, y) <- E(x, y). p(x, z) <- E(x, y), p(y, z).",  # by the second
    "in one rule": "p(x, z) <- E(x, z) ; p(x, y), E(y, z).",
    "several rules": """
        p(x, y) <- E(x, y). p(x, y) <- F(y, x), N(x).
        p(x, z) <- p(x, y), E(y, z). p(x, z) <- p(x, y), F(z, y).""",
    "alternatives": "p(x, y) <- E(x, y). p(x, z) <- p(x, y), (E(y, z) ; F(y, z), !N(z)).",
    "extra atoms": "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, w), F(w, z), N(x), E(_, z).",
    "tests": "p(x, y) <- E(x, y), x != y. p(x, z) <- p(x, y), E(y, z), x != z, y < z.",
    "negation": """
        bad(x) <- F(x, x). p(x, y) <- E(x, y).
        p(x, z) <- p(x, y), E(y, z), !bad(z), !F(x, z), !(E(z, w), F(w, _)).""",
    "constants": """
        p(x, y) <- E(x, y), x != $1.
        p(x, $2) <- p(x, $1). p(x, z) <- p(x, y), E(y, z), F(_, $2).""",
    "a variable twice": "p(x, y) <- E(x, y). p(x, z) <- p(x, x), E(x, z). p(x, x) <- p(x, _).",
    "a fact and data": "p(x, y) <- E(x, y). p($1, $2). p(x, z) <- p(x, y), E(y, z).",
    "mutual": """
        odd(x, y) <- E(x, y). odd(x, z) <- even(x, y), E(y, z).
        even(x, z) <- odd(x, y), E(y, z).""",
    "mutual, by other columns": """
        a(x, y) <- E(x, y). b(y, x) <- a(x, y), N(y). a(x, z) <- b(y, x), F(y, z).""",
    "mutual, of other widths": """
        r(x) <- N(x). s(x, y) <- r(x), E(x, y). s(x, z) <- s(x, y), E(y, z). r(x) <- s(x, x).""",
    "three columns": "q(x, y, z) <- T(x, y, z). q(x, z, w) <- q(x, y, z), T(y, z, w).",
    "three, by the middle": "q(x, c, y) <- T(x, c, y). q(x, c, z) <- q(x, c, y), E(y, z).",
    "one column": "r(x) <- N(x). r(x) <- r(x), E(x, _).",
    "generated": "p(x, y) <- E(x, y). p(x, z) <- p(x, y), z in {$1, $2}, E(y, _).",
    "no rows to begin with": "p(x, y) <- E(x, y), !E(x, y). p(x, z) <- p(x, y), E(y, z).",
}
TYPES = {"E": 2, "F": 2, "N": 1, "T": 3}


def values(kind: str, random: Random) -> list[Value]:
    match kind:
        case "small":
            return list(range(7))
        case "negative":
            return list(range(-4, 3))
        case "sparse":
            return [-(1 << 63), (1 << 63) - 1, *(random.randrange(1 << 62) for _ in range(4)), 0]
        case _:
            return ["", "a", "b", "c", "ä", "z z"]


def shown(value: Value) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def draw(shape: str, seed: int) -> Drawn:
    """The program of a number, with data."""
    random = Random(seed)
    kind = random.choice(["small", "small", "negative", "sparse", "symbol"])
    some = values(kind, random)
    text = shape
    for name in ("$1", "$2"):
        text = text.replace(name, shown(random.choice([v for v in some if v != -(1 << 63)])))
    typename = "symbol" if kind == "symbol" else "int"
    rows = random.choice([0, 3, 8, 20])
    data = {
        name: (
            (typename,) * arity,
            sorted({tuple(random.choice(some) for _ in range(arity)) for _ in range(rows)}),
        )
        for name, arity in TYPES.items()
        if f"{name}(" in text
    }
    return Drawn(parse(text), data, seed)


def run(text: str, data: oracle.Data, defined: set[str], number: int) -> oracle.Relations:
    """Forced; the number chooses threads, rows of a block, and whether stamps or a hash table."""
    with gdatalog.connect(device="cpu", threads=1 + number % 2) as db:
        db._workspace.split = "always"
        db._workspace.chunk_rows = (None, 1, 2, 7)[number % 4]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(splits, "MOST_STAMPS", (1 << 26, 0, 40)[number % 3])
            patch.setattr(splits, "BYTES", (1 << 20, 3)[number // 2 % 2])
            return oracle.answers(db, text, data, defined)


@pytest.fixture
def not_compiled() -> Iterator[None]:
    with interpreted():
        yield


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The fixpoints that were run split."""
    found: list[str] = []
    real = splits.run_split

    def noted(function: Any, printed: Any, *rest: Any) -> Any:
        found.append(printed.shape)
        return real(function, printed, *rest)

    monkeypatch.setattr(splits, "run_split", noted)
    return found


@pytest.mark.usefixtures("not_compiled")
@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name: str, ran: list[str]) -> None:
    for seed in range(12):
        oracle.agrees_in(run, draw(SHAPES[name], seed))
    assert bool(ran) == (name != "no rows to begin with")


@pytest.mark.drawn
@oracle.share(30)
@given(st.sampled_from(sorted(SHAPES)), st.integers(0, 2**32))
def test_drawn_shapes(name: str, seed: int) -> None:
    with interpreted():
        oracle.agrees_in(run, draw(SHAPES[name], seed))


@pytest.mark.drawn
@oracle.share(10)
@given(recursive_programs())
def test_drawn_programs(drawn: Drawn) -> None:
    with interpreted():
        oracle.agrees_in(run, drawn)
