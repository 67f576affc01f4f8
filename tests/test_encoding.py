"""Strata on dictionary codes: the same answers, and none where keys are more than compared."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from checked import check
from hypothesis import given
from hypothesis import strategies as st

import gdatalog
from gdatalog.engine import encoding
from gdatalog.engine.row_codes import dictionaries
from gdatalog.errors import EvaluationError
from gdatalog.parser import parse
from gdatalog.planner.check import Schema
from gdatalog.planner.domains import domains_of
from gdatalog.result import Result
from gdatalog.storage.coded import Coded
from gdatalog.storage.dictionary import ABSENT, Dictionary
from gdatalog.storage.relation import Relation
from gdatalog.storage.symbols import SymbolTable
from tests.cases import share
from tests.corners import CORNERS, Example
from tests.draw import PROFILES, Drawn, programs
from tests.examples import EXAMPLES
from tests.oracle_values import canonical
from tests.test_engine_oracle import Data, Relations, Way, agrees_in, answers
from tests.tuned import tune

pytestmark = pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")

FAR = 1_000_003


def encoded(text: str, data: Data, defined: set[str], number: Any = 0) -> Relations:
    """What the engine gives on codes, wherever these can stand for keys."""
    with gdatalog.connect(device="cpu") as db:
        db.workspace.force(encode="always")
        return answers(db, text, data, defined)


def kept_as_codes(text: str, data: Data, defined: set[str], number: Any = 0) -> Relations:
    """The same, where the rows of all relations stay codes until somebody reads them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gdatalog.storage.relation.SORTED_BELOW", 1)
        return encoded(text, data, defined)


def far_apart(drawn: Drawn) -> Drawn:
    """The same program, over ints that lie far apart."""
    data = {
        name: (
            types,
            [
                tuple(
                    value * FAR if value and kind == "int" and abs(value) < 1 << 40 else value
                    for kind, value in zip(types, row, strict=True)
                )
                for row in rows
            ],
        )
        for name, (types, rows) in drawn.data.items()
    }
    return replace(drawn, data=data)


@pytest.mark.drawn
@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_drawn_programs(profile: Any) -> None:
    @share(8)
    @given(programs(profile), st.booleans(), st.sampled_from([encoded, kept_as_codes]))
    def agrees(drawn: Drawn, far: bool, way: Way) -> None:
        agrees_in(way, far_apart(drawn) if far else drawn)

    agrees()


@pytest.mark.parametrize("example", CORNERS + EXAMPLES, ids=str)
@pytest.mark.parametrize("way", [encoded, kept_as_codes])
def test_examples(way: Way, example: Example) -> None:
    if example.fails:
        defined = Drawn(parse(example.program), {}, 0).defined
        with pytest.raises(EvaluationError):
            way(example.program, example.data, defined)
        return
    found = way(example.program, example.data, set(example.expected))
    assert {name: canonical(rows) for name, rows in found.items()} == {
        name: canonical(rows) for name, rows in example.expected.items()
    }


KEYS = [-(2**63), -7 * FAR, 0, FAR, 2**63 - 1]
OPS = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}


@pytest.mark.parametrize("bound", [*KEYS, -(2**63) + 1, -1, 5, FAR + 1])
@pytest.mark.parametrize("op", OPS)
def test_a_code_compares_as_its_key_does(op: str, bound: int) -> None:
    dictionary = Dictionary(np.array(KEYS))
    codes = np.arange(len(KEYS))
    expected = OPS[op](np.array(KEYS), bound)
    assert (OPS[op](codes, dictionary.bound(bound, op)) == expected).all()


def test_a_dictionary_gives_and_takes() -> None:
    keys = np.array([FAR, 5, FAR, -1])
    dictionary = Dictionary.of((keys, np.array([9], dtype=np.int32)))
    assert dictionary.keys.tolist() == [-1, 5, 9, FAR]
    assert dictionary.decode(dictionary.encode(keys)).tolist() == keys.tolist()
    assert dictionary.encode(np.array([6, 9])).tolist() == [ABSENT, 2]
    more = dictionary.extended(np.array([6, 9, 6]))
    assert len(more) == 5 and more.encode(np.array([6, 9])).tolist() == [4, 2]
    assert more.decode(np.array([4, 0])).tolist() == [6, -1]
    assert not more.lasting and len(dictionary) == 4


def test_a_dictionary_takes_keys_in_until_they_are_many() -> None:
    dictionary = Dictionary.of([np.arange(0, 8000, 2)])
    assert dictionary.add(np.array([7, 2, 5, 7])) and dictionary.add(np.array([5, 4]))
    codes = dictionary.encode(np.array([4, 7, 5, 9]))
    assert codes.tolist() == [2, 4000, 4001, ABSENT]
    assert dictionary.decode(codes[:3]).tolist() == [4, 7, 5]
    assert dictionary.add(np.array([9])) and dictionary.decode(np.array([4002])).tolist() == [9]
    assert not dictionary.add(np.arange(1, 8000, 2)) and len(dictionary) == 4003


