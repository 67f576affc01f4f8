"""The ten group-by and five join questions of the h2o db-benchmark, beside DuckDB and Polars.

    python -m benchmarks.h2o --rows 1e7

Each side has a process of its own and two threads. A question is asked first of a database that
has just been loaded (cold), then twice more (warm, the shorter). Remembered answers are forgotten
before. Rows are numbered as they are loaded, since equal rows of the data count more than once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import once

ROOT = Path(__file__).resolve().parents[1]
SIDES = ("ours", "DuckDB", "Polars")
GROUPS, THREADS, SEED = 100, 2, 7
WARM, COLD = 2.0, 4.0  # the most that we take of the better peer's seconds


@dataclass(frozen=True, slots=True)
class Question:
    """`rule`, `sql`, and an expression of Polars over the frames `x`, `small`, `medium`, `big`."""

    name: str
    rule: str
    sql: str
    polars: str
    tables: tuple[str, ...] = ("g",)


def _sums(group: str, values: str) -> str:
    """A rule that groups rows of g by columns, and aggregates others."""
    read = ", ".join(f"{name} = {name}" for name in f"{group}, {values}".split(", "))
    return f"g({read})"


QUESTIONS = (
    Question(
        "sum v1 by id1",
        f"r(id1, sum(v1)) <- {_sums('id1', 'v1')}.",
        "select id1, sum(v1)::bigint from g group by id1",
        "g.group_by('id1').agg(c('v1').sum())",
    ),
    Question(
        "sum v1 by id1, id2",
        f"r(id1, id2, sum(v1)) <- {_sums('id1, id2', 'v1')}.",
        "select id1, id2, sum(v1)::bigint from g group by id1, id2",
        "g.group_by('id1', 'id2').agg(c('v1').sum())",
    ),
    Question(
        "sum v1, mean v3 by id3",
        f"r(id3, sum(v1), mean(v3)) <- {_sums('id3', 'v1, v3')}.",
        "select id3, sum(v1)::bigint, avg(v3) from g group by id3",
        "g.group_by('id3').agg(c('v1').sum(), c('v3').mean())",
    ),
    Question(
        "mean v1, v2, v3 by id4",
        f"r(id4, mean(v1), mean(v2), mean(v3)) <- {_sums('id4', 'v1, v2, v3')}.",
        "select id4, avg(v1), avg(v2), avg(v3) from g group by id4",
        "g.group_by('id4').agg(c('v1', 'v2', 'v3').mean())",
    ),
    Question(
        "sum v1, v2, v3 by id6",
        f"r(id6, sum(v1), sum(v2), sum(v3)) <- {_sums('id6', 'v1, v2, v3')}.",
        "select id6, sum(v1)::bigint, sum(v2)::bigint, sum(v3) from g group by id6",
        "g.group_by('id6').agg(c('v1', 'v2', 'v3').sum())",
    ),
    Question(
        "median v3, stddev v3 by id4, id5",
        f"r(id4, id5, median(v3), stddev(v3)) <- {_sums('id4, id5', 'v3')}.",
        "select id4, id5, median(v3), stddev(v3) from g group by id4, id5",
        "g.group_by('id4', 'id5').agg(c('v3').median(), c('v3').std().alias('sd'))",
    ),
    Question(
        "max v1 - min v2 by id3",
        f"r(id3, max(v1) - min(v2)) <- {_sums('id3', 'v1, v2')}.",
        "select id3, max(v1) - min(v2) from g group by id3",
        "g.group_by('id3').agg(c('v1').max() - c('v2').min())",
    ),
    Question(
        "largest two v3 by id6",
        f"r(id6, top(2, v3 by v3 desc)) <- {_sums('id6', 'v3')}.",
        "select id6, v3 from (select id6, v3, row_number() over (partition by id6 "
        "order by v3 desc) as n from (select distinct id6, v3 from g)) where n <= 2",
        "g.select('id6', 'v3').unique().group_by('id6').agg(c('v3').top_k(2)).explode('v3')",
    ),
    Question(
        "corr(v1, v2) squared by id2, id4",
        f"r(id2, id4, c * c) <- s(id2, id4, c). s(id2, id4, corr(v1, v2)) <- "
        f"{_sums('id2, id4', 'v1, v2')}. ?- r(id2, id4, c).",
        "select id2, id4, pow(corr(v1, v2), 2) from g group by id2, id4",
        "g.group_by('id2', 'id4').agg(pl.corr('v1', 'v2') ** 2)",
    ),
    Question(
        "sum v3, count by id1 to id6",
        "r(id1, id2, id3, id4, id5, id6, sum(v3), count()) <- "
        f"{_sums('id1, id2, id3, id4, id5, id6', 'v3')}.",
        "select id1, id2, id3, id4, id5, id6, sum(v3), count(*) from g group by all",
        "g.group_by('id1', 'id2', 'id3', 'id4', 'id5', 'id6')"
        ".agg(c('v3').sum(), pl.len().cast(pl.Int64))",
    ),
)
_LEFT = "j(row, id1, id2, id3, id4, id5, id6, v1)"
_OF_LEFT = "row, id1, id2, id3, id4, id5, id6, v1"


def _join(name: str, other: str, key: str, columns: str, optional: bool = False) -> Question:
    """Rows of j with those of another table that have the same value of a column."""
    read = ", ".join(f"{column} = {key if column == key else '_' + column}"
                     for column in columns.split(", "))  # fmt: skip
    got = ", ".join(f"_{column}" for column in columns.split(", ") if column != key)
    atom = f"optional {other}({read})" if optional else f"{other}({read})"
    how = "left" if optional else "inner"
    picked = ", ".join(f"b.{column}" for column in columns.split(", ") if column != key)
    return Question(
        name,
        f"r({_OF_LEFT}, {got}) <- {_LEFT}, {atom}.",
        f"select a.*, {picked} from j a {how} join {other} b using ({key})",
        f"j.join({other}, on='{key}', how='{how}')",
        ("j", other),
    )


JOINS = (
    _join("inner join, small, on an int", "small", "id1", "id1, id4, v2"),
    _join("inner join, medium, on an int", "medium", "id2", "id1, id2, id4, id5, v2"),
    _join("left join, medium, on an int", "medium", "id2", "id1, id2, id4, id5, v2", True),
    _join("inner join, medium, on a text", "medium", "id5", "id1, id2, id4, id5, v2"),
    _join("inner join, big, on an int", "big", "id3", "id1, id2, id3, id4, id5, id6, v2"),
)


def tables(rows: int) -> dict[str, Any]:
    """The data of both tasks, as Arrow tables: g for groups; j, small, medium and big for joins.

    As in the benchmark, a tenth of the keys of each side of a join are not in the other."""
    import pyarrow as pa

    random = np.random.default_rng(SEED)

    def texts(pattern: str, numbers: Any, most: int) -> Any:
        words = pa.array([pattern % number for number in range(most + 1)])
        return words.take(pa.array(numbers))

    few, many = GROUPS, max(1, rows // GROUPS)
    ids = [random.integers(1, most + 1, rows) for most in (few, few, many, few, few, many)]
    g = {
        **{f"id{at + 1}": texts(("id%03d", "id%03d", "id%010d")[at], ids[at], (few, few, many)[at])
           for at in range(3)},
        **{f"id{at + 1}": ids[at] for at in (3, 4, 5)},
        "v1": random.integers(1, 6, rows),
        "v2": random.integers(1, 16, rows),
        "v3": np.round(random.random(rows) * 100, 6),
    }  # fmt: skip
    made = {"g": pa.table(g)}
    sizes = [max(10, rows // 1_000_000), max(100, rows // 1_000), rows]
    keys = [_keys(random, size) for size in sizes]
    for name, count, depth in (("j", rows, 3), *zip(("small", "medium", "big"), sizes, (1, 2, 3),
                                                    strict=True)):  # fmt: skip
        columns: dict[str, Any] = {}
        for at in range(depth):
            known = keys[at][0 if name == "j" else 1]
            if name != "j" and at == depth - 1:
                chosen = known  # a key of this table: each once
            elif name == "j" and at == 2:
                chosen = random.permutation(known)
            else:
                chosen = known[random.integers(0, len(known), count)]
            columns[f"id{at + 1}"] = chosen
        for at in range(depth):
            columns[f"id{at + 4}"] = texts("id%d", columns[f"id{at + 1}"], int(keys[at][2]))
        columns["v1" if name == "j" else "v2"] = np.round(random.random(count) * 100, 6)
        made[name] = pa.table(columns)
    return made


def _keys(random: Any, size: int) -> tuple[Any, Any, int]:
    """Keys of the left and of the right side; nine tenths are in both."""
    most = size + size // 10
    every = random.permutation(np.arange(1, most + 1))
    both = size - size // 10
    left = every[:size]
    right = np.concatenate([every[:both], every[size : size + size - both]])
    return left, right, most


def ours(data: dict[str, Any]) -> Callable[[Question], tuple[Callable[[], Any], Callable[[], Any]]]:
    import gdatalog as gd

    def state(question: Question) -> tuple[Callable[[], Any], Callable[[], Any]]:
        db = gd.connect(threads=THREADS)
        for name in question.tables:
            db.load(name, data[name], row_id="row")

        def ask() -> Any:
            db.workspace.results.clear()
            db.workspace.catalog.bound.clear()
            found = db.query(question.rule)
            assert len(found)
            return found

        return ask, lambda: _without_numbers(ask().to_arrow())

    return state


def _without_numbers(table: Any) -> Any:
    return table.drop_columns(["row"]) if "row" in table.column_names else table


def duckdb(
    data: dict[str, Any],
) -> Callable[[Question], tuple[Callable[[], Any], Callable[[], Any]]]:
    import duckdb

    def state(question: Question) -> tuple[Callable[[], Any], Callable[[], Any]]:
        con = duckdb.connect(config={"threads": THREADS})
        con.execute("set enable_progress_bar = false")
        con.execute("set preserve_insertion_order = false")
        for name in question.tables:
            con.register("given", data[name])
            con.execute(f"create table {name} as select * from given")

        def ask() -> Any:
            return con.execute(f"create or replace table answer as {question.sql}")

        return ask, lambda: con.sql("select * from answer").to_arrow_table()

    return state


def polars(
    data: dict[str, Any],
) -> Callable[[Question], tuple[Callable[[], Any], Callable[[], Any]]]:
    import polars as pl

    frames = {name: pl.from_arrow(table) for name, table in data.items()}

    def state(question: Question) -> tuple[Callable[[], Any], Callable[[], Any]]:
        def ask() -> Any:
            lazy = {name: frame.lazy() for name, frame in frames.items()}
            return eval(question.polars, {"pl": pl, "c": pl.col, **lazy}).collect()

        return ask, lambda: ask().to_arrow()

    return state


def digest(table: Any) -> list[Any]:
    """The number of rows, and the sums of the columns of numbers, as the benchmark checks them,
    the least first."""
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = [column for column in table.columns
               if pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
               or pa.types.is_decimal(column.type)]  # fmt: skip
    sums = sorted(float(pc.sum(column.cast(pa.float64())).as_py() or 0) for column in numbers)
    return [table.num_rows, *(float(f"{total:.9g}") for total in sums)]


def one(side: str, rows: int, wanted: list[str]) -> Iterator[dict[str, Any]]:
    """What one side takes for each question."""
    begun = {"ours": ours, "DuckDB": duckdb, "Polars": polars}[side](tables(rows))
    for question in (*QUESTIONS, *JOINS):
        if wanted and not any(part in question.name for part in wanted):
            continue
        ask, answer = begun(question)
        seconds = [once(ask)[0] for _ in range(3)]
        yield {
            "question": question.name,
            "cold": seconds[0],
            "warm": min(seconds[1:]),
            "answer": digest(answer()),
        }


def main() -> int:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=1e7)
    parser.add_argument("--only", nargs="*", default=[], help="questions with these words")
    parser.add_argument("--side", choices=SIDES, help="prints the figures of one side, as JSON")
    options = parser.parse_args()
    rows = int(options.rows)
    if options.side:
        for found in one(options.side, rows, options.only):
            print(json.dumps(found), flush=True)
        return 0
    return compared({side: _apart(side, rows, options.only) for side in SIDES})


def _apart(side: str, rows: int, only: list[str]) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.h2o", "--rows", str(rows), "--side", side]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "POLARS_MAX_THREADS": str(THREADS)}
    done = subprocess.run(
        [*command, "--only", *only], cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True
    )
    if done.returncode:
        raise SystemExit(f"{side} ended with {done.returncode}")
    return {found["question"]: found for found in map(json.loads, done.stdout.splitlines())}


def compared(found: dict[str, dict[str, Any]]) -> int:
    """Prints a table; 1 if answers differ."""
    wrong = 0
    heads = [f"{side}: warm, cold (s)" for side in found]
    print(f"| question | rows | {' | '.join(heads)} | of the better peer: warm, cold |")
    print("| --- " * (3 + len(found)) + "|")
    for name in found["ours"]:
        of = {side: figures[name] for side, figures in found.items()}
        same = all(_alike(of["ours"]["answer"], figure["answer"]) for figure in of.values())
        wrong += not same
        ratios = {
            kind: of["ours"][kind] / min(of[side][kind] for side in SIDES[1:])
            for kind in ("warm", "cold")
        }
        missed = ratios["warm"] > WARM or ratios["cold"] > COLD
        cells = [f"{figure['warm']:.2f}, {figure['cold']:.2f}" for figure in of.values()]
        told = f"{ratios['warm']:.2f}, {ratios['cold']:.2f}" + (" **slower**" if missed else "")
        counts = f"{of['ours']['answer'][0]:,}" if same else "**answers differ**"
        print(f"| {name} | {counts} | {' | '.join(cells)} | {told} |")
    return 1 if wrong else 0


def _alike(one: list[Any], other: list[Any]) -> bool:
    return len(one) == len(other) and bool(np.allclose(one, other, rtol=1e-6))


if __name__ == "__main__":
    sys.exit(main())
