"""Rules that are split where a variable dies: the same answers, fewer rows tried."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gdatalog as gd
from gdatalog import cancellation
from gdatalog.engine import recursion_planner, stratum_planner
from gdatalog.engine.draft import StratumDraft
from gdatalog.parser import parse
from gdatalog.planner.rewrite.dead_variables import SplitStratum, split_at_dead_variables
from tests.cases import share
from tests.draw import Drawn, recursive_programs
from tests.interpreted import interpreted
from tests.test_engine_oracle import Data, Relations, agrees_in, answers

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
    db.workspace.force(dead_variables=way, split="never", strategy=strategy)
    for name, rows in data.items():
        db[name] = rows
    return db


def explained(text: str, data: dict[str, Any], way: str = "always") -> list[str]:
    """What an explanation says of rules that were split, and the rules as they are then."""
    (stratum, *_) = database(data, way).explain(text).tree.find("stratum")
    return [*stratum.details, *(rule.label for rule in stratum.find("rule"))]


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
        db.workspace.force(
            dead_variables="always", split="never", strategy=("lftj", "levelwise")[number % 2]
        )
        with interpreted():
            return answers(db, text, data, defined)


@pytest.mark.drawn
@share(10)
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
@share(10)
@given(st.integers(0, 2**64 - 1).map(chains))
def test_rules_of_many_atoms(drawn: Drawn) -> None:
    agrees_in(split_always, drawn)


def test_most_of_those_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[SplitStratum | None] = []

    def noted(*args: Any) -> SplitStratum | None:
        found.append(split_at_dead_variables(*args))
        return found[-1]

    monkeypatch.setattr(recursion_planner, "split_at_dead_variables", noted)
    for seed in range(24):
        drawn = chains(seed)
        try:
            split_always(drawn.text, drawn.data, drawn.defined, seed)
        except gd.errors.SafetyError:
            continue
    assert sum(part is not None for part in found) > len(found) // 2 > 5


SHAPES: dict[str, str] = {
    "same generation": "r(x, y) <- E(x, y). r(x, y) <- E(a, x), r(a, b), E(b, y).",
    "a chain": "r(x, y) <- E(x, y). r(x, w) <- E(a, x), E(b, a), r(b, c), F(c, d), E(d, w).",
    "two recursive atoms": "r(x, y) <- E(x, y). r(x, w) <- F(x, y), r(y, z), r(z, w).",
    "the same twice": "r(x, y) <- E(x, y). r(x, w) <- r(y, x), r(y, z), F(z, w).",
    "shared": """r(x, y) <- E(x, y). s(x, y) <- F(x, y).
        r(x, y) <- E(a, x), r(a, b), s(b, y). s(u, w) <- s(v, w), r(q, v), E(q, u).""",
    "turned": """r(x, y) <- E(x, y). r(x, y) <- E(a, x), r(a, b), E(b, y).
        r(y, x) <- E(a, x), r(a, b), F(b, y).""",
    "mutual": """r(x, y) <- E(x, y). s(x, y) <- E(a, x), r(a, b), F(b, y).
        r(x, y) <- F(a, x), s(a, b), E(b, y).""",
    "negation": "r(x, y) <- E(x, y). r(x, y) <- E(a, x), !F(x, a), r(a, b), E(b, y), !F(y, _).",
    "tests": """r(x, y) <- E(x, y).
        r(x, y) <- E(a, x), a != b, r(a, b), x < y, E(b, y), a in {0, 1, 2, 5}, distinct(a, b).""",
    "constants": "r(x, y) <- E(x, y). r(x, y) <- E(a, x), r(a, b), E(1, a), E(b, y), F(2, y).",
    "a constant in the head": "r(x, y) <- E(x, y). r(y, 3) <- r(x, a), E(a, b), F(b, y).",
    "or": """r(x, y) <- E(x, y).
        r(x, y) <- (E(a, x) ; F(x, a)), r(a, b), (E(b, y) ; r(b, y), F(y, b)).""",
    "anything": "r(x, y) <- E(x, y). r(x, y) <- r(x, _), E(x, z), F(z, y).",
    "a variable twice": "r(x, y) <- E(x, y). r(x, y) <- E(a, x), r(a, a), E(a, b), F(b, y).",
    "computed": "r(x, y) <- E(x, y). r(x, (y + 1) % 7) <- E(a, x), r(a, b), E(b, y), b + x < 9.",
    "an equation": "r(x, y) <- E(x, y). r(x, y) <- E(a, x), r(a, b), F(b, z), y = z, E(z, _).",
    "one column": "r(x) <- E(0, x). r(y) <- r(x), E(x, z), F(z, y).",
    "three columns": "r(x, y, y) <- E(x, y). r(x, c, y) <- E(a, x), r(a, b, c), F(b, y).",
}


def edges(seed: int, names: str = "0123456") -> list[tuple[Any, ...]]:
    random = Random(seed)
    values: Any = [int(name) for name in names] if names[0] == "0" else names
    return sorted({(random.choice(values), random.choice(values)) for _ in range(16)})


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(shape: str) -> None:
    numbers = {"E": edges(0), "F": edges(1)}
    assert any("~1(" in rule for rule in rules(SHAPES[shape], numbers))
    for seed in range(2):
        data: Data = {name: (("int", "int"), edges(seed + 10 * len(name))) for name in "EF"}
        agrees_in(split_always, Drawn(parse(SHAPES[shape]), data, seed))


def test_symbols() -> None:
    text = SHAPES["same generation"] + SHAPES["two recursive atoms"].replace("r(", "q(")
    data: Data = {name: (("symbol", "symbol"), edges(ord(name), "uvwxyz")) for name in "EF"}
    agrees_in(split_always, Drawn(parse(text), data, 1))


@pytest.mark.parametrize("way", WAYS)
def test_points_to(way: str) -> None:
    data: Data = {
        name: (("int", "int"), edges(at))
        for at, name in enumerate(("address", "copy", "load", "store"))
    }

    def run(text: str, data: Data, defined: set[str], number: int) -> Relations:
        with gd.connect(device="cpu") as db:
            db.workspace.force(dead_variables=way)
            return answers(db, text, data, defined)

    agrees_in(run, Drawn(parse(ANDERSEN), data, 0))


def test_parameters_of_a_part() -> None:
    text = """r(x, y) <- E(x, y). r(x, y) <- E(a, x), r(a, b), E($one, a), E(b, y).
        ?- r(x, y)."""
    dbs = [database({"E": edges(1)}, way) for way in WAYS]
    for one in (1, 2, 3, 1):
        found = [sorted(db.query(text, params={"one": one}).fetchall()) for db in dbs]
        assert found[0] == found[1] == found[2]


def test_data_that_change() -> None:
    db = database({"E": edges(1)}, "always")
    db.run(SG)
    for seed in range(3):
        db["E"] = edges(seed)
        other = database({"E": edges(seed)}, "never")
        assert sorted(db["sg"].fetchall()) == sorted(other.query(SG + "?- sg(x, y).").fetchall())


def test_what_may_fail_sees_what_it_saw() -> None:
    rule = "r(x, y) <- E(a, x), r(a, b), 6 / b > 0, E(b, y)."
    start = "r(x, y) <- S(x, y)."
    good = {"S": [(1, 0), (1, 2)], "E": [(1, 1), (2, 3), (3, 3)]}  # no E(0, y): nothing fails
    for way in WAYS:
        found = database(good, way).query(start + rule + "?- r(x, y).").fetchall()
        assert sorted(found) == [(1, 0), (1, 2), (1, 3)]
        bad = {**good, "E": [(1, 1), (0, 3)]}
        with pytest.raises(gd.errors.EvaluationError, match="division by zero"):
            database(bad, way).query(start + rule + "?- r(x, y).").fetchall()


# ------------------------------------------------------------------------- what becomes of rules


def test_same_generation_is_split() -> None:
    data = {"E": cliques(4, 5)}
    told = [line for line in explained(SG, data, "auto") if "E(p" not in line]
    assert told == [
        "semi-naive rounds",
        "sg(x, y) is split where a dies: each sg~1(x, b) goes on once",
        "sg~1(x, b) <- E(a, x), sg(a, b).",
        "sg(x, y) <- sg~1(x, b), E(b, y).",
    ]
    (stratum,) = database(data, "auto").explain(SG).tree.find("stratum")
    assert stratum.details == tuple(told[:2])
    assert ("relations", "sg") in stratum.facts
    assert not [line for line in explained(SG, data, "never") if "~" in line]


def test_a_part_leads_somewhere() -> None:
    data = {"E": cliques(4, 5), "F": [(n, m) for n in range(5, 10) for m in range(20)]}
    text = "sg(x, y) <- E(x, y). sg(x, y) <- E(a, x), sg(a, b), F(b, y)."
    assert "sg~1(x, b) <- E(a, x), sg(a, b), F(b, _)." in rules(text, data, "auto")


def test_two_rules_share_a_part() -> None:
    text = """
        r(x, y) <- E(x, y).
        r(x, y) <- E(a, x), r(a, b), F(b, y).
        r(y, u) <- r(v, w), u != y, E(v, u), F(w, y), E(u, _).
    """
    data = {"E": cliques(4, 5), "F": cliques(4, 5)}
    found = rules(text, data, "auto")
    assert [rule for rule in found if rule.startswith("r~")] == ["r~1(x, b) <- E(a, x), r(a, b)."]
    assert "r(y, u) <- r~1(u, w), u != y, F(w, y), E(u, _)." in found


def test_every_death_of_a_chain() -> None:
    text = "r(x, y) <- E(x, y). r(x, w) <- E(a, x), E(b, a), r(b, c), E(c, d), E(d, w)."
    found = rules(text, {"E": cliques(6, 6)}, "auto")
    assert all(rule.count("(") == 3 for rule in found if "r~" in rule)  # a head and two atoms
    assert len(found) == 5


@pytest.mark.parametrize(
    "text",
    [
        "r(x, y) <- E(x, y). r(x, z) <- r(x, y), E(y, z).",
        "r(x, y) <- E(x, y). r(x, z) <- r(x, y), r(y, z).",
        "r(x) <- E(x, _). r(y) <- r(x), E(x, y), E(y, _).",
        "r(x, 0) <- E(x, 1). r(y, min(d + 1)) <- r(x, d), E(x, z), E(z, y).",
        "r(x, y) <- E(x, y). r(x, y) <- E(a, x), r(a, b), E(b, y), 2 < count : {E(a, _)}.",
        "r(x, y) <- E(x, y), E(y, z), E(z, x).",
    ],
)
def test_rules_that_are_left_alone(text: str) -> None:
    assert not [line for line in explained(text, {"E": cliques(4, 5)}) if "~1(" in line]


def test_no_split_where_it_would_not_gain() -> None:
    tree = {"E": [(n // 2, n) for n in range(1, 200)]}  # (x, b) has one a at most
    assert not [rule for rule in rules(SG, tree, "auto") if "~" in rule]
    assert [rule for rule in rules(SG, tree, "always") if "~" in rule]


# ------------------------------------------------------------------------------- what is seen


def test_a_part_wider_than_its_head_has_to_promise_more() -> None:
    """As in the classification of an ontology: a part of (y, r, c), for all that `ex` could hold,
    would have ten times as many rows as `sub` has."""
    text = """
        sub(c, d) <- B(c, d). sub(c, e) <- sub(c, d), B(d, e).
        ex(e, r, c) <- sub(e, y), X(y, r, c).
        sub(e, y) <- ex(e, r, c), sub(c, d), P(r, s), X(y, s, d), N(y).
    """
    random = Random(5)
    some = range(400)
    data = {
        "B": [(n, random.randrange(n + 1)) for n in some],
        "X": [(random.choice(some), random.randrange(9), random.choice(some)) for _ in range(600)],
        "P": [(r, s) for r in range(9) for s in range(r + 1)],
        "N": [(n,) for n in some],
    }
    assert not any("~" in line for line in rules(text, data, "auto"))
    assert any("~" in line for line in rules(text, data, "always"))


def test_parts_are_seen_in_profiles_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancellation, "EVERY", 0.0)
    db = database({"E": cliques(4, 5)}, "always")
    rounds: list[gd.Progress] = []
    db.query(SG, on_progress=rounds.append)
    assert {seen.what.partition(" ")[0] for seen in rounds} == {"sg"}
    db.run(SG)
    assert len(db["sg"]) == 95 and set(db.relations) == {"E", "sg"}
    profile = str(db.profile(SG + "?- sg(x, y)."))
    assert "sg~1(x, b)" in profile and "sg(x, y)" in profile


def test_a_stratum_is_taken_apart_once(monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[SplitStratum | None] = []

    def noted(*args: Any) -> SplitStratum | None:
        times.append(split_at_dead_variables(*args))
        return times[-1]

    monkeypatch.setattr(recursion_planner, "split_at_dead_variables", noted)
    db = database({"E": cliques(4, 5)}, "auto")
    db.workspace.force(magic_sets="never")  # else there is another program
    for _ in range(3):
        assert db.query(SG + "?- sg(x, y).").fetchall()
    assert len(times) == 1
    db["E"] = cliques(3, 3)
    assert db.query(SG + "?- sg(x, y).").fetchall()
    assert len(times) == 2
    db["E"] = [(n // 2, n) for n in range(1, 200)]  # a tree, of which the rule stays whole
    assert db.query(SG + "?- sg(x, y).").fetchall()
    assert len(times) == 3 and times[-1] is None


def test_plans_go_with_their_parts() -> None:
    data = {"E": cliques(4, 5), "C": cliques(5, 6), "T": [(n // 2, n) for n in range(1, 200)]}
    db = database(data, "auto")
    session = db.workspace.open(SG, None)
    (stratum,) = session.checked.strata
    inputs = session.evaluator.inputs()
    plans: Any = inputs.plans

    def parts(name: str) -> SplitStratum | None:
        relation = db[name]._relation
        given = replace(inputs, relation=lambda _: relation)
        return recursion_planner.split_stratum(StratumDraft(stratum, given))

    first = parts("E")
    stratum_planner.plan_stratum(stratum, inputs)
    assert first is not None and plans._found
    assert parts("C") is first and plans._found  # split alike: the very same rules
    assert parts("T") is None and not plans._found
