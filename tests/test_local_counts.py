"""Tables of counts by vertex or by edge that look for one match of each orbit."""

from __future__ import annotations

import tracemalloc
from collections import Counter, OrderedDict
from itertools import combinations, cycle, product
from random import Random
from typing import Any

import numpy as np
import pytest

import gdatalog as gd
from gdatalog import calls, patterns
from gdatalog.account import Account
from gdatalog.engine import depth, draft
from gdatalog.engine.device import CPU
from gdatalog.engine.exact_counts import CountOverflow, exact_sum
from gdatalog.engine.rules import signed_sum
from gdatalog.executors.lftj import add_local
from gdatalog.plan.join_plan import RulePlan, Tally, Term
from gdatalog.planner.rewrite import elimination
from gdatalog.planner.rewrite.elimination import Elimination
from gdatalog.printer import cached_intersections, module
from gdatalog.printer.nest import NestPrinter
from gdatalog.printer.nest_state import KeptIntersection
from gdatalog.storage.count_tables import EdgeCounts
from gdatalog.storage.trie import Trie, TrieLevel
from tests import orders
from tests.interpreted import interpreted
from tests.plan_check import check_rule_plan
from tests.test_algebra import agrees
from tests.test_engine_oracle import Data
from tests.tuned import tune

pytestmark = pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")

# By name the edges of a pattern, of which some part hangs at an edge or at a vertex.
SHAPES = {
    "paw": "ab ac bc cd", "diamond": "ab ac ad bc bd", "book": "ab ac ad ae bc bd be",
    "house": "ab ac ae bc bd de", "bowtie": "ab ac bc cd ce de", "tent": "ab bc cd da ae be cf df",
    "two triangles of a path": "ab ac bc cd de df ef", "K4 and an edge": "ab ac ad bc bd cd de",
    "triangles of a triangle": "ab bc ca ad bd be ce", "K4 at an edge": "ab ac ad bc bd cd ae be",
}  # fmt: skip


@pytest.fixture
def terms(monkeypatch: pytest.MonkeyPatch) -> list[Term]:
    """The terms of the plans that are made, each checked."""
    made: list[Term] = []
    plan_rule = draft.plan_rule

    def noted(*args: Any, **kwargs: Any) -> RulePlan:
        plan = plan_rule(*args, **kwargs)
        check_rule_plan(plan)
        made.extend(plan.terms)
        return plan

    monkeypatch.setattr(draft, "plan_rule", noted)
    return made


def body(edges: str) -> str:
    return ", ".join(f"E({a}, {b})" for a, b in edges.split())


def drawn_edges(number: int, symmetric: bool = True, loops: bool = False) -> Data:
    random = Random(number)
    found = {
        (a, b)
        for a, b in product(range(6), repeat=2)
        if random.random() < 0.5 and (a != b or loops)
    }
    rows = sorted(found | {(b, a) for a, b in found} if symmetric else found)
    labels = sorted({(vertex, random.randrange(2)) for vertex in range(6)})
    return {"E": (("int", "int"), rows), "L": (("int", "int"), labels)}


def skewed(most: int, values: Any = int) -> list[tuple[Any, Any]]:
    """A graph in which few vertices have many neighbours, both ways, and many triangles."""
    random = Random(most)
    pairs = {(min(a, b), max(a, b)) for a in range(most) for b in random.sample(range(most), 4)}
    pairs |= {(hub, other) for hub in range(3) for other in range(hub + 1, most)}
    both = {(values(a), values(b)) for a, b in pairs if a != b}
    return sorted(both | {(b, a) for a, b in both})


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("distinct", [False, True])
def test_counts_agree_with_the_oracle(shape: str, distinct: bool) -> None:
    names = sorted(set(SHAPES[shape]) - {" "})
    rest = f", distinct({', '.join(names)})" if distinct else ""
    agrees(f"n(count()) <- {body(SHAPES[shape])}{rest}.", drawn_edges(len(shape)), {"n"})


@pytest.mark.parametrize("number", range(12))
def test_labels_directions_and_loops_stay(number: int) -> None:
    shape = sorted(SHAPES)[number % len(SHAPES)]
    extra = ["L(a, 1)", "L(c, x), L(d, x)", "a < b", "L(b, x), x != 1", "c != d", "E(a, _)"]
    head = ["count()", "c, count()", "sum(a)", "a, b, count()"][number % 4]
    text = f"n({head}) <- {body(SHAPES[shape])}, {extra[number % 6]}, distinct(a, c, d)."
    agrees(text, drawn_edges(number, symmetric=number % 3 > 0, loops=number % 4 == 0), {"n"})


