"""Shares: blocks cover all bindings, share none, and each has all rows that its bindings need."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gdatalog as gd
from gdatalog.cluster.joins.layout import Layout, Source
from gdatalog.cluster.joins.share_search import weighed
from gdatalog.cluster.joins.shares import Shares, count, fine
from gdatalog.engine.context import RuleInputs, Sources
from gdatalog.engine.derived import Derived, DistinctBlocks
from gdatalog.engine.rules.evaluate import run_rule
from gdatalog.plan.cells import Cell, KeyRange, cuttable
from gdatalog.plan.join_plan import Compact, JoinPlan, RowTest, RulePlan, TrieRef
from gdatalog.storage.row_tests import COMPARE
from gdatalog.storage.table import Array
from tests.cases import cases

QUERIES = {
    "triangles": "t(x, y, z) <- E(x, y), E(y, z), E(x, z).",
    "ranked": "t(count()) <- S(x, y), S(y, z), S(x, z), x < y, y < z.",
    "cliques": "c(count()) <- S(a, b), S(a, c), S(a, d), S(b, c), S(b, d), S(c, d), a<b<c<d.",
    "squares": "s(count()) <- S(a, b), S(b, c), S(c, d), S(d, a), a != c, b != d.",
    "paths": "p(x, w) <- E(x, y), E(y, z), E(z, w).",
    "counted": "n(x, count()) <- E(x, y), E(y, _z).",
    "negation": "n(x, y, z) <- E(x, y), E(y, z), !E(x, z), !T(z, y, _).",
    "kinds": "k(x, p) <- E(x, y), T(y, p, c), U(c).",
    "constants": "k(x, p) <- E(x, y), T(y, p, 3).",
    "sums": "a(x, s) <- E(x, y), s = sum p : { T(y, p, _) }.",
    "guards": "g(x) <- E(x, x), T(_, _, _).",
    "empty": "n(x) <- E(x, y), U(y), y > 100.",
}
PLENTY = 1 << 40


@st.composite
def databases(draw: st.DrawFn) -> dict[str, Array]:
    """Relations over few values, of which a few are in most rows."""
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    values = draw(st.integers(3, 25))

    def keys(rows: int) -> Array:
        skewed = np.minimum(rng.zipf(1.5, rows), values)
        return np.where(rng.random(rows) < 0.5, skewed, rng.integers(0, values, rows))

    rows = draw(st.integers(1, 120))
    edges = np.stack([keys(rows), keys(rows)], axis=1)
    loopless = edges[edges[:, 0] != edges[:, 1]]
    both = np.concatenate([loopless, loopless[:, ::-1], [[0, 1], [1, 0]]])
    tags = np.stack([keys(rows), keys(rows), rng.integers(0, 6, rows)], axis=1)
    return {"E": edges, "S": both, "T": tags, "U": rng.integers(0, 6, (4, 1))}


@dataclass
class LevelLists:
    """A join that was run, the rows of its sources, by columns, and its bindings: the values of
    the layout's variables."""

    join: JoinPlan
    layout: Layout
    rows: list[dict[int, Array]]
    bindings: Array


def joins_of(query: str, data: Mapping[str, Array]) -> list[LevelLists]:
    db = gd.connect(device="cpu")
    for name, rows in data.items():
        db[name] = rows
    found: list[LevelLists] = []

    def looked_at(plan: RulePlan, inputs: RuleInputs, _: Any = None) -> Any:
        for join in plan.joins:
            layout = Layout.of(join)
            rows = [_rows(source, inputs.sources, data) for source in layout.sources]
            slots = tuple(slot for slot in cuttable(join) if slot.name in layout.variables)
            steps = tuple(step for step in join.steps if not isinstance(step, Compact))
            told = replace(join, steps=steps, outputs=slots, bag=False)
            alone = RulePlan(plan.relation, (told,), slots)
            given = run_rule(alone, inputs)
            columns = _columns(given, len(slots))
            found.append(LevelLists(join, layout, rows, np.stack(columns, axis=1)))
        return run_rule(plan, inputs)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("gdatalog.engine.stratum_run.run_rule", looked_at)
        db.query(query).fetchall()
    return found


def _columns(given: Derived, width: int) -> list[Array]:
    blocks = given.rows() if isinstance(given, DistinctBlocks) else [given[0]]
    blocks = [block for block in blocks if len(block) == width]
    return [
        np.concatenate([np.empty(0, np.int64), *(b[at] for b in blocks)]) for at in range(width)
    ]


def _rows(source: Source, sources: Sources, data: Mapping[str, Array]) -> dict[int, Array]:
    """The rows of a source, read off a trie of all columns of its relation."""
    columns = tuple(range(data[source.relation].shape[1]))
    trie = sources.trie_of(
        TrieRef(source.relation, source.version, columns, (), False, source.ranked)
    )
    parents = np.zeros(1, dtype=np.int64)
    rows: list[Array] = []
    for level in trie.levels:
        lengths = np.diff(level.offsets)[parents] if rows else np.array([len(level.values)])
        starts = level.offsets[parents] if rows else np.zeros(1, dtype=np.int64)
        rows = [np.repeat(column, lengths) for column in rows]
        ends = np.cumsum(lengths)
        parents = np.arange(ends[-1]) - np.repeat(ends - lengths - starts, lengths)
        rows.append(level.values[parents])
    mask = _passing(dict(enumerate(rows)), source.tests)
    return {at: column[mask].astype(np.int64) for at, column in enumerate(rows)}