def test_rows_stay_codes_until_keys_are_asked_for() -> None:
    keys = np.array([-5, 9, FAR, 2**62])
    codes = np.array([[3, 0], [0, 2], [3, 0], [1, 1], [0, 1]], dtype=np.int32)
    blocks: list[Any] = [tuple(part.T) for part in (codes[:2], codes[2:])]
    expected = sorted({(int(keys[a]), b) for a, b in codes.tolist()})

    def made(more: tuple[int, ...] = ()) -> Relation:
        names, types = ("a", "b"), ("int", "int")
        rows = Relation.of_blocks(names, types, blocks, len(codes))
        dictionary = Dictionary(keys[: len(keys) - len(more)], more)
        return Relation.of_codes(names, types, rows, (dictionary, None))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gdatalog.storage.relation.SORTED_BELOW", 1)
        relation, unordered = made(), made((2**62,))
        assert relation.length == 4 and relation.spans == [(-5, 2**62), (0, 2)]
        assert relation.width(0) == 8 and relation.statistics.distinct(frozenset((0,))) == 3
        result = Result(relation, SymbolTable())
        assert {(result[at]) for at in range(4)} == set(expected)
        assert result["a"].tolist() == result.to_numpy()["a"].tolist()
        assert isinstance(relation.store, Coded) and relation.store.codes is not None
        assert result.sorted("b", descending=True)[0] == (-5, 2)
        assert result.sorted().fetchall() == expected and relation.store.codes is None
        assert unordered.spans == relation.spans and unordered.width(0) == 8
        assert Result(unordered, SymbolTable()).sorted().fetchall() == expected
        copied = pickle.loads(pickle.dumps(made()))
        assert list(zip(*(column.tolist() for column in copied.keys), strict=True)) == expected


SCHEMAS = {
    "E": Schema("E", ("a", "b"), ("int", "int")),
    "L": Schema("L", ("v", "label"), ("int", "symbol")),
}


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("p(x, z) <- E(x, y), E(y, z).", [("E.0 E.1 p.0 p.1", False)]),
        ("p(x) <- E(x, y), L(y, l).", [("E.1 L.0", False), ("E.0 p.0", False)]),
        ("p(x) <- E(x, y), x < y.", [("E.0 E.1 p.0", True)]),
        ("p(x) <- E(x, y), 5 < y, x != 3.", [("E.1", True), ("E.0 p.0", False)]),
        ("p(x + 1) <- E(x, y).", [("E.1", False)]),
        ("p(x) <- E(x, y), E(y + 1, _).", []),
        ("p(min(y)) <- E(_, y).", [("E.1 p.0", True), ("E.0", False)]),
        ("p(x, sum(y)) <- E(x, y).", [("E.0 p.0", False)]),
        ("p(n) <- E(_, _), n = count : { E(_, y), y != 2 }.", [("E.0", False), ("E.1", False)]),
        ("p(x) <- E(x, y), z = 2 * y, E(z, _).", []),
        ("p(x) <- E(x, _), x in {1, 2}, i = range(0, 3).", [("E.0 p.0", False), ("E.1", False)]),
        ("p(x) <- E(x, y), distinct(x, y, 7), !L(x, _).", [("E.0 E.1 L.0 p.0", False)]),
    ],
)  # fmt: skip
def test_what_is_only_compared(rule: str, expected: list[tuple[str, bool]]) -> None:
    checked = check(parse(rule), SCHEMAS, {})
    (stratum,) = checked.strata
    found = [
        (" ".join(sorted(f"{name}.{at}" for name, at in domain.columns)), domain.ordered)
        for domain in domains_of(stratum, checked.schemas)
    ]
    assert sorted(found) == sorted(expected)


ROWS = [(x * FAR, y * FAR) for x in range(300) for y in range(x, x + 40)]