def counted(edges: str, rows: list[Any], algebra: str, device: Any = CPU) -> tuple[int, int]:
    """The count of a pattern of these edges, and of its homomorphisms; without algebra each match
    is enumerated breadth-first."""
    with gd.connect(device="cpu", threads=2) as db, interpreted():
        db.load("E", rows)
        db.workspace.device = device
        db.workspace.force(algebra=algebra, strategy="levelwise" if algebra == "never" else "lftj")
        first = db.count(patterns.from_edges(edges, name="some"))
        return first, db.query(f"?- c = count : {{ {body(edges)} }}.").fetchall()[0][0]


# Vertices with narrow keys, with codes of texts, and with wide keys.
VERTICES = [int, lambda vertex: f"v{vertex}", lambda vertex: vertex << 40]


@pytest.mark.parametrize(("shape", "values"), [*zip(SHAPES, cycle(VERTICES))])
def test_by_ranks(shape: str, values: Any, terms: list[Term]) -> None:
    """Where degrees differ much, all goes by ranks; texts have no other order."""
    expected = counted(SHAPES[shape], skewed(24), "never")
    assert counted(SHAPES[shape], skewed(24, values), "quotients") == expected
    assert shape == "paw" or any(term.images for term in terms)


# Parts that hang at an edge or at a vertex, whose variables may be equal.
PEAKED = {
    "house": "ab ac ae bc bd de", "two squares at an edge": "ab bc cd da be ef fa",
    "square and a path": "ab bc cd da ae ef",
    "K3,3 and a triangle": "ab ad af cb cd cf eb ed ef ag bg",
    "hexagon and an edge": "ab bc cd de ef fa ag gh", "two squares": "ab bc cd da ae ef fg ga",
    "K2,3 and a triangle": "ab cb ad cd ae ce af bf",
}  # fmt: skip


def prefer_peaks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Plans of counts use tables by peaks wherever they can; returns the cases of each choice."""
    made: list[int] = []

    def with_peaks(*ways: Any, key: Any) -> Any:
        ways = ways if len(ways) > 1 else tuple(ways[0])
        if not isinstance(ways[0], Elimination):
            return min(ways, key=key)
        tables = [Counter(t.table for t in way.terms if t.images).most_common(1) for way in ways]
        cases = [found[0][1] if found else 0 for found in tables]
        made.append(max(cases))
        return ways[cases.index(max(cases))]

    monkeypatch.setattr(elimination, "min", with_peaks, raising=False)
    return made


@pytest.mark.parametrize("shape", PEAKED)
def test_by_the_greatest_of_an_orbit(
    shape: str, terms: list[Term], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Matches of a part are divided by which variables are the greatest."""
    cases = prefer_peaks(monkeypatch)
    most = 24 if len(PEAKED[shape].split()) < 8 else 14  # loops of eight variables take long here
    for number, rows in enumerate((skewed(most), skewed(12, lambda vertex: f"v{vertex}"))):
        found = []
        for algebra in ("quotients", "never"):
            with gd.connect(device="cpu", threads=1 + number) as db, interpreted():
                db["E"] = rows
                db.workspace.tune(algebra_peaks=0)
                way = "levelwise" if algebra == "never" else "lftj"
                db.workspace.force(algebra=algebra, strategy=way)
                found.append(db.query(f"n(count()) <- {body(PEAKED[shape])}.").fetchall())
        assert found[0] == found[1]
    assert max(cases) > 1
    images = {image for term in terms for image in term.images if len(term.keys) == 2}
    assert shape != "house" or len(images) > 1