def _passing(rows: Mapping[int, Array], tests: Sequence[RowTest]) -> Array:
    mask = np.ones(len(rows[0]), dtype=np.bool_)
    for left, op, right in tests:
        mask &= COMPARE[op](rows[left], rows[right])
    return mask


def census_of(met: LevelLists, whole: Collection[int] = ()) -> Shares:
    layout = met.layout.whole(whole)
    samples = [
        [rows[dim.column] for dim in dims] for rows, dims in zip(met.rows, layout.dims, strict=True)
    ]
    domains = fine(layout, samples)
    counts = [count(rows, dims, domains) for rows, dims in zip(met.rows, layout.dims, strict=True)]
    return Shares(layout, domains, tuple(counts), tuple(8 for _ in counts))


def check(met: LevelLists, shares: Shares) -> None:
    """The blocks of shares have each binding once, and their buckets all rows that it needs."""
    layout = shares.layout
    cells = {block: shares.cell(block) for block in shares.blocks}
    for block, other in combinations(shares.blocks, 2):
        assert any(
            _apart(cells[block].stretches.get(name), cells[other].stretches.get(name))
            for name in layout.variables
        )
    at = [met.layout.variables.index(name) for name in layout.variables]
    for binding in met.bindings[:, at].tolist():
        within = [b for b, cell in cells.items() if _holds(cell, layout.variables, binding)]
        assert len(within) == 1
        buckets = shares.buckets(within[0])
        for ref, role in zip(met.join.tries, layout.roles, strict=True):
            if role is None:
                continue
            rows, dims = met.rows[role.source], layout.dims[role.source]
            needed = _passing(rows, ref.tests)
            for dim, variable in zip(dims, role.variables, strict=True):
                if variable is not None:
                    needed &= rows[dim.column] == binding[variable]
            classes = [shares.domains[dim.domain].of(rows[dim.column][needed]) for dim in dims]
            wanted = set(zip(*(each.tolist() for each in classes), strict=True))
            if not dims and needed.any():
                wanted = {()}
            first, end = shares.starts[role.source : role.source + 2]
            shape = shares.rows[role.source].shape
            mine = [each - first for each in buckets if first <= each < end]
            assert wanted <= {tuple(map(int, np.unravel_index(each, shape))) for each in mine}
            if role.sure:
                assert needed.any()


def _ends(stretch: KeyRange | None) -> tuple[int, int]:
    told = stretch or KeyRange()
    return (
        -PLENTY if told.low is None else told.low,
        PLENTY if told.high is None else told.high,
    )


def _apart(a: KeyRange | None, b: KeyRange | None) -> bool:
    (low, high), (other_low, other_high) = _ends(a), _ends(b)
    return high <= other_low or other_high <= low


def _holds(cell: Cell, names: Sequence[str], binding: Sequence[int]) -> bool:
    ends = (_ends(cell.stretches.get(name)) for name in names)
    return all(low <= key < high for (low, high), key in zip(ends, binding, strict=True))


def _inside(cell: Cell, outer: Cell) -> bool:
    for name, told in outer.stretches.items():
        (low, high), (around, till) = _ends(cell.stretches.get(name)), _ends(told)
        if low < around or high > till:
            return False
    return True


@given(data=databases(), query=st.sampled_from(sorted(QUERIES)), draw=st.data())
@settings(max_examples=cases(60), deadline=None)
def test_blocks(data: dict[str, Array], query: str, draw: st.DataObject) -> None:
    for met in joins_of(QUERIES[query], data):
        census = census_of(met, draw.draw(st.sets(st.integers(0, len(met.rows)))))
        some = draw.draw(st.sets(st.sampled_from(met.layout.variables or ("",))))
        if some:
            census = census.restricted(some)
        starts = [
            sorted({0, *draw.draw(st.sets(st.integers(0, domain.classes - 1), max_size=3))})
            for domain in census.domains
        ]
        shares = census.coarser(starts)
        for bucket in {each for block in shares.blocks for each in shares.buckets(block)}:
            assert shares.sizes[bucket] > 0
        check(met, shares)


@pytest.mark.slow
@given(
    data=databases(),
    query=st.sampled_from(sorted(QUERIES)),
    part=st.floats(0.05, 1.5),
    workers=st.integers(1, 4),
)
@settings(max_examples=cases(40), deadline=None)
def test_choice(data: dict[str, Array], query: str, part: float, workers: int) -> None:
    for met in joins_of(QUERIES[query], data):
        census = census_of(met)
        memory = int(census.total * part)
        choice = weighed(census, memory, workers)
        if choice is None:
            assert part < 1
            continue
        shares = choice.shares
        check(met, shares)
        assert shares.largest <= memory
        batches = [batch for given in choice.batches for batch in given]
        dealt = [block for batch in batches for block in batch.blocks]
        assert sorted(dealt) == list(shares.blocks)
        for batch in batches:
            assert shares.sizes[batch.buckets].sum() <= memory
            assert set(batch.buckets) == set().union(*map(shares.buckets, batch.blocks))
            cells = shares.cells(batch.blocks)
            assert len(cells) <= len(batch.blocks)
            for block in shares.blocks:
                inside = sum(_inside(shares.cell(block), cell) for cell in cells)
                assert inside == (block in batch.blocks)
        assert choice.moved <= (workers - 1) * shares.total or part < 1