def test_it_is_said_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch, coded_from=1000)
    text = "p(x, count()) <- E(x, y), E(y, z), E(z, _w)."
    with gdatalog.connect(device="cpu") as db:
        db["E"] = ROWS
        assert "dictionary codes stand for the keys of E.column0, E.column1" in str(
            db.explain(text)
        )
        once = set(db.query(text))
        relation = db.workspace.stored["E"]
        db.workspace.force(encode="never")
        assert "dictionary" not in str(db.explain(text))
        assert set(db.query(text + " ")) == once
        assert [len(dictionaries(relation, at)) for at in range(2)] == [1, 1]
        db["E"] = [(x // FAR, y // FAR) for x, y in ROWS]
        db.workspace.force(encode="auto")
        assert "dictionary" not in str(db.explain(text))


def test_keys_that_a_large_relation_has_nearly_all_of_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch, coded_from=1000)
    text = "p(x, y) <- E(x, y). p(x, z) <- p(x, y), C(y, z)."
    with gdatalog.connect(device="cpu") as db:
        db["E"] = [(x, x + 1) for x in range(20_000)]
        db["C"] = [(12 * x, 12 * (x * 7 % 1600)) for x in range(1600)]  # one in twelve
        assert "dictionary" not in str(db.explain(text))
        db["E"] = [(x, x + 100 * FAR) for x in range(0, 20_000)]
        assert "dictionary codes stand for" in str(db.explain(text))


def test_rules_hand_on_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch, coded_from=1000)
    monkeypatch.setattr("gdatalog.storage.relation.SORTED_BELOW", 1000)
    encode = Dictionary.encode
    looked_up: list[int] = []

    def counted(dictionary: Dictionary, column: Any) -> Any:
        looked_up.append(len(column))
        return encode(dictionary, column)

    monkeypatch.setattr(Dictionary, "encode", counted)
    rules = "p(x, z) <- E(x, y), E(y, z). q(x, count()) <- p(x, y), E(y, _)."
    with gdatalog.connect(device="cpu") as db:
        db["E"] = ROWS
        found = db.query(rules)
        assert sum(looked_up) == 2 * len(ROWS)  # those of E, and none of p
        near = gdatalog.query(rules, {"E": [(x // FAR, y // FAR) for x, y in ROWS]})
        assert {(x // FAR, n) for x, n in found} == set(near)


@pytest.mark.parametrize(
    "bound", [f"7 * {FAR}", "7 * $far", "$far + $far * 6", f"2^3 * {FAR} - $far"]
)
def test_expressions_of_constants_are_compared_as_constants(
    monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    tune(monkeypatch, coded_from=1000)
    below = f"p(x, y) <- E(x, y), E(y, _), x < {bound}."
    of_one = f"q(y) <- E({bound}, y), E(y, _)."
    with gdatalog.connect(device="cpu") as db:
        db["E"] = ROWS
        db.query("n(count()) <- E(_, y), E(y, z), E(z, _).")  # which makes the dictionary
        for text in (below, of_one):
            assert "dictionary codes stand for" in str(db.explain(text, {"far": FAR}))
        expected = {(x, y) for x, y in ROWS if x < 7 * FAR and y < 300 * FAR}
        assert set(db.query(below, {"far": FAR})) == expected
        expected_of_one = {(y,) for x, y in ROWS if x == 7 * FAR}
        assert set(db.query(of_one, {"far": FAR})) == expected_of_one
        with pytest.raises(EvaluationError, match="division by zero"):
            db.query("p(x) <- E(x, y), E(y, _), x < 8 / ($far - $far).", {"far": FAR})


def test_rules_that_are_asked_again_and_again_get_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch, coded_from=1000)
    text = f"p(x, y) <- E(x, y), E(y, _), x < {20 * FAR}."
    with gdatalog.connect(device="cpu") as db:
        db["E"] = ROWS
        relation = db.workspace.stored["E"]
        answers = []
        for _ in range(12):
            answers.append((bool(dictionaries(relation, 0)), set(db.query(text))))
    assert all(answer == answers[0][1] for _, answer in answers)
    assert [made for made, _ in answers[:2]] == [False, False] and answers[-1][0]


def test_of_inserted_rows_only_the_new_ones_are_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch, coded_from=1000)
    text = "n(x, count()) <- E(x, y), E(y, z), E(z, _w)."
    with gdatalog.connect(device="cpu") as db:
        db["E"] = ROWS
        db.query(text)
        made: list[Any] = []
        looked_up: list[int] = []
        encode = Dictionary.encode

        def counted(dictionary: Dictionary, column: Any) -> Any:
            looked_up.append(len(column))
            return encode(dictionary, column)

        monkeypatch.setattr(Dictionary, "of", made.append)
        monkeypatch.setattr(Dictionary, "encode", counted)
        rows = set(ROWS)
        for new in ([(5, 7 * FAR), (FAR, 5)], [(3 * FAR, 2 * FAR)], [(FAR, -5), (-5, 5)]):
            rows |= set(new)
            db.insert("E", new)
            numbers = {key: at for at, key in enumerate(sorted({k for row in rows for k in row}))}
            near = gdatalog.query(text, {"E": [(numbers[x], numbers[y]) for x, y in rows]})
            assert {(numbers[x], n) for x, n in db.query(text)} == set(near)
        assert not made and 0 < max(looked_up) <= 2


Pairs = set[tuple[int, int]]
QUERIES: dict[str, Callable[[Pairs, Pairs], set[Any]]] = {
    "q(x, z) <- E(x, y), L(y, z).": lambda e, f: {(x, z) for x, y in e for v, z in f if v == y},
    "q(x) <- E(x, y), E(y, z), x < y, y < z.": lambda e, f: {
        (x,) for x, y in e for v, z in e if v == y and x < y < z
    },
    "q(x, max(z)) <- E(x, y), L(y, z).": lambda e, f: {
        (x, max(z for a, b in e for v, z in f if a == x and v == b))
        for x in {x for x, y in e for v, _ in f if v == y}
    },
    "p(x, z) <- E(x, y), L(y, z). q(z, count()) <- p(_, z).": lambda e, f: {
        (z, len({x for x, y in e for v, w in f if v == y and w == z}))
        for z in {z for _, y in e for v, z in f if v == y}
    },
}


@pytest.mark.parametrize("seed", range(4))
def test_inserts_and_queries_in_turns(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gdatalog.storage.relation.SORTED_BELOW", 1)
    monkeypatch.setattr("gdatalog.storage.parts.APART_FROM", 8)
    monkeypatch.setattr("gdatalog.storage.history.MERGED_BELOW", 0)
    monkeypatch.setattr("gdatalog.storage.dictionary.UNORDERED_SHARE", 2000)  # that is 6 keys or so
    random = np.random.default_rng(seed)
    keys = random.integers(-(2**62), 2**62, 16).tolist()
    held: dict[str, Pairs] = {}
    with gdatalog.connect(device="cpu") as db:
        db.workspace.force(encode="always")
        for name in ("E", "L"):
            held[name] = {(keys[a], keys[b]) for a, b in random.integers(0, 6, (9, 2)).tolist()}
            db[name] = list(held[name])
        for step in range(12):
            name = str(random.choice(list(held)))
            most = min(len(keys), 5 + step)  # more and more keys are new
            new = {(keys[a], keys[b]) for a, b in random.integers(0, most, (3, 2)).tolist()}
            held[name] |= new
            db.insert(name, list(new))
            text = str(random.choice(list(QUERIES)))
            assert set(db.query(text)) == QUERIES[text](held["E"], held["L"]), (step, text)


def test_columns_that_are_only_gathered_are_encoded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch, coded_from=1000)
    text = "n(x, count_distinct(l)) <- E(x, y), L(y, l)."
    labels = [(x * FAR, x % 20 * FAR) for x in range(2000)]
    with gdatalog.connect(device="cpu") as db:
        db["E"], db["L"] = ROWS, labels
        assert "L.column0, L.column1" in str(db.explain(text))
        found = dict(db.query(text))
    expected: dict[int, set[int]] = {}
    for x, y in ROWS:
        expected.setdefault(x, set()).add(y // FAR % 20)
    assert found == {x: len(own) for x, own in expected.items()}


def test_constants_that_are_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch, coded_from=1000)
    with gdatalog.connect(device="cpu") as db:
        db["E"] = ROWS
        path = f"r({FAR}) <- E(_, _). r(5) <- E(_, _). r(y) <- r(x), E(x, y)."
        expected = {(5,), *((y * FAR,) for y in range(1, 339))}
        assert set(db.query(path)) == expected
        assert (
            set(db.query("q(x) <- E(x, y), E(y, z), distinct(x, $a, $b).", {"a": 1, "b": 1}))
            == set()
        )
        assert (
            len(db.query("q(x) <- E(x, y), E(y, z), distinct(x, $a, $b).", {"a": 1, "b": 2})) == 300
        )
        assert len(db.query(f"q(x) <- E(x, y), E(y, z), {7 * FAR - 1} < x < {9 * FAR}.")) == 2


def test_dense_keys_are_examined_once(monkeypatch: pytest.MonkeyPatch) -> None:
    examined = []
    keys_of = encoding._Keys

    def watched(*given: Any) -> Any:
        examined.append(given)
        return keys_of(*given)

    monkeypatch.setattr(encoding, "_Keys", watched)
    tune(monkeypatch, coded_from=10)
    with gdatalog.connect(device="cpu") as db:
        edges = np.array([(at, (at + 1) % 300) for at in range(300)])
        db["E"] = edges
        rule = "n(count()) <- E(x, y), E(y, z)."
        assert db.query(rule).fetchall() == [(300,)]
        many = len(examined)
        assert many and db.query(rule).fetchall() == [(300,)] and len(examined) == many
        db["E"] = edges[:30] * FAR
        assert db.query(rule).fetchall() == [(29,)] and len(examined) > many
