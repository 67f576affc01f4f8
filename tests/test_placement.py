"""The strata of a program are placed together, by costs: the cut, and what it counts with."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

import gdatalog as gd
from gdatalog.planner.least_cut import FlowGraph
from gdatalog.planner.placement import PlaceableStratum, PlacementDraft, Work, place_strata
from gdatalog.planner.rewrite.program_sizes import Expected, ProgramSizes, bodies_of
from gdatalog.settings import Thresholds

Chain = list[tuple[float, float]]


def chain(costs: Chain, copy: float, least: float = 0.0) -> PlacementDraft:
    """Strata of which each reads the one before, and the first the stored `r`."""
    names = ["r", *(f"s{n}" for n in range(len(costs)))]
    strata = [
        PlaceableStratum((name,), [below], *cost)
        for below, name, cost in zip(names[:-1], names[1:], costs, strict=True)
    ]
    asked = [names[-1]]
    return PlacementDraft(strata, dict.fromkeys(names, copy), {"r"}, (), asked, least)


def sides(draft: PlacementDraft) -> str:
    place_strata(draft)
    return "".join("CG"[each.relations in draft.on_device] for each in draft.strata)


@pytest.mark.parametrize(
    ("costs", "copy", "least", "expected"),
    [
        ([(9, 1), (1, 9), (9, 1)], 0.0, 0.0, "GCG"),  # copies cost nothing
        ([(9, 1), (1, 2), (9, 1)], 1.0, 0.0, "GGG"),  # a small stratum stays with its neighbours
        ([(9, 1), (1, 6), (9, 1)], 1.0, 0.0, "GCG"),
        ([(9, 1), (1, 2), (1, 2)], 1.0, 0.0, "GCC"),
        ([(2, 1), (2, 1), (2, 1)], 2.0, 0.0, "CCC"),  # all together do not pay for two copies
        ([(2, 1), (2, 1), (4, 1)], 2.0, 0.0, "GGG"),
        ([(2, 1), (2, 1), (4, 1)], 2.0, 1.5, "CCC"),  # nor for opening the device
        ([(1, float("inf")), (9, 1)], 1.0, 0.0, "CG"),
    ],
)
def test_a_chain_is_placed_as_a_whole(
    costs: Chain, copy: float, least: float, expected: str
) -> None:
    assert sides(chain(costs, copy, least)) == expected


def test_no_other_placement_is_cheaper() -> None:
    """All placements of some random programs, compared."""
    random = Random(4)
    for _ in range(60):
        names = [f"s{n}" for n in range(6)]
        stored = ["a", "b", "c"]
        strata = []
        for n, name in enumerate(names):
            reads = sorted(random.sample([*stored, *names[:n]], 2))
            cpu, device = random.randint(1, 20), random.randint(1, 20)
            strata.append(PlaceableStratum((name,), reads, cpu, device))
        seconds = {name: float(random.randint(0, 6)) for name in (*stored, *names)}
        asked, least = random.sample(names, 2), float(random.randint(0, 3))
        draft = PlacementDraft(strata, seconds, {"a", "c"}, {"b", "c"}, asked, least)

        def cost(on: tuple[bool, ...], draft: PlacementDraft = draft) -> float:
            at = {each.relations[0]: side for each, side in zip(draft.strata, on, strict=True)}
            pairs = zip(draft.strata, on, strict=True)
            total = sum(each.device if side else each.cpu for each, side in pairs)
            read = {(n, at[each.relations[0]]) for each in draft.strata for n in each.reads}
            for name, side in read | {(name, False) for name in draft.asked}:
                there = at[name] is side if name in at else name in (draft.here, draft.there)[side]
                total += 0.0 if there else draft.seconds[name]
            return total

        place_strata(draft)
        chosen = tuple(each.relations in draft.on_device for each in strata)
        best = min(cost(on) for on in product((False, True), repeat=len(names)))
        on_cpu = cost((False,) * len(names))
        assert cost(chosen) == pytest.approx(best if on_cpu - best > least else on_cpu)


def test_what_lies_on_the_device_is_copied_only_if_that_pays() -> None:
    stratum = PlaceableStratum(("s",), ["r"], 1.0, 2.0)
    for seconds, expected in ((0.5, "C"), (3.0, "G")):
        assert sides(PlacementDraft([stratum], {"r": seconds}, (), {"r"}, (), 0.0)) == expected
    assert sides(PlacementDraft([stratum], {"r": 3.0}, {"r"}, {"r"}, (), 0.0)) == "C"


def test_a_cut_is_the_least_and_nearest_to_the_sink() -> None:
    graph = FlowGraph()
    for start, end, capacity in (
        ("source", "a", 3.0), ("source", "b", 2.0), ("a", "b", 1.0), ("a", "c", 1.0),
        ("b", "c", 2.0), ("c", "sink", 3.0),
    ):  # fmt: skip
        graph.edge(start, end, capacity)
    assert graph.least_cut() == (3.0, {"sink"})


def test_rounds_launches_arrays_and_indexes_count_beside_rows() -> None:
    costs = Thresholds(
        gpu_rule=1.0, gpu_launch=0.5, gpu_rows=100.0, core_turn=2.0, core_rows=10.0,
        loops_looked_each=12.5,
    )  # fmt: skip
    rounds = Work(100.0, turns=8.0, launches=2.0)
    assert rounds.on_device(costs) == 1.0 + 8.0 + 1.0
    assert rounds.on_cores(costs, threads=1) == 16.0 + 10.0
    assert rounds.on_cores(costs, threads=16) == 16.0 + 5.0  # there is work for two threads
    costs = Thresholds(
        gpu_rule=0.0, gpu_launch=0.0, core_turn=0.0, array_rows=10.0, gpu_array_rows=20.0,
        core_indexed=5.0, gpu_indexed=50.0,
    )  # fmt: skip
    once = Work(0.0, arrays=40.0, indexed=100.0)
    assert once.on_device(costs) == 2.0 + 2.0 and once.on_cores(costs, threads=4) == 4.0 + 20.0
    assert Work(1.0, on_host=True).on_device(costs) == float("inf")


def expected(text: str, data: dict[str, object]) -> dict[str, Expected]:
    """What is expected of each stratum of a program, by its first relation."""
    with gd.connect(device="cpu") as db:
        for name, rows in data.items():
            db[name] = rows
        with db._session() as session:
            evaluator = session.open(text, {}).evaluator
            schemas = evaluator.checked.schemas
            sizes = ProgramSizes(lambda name: evaluator.relation(name).statistics, lambda name: 0.0)
            return {
                each.relations[0]: sizes.add(
                    each, bodies_of(each), {n: schemas[n].arity for n in each.relations}
                )
                for each in evaluator.strata_of(["n"])
            }


CLOSURE = "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z). n(count()) <- p(_, _)."


def test_a_recursion_is_followed_in_numbers() -> None:
    random = Random(1)
    dense = random.sample([*product(range(60), repeat=2)], 300)
    found = expected(CLOSURE, {"E": dense})
    assert 1_500 < found["p"].rows <= 3_600  # there are so many pairs
    assert 2 < found["p"].rounds < 20 and found["p"].looked > found["p"].rows
    assert found["n"] == Expected(1.0, found["n"].looked)
    long = expected(CLOSURE, {"E": [(n, n + 1) for n in range(2_000)]})
    assert long["p"].rounds > 20 and 4_000 < long["p"].rows < 40_000  # as in trees


def test_joins_and_tests_of_strata_that_are_not_evaluated() -> None:
    text = """
        two(x, z) <- E(x, y), E(y, z).
        few(x) <- two(x, _), x < 3.
        few(x) <- two(x, x) ; two(7, x).
        n(count()) <- few(_)."""
    found = expected(text, {"E": [(x, y) for x in range(20) for y in range(20)]})
    assert found["two"].looked > 20 * found["two"].rows / 2 > 20 * 100
    assert 1 <= found["few"].rows <= 60 and found["few"].rounds == 1


def test_a_variable_that_equals_a_constant_joins_by_it() -> None:
    data: dict[str, object] = {"a": [(x,) for x in range(100)], "b": [(x,) for x in range(100)]}
    alike = "p(x, y) <- a(x), b(y), y = 7. p(x, z) <- p(x, y), b(z), z = y. n(count()) <- p(_, _)."
    said = "p(x, 7) <- a(x), b(7). p(x, y) <- p(x, y), b(y). n(count()) <- p(_, _)."
    assert expected(alike, data)["p"] == expected(said, data)["p"]
    assert expected(alike, data)["p"].rows < 1_000
