"""What modules keep with the rows of a version: shared by its names, counted, dropped with it."""

from __future__ import annotations

from weakref import ref

import numpy as np
import pytest

from gdatalog import cpu_ops
from gdatalog.engine.fixpoint import maintained
from gdatalog.engine.fixpoint.maintained import MaintainedRelation
from gdatalog.engine.row_codes import dictionaries, grown, in_codes, note_covers
from gdatalog.engine.semi_joins import note_part_indexed, part_indexed
from gdatalog.storage.dictionary import Dictionary
from gdatalog.storage.kept import Kept
from gdatalog.storage.relation import Relation


def relation_of(*rows: tuple[int, int]) -> Relation:
    columns = list(np.array(rows, dtype=np.int64).reshape(-1, 2).T)
    return Relation.from_rows(("x", "y"), ("int", "int"), columns, len(rows))


def test_a_value_belongs_to_the_rows() -> None:
    kept, other = Kept[np.ndarray](lambda made: made.nbytes), Kept[str]()
    relation, made = relation_of((1, 2), (3, 4)), np.zeros(100)
    before = relation.trie_nbytes
    kept.put(relation.store, made)
    other.put(relation.store, "of another module")
    for same in (relation, relation.renamed(("a", "b")), relation.unchanged()):
        assert kept.of(same.store) is made and other.of(same.store) == "of another module"
        assert same.trie_nbytes == before + made.nbytes
    assert kept.of(relation.grown(relation_of((5, 6))).store) is None
    assert kept.take(relation.store) is made and kept.take(relation.store) is None
    gone = ref(relation.store)
    del relation, same
    assert gone() is None


def test_a_relation_has_no_caches_of_other_modules() -> None:
    known = {"columns", "types", "kinds", "nullable", "store", "statistics", "version"}
    known |= {"lineage", "news"}
    assert {name for name in vars(relation_of((1, 2))) if name[0] != "_"} == known


def test_a_part_was_indexed_whatever_the_columns_are_called() -> None:
    relation = relation_of((1, 2))
    note_part_indexed(relation, (1, 0))
    assert part_indexed(relation.renamed(("a", "b")), (1, 0))
    assert not part_indexed(relation, (0, 1))


def test_the_next_version_takes_nothing_that_an_older_one_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(maintained, "MANY", 0)
    sevens = [(7, y) for y in range(50)]
    old = relation_of(*sevens)
    first = MaintainedRelation(old, cpu_ops)
    assert first.add((np.array([7, 8]), np.array([3, 3])), 2).length == 1
    middle = first.finished()
    shown = dict(vars(middle))
    # One evaluation adds rows while another starts from the same version.
    second, third = MaintainedRelation(middle, cpu_ops), MaintainedRelation(middle, cpu_ops)
    assert second.add((np.array([9]), np.array([3])), 1).length == 1
    assert maintained.rows_with(middle, 1, np.array([3])) is None  # the bitmap is with `second`
    assert third.add((np.array([9]), np.array([3])), 1).length == 1
    assert set(zip(*second.rows_with(1, np.array([3])) or (), strict=True)) == {
        (7, 3), (8, 3), (9, 3),
    }  # fmt: skip
    assert vars(middle) == shown and middle.length == 51
    new = second.finished()
    for _ in range(2):  # it is put back
        found = maintained.rows_with(new, 0, np.array([8, 9]))
        assert found is not None and [key.tolist() for key in found] == [[8, 9], [3, 3]]


def test_a_grown_relation_has_its_codes() -> None:
    before = relation_of((10, 1), (30, 2))
    dictionary = Dictionary.of([before.column(0)])
    note_covers(dictionary, before, 0)
    codes = in_codes(before, (dictionary, None))
    assert in_codes(before.renamed(("a", "b")), (dictionary, None)) is codes
    after = grown(before, relation_of((20, 3)))
    assert [*dictionaries(after, 0)] == [dictionary]
    rows = in_codes(after, (dictionary, None))
    assert sorted(zip(*rows.keys, strict=True)) == [(0, 1), (1, 2), (2, 3)]
    assert rows.since(codes.version) is not None
    assert in_codes(before, (dictionary, None)) is codes
