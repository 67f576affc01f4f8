"""The passes of the planner: the lists are what runs, and `explain` shows what each has changed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import gdatalog as gd
from gdatalog import planner
from gdatalog.planner import conjunction, join, program, rule
from gdatalog.planner.check import program as checks
from gdatalog.planner.passes import PassNotes
from gdatalog.planner.rule import RuleDraft
from gdatalog.report import Explanation
from gdatalog.report.tree import ReportNode

ROOT = Path(__file__).resolve().parent.parent
EDGES = {(i, (i * factor + 1) % 40) for factor in (3, 7) for i in range(40)}


@pytest.fixture
def db() -> gd.Database:
    db = gd.connect(device="cpu")
    db["E"] = sorted((a, b) for a, b in EDGES if a != b)
    return db


def passes(plan: Explanation) -> list[ReportNode]:
    return plan.tree.find("pass")


def names(plan: Explanation) -> list[str]:
    return [str(dict(node.facts)["pass"]) for node in passes(plan)]


@pytest.mark.parametrize(
    ("text", "name", "changed"),
    [
        (
            "p(x = a, y = b) <- E(b, a).",
            "resolve_names",
            "p(a, b) <- E(b, a).",
        ),
        (
            ".decl near(x: int, y: int) inline near(x, y) <- E(x, y), x < y. p(x) <- near(x, _).",
            "expand_inline_relations",
            "p(x) <- E(x, _~1), x < _~1.",
        ),
        (
            "d(0, 0) <- E(_, _). d(y, min(n + 1)) <- d(x, n), E(x, y).",
            "aggregate_alike",
            "d(0, min(0)) <- E(_, _).",
        ),
        (
            "p(x) <- E(x, _), x in {" + ", ".join(map(str, range(20))) + "}.",
            "make_lists_relations",
            "p(x) <- E(x, _), x in {20 values}.",
        ),
        ("p(x) <- E(x, _), x < 60 * 60.", "fold_constants", "p(x) <- E(x, _), x < 3600."),
        (
            "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z). ?- p(1, y).",
            "magic_program",
            "p[bf](x, z) <- p[bf](x, y), E(y, z).",
        ),
        (
            "p(x, y) <- E(x, y). p(x, z) <- p(x, y), p(y, z).",
            "made_linear",
            "p(x, z) <- p(x, y), p~first(y, z).",
        ),
        ("p(x, y) <- E(x, y) ; E(y, x).", "normalise", "p(x, y) <- E(y, x)."),
        (
            "p(n) <- n = count : { E(x, y), E(y, x) }.",
            "count_in_head",
            "p(~1) <- E(x~1, y~2), E(y~2, x~1); gather ~1 = count().",
        ),
        (
            "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z).",
            "read_new_rows",
            "p(x, z) <- for each new p(x, y), E(y, z).",
        ),
        (
            "p(count()) <- E(x, y), E(x, z), y != z.",
            "restrict_to_orbits",
            "p(~1) <- E(x, y), E(x, z), y != z, y < z; each row stands for 2 bindings: one of each "
            "orbit is looked for; gather ~1 = count().",
        ),
        (
            "p(x) <- E(x, _), x < 5, x < 9.",
            "drop_looser",
            "E(x, _~1), x < 5",
        ),
        (
            "p(x, y) <- E(x, y), x < y, x != y.",
            "drop_implied",
            "E(x, y), x < y",
        ),
        (
            "p(x, z) <- E(x, y), E(y, w), E(w, z).",
            "drop_dead_variables",
            "one row for each (w, x) of all rounds",
        ),
    ],
)
def test_a_pass_shows_what_it_changed(db: gd.Database, text: str, name: str, changed: str) -> None:
    plan = db.explain(text, passes=True)
    found = [node for node in passes(plan) if dict(node.facts)["pass"] == name]
    lines = [line.strip() for node in found for line in node.details]
    assert changed in lines, str(plan)


def test_counts_by_algebra(db: gd.Database) -> None:
    db.workspace.force(algebra="always")
    plan = db.explain(
        "p(count()) <- E(x, y), E(x, z), E(x, w), y != z, z != w, y != w.", passes=True
    )
    (node,) = [node for node in passes(plan) if dict(node.facts)["pass"] == "count_by_algebra"]
    assert any("the count of" in line for line in node.details)


def test_only_passes_of_the_lists_are_shown(db: gd.Database) -> None:
    known = {each.__name__ for level in planner.PASSES.values() for each in level}
    text = "p(x, y) <- E(x, y). p(x, z) <- p(x, y), p(y, z). ?- p(x, y), x < 2 + 3, y in {1, 2}."
    shown = set(names(db.explain(text, passes=True)))
    assert shown and shown <= known


def test_the_lists_are_what_runs(db: gd.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    levels = planner.PASSES
    assert levels["check"] is checks.PASSES and levels["program"] is program.PASSES
    assert levels["rule"] is rule.PASSES and levels["join"] is join.PASSES
    assert levels["conjunction"] is conjunction.PASSES
    text = "p(x) <- E(x, _), x < 2 * 3."
    monkeypatch.setattr(program, "PASSES", ())
    assert "x < 2 * 3" in str(db.explain(text, passes=True))

    def nothing_left(draft: RuleDraft) -> None:
        draft.alternatives = []

    monkeypatch.setattr(rule, "PASSES", (rule.normalise, nothing_left, *rule.PASSES[1:]))
    assert len(db.query("q(x) <- E(x, _).")) == 0


def test_a_plan_with_passes_is_the_plan(db: gd.Database) -> None:
    text = "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z), x < 2 * 9. ?- p(x, y), x < 2 + 3."
    db.query(text)
    db.explain(text)  # later explanations find all indexes
    before = db.explain(text)
    first, again = (shown(db.explain(text, passes=True)) for _ in range(2))
    assert first == again and not passes(before)
    assert shown(db.explain(text)) == shown(before)
    plain = db.explain(text).tree.to_dict()

    def without(node: dict[str, object]) -> dict[str, object]:
        """Without passes, and without the bytes of indexes."""
        children = node.get("children", [])
        assert isinstance(children, list)
        if node["kind"] == "index":
            return {"kind": "index", "label": node["label"]}
        left = [without(each) for each in children if each["kind"] != "pass"]
        return {**node, "children": left} if left else node

    assert without(db.explain(text, passes=True).tree.to_dict()) == without(plain)


def shown(plan: Explanation) -> str:
    """The plan without the bytes of cached indexes, which grow while the same query runs again."""
    return re.sub(r"entries, [\d.]+ \w+, cached", "entries, cached", str(plan))


def test_rules_that_the_database_keeps_are_rewritten_too(db: gd.Database) -> None:
    db.run("near(x, y) <- E(x, y), x < 3 * 3.")
    db.query("?- near(x, y).")
    plan = db.explain("?- near(1, y).", passes=True)
    assert "near(x, y) <- E(x, y), x < 9." in str(plan)
    assert "fold_constants" in names(plan)


def test_an_error_is_the_same_with_passes(db: gd.Database) -> None:
    with pytest.raises(gd.Error, match="no relation `F`"):
        db.explain("p(x) <- F(x).", passes=True)


def test_a_pass_that_changes_nothing_is_not_noted() -> None:
    class Lines:
        def __init__(self) -> None:
            self.found = ["p(x) <- E(x)."]

        def lines(self) -> tuple[str, ...]:
            return tuple(self.found)

    def idle(draft: Lines) -> None:
        """Does nothing."""

    def adds(draft: Lines) -> None:
        """Adds a rule; and more."""
        draft.found.append("q(x) <- E(x).")

    notes, draft = PassNotes(("p(x) <- E(x).",), []), Lines()
    for each in (idle, adds, idle):
        each(draft)
        notes.note(each, draft.lines())
    ((name, words, changed),) = [(r.name, r.words, r.changed) for r in notes.records]
    assert (name, words, changed) == ("adds", "Adds a rule", ("q(x) <- E(x).",))


def test_the_documentation_lists_the_passes_in_order() -> None:
    text = (ROOT / "docs/internals/planning.md").read_text(encoding="utf-8")
    section = text.partition("## Passes\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\w+) \| (.*?) \|", section, re.MULTILINE)
    found = {level: re.findall(r"`(\w+)`", listed) for level, listed in rows if level != "level"}
    assert found == {
        level: [each.__name__ for each in functions] for level, functions in planner.PASSES.items()
    }
