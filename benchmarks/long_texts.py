"""Programs with very many constants or operators, in CPU time: long lists, comparisons, sums.

What it takes to read, plan and answer them is compared with loading as many values as a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median
from time import process_time
from typing import Any

import numpy as np

import gdatalog as gd
from benchmarks.records import Case, Figure, at_most
from benchmarks.setting import Setting

MANY, TERMS = 100_000, 1_000
LIMIT = 0.9  # seconds for 100,000 constants
LIMIT_OF_TERMS = 1.0  # over 200,000 rows


def run(setting: Setting) -> Iterator[Case]:
    times = 1 if setting.small else 3
    many, terms = (MANY // 100, TERMS // 10) if setting.small else (MANY, TERMS)
    db = gd.connect(device="cpu")
    db["R"] = {"x": np.arange(2 * many), "y": np.arange(2 * many) % 1000}
    db["S"] = {"x": [f"text {at}" for at in range(1000)]}
    db.query("?- R(x, _), x in {" + _list(20) + "}.")  # what the first call imports
    loaded = _seconds(lambda at: db.load("L", {"x": np.arange(many) + at}), times)
    params = {"xs": list(range(many))}
    for what, text, limit in texts(many, terms):
        seconds = _seconds(lambda at, text=text: db.query(text(at), params), times)
        note = f"CPU seconds; loading {many:,} values takes {loaded:.3f} s"
        case = Case("long_texts", what, [Figure("ours", seconds, runs=times)], notes=(note,))
        case.asks = [at_most(what, "a clock", seconds, limit)]
        yield case


def texts(many: int, terms: int) -> Iterator[tuple[str, Callable[[int], str], float]]:
    """Each with a number, so that no text is one that was asked before."""

    def compared(op: str, between: str) -> Callable[[int], str]:
        return lambda at: between.join(f"x {op} {n}" for n in range(at, many + at))

    unequal, below, equal = compared("!=", ", "), compared("<", ", "), compared("=", " ; ")
    yield f"in {many:,} values", lambda at: f"?- R(x, _), x in {{{_list(many, at)}}}.", LIMIT
    yield "not in them", lambda at: f"?- R(x, _), !(x in {{{_list(many, at)}}}).", LIMIT
    yield "in a parameter", lambda at: f"?- R(x, _), x in $xs, x > {at}.", LIMIT
    yield f"{many:,} times unequal", lambda at: f"?- R(x, _), {unequal(at)}.", LIMIT
    yield f"{many:,} times less", lambda at: f"?- R(x, _), {below(at)}.", LIMIT
    yield f"{many:,} times equal or", lambda at: f"?- R(x, _), ({equal(at)}).", LIMIT
    for what, text in (
        (f"a sum of {terms:,} terms", _terms(terms, "+")),
        (f"{terms:,} terms under + and -", _terms(terms // 2, "+ 1 -")),
    ):
        yield what, lambda at, text=text: f"?- R(x, y), z = {at} + {text}.", LIMIT_OF_TERMS
    texts_in_a_row = ", ".join(["x"] * terms)
    yield (
        f"{terms:,} texts in a row",
        lambda at: f'?- S(x), z = cat("{at}", {texts_in_a_row}).',
        LIMIT_OF_TERMS,
    )


def _list(many: int, first: int = 0) -> str:
    return ", ".join(map(str, range(first, many + first)))


def _terms(count: int, operator: str) -> str:
    return f" {operator} ".join("xy"[at % 2] for at in range(count))


def _seconds(call: Callable[[int], Any], times: int) -> float:
    seen = []
    for at in range(1, times + 1):
        started = process_time()
        call(at)
        seen.append(process_time() - started)
    return median(seen)