@pytest.mark.parametrize("key", ["edge", "vertex"])
def test_peaks_beyond_64_bits(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sums of several cases are reduced, too."""
    cases = prefer_peaks(monkeypatch)
    pages = range(2, 252 if key == "edge" else 62)
    edges = [(end, page) for end in (0, 1) for page in pages]
    near = {end: {*pages} for end in (0, 1)} | {page: {0, 1} for page in pages}
    both = [*edges, *((b, a) for a, b in edges)]
    at = {(a, b): sum(len(near[a] & near[x]) for x in near[b]) for a, b in both}
    parts = 6 if key == "edge" else 5
    ends = [f"E(b, c{n}), E(c{n}, d{n}), E(d{n}, a)" for n in range(parts)]
    expected = sum(each**parts for each in at.values())
    if key == "vertex":
        ends = [f"E(a, b{n}), E(b{n}, c{n}), E(c{n}, d{n}), E(d{n}, a)" for n in range(parts)]
        expected = sum(sum(at[a, b] for b in near[a]) ** parts for a in near)
    with gd.connect(device="cpu", threads=2) as db, interpreted():
        db["E"] = both
        db.workspace.tune(algebra_peaks=0)
        db.workspace.force(algebra="quotients", strategy="lftj")
        with pytest.raises(CountOverflow) as error:
            rest = "E(a, b), " if key == "edge" else ""
            db.query(f"n(count()) <- {rest}{', '.join(ends)}.")
    assert error.value.exact == expected >= 1 << 63
    assert max(cases) > 1


def test_by_values(terms: list[Term]) -> None:
    """Beside a test of a value vertices have no ranks: triangles are found in ascending order, also
    where fewer paths have their middle first."""
    hubs = [(a, b) for a in range(12, 15) for b in range(40) if abs(a - b) > 3]
    edges = {*hubs, *((b, a) for a, b in hubs), *((a, a ^ 1) for a in range(40))}
    body = "E(a, b), E(a, c), E(a, e), E(b, c), E(b, d), E(d, e), distinct(a, b, c, d, e), a != 5"
    found = []
    for algebra in ("quotients", "never"):
        with gd.connect(device="cpu", threads=1) as db, interpreted():
            db["E"] = sorted(edges)
            db.workspace.force(algebra=algebra, strategy="lftj")
            found.append(db.query(f"n(count()) <- {body}.").fetchall())
    assert found[0] == found[1]
    assert any(len(term.images) == 3 for term in terms)


def test_each_match_counts_for_the_images_of_the_key(terms: list[Term]) -> None:
    rows = skewed(40)
    near = {v: {b for a, b in rows if a == v} for v in range(40)}
    on = {(a, b): len(near[a] & near[b]) for a, b in rows}
    assert counted(SHAPES["diamond"], rows, "quotients")[1] == sum(each**2 for each in on.values())
    assert {len(term.images) for term in terms if term.table} == {3}
    terms.clear()
    triangles = {v: sum(on[v, b] for b in near[v]) for v in near}
    assert counted(SHAPES["bowtie"], rows, "quotients")[1] == sum(
        each**2 for each in triangles.values()
    )
    assert (1, 3) in {(len(term.keys), len(term.images)) for term in terms if term.table}


@pytest.mark.parametrize("parts", [6, 7])
def test_products_beyond_64_bits(parts: int, terms: list[Term]) -> None:
    """A book: its spine is in all triangles. Beyond 64 bits they are counted modulo primes."""
    pages = 1_000
    rows = [(0, 1), *((end, page) for end in (0, 1) for page in range(2, pages + 2))]
    rows += [(b, a) for a, b in rows]
    body = ", ".join(f"E(a, p{at}), E(b, p{at})" for at in range(parts))
    with gd.connect(device="cpu", threads=2) as db, interpreted():
        db["E"] = rows
        db.workspace.force(algebra="quotients", strategy="lftj")
        try:
            found = db.query(f"n(count()) <- E(a, b), {body}.").fetchall()[0][0]
        except CountOverflow as error:
            found = error.exact
    assert found == 2 * pages**parts + 4 * pages
    assert (found >= 1 << 63) is (parts == 7)
    assert any(len(term.keys) == 2 for term in terms)


@pytest.mark.parametrize("algebra", ["quotients", "auto"])
def test_sums_by_a_vertex_beyond_64_bits(algebra: str) -> None:
    """Counts by edge that fit into 64 bits, but not their sum at a vertex that nobody asks for."""
    pairs = {(0, v) for v in range(1, 681)} | {(1, v) for v in range(2, 102)}
    near = ", ".join(f"E(c, c{at})" for at in range(6))
    text = f"n(count()) <- E(a, b), E(a, c), E(b, c), {near}, E(a, d), E(b, d), c != d, L(a)."
    with gd.connect(device="cpu", threads=2) as db, interpreted():
        db["E"] = sorted(pairs | {(b, a) for a, b in pairs})
        db["L"] = [(1,), *((vertex,) for vertex in range(102, 681))]
        db.workspace.force(algebra=algebra, strategy="lftj")
        assert db.query(text).fetchall() == [(633_600,)]


@pytest.mark.parametrize("most", [1, 1 << 61])
def test_what_workers_count_together_does_not_wrap(most: int) -> None:
    local = np.full(3, most, dtype=np.int64)
    add_local(local, [np.full(3, most, dtype=np.int64)])
    assert local.tolist() == [2 * most] * 3
    with pytest.raises(calls.GiveUp):
        add_local(local, [np.full(3, (1 << 63) - 2 * most, dtype=np.int64)])


def test_counts_that_happen_to_sum_to_the_edges() -> None:
    """Some edges count nothing, and the rest as much as all edges."""
    random = Random(69)
    most = random.choice([8, 10, 12])
    pairs = {(a, b) for a in range(most) for b in range(a) if random.random() < 0.5}
    labels = {vertex for vertex in range(most) if random.random() < 0.5}
    edges = pairs | {(b, a) for a, b in pairs}
    near = {v: {b for a, b in edges if a == v} for v in range(most)}
    on = {(a, c): len(near[a] & near[c] & labels) for a, c in edges}
    assert sum(on.values()) == len(edges) and 0 in on.values()
    with gd.connect(device="cpu", threads=1) as db, interpreted():
        db["E"], db["L"] = sorted(edges), [(vertex,) for vertex in sorted(labels)]
        db.workspace.force(algebra="quotients", strategy="lftj")
        text = "n(count()) <- E(a, b), E(b, c), E(c, d), E(d, a), E(a, c), L(b)."
        right = sum(on[a, c] * len(near[a] & near[c]) for a, c in edges)
        assert db.query(text).fetchall() == [(right,)]


@pytest.mark.parametrize("columns", [(), (0,), (1,), (0, 1), (1, 0)])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("spread", [1, 1000])
def test_indexes_of_counts_are_charged_before_they_are_made(
    columns: tuple[int, ...], dtype: Any, spread: int
) -> None:
    ends = np.arange(300)
    lists = [ends[at + 1 :] for at in range(300)]
    offsets = np.cumsum([0, *map(len, lists)])
    levels = (
        TrieLevel((spread * ends).astype(dtype), np.array([0, 300])),
        TrieLevel((spread * np.concatenate(lists)).astype(dtype), offsets),
    )
    counts = np.arange(offsets[-1]) % 5
    counted = EdgeCounts(Trie(levels, len(counts), None), counts, CPU.ops)
    account = Account(memory=1 << 30)
    tracemalloc.start()
    made = counted.trie(columns, (), True, account)
    needed = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert needed <= account.peak
    assert made.total == 2 * counts.sum()
    assert levels[1].rises is True  # what is known of edges is not looked up again
    with pytest.raises(MemoryError):
        EdgeCounts(counted.edges, counts, CPU.ops).trie(columns, (), True, Account(memory=1 << 20))


@pytest.mark.parametrize("most", [1 << 52, (1 << 53) - 3, 1 << 53, (1 << 61) + 1, (1 << 62) - 1])
def test_sums_are_exact(most: int) -> None:
    """By one sum of floats if these are exact, else of ints, of any size."""
    for rest in ([], [1], [3, 1, 0], [most]):
        assert exact_sum(np.array([most, *rest])) == most + sum(rest)


@pytest.mark.parametrize("shape", ["diamond", "book", "K4 at an edge"])
def test_sums_of_products_take_no_loops(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int | None] = []
    plain = signed_sum.scanned

    def noted(*given: Any) -> int | None:
        found.append(plain(*given))
        return found[-1]

    expected = counted(SHAPES[shape], skewed(14), "never")
    monkeypatch.setattr(signed_sum, "scanned", noted)
    assert counted(SHAPES[shape], skewed(14), "quotients") == expected
    assert found and None not in found
    monkeypatch.setattr(signed_sum, "scanned", lambda *_: None)
    assert counted(SHAPES[shape], skewed(14), "quotients") == expected


def test_tables_that_would_not_fit_are_not_planned(
    terms: list[Term], monkeypatch: pytest.MonkeyPatch
) -> None:
    tune(monkeypatch, tally_share=1 << 40)
    for shape in ("diamond", "bowtie"):
        assert counted(SHAPES[shape], skewed(40), "quotients") == counted(
            SHAPES[shape], skewed(40), "never"
        )
    assert terms and not any(term.images for term in terms)


def test_little_memory_will_do() -> None:
    rows = [(a, b) for a, b in combinations(range(40), 2)]
    rows += [(b, a) for a, b in rows]
    text = f"n(count()) <- {body(SHAPES['diamond'])}, distinct(a, b, c, d)."
    with gd.connect(device="cpu", threads=2, memory_limit=400_000) as db:
        db["E"] = rows
        db.workspace.force(algebra="quotients", strategy="lftj")
        assert db.query(text).fetchall() == [(40 * 39 * 38 * 37,)]


# ----------------------------------------------------------------------------- lists that are kept

P4 = "E(a, b), E(a, c), E(a, d), E(b, c), E(b, d), E(c, e), E(d, e)"
KEEPING = [
    P4, f"{P4}, distinct(a, b, c, d, e)", f"{P4}, L(e, 1)", f"{P4}, E(e, f)",
    "E(a, b), E(a, c), E(a, e), E(a, f), E(b, c), E(b, d), E(c, d), E(c, f), E(d, e), E(d, f)",
]  # fmt: skip


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("body", KEEPING)
def test_lists_that_are_kept(few: bool, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What both ends of an edge have in common is found once; with little room, now and then."""
    kept: list[int] = []
    find_kept = cached_intersections.find_kept

    def noted(nest: NestPrinter) -> dict[int, KeptIntersection]:
        kept.extend(find_kept(nest))
        return find_kept(nest)

    monkeypatch.setattr(cached_intersections, "AGAIN", 0)
    monkeypatch.setattr(module, "find_kept", noted)
    monkeypatch.setattr(depth, "_printed", OrderedDict())
    if few:
        monkeypatch.setattr(calls, "KEPT", 0)
    rows, found = skewed(14), []
    for algebra in ("quotients", "never"):
        with gd.connect(device="cpu", threads=2) as db, interpreted():
            db["E"] = rows
            db.load("L", [(vertex, vertex % 2) for vertex in range(14)])
            db.workspace.force(algebra=algebra, strategy="lftj")
            found.append(db.query(f"?- c = count : {{ {body} }}.").fetchall())
    assert found[0] == found[1] and (kept or body == KEEPING[-1])  # whose edges are a table's


@pytest.mark.parametrize(
    "rule",
    ["n(count()) <- {}, F(b).", "n(l, count()) <- {}, L(a, l).", "n(sum(l)) <- {}, L(a, l)."],
)
def test_single_atoms_beside_a_cycle(rule: str) -> None:
    """Triangles by edge, and paths below an outer loop, as without the last atom."""
    text = rule.format(
        "E(a, b), E(a, c), E(b, c), E(b, d), E(d, e), E(e, a), distinct(a, b, c, d, e)"
    )
    found = []
    for way in ("quotients", "never"):
        with gd.connect(device="cpu") as db:
            db["E"] = orders.skewed(300, 4000, seed=3, power=0.5)
            db["F"] = [(v,) for v in range(300) if v % 7]
            db["L"] = [(v, v % 5) for v in range(300)]
            db.workspace.force(algebra=way)
            (one,) = db.explain(text).strata[-1].rules
            steps = [step for join in one.plan.joins for step in join.steps]
            assert any(isinstance(step, Tally) for step in steps) == (way == "quotients")
            assert any(term.images for term in one.plan.terms) == (way == "quotients")
            found.append(sorted(db.query(text).fetchall()))
    assert found[0] == found[1]


def test_outer_loops_come_before_what_constants_bind() -> None:
    """The tables are below `c` or `d`, though the label binds `a` at once."""
    edges = "E(a, b), E(a, c), E(a, d), E(b, c), E(b, d), E(c, e), E(d, e)"
    found = []
    for way in ("quotients", "never"):
        with gd.connect(device="cpu") as db:
            db["E"] = orders.skewed(300, 4000, seed=3, power=0.5)
            db["L"] = [(v, v % 4) for v in range(300)]
            db.workspace.force(algebra=way)
            text = f"n(count()) <- {edges}, L(a, 1)."
            (one,) = db.explain(text).strata[-1].rules
            steps = [step for join in one.plan.joins for step in join.steps]
            assert any(isinstance(step, Tally) for step in steps) == (way == "quotients")
            found.append(db.query(text).fetchall())
    assert found[0] == found[1]
