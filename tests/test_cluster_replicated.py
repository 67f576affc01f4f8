"""Rules whose work is spread over workers that have all relations whole, against one process.

The pieces of many programs run in this process, sealed and pickled as for a worker (`Here`); the
same ways are then gone with processes of a Dask cluster.
"""

from __future__ import annotations

import pickle
from collections.abc import Hashable, Iterator
from typing import Any

import pytest
from hypothesis import given

import gdatalog
from gdatalog.cluster.pool import Call, Kept
from gdatalog.cluster.spreading import Spreading
from gdatalog.errors import EvaluationError
from tests.corners import CORNERS, Example
from tests.draw import Drawn, aggregate_programs, programs, string_programs
from tests.examples import EXAMPLES
from tests.interpreted import interpreted
from tests.oracle_values import canonical
from tests.test_engine_oracle import Data, Relations, agrees_in, answers, share

pytestmark = [
    pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]


class Here:
    """What stands for the workers' pool: calls run in this process, on copies as a worker has."""

    def __init__(self, slots: int = 2) -> None:
        self.slots = slots
        self.placed: dict[Hashable, Any] = {}
        self.calls = 0

    def place(self, key: Hashable, value: Any, nbytes: int = 0, owner: Any = None) -> Any:
        if key is None or key not in self.placed:
            self.placed[key] = (value, pickle.loads(pickle.dumps(value)))
        return _There(self.placed[key][1])

    def stage(self, told: str, limits: Any, smaller: Any = None) -> _Stage:
        return _Stage(self)

    def close(self) -> None:
        self.placed.clear()


class _There:
    def __init__(self, value: Any) -> None:
        self.value = value


class _Stage:
    def __init__(self, pool: Here) -> None:
        self.pool = pool
        self.left: list[Call] = []

    def add(self, call: Call) -> None:
        self.left.append(call)

    def __iter__(self) -> Iterator[tuple[Call, Any]]:
        while self.left:
            call = self.left.pop()  # the last first: in any order
            self.pool.calls += 1
            args = [_given(arg) for arg in call.args]
            try:
                found = call.function(*args)
            except Exception as error:
                raise pickle.loads(pickle.dumps(error)) from None
            told = found if call.told is None or not call.keep else call.told(found)
            given = pickle.loads(pickle.dumps(told))
            yield call, Kept(None, given) if call.keep else given


def _given(arg: Any) -> Any:
    if isinstance(arg, _There):
        return arg.value
    if isinstance(arg, dict):
        return {key: _given(value) for key, value in arg.items()}
    return pickle.loads(pickle.dumps(arg))


def spread(db: gdatalog.Database, cluster: Any) -> None:
    """Has all that can be spread done so."""
    db._workspace.cluster = cluster
    db._workspace.force(spread="replicate")


def here(slots: int = 2) -> Spreading:
    spreading = Spreading.__new__(Spreading)
    spreading.pool = Here(slots)  # type: ignore[assignment]
    spreading._keeping = None
    return spreading


def run_here(text: str, data: Data, defined: set[str], number: int | None) -> Relations:
    number = number or 0
    with gdatalog.connect(device="cpu") as db:
        db._workspace.force(strategy=("auto", "lftj", "levelwise")[number % 3])
        if number % 2:
            db._workspace.chunk_rows = 3
        spread(db, here(1 + number % 4))
        return answers(db, text, data, defined)


@pytest.fixture(scope="module", autouse=True)
def not_compiled() -> Iterator[None]:
    """Depth-first loops are run by Python in this process; the workers compile theirs."""
    with interpreted():
        yield


@pytest.mark.drawn
@share(15)
@given(programs())
def test_programs(drawn: Drawn) -> None:
    agrees_in(run_here, drawn)


@pytest.mark.drawn
@share(5)
@given(aggregate_programs())
def test_aggregate_programs(drawn: Drawn) -> None:
    agrees_in(run_here, drawn)


@pytest.mark.drawn
@share(5)
@given(string_programs())
def test_string_programs(drawn: Drawn) -> None:
    agrees_in(run_here, drawn)


@pytest.mark.parametrize("example", CORNERS + EXAMPLES, ids=str)
def test_example(example: Example) -> None:
    check(example, here())


def check(example: Example, cluster: Any) -> None:
    with gdatalog.connect(device="cpu") as db:
        spread(db, cluster)
        if example.fails:
            with pytest.raises(EvaluationError) as caught:
                answers(db, example.program, example.data, _heads(example))
            assert caught.value.span is not None
            return
        found = answers(db, example.program, example.data, set(example.expected))
    assert {name: canonical(rows) for name, rows in found.items()} == {
        name: canonical(rows) for name, rows in example.expected.items()
    }


def _heads(example: Example) -> set[str]:
    from gdatalog.parser import parse

    return Drawn(parse(example.program), {}, 0).defined
