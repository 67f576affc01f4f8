"""A program that runs to its end lets go of relations that nobody reads any more."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from weakref import ref

import pytest

from gdatalog.engine.evaluator import evaluator
from gdatalog.engine.evaluator.upcoming import LastUse
from gdatalog.planner.check import Stratum
from gdatalog.shell.cli import run
from gdatalog.storage.relation import Relation

PROGRAM = """
.decl e(x: number, y: number)
.input e
.decl f(x: number, y: number)
.input f
.decl a(x: number, y: number)
.decl b(x: number, y: number)
.decl c(x: number, y: number)
.output b
.output c
{more}
a(x, y) :- e(x, y), x < y.
b(x, z) :- a(x, y), f(y, z).
c(x, y) :- b(x, y).
c(x, z) :- c(x, y), b(y, z).
"""


def stratum(*names: str) -> Stratum:
    return Stratum(names, (), False)


def test_a_relation_goes_after_its_last_reader() -> None:
    reads: Mapping[str, Sequence[str]] = {"a": ["e"], "b": ["a", "f"], "c": ["b", "f"], "d": ["f"]}
    strata = [stratum(name) for name in reads]
    last = LastUse(strata, lambda each: reads[each.relations[0]], {"b"})
    assert [last.after(each) for each in strata] == [["e"], ["a"], ["c"], ["f", "d"]]
    assert last.after(strata[0]) == []  # once more, after an error


def alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str = "", args: Sequence[str] = ()
) -> list[set[str]]:
    """The relations that are held when each stratum begins."""
    for name in "ef":
        lines = "".join(f"{i}\t{i * 7 % 50}\n" for i in range(50))
        (tmp_path / f"{name}.facts").write_text(lines)
    (tmp_path / "p.dl").write_text(PROGRAM.format(more=more))
    known: dict[str, ref[Relation]] = {}
    found: list[set[str]] = []
    plan, evaluate = evaluator.Evaluator.planned, evaluator.run
    gc.collect()
    gc.freeze()  # what earlier tests left is not looked at again

    def look(self: evaluator.Evaluator, stratum: Stratum) -> Any:
        gc.collect()
        found.append({name for name, held in known.items() if held() is not None})
        return plan(self, stratum)

    def run_plan(*planned: Any) -> Any:
        relations = evaluate(*planned)
        known.update({name: ref(relation) for name, relation in relations.items()})
        return relations

    given = evaluator.Evaluator._given

    def read(self: evaluator.Evaluator, name: str) -> Relation:
        relation = given(self, name)
        known[name] = ref(relation)
        return relation

    monkeypatch.setattr(evaluator.Evaluator, "planned", look)
    monkeypatch.setattr(evaluator, "run", run_plan)
    monkeypatch.setattr(evaluator.Evaluator, "_given", read)
    folders = ["-F", str(tmp_path), "-D", str(tmp_path)]
    assert run([*folders, *args, str(tmp_path / "p.dl")]) == 0
    return found


def test_the_command_line_holds_what_is_still_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert alive(tmp_path, monkeypatch) == [set(), {"a"}, {"b"}]
    assert len((tmp_path / "b.csv").read_text().splitlines()) > 10


@pytest.mark.parametrize("more", [".printsize a", ".output a", "?- e(1, x)."])
def test_what_is_asked_for_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    held = alive(tmp_path, monkeypatch, more)
    wanted = "e" if more.startswith("?-") else "a"
    assert wanted in held[-1]
