"""Wide relations, long bodies, sparse keys, hubs and duplicates, against DuckDB.

The oracle is too slow for these: a body here has up to 20 atoms over relations of up to 30 columns
and, in the slow test, 100,000 rows. A case is drawn as a Datalog rule and as SQL at once.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from random import Random

import numpy as np
import pandas as pd
import pytest

import gdatalog as gd
from tests.cases import PROGRAMS
from tests.interpreted import interpreted

duckdb = pytest.importorskip("duckdb")

pytestmark = pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")

CASES = PROGRAMS // 10
KEYS = ("dense", "sparse", "far apart")
WIDTHS = (1, 2, 2, 3, 5, 12, 30)


@dataclass
class Case:
    """A rule, the SQL that says the same, and the data of both."""

    rule: str
    sql: str
    data: dict[str, pd.DataFrame]


def drawn(seed: int, rows: int, atoms: int) -> Case:
    random, numbers = Random(seed), np.random.default_rng(seed)
    kind = KEYS[seed % 3]
    data: dict[str, pd.DataFrame] = {}
    count = random.randint(rows // 4, rows)
    for at in range(random.randint(1, 4)):
        width = random.choice(WIDTHS)
        columns = {f"c{c}": _column(random, numbers, count, kind) for c in range(width)}
        frame = pd.DataFrame(columns)
        if random.random() < 0.3:  # some rows twice
            frame = pd.concat([frame, frame.iloc[: count // 3]], ignore_index=True)
        data[f"R{at}"] = frame

    names: list[str] = []  # variables, each with where SQL finds it first
    places: dict[str, str] = {}
    literals, tables, tests = [], [], []
    for number in range(random.randint(1, atoms)):
        relation = random.choice(sorted(data))
        width = data[relation].shape[1]
        joined = {random.randrange(width)} if names else set()
        if names and random.random() < 0.05:
            joined.add(random.randrange(width))
        args = []
        fresh: list[str] = []
        for c in range(width):
            place = f"t{number}.c{c}"
            if c in joined:
                name = random.choice(names)
                tests.append(f"{place} = {places[name]}")
            elif random.random() < 0.4:
                name = "_"
            else:
                name = f"x{number}_{c}"
                places[name] = place
                fresh.append(name)
            args.append(name)
        names += fresh
        literals.append(f"{relation}({', '.join(args)})")
        tables.append(f"(select distinct * from {relation}) t{number}")
    for _ in range(random.randint(0, 2)):
        if len(names) >= 2:
            left, right = random.sample(names, 2)
            op = random.choice(["<", "<=", "!="])
            literals.append(f"{left} {op} {right}")
            tests.append(f"{places[left]} {op} {places[right]}")
    random.shuffle(literals)

    where = f" where {' and '.join(tests)}" if tests else ""
    body, of = ", ".join(literals), f"{', '.join(tables)}{where}"
    if names and random.random() < 0.5:
        by = random.choice(names)
        return Case(
            f"answer({by}, count()) <- {body}.",
            f"select {places[by]}, count(*) from {of} group by 1",
            data,
        )
    return Case(f"answer(count()) <- {body}.", f"select count(*) from {of}", data)


def _column(random: Random, numbers: np.random.Generator, rows: int, kind: str) -> np.ndarray:
    """Keys, each in about one row, so that joins neither end nor explode; some have a hub."""
    values = numbers.permutation(rows)
    chance = random.random()
    if chance < 0.3:
        values = np.where(numbers.random(rows) < 2 / rows, 0, values)
    elif chance < 0.5:
        values = numbers.integers(0, rows, rows)
    if kind == "sparse":
        return values * 1_000_003 - 5_000_000_000
    return values * (2**40 + 1) if kind == "far apart" else values


def agrees(case: Case, **forced: str) -> None:
    connection = duckdb.connect()
    connection.execute("set threads = 2")
    with gd.connect(device="cpu", threads=2) as db:
        db.workspace.force(**forced)
        for name, frame in case.data.items():
            db.load(name, frame)
            connection.register(name, frame)
        expected = connection.execute(case.sql).fetchall()
        assert sorted(db.query(case.rule).fetchall()) == sorted(expected), case.rule


@pytest.mark.drawn
@pytest.mark.parametrize("strategy", ["levelwise", "lftj"])
def test_drawn_cases(strategy: str) -> None:
    with interpreted() if strategy == "lftj" else nullcontext():
        for seed in range(CASES):
            agrees(drawn(seed, rows=60, atoms=20), strategy=strategy)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1012))
def test_many_rows(seed: int) -> None:
    agrees(drawn(seed, rows=100_000, atoms=8))
