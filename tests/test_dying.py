"""Rules that are split where a variable dies: the same answers, fewer rows tried."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gdatalog as gd
from gdatalog.engine import dying
from gdatalog.parser import parse
from gdatalog.planner.dying import Parted
from tests.draw import Drawn, recursive_programs
from tests.interpreted import interpreted
from tests.test_engine_oracle import Data, Relations, agrees_in, answers, share

pytestmark = pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")

SG = """
    sg(x, y) <- E(p, x), E(p, y), x != y.
    sg(x, y) <- E(a, x), sg(a, b), E(b, y).
"""
ANDERSEN = """
    pt(p, v) <- address(p, v).
    pt(p, v) <- copy(p, q), pt(q, v).
    pt(p, v) <- load(p, q), pt(q, r), pt(r, v).
    pt(r, v) <- store(p, q), pt(p, r), pt(q, v).
"""
WAYS = ("auto", "always", "never")


def database(data: dict[str, Any], way: str, strategy: Any = "auto") -> gd.Database:
    db = gd.connect(device="cpu")
    db._workspace.dying, db._workspace.split = way, "never"
    db._workspace.strategy = strategy
    for name, rows in data.items():
        db[name] = rows
    return db


def explained(text: str, data: dict[str, Any], way: str = "always") -> list[str]:
    """What an explanation says of rules that were split, and the rules as they are then."""
    lines = str(database(data, way).explain(text)).splitlines()
    return [line[2:] for line in lines if line[:2] == "  " and line[2] != " "]


def rules(text: str, data: dict[str, Any], way: str = "always") -> list[str]:
    return [line for line in explained(text, data, way) if "<-" in line]


def cliques(many: int, size: int) -> list[tuple[int, int]]:
    """Layers of vertices, each joined with all of the next."""
    return [
        (layer * size + a, (layer + 1) * size + b)
        for layer in range(many)
        for a in range(size)
        for b in range(size)
    ]


# --------------------------------------------------------------------------- the same answers


def split_always(text: str, data: Data, defined: set[str], number: int) -> Relations:
    with gd.connect(device="cpu") as db:
        db._workspace.dying, db._workspace.split = "always", "never"
        db._workspace.strategy = ("lftj", "levelwise")[number % 2]
        with interpreted():
            return answers(db, text, data, defined)


@pytest.mark.drawn
@share(20)
@given(recursive_programs())
def test_recursive_programs(drawn: Drawn) -> None:
    agrees_in(split_always, drawn)


def chains(seed: int) -> Drawn:
    """Recursive rules of many atoms over two relations that need each other, most of them split."""
    random = Random(seed)
    names = "abcdefg"
    relations = {"E": 2, "F": 2, "T": 3, "U": 1, "r": 2, "s": random.choice((1, 2))}
    kind = random.choice(("int", "symbol"))
    values: Any = range(6) if kind == "int" else "uvwxyz"

    def atom(name: str, first: str = "") -> str:
        args = [random.choice(names[:5]) for _ in range(relations[name])]
        if first:
            args[0] = first
        at = random.randrange(len(args))
        if random.random() < 0.1:
            args[at] = repr(values[0]).replace("'", '"')
        elif random.random() < 0.1:
            args[at] = "_"
        return f"{name}({', '.join(args)})"

    lines = ["r(a, b) <- E(a, b)."]
    lines.append(f"s({', '.join('ab'[: relations['s']])}) <- F(a, b).")
    for _ in range(random.randint(1, 4)):
        head = random.choice("rs")
        heads = [random.choice(names[:5]) for _ in range(relations[head])]
        body = [atom(random.choice("rs")), *(atom(random.choice("EEFTUrs")) for _ in range(3))]
        bound = {name for part in body for name in names if name in part[1:]}
        body += [atom(random.choice("EF"), name) for name in sorted({*heads} - bound)]
        bound |= {*heads}
        one, other = (random.choice(sorted(bound)) for _ in range(2))
        tests = [f"{one} != {other}", f"!E({one}, {other})", f"!T({one}, _, {other})"]
        tests += [f"{one} < {other}"] if kind == "int" else []
        if random.random() < 0.5:
            body.append(random.choice(tests))
        if random.random() < 0.2:
            body[-1] = f"({body[-1]} ; {atom('E', one)})"
        random.shuffle(body)
        lines.append(f"{head}({', '.join(heads)}) <- {', '.join(body)}.")
    data = {
        name: (
            (kind,) * relations[name],
            sorted(
                {
                    tuple(random.choice(values) for _ in range(relations[name]))
                    for _ in range(random.randint(3, 9))
                }
            ),
        )
        for name in "EFTU"
    }
    return Drawn(parse("\n".join(lines)), data, seed)


@pytest.mark.drawn
@share(20)
@given(st.integers(0, 2**64 - 1).map(chains))
def test_rules_of_many_atoms(drawn: Drawn) -> None:
    agrees_in(split_always, drawn)


def test_most_of_them_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Parted | None] = []
    parted = dying.parted

    def noted(*args: Any) -> Parted | None:
        found.append(parted(*args))
        return found[-1]

    monkeypatch.setattr(dying, "parted", noted)
    for seed in range(40):
        drawn = chains(seed)
        try:
            split_always(drawn.text, drawn.data, drawn.defined, seed)
        except gd.errors.SafetyError:
            continue
    assert sum(part is not None for part in found) > len(found) // 2 > 10
