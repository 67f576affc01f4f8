"""Plans as people see them: one tree, drawn as text, mermaid, JSON and HTML."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest

import gdatalog as gd
from gdatalog.engine.metrics import Index, Metrics, RuleRun
from gdatalog.overhead import Costs
from gdatalog.plan.join_plan import TrieRef
from gdatalog.report import Profile
from gdatalog.report.numbers import wrong_by
from gdatalog.report.tree import ReportNode, TextTable
from gdatalog.settings import Strategy
from gdatalog.terminal_text import width
from tests.interpreted import interpreted

SNAPSHOTS = Path(__file__).with_name("plans") / "reports.txt"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")

GRAPH = [(x, y) for x in range(12) for y in range(12) if (x * 5 + y * 3) % 7 < 2 and x != y]
CHAIN = [(x, x + 1) for x in range(30)]
TRIANGLE = "tr(x, y, z) <- E(x, y), E(y, z), E(x, z), x < y < z."
PATH = "path(x, y) <- C(x, y). path(x, z) <- path(x, y), C(y, z)."
EVIL = 'p(x) <- N(x, s), s != "<script>alert(1)</script>#;`&amp;\\"". ?- p(x).'


def database(**options: str) -> gd.Database:
    db = gd.connect(device="cpu", **options)
    db.load("E", GRAPH, columns=["src", "dst"])
    db["C"] = CHAIN
    db["N"] = [(1, "a"), (2, "b")]
    # Most values of `hub` that begin an edge are those of `few`, which a sample cannot know.
    db["H"] = [(0, y) for y in range(400)] + [(x, 0) for x in range(1, 400)]
    return db


# -------------------------------------------------------------------------------- snapshots


def snapshots() -> list[tuple[str, str]]:
    cases = SNAPSHOTS.read_text(encoding="utf-8").split("====\n")
    return [tuple(case.split("----\n")) for case in cases]  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "shown"), snapshots(), ids=lambda part: part.split("\n")[0].strip("/ ")[:40]
)
def test_explanations_as_text(text: str, shown: str) -> None:
    with database() as db:
        assert f"{db.explain(text)}\n" == shown


def test_lines_fit() -> None:
    text = "q(n) <- n = count : { E(aaaa, bbbb), E(bbbb, cccc), E(cccc, dddd), E(dddd, aaaa), \
E(aaaa, cccc), E(bbbb, dddd), aaaa < bbbb < cccc < dddd }."
    with database() as db:
        for found in (db.explain(text), db.profile(text, strategy="levelwise")):
            assert max(map(len, str(found).splitlines())) <= 100
            assert max(map(len, found.to_text(80).splitlines())) <= 80
            # Nothing is lost where lines are broken.
            wide, narrow = (re.sub(r"[\s│├└]+", "", found.to_text(n)) for n in (1000, 80))
            assert wide == narrow or sorted(wide) == sorted(narrow)


# ---------------------------------------------------------------------------------- the tree


def skeleton(node: ReportNode) -> list[tuple[str, str]]:
    """What a plan says, whatever was expected or happened."""
    kinds = ("stratum", "plan of a rule", "alternative", "given", "level", "step", "branch",
             "or", "end")  # fmt: skip
    return [(each.kind, each.label) for each in node.walk() if each.kind in kinds]


@pytest.mark.parametrize("strategy", ["levelwise", "auto"])
@pytest.mark.parametrize("text", [text for text, _ in snapshots()])
def test_a_profile_is_the_same_tree(text: str, strategy: Strategy) -> None:
    with database() as db:
        planned = db.explain(text, strategy=strategy).tree
        happened = db.profile(text, strategy=strategy).tree
    assert skeleton(planned) == skeleton(happened)


def test_what_came_stands_beside_what_was_expected() -> None:
    with database() as db:
        found = db.profile(TRIANGLE, strategy="levelwise").tree
        rows = len(db.query(TRIANGLE))
    levels = found.find("level")
    assert [node.label[0] for node in levels] == ["x", "y", "z"]
    assert levels[-1].actual == rows and levels[-1].estimate is not None
    assert all(node.seconds and node.share and node.tried for node in levels)
    (rule,) = found.find("rule")
    facts = dict(rule.facts)
    assert facts["rows"] == rows and facts["executor"] == "breadth-first"
    assert facts["order"] == "x, y, z" and 0 < (rule.share or 0) <= 1


def test_an_estimate_that_was_wrong_is_marked() -> None:
    """What a hub has in common with itself is more than formulas know."""
    text = "p(x, y) <- H(x, y), W(y, z), x > 100, z > 390."
    with database() as db:
        db["W"] = [(0, z) for z in range(400)] + [(y, 0) for y in range(400)]
        found = db.profile(text, strategy="levelwise")
    marked = [node for node in found.tree.walk() if node.marks]
    for node in found.tree.find("level"):
        assert node.estimate is not None and node.actual is not None
        assert (wrong_by(node.estimate, node.actual) is not None) == (node in marked)
    assert marked and all(node.marks[0] in str(found) for node in marked)


def test_new_rows_are_expected_by_how_many_came() -> None:
    with database() as db:
        found = db.profile(PATH, strategy="levelwise").tree
        (planned,) = db.explain(PATH).tree.find("given")
    (given,) = found.find("given")
    assert planned.estimate == 100 and given.estimate is None
    assert given.actual == 30 * 31 // 2
    (level,) = given.find("level")
    assert level.estimate == pytest.approx(given.actual, rel=0.1) and not level.marks


def test_rounds_by_loops_follow_as_many_rows() -> None:
    with database() as db, interpreted():
        db.workspace.force(split="never")
        found = db.profile(PATH, strategy="lftj").tree
    (given,) = found.find("given")
    (level,) = given.find("level")
    assert given.actual == 30 * 31 // 2 and level.actual == 30 * 29 // 2 and not level.marks
    assert "depth-first: the rounds are worth it" in found.find("rule")[1].details


def test_rounds_as_bars_and_a_table() -> None:
    with database() as db:
        found = db.profile(PATH, strategy="levelwise")
    (rounds,) = found.tree.find("rounds")
    assert rounds.series == tuple(range(30, -1, -1))
    assert rounds.table is not None and rounds.table.columns[:4] == (
        "round",
        "rule",
        "tried",
        "new",
    )
    assert "new rows, round 0 to 30: ██" in str(found)
    assert "rule 2: path(x, z) <- path(x, y), C(y, z)." in str(found)


def test_time_and_bytes_that_went_elsewhere() -> None:
    """Compiling, moving and indexes are told apart from the rest."""
    with database() as db:
        (planned,) = db.explain("p(x) <- E(x, y), x < y.").strata[0].rules
    spent = Costs(compiling=1.5, moving=0.25, moved=1 << 20)
    run = RuleRun(planned.plan, rows=500, seconds=2.0, costs=spent, bytes=4096)
    made = Index(TrieRef("E", "full", (1, 0)), ("a", "b"), 300, 2048, 0.5, 1)
    there = Index(TrieRef("E", "full", (0,)), ("a", "b"), 300, 1024)
    parts = Index(TrieRef("p", "old", (0,)), ("x",), 300, 1024, 0.5, 3)
    costs = Costs(planning=0.125, compiling=1.5)
    metrics = Metrics(runs=[run], costs=costs, indexes=[made, there, parts])
    found = Profile(metrics, 4.0, 8192, None, "cpu", {"index of E": 3072, "p": 100})
    (rule,) = found.tree.find("rule")
    assert rule.details[-1] == (
        "500 rows, 2,000 rows/s, 4.0 KiB held, 1.50 s compiling, 1.0 MiB moved in 250 ms"
    )
    assert found.tree.details == ("125 ms planning, 1.50 s compiling",)
    assert [node.label for node in found.tree.find("index")] == [
        "E by b, a", "E by a", "old p by x"
    ]  # fmt: skip
    assert "300 entries, built in 500 ms, 2.0 KiB" in str(found)
    assert "300 entries, cached, 1.0 KiB" in str(found)
    assert "300 entries, built 3 times in 500 ms, 1.0 KiB" in str(found)
    assert "index of E 3.0 KiB, p 100 B" in str(found)
    assert dict(rule.facts)["moved"] == 1 << 20


def test_the_memory_limit_is_told_where_it_was_given() -> None:
    with database() as db:
        assert "limit" not in str(db.explain(TRIANGLE))
    with database(memory_limit="64MiB") as db:
        found = db.explain(TRIANGLE)
        assert "; memory limit 64.0 MiB" in str(found)
        (indexes,) = found.tree.find("indexes")
        before = dict(indexes.facts)
        assert before["limit"] == 64 << 20 and before["bytes"]
        db.query(TRIANGLE)
        assert "indexes: all cached" in str(db.explain(TRIANGLE))


def test_what_is_forced_is_told() -> None:
    with database() as db:
        db.workspace.force(threads=2, split="never", strategy="lftj")
        found = db.explain(TRIANGLE)
    assert str(found).startswith("on cpu, strategy lftj, 2 threads, split never")
    assert "depth-first: asked for" in str(found)


# ------------------------------------------------------------------------------------- forms


def test_json_comes_back_as_it_was() -> None:
    with database() as db:
        for found in (db.explain(PATH), db.profile(PATH, strategy="levelwise")):
            assert json.loads(found.to_json()) == found.to_dict()
            assert json.loads(found.render("json"))["kind"] == "plan"
        rounds = found.to_dict()["rounds"]
    assert len(rounds) == 31 and rounds[0]["new"] == 30


@pytest.mark.parametrize("text", [*(text for text, _ in snapshots()), EVIL])
def test_mermaid_is_well_formed(text: str) -> None:
    with database() as db:
        found = db.profile(text, strategy="levelwise")
    first, *lines = found.to_mermaid().splitlines()
    assert first == "flowchart TD"
    nodes = dict(re.findall(r'^    (n\d+)\W+"([^"]*)"\W+$', "\n".join(lines), re.MULTILINE))
    assert len(nodes) == len(list(found.tree.walk()))
    edges = [line.split() for line in lines if "-->" in line]
    assert len(edges) == len(nodes) - 1  # a tree
    assert all(a in nodes and b in nodes for a, _, b in edges)
    assert {b for _, _, b in edges} == set(nodes) - {"n0"}
    for label in nodes.values():
        assert not re.search(r"[<>]", label.replace("<br/>", "")) and "&" not in label


def test_html_needs_nothing_else_and_is_escaped() -> None:
    with database() as db:
        found = db.profile(EVIL, strategy="levelwise")
    page, fragment = found.to_html(), found._repr_html_()
    assert "<script" not in page and "&lt;script&gt;" in page
    assert not re.search(r"https?:|src=|@import|url\(", page)
    assert fragment in page and "<html" not in fragment
    # Every rule of the style is for what is inside.
    style = fragment[fragment.index("<style>") + 7 : fragment.index("</style>")]
    for selectors in re.findall(r"([^{}]+)\{", re.sub(r"@(?:media|container)[^{]+\{", "", style)):
        assert all(".gdatalog-plan" in each for each in selectors.split(","))


def test_a_table_of_anything() -> None:
    from gdatalog.report.shown import fragment
    from gdatalog.report.text import text

    table = TextTable(("at", "by"), ((1, "a<b"), (None, "c")))
    node = ReportNode("rounds", "rounds", series=(5, 0, 500), table=table)
    root = ReportNode("plan", "all", children=(node,))
    assert text(root).splitlines() == ["all", "rounds: ▁·█", "  at  by", "   1  a<b", "      c"]
    assert "<td class=text>a&lt;b</td>" in fragment(root) and "height:100.0%" in fragment(root)


def test_saved_by_its_ending(tmp_path: Path) -> None:
    with database() as db:
        found = db.explain(TRIANGLE)
    for name, begins in (
        ("a.html", "<!DOCTYPE html>"), ("a.json", "{"), ("a.mmd", "flowchart"), ("a.txt", "on cpu")
    ):  # fmt: skip
        found.save(tmp_path / name)
        assert (tmp_path / name).read_text(encoding="utf-8").startswith(begins)
    with pytest.raises(gd.UsageError, match=r"a\.pdf") as caught:
        found.save(tmp_path / "a.pdf")
    assert ".html, .json, .mmd, .txt" in str(caught.value)
    with pytest.raises(gd.UsageError, match="no form 'pdf'"):
        found.render("pdf")
    assert found.render("text") == str(found)


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
def test_a_browser_shows_it(tmp_path: Path) -> None:
    assert CHROMIUM is not None
    with database() as db:
        db.profile(f"{PATH} leaf(x) <- C(_, x), !C(x, _). ?- leaf(x), path(1, x).").save(
            tmp_path / "page.html"
        )
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
        "--no-first-run", "--disable-background-networking", "--disable-component-update",
        "--disable-sync", f"--user-data-dir={tmp_path / 'profile'}", "--enable-logging=stderr",
        "--v=0", "--dump-dom", (tmp_path / "page.html").as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "CONSOLE" not in done.stderr
    body = done.stdout[done.stdout.index("<body") :]
    seen = unescape(re.sub(r"<style>.*?</style>|<[^>]+>", " ", body, flags=re.S))
    seen = " ".join(seen.split())
    for words in ("on cpu,", "expected", "share of all", "stratum 1: ", "leaf(x) <- C(",
                  "not exists for each (x)", "bindings that came", "held in the end"):  # fmt: skip
        assert words in seen, words
    assert done.stdout.count("<details") == done.stdout.count("</details>") > 5


def test_a_text_of_several_lines_stays_on_its_own() -> None:
    text = 'p(x) <- N(x, "one\\n%%{init: 1}%% two\\u001b[31m").'
    with database() as db:
        plan = db.explain(text)
    assert len([line for line in str(plan).splitlines() if "one" in line]) == 3
    assert "\x1b" not in str(plan) and "\x1b" not in plan.to_html()
    drawn = plan.to_mermaid()
    assert all(re.match(r"flowchart|    (n\d+|class)", line) for line in drawn.splitlines())
    assert "%%" not in drawn


def test_rules_that_read_the_same_have_numbers_of_their_own() -> None:
    with database() as db:
        profile = db.profile(f"{PATH} {PATH} ?- path(x, y).", strategy="levelwise")
    (stratum,) = profile.tree.find("stratum")
    numbers = [node.label.split(":")[0] for node in stratum.find("rule")]
    assert numbers == ["rule 1", "rule 2", "rule 3", "rule 4"]
    (rounds,) = profile.tree.find("rounds")
    assert rounds.table is not None
    assert {row[1] for row in rounds.table.rows if row[0] == 0} == {1, 3}


def test_of_indexes_that_nobody_can_foresee_no_size_is_told() -> None:
    text = "q(x, z) <- q(x, y), q(y, z). q(x, y) <- C(x, y)."
    with database() as db:
        unknown = db.explain(text).tree.find("indexes")[0]
    told = [node.details for node in unknown.find("index")]
    assert ("rows not known yet",) in told
    assert "about 0 B" not in unknown.label


def test_columns_stand_where_characters_are_wide() -> None:
    with database() as db:
        db["友人"] = [("山", "川"), ("川", "山")]
        lines = str(
            db.explain('友人の友人(x, z) <- 友人(x, y), 友人(y, z), x != "山".')
        ).splitlines()
    ends = {width(line) for line in lines if re.search(r"~[\d.]+$|expected$", line)}
    assert len(ends) == 1  # in cells of a terminal


def test_what_loops_do_not_count_is_not_told_as_none() -> None:
    with database() as db, interpreted():
        profile = db.profile(TRIANGLE, strategy="lftj")
    levels = profile.tree.find("level")
    assert [node.tried == 0 for node in levels] == [False] * 3
    assert any(node.actual and node.tried is None for node in levels)
    assert all("tried" not in node.to_dict() for node in levels if node.tried is None)


# --------------------------------------------------------------------------------- large plans


def large() -> str:
    """A program of more rules than are read at once: two strata of a rule, one of 30, recursive."""
    rules = ["first(x) <- E(x, _).", PATH, "big(x, y) <- E(x, y), E(y, z), E(z, x)."]
    rules += [f"path(x, y) <- E(x, y), x > {n}, y != 3." for n in range(28)]
    return " ".join(rules) + " last(x) <- path(x, y), first(y), big(x, _). ?- last(x)."


def costs(text: str) -> list[float]:
    """What stands at the right of the lines of strata."""
    lines = [line for line in text.splitlines() if re.search(r"^stratum .*~[\d,.]+$", line)]
    return [float(line.rpartition("~")[2].replace(",", "")) for line in lines]


def test_a_large_plan_is_folded() -> None:
    with database() as db:
        plan = db.explain(large())
        text, whole = str(plan), str(plan.of("*"))
    strata = [line for line in text.splitlines() if line.startswith("stratum ")]
    assert len(text.splitlines()) < 30 < 200 < len(whole.splitlines())
    assert "5 strata, 34 rules, folded: the costliest first" in text
    assert "a recursion is assumed to follow 100,000 rows of each relation" in text
    assert re.match(r"stratum \d: path \(recursive\): 30 rules, (semi-naive|a fixpoint)", strata[0])
    assert costs(text) == sorted(costs(text), reverse=True)
    assert len(costs(text)) == len(strata) - 1 == 4 and "?1: 1 rule, a copy of" in strata[-1]
    assert "expected" in text and "folded" not in whole
    costly = [line for line in text.splitlines() if re.match(r"[├└] rule", line)]
    assert len(costly) == 5 and "path(x, y), C(y, z)" in costly[0]


def test_parts_of_a_plan_in_full() -> None:
    with database() as db:
        plan = db.explain(large())
    labels = [node.label for node in plan.tree.find("stratum")]
    number = {label.split()[2]: at for at, label in enumerate(labels, 1)}
    one = plan.of("first")
    assert one.tree.find("stratum") == plan.of(number["first"]).tree.find("stratum")
    assert [node.label for node in one.tree.find("rule")] == ["first(x) <- E(x, _)."]
    assert "in E([x])" in str(one) and "folded" not in str(one)
    (third,) = plan.of(f"{number['path']}.3").tree.find("rule")
    assert third == plan.of("path").tree.find("rule")[2]
    assert len(plan.of("path").tree.find("rule")) == 30
    with pytest.raises(gd.UsageError, match="no stratum, rule or relation 'firts'") as found:
        plan.of("firts")
    assert "did you mean `first`?" in str(found.value)


def test_rewritten_relations_are_found_by_their_own_name() -> None:
    with database() as db:
        plan = db.explain(PATH + " ?- path(3, y).")
    assert {dict(rule.facts)["relation"] for rule in plan.of("path").tree.find("rule")} == {
        "path[bf]"
    }


def test_a_large_page_is_folded() -> None:
    with database() as db:
        plan = db.explain(large())
        few = db.explain("p(x) <- E(x, _).").to_html()
    made = plan.to_html()
    assert made.count('<details class="stratum">') == 5 and '<details open class="stratum">' in few
    assert made.count('class="costly-rule"') == 5
    # Programs are given all of it, in the order of evaluation.
    assert [node["label"] for node in plan.to_dict()["children"] if node["kind"] == "stratum"] == [
        node.label for node in plan.tree.find("stratum")
    ]


def test_a_large_profile_is_folded() -> None:
    with database() as db:
        profile = db.profile(large(), strategy="levelwise")
    text = str(profile)
    assert "4 strata, 33 rules, folded: the costliest first, by time" in text
    assert len(text.splitlines()) < 60 < len(str(profile.of("path")).splitlines())
    assert re.search(r"stratum \d: path \(recursive\): 30 rules, breadth-first, \d+ rounds, ", text)
