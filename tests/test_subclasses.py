"""Values and names whose class is a subclass of Python's: members of enumerations, for instance."""

from __future__ import annotations

from datetime import datetime
from enum import Enum, IntEnum
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gdatalog as gd


class Colour(str, Enum):  # noqa: UP042  # `str` of a member is not its value here
    RED = "red"


class Level(IntEnum):
    LOW = 3


class Share(float, Enum):
    HALF = 0.5


class Day(datetime, Enum):
    FIRST = (2026, 1, 2, 3)


class Loud(str):
    def __str__(self) -> str:
        return self.upper()


class Seven(int):
    def __int__(self) -> int:
        return 7

    __index__ = __int__


class Zero(float):
    def __float__(self) -> float:
        return 0.0


class Sealed(datetime):
    def __new__(cls, only: int) -> Sealed:  # `replace` cannot make one
        return super().__new__(cls, 2026, 1, only, 3)


# Instances of subclasses of Python's types, with what they hold.
OWN = [
    (Colour.RED, "red"),
    (Loud("red"), "red"),
    (Level.LOW, 3),
    (Seven(3), 3),
    (Share.HALF, 0.5),
    (Zero(0.5), 0.5),
    (Day.FIRST, pd.Timestamp("2026-01-02T03")),
    (Sealed(2), pd.Timestamp("2026-01-02T03")),
]


@pytest.mark.parametrize(("value", "held"), OWN, ids=lambda value: type(value).__name__)
def test_a_value_of_a_subclass_is_what_it_holds(value: Any, held: Any) -> None:
    many = ", ".join(f"$p{at}" for at in range(20))
    params = {f"p{at}": value for at in range(20)}
    objects = np.empty(1, dtype=object)
    objects[0] = value
    given = [[(value,)], [value], {"x": [value]}, [{"x": value}], objects]
    given.append(pd.DataFrame({"x": pd.Series([value], dtype=object)}))
    for data in given:
        db = gd.connect()
        db["stored"] = data
        db.insert("added", data)
        db.insert("more", [(held,)])
        db.insert("more", data)
        for name in ("stored", "added", "more"):
            assert db[name].fetchall() == [(held,)]
            assert repr(db[name].fetchall()) == repr([(held,)])
            assert db.query(f"?- {name}($p).", {"p": value})
            assert db.query(f"?- {name}(x), x = $p.", {"p": value})
            assert db.query(f"?- {name}(x), x in $p.", {"p": [value]})
            assert db.query(f"?- {name}(x), x in {{{many}}}.", params)
    if isinstance(held, pd.Timestamp):
        held = held.tz_localize("UTC")  # nothing else says which zone the column has
    assert repr(gd.query("p($p).", None, {"p": value}).fetchall()) == repr([(held,)])


def test_a_name_of_a_subclass_is_what_it_holds() -> None:
    db = gd.connect()
    db[Colour.RED] = {Loud("a"): [1]}
    assert repr(db.insert(Colour.RED, [{Loud("a"): 2}])).startswith("red: ")
    assert repr(db.relations) == "red(a: int)" and repr(list(db)) == "['red']"
    db.load("named", [(1,)], columns=[Colour.RED], row_id=Loud("id"))
    assert repr(db["named"].columns) == "('id', 'red')"
    db["frame"] = pd.DataFrame({Colour.RED: [1]})
    assert repr(db["frame"].columns) == "('red',)"
