"""The magics of notebooks, in an IPython shell within this process."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from queue import Queue

import networkx as nx
import pandas as pd
import pytest

import gdatalog as gd
from gdatalog.cancellation import Watch
from gdatalog.notebook import help
from gdatalog.notebook.progress_bar import ProgressBar, bundle

pytest.importorskip("IPython", reason="needs IPython, of the extra `dev`")

from IPython.utils.capture import capture_output

from tests.cells import Cells

PAIRS = [pair.split() for pair in ("ann bob", "ann cid", "bob cid", "bob dan", "cid ann")]
FOLLOWS = pd.DataFrame(PAIRS, columns=["who", "whom"])


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cells]:
    cells = Cells(tmp_path_factory.mktemp("ipython"))
    yield cells
    cells.close()


@pytest.fixture
def notebook(cells: Cells) -> Iterator[Cells]:
    notebook = cells
    notebook.run("%load_ext gdatalog")
    before = set(notebook.variables)
    with gd.connect() as db:
        notebook.variables.update(db=db, follows=FOLLOWS)
        notebook.run("%datalog_db db")
        notebook.run("%datalog_load follows follows")
        yield notebook
    for name in set(notebook.variables) - before:
        del notebook.variables[name]


def fails(notebook: Cells, text: str, cell_id: str | None = None) -> str:
    """Runs a cell that fails; gives what is shown of its error."""
    assert notebook.run(text, cell_id) is None and isinstance(notebook.error, gd.Error)
    return notebook.out.strip()


# ---------------------------------------------------------------------------------- answers


def test_a_cell_is_a_program(notebook: Cells) -> None:
    cell = (
        '%%datalog\nreach(x, y) <- follows(x, y) ; reach(x, z), follows(z, y).\n?- reach("dan", y).'
    )
    assert len(notebook.run(cell)) == 0
    found = notebook.run('%%datalog\nfrom_bob(y) <- reach("bob", y).')
    assert found.sorted().fetchall() == [("ann",), ("bob",), ("cid",), ("dan",)]
    assert "4 rows" in notebook.out and notebook.variables["_"] is found
    # a body is a question, facts are rules; what is declared only is not shown
    assert len(notebook.run("%%datalog\nfrom_bob(x), follows(x, y)")) == 5
    assert notebook.run("%%datalog\nage(1, 2). age(2, 3).").columns == ("c0", "c1")
    many = "".join(f"n({at}). b({at}).\n" for at in range(20))
    assert notebook.run(f"%%datalog\n{many}").fetchall() == [(at,) for at in range(20)]
    assert notebook.run(f"%%datalog\n{many}n(20).").columns == ("c0",)
    assert len(notebook.variables["_"]) == 21
    assert notebook.run("%%datalog\n.decl nothing(x: int)") is None
    assert notebook.displayed == [] and notebook.error is None


def test_a_name_gets_the_answer(notebook: Cells) -> None:
    cell = "%%datalog fans --param who=ann\n?- follows(x, $who)."
    assert notebook.run(cell) is None and notebook.displayed == []
    assert notebook.variables["fans"].fetchall() == [("cid",)]
    shown = notebook.run("%%datalog more --show --limit 2\nfan(x) <- follows(x, _).")
    assert shown.limit == 2 and "(limit 2)" in shown._repr_html_()
    assert shown is notebook.variables["more"] and len(shown) == 2
    assert len(notebook.run("%datalog fan(x)")) == 3  # the limit is the answer's, not the rule's
    outputs = '?- fan("ann").\n.output fan(IO="stdout")'  # the answer is the query's
    notebook.run(f"%%datalog yes\n{outputs}")
    assert notebook.variables["yes"].columns == ()
    told = fails(notebook, "%%datalog fans\n?- fan(x).\n?- follows(x, y).")
    assert re.match(
        r"In\[\d+\]:3:1: usage error: a variable takes one answer, .* has 2 queries", told
    )
    assert "cannot be the name of a variable" in fails(notebook, "%%datalog ?-\nfan(x).")
    assert "the text has no query" in fails(notebook, "%%datalog x\n.decl e(x: int)")
    assert "negative" in fails(notebook, "%datalog --limit -1 fan(x)")


def test_several_questions_are_all_shown(notebook: Cells) -> None:
    last = notebook.run('%%datalog\n?- follows("ann", y).\n?- follows(x, "ann").')
    assert last.fetchall() == [("cid",)]
    (first,) = notebook.displayed
    assert "2 rows" in first["text/html"] and "2 rows" in first["text/plain"]


def test_lines(notebook: Cells) -> None:
    notebook.run('few = %datalog --limit 1 ?- follows("ann", y).')
    assert len(notebook.variables["few"]) == 1
    found = notebook.run('%datalog --param who=cid --param "n=2" ?- follows(x, $who), x != $n.')
    assert found is None and isinstance(notebook.error, gd.TypeMismatchError)
    assert len(notebook.run("%datalog --param who=cid ?- follows(x, $who).")) == 2
    assert "a text is needed" in fails(notebook, "%datalog")
    assert "did you mean --strategy?" in fails(notebook, "%datalog --stratgy lftj p(x)")
    assert "%datalog? shows" in fails(notebook, "%datalog --wrong=3 p(x)")
    assert "a word too many: 5" in fails(notebook, "%%datalog fans 5\np(x) <- follows(x, _).")
    assert "a quote is not closed" in fails(notebook, '%datalog_load "E')


def test_settings(notebook: Cells) -> None:
    notebook.run("%datalog_set magic_sets never")
    assert notebook.out == "magic_sets: never\n"
    notebook.run("%datalog_set strategy")
    assert notebook.out == "strategy: auto\n"
    notebook.run("%datalog_set")
    lines = [line.split() for line in notebook.out.splitlines()]
    assert ["magic_sets", "never", "auto|always|never"] in lines
    assert notebook.run("%datalog_db").settings.magic_sets == "never"
    assert "did you mean magic_sets?" in fails(notebook, "%datalog_set magicsets never")
    assert "magic_sets cannot be 'no'" in fails(notebook, "%datalog_set magic_sets no")


def test_parameters_come_from_what_is_named_only(notebook: Cells) -> None:
    notebook.variables.update(who="ann", given={"who": "bob", "other": 1}, wrong=3)
    told = fails(notebook, "%datalog ?- follows(x, $who).")
    assert "parameter" in told and "`--param who=value` in a notebook" in told
    assert notebook.run("%datalog --params given ?- follows(x, $who).").fetchall() == [("ann",)]
    found = notebook.run("%%datalog --params given --param who=ann\n?- follows(x, $who).")
    assert found.fetchall() == [("cid",)]
    assert "mean given?" in fails(notebook, "%datalog --params givn ?- follows(x, y).")
    assert "no variable 'nowhere'" in fails(notebook, "%datalog --params nowhere ?- follows(x, y).")
    assert "of type int" in fails(notebook, "%datalog --params wrong ?- follows(x, y).")
    assert "--param who: a parameter is given as" in fails(notebook, "%datalog --param who p(x).")


def test_files_are_written_and_sizes_told(notebook: Cells, tmp_path: Path) -> None:
    path = tmp_path / "fans.csv"
    cell = f'%%datalog\nfan(x) <- follows(x, _).\n.output fan("{path}")\n.printsize fan'
    assert notebook.run(cell) is None and notebook.displayed == []
    assert notebook.out == f"fan: 3 tuples -> {path}\nfan: 3 tuples\n"
    assert sorted(path.read_text().split()) == ["ann", "bob", "cid", "x"]
    assert len(notebook.run("%%datalog\n.output fan(IO=stdout)")) == 3
    assert len(notebook.run("%%datalog\n.output fan(IO=stdout)\n?- fan(x), x > $a.") or ()) == 0


# ------------------------------------------------------------------------ what cells replace


def test_a_cell_that_runs_again_replaces_its_rules(notebook: Cells) -> None:
    notebook.run("%%datalog\npopular(x) <- follows(_, x).", "one")
    notebook.run('%%datalog\npopular("zoe").', "two")
    assert len(notebook.run("%datalog popular(x)", "three")) == 5
    notebook.run('%%datalog\npopular(x) <- follows("ann", x).', "one")
    assert len(notebook.run("%datalog popular(x)", "three")) == 3
    # a cell that fails keeps what it gave before, one that has become another gives it up
    assert "did you mean `follows`?" in fails(
        notebook, "%%datalog\npopular(x) <- folows(x).", "one"
    )
    assert len(notebook.run("%datalog popular(x)", "three")) == 3
    notebook.run("1 + 1", "one")
    assert notebook.run("%datalog popular(x)", "three").fetchall() == [("zoe",)]


def test_a_cell_that_no_longer_fits_heals_when_it_is_redefined(notebook: Cells) -> None:
    notebook.run("%%datalog\nfan(x) <- follows(x, _).", "one")
    notebook.run('%%datalog\nbob(x) <- fan(x), x = "bob".', "two")
    notebook.run('%%datalog\ndb_is(x) <- x = "here".', "three")
    numbers = [(1, 2), (2, 3)]
    notebook.variables["numbers"] = numbers
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gd.ProgramWarning)
        notebook.run("%datalog_load follows numbers")
    listed = repr(notebook.run("%datalog_relations"))
    assert re.search(r"^bob +invalid +`=` compares two of one type", listed, re.MULTILINE)
    assert notebook.run("%datalog db_is(x)").fetchall() == [("here",)]
    assert "type error: `bob` is invalid" in fails(notebook, "%datalog bob(x)")
    assert notebook.run("%%datalog\nbob(x) <- fan(x), x = 2.", "two").fetchall() == [(2,)]
    # Of two cells, the first changes its types and then the second follows.
    assert notebook.run('%%datalog\nfan("ann").', "one").fetchall() == [("ann",)]
    assert "warning: `bob` is invalid from now on" in notebook.err
    assert notebook.run('%%datalog\nbob(x) <- fan(x), x != "bob".', "two").fetchall() == [("ann",)]
    # A cell that becomes another takes its rules along.
    notebook.run("1 + 1", "one")
    assert "warning: `bob` is invalid from now on: there is no relation `fan`" in notebook.err


def test_lines_of_a_cell_are_told_apart(notebook: Cells) -> None:
    notebook.run('%datalog one("a").\n%datalog one("b").', "cell")
    assert len(notebook.run("%datalog one(x)")) == 2
    notebook.run('%datalog one("c").', "cell")
    assert notebook.run("%datalog one(x)").fetchall() == [("c",)]
    # what a cell gave before it failed is given up as well, once it runs without it
    notebook.run('%datalog one("c").\n%datalog one("d").\n1 / 0', "cell")
    assert len(notebook.run("%datalog one(x)")) == 2
    notebook.run('%datalog one("c").', "cell")
    assert notebook.run("%datalog one(x)").fetchall() == [("c",)]


def test_a_part_of_a_cell_belongs_to_it(notebook: Cells) -> None:
    notebook.run('%%capture kept\n%datalog one("a").', "cell")
    notebook.run('%%capture kept\n%datalog one("b").', "cell")
    assert notebook.run("%datalog one(x)").fetchall() == [("b",)]


def test_a_cell_that_explains_itself_keeps_what_it_gave(notebook: Cells) -> None:
    rules = "kin(x, y) <- follows(x, y)."
    notebook.run(f"%%datalog\n{rules}", "kin")
    plan = notebook.run(f"%%datalog --explain --strategy levelwise\n{rules}", "kin")
    assert str(plan).startswith("on cpu, strategy levelwise")
    assert str(plan).count("kin(x, y) <-") == 1  # not beside itself
    assert len(notebook.run("%datalog kin(x, y)")) == 5
    notebook.run("1 + 1", "kin")
    assert "kin" in fails(notebook, "%datalog kin(x, y)")


def test_without_ids_a_name_or_the_text_tells(notebook: Cells) -> None:
    def run(text: str) -> None:
        with capture_output():
            notebook.shell.run_cell(text, store_history=True)

    run("%%datalog found\np(x) <- follows(x, _).")
    run("%%datalog found\np(x) <- follows(_, x).")
    assert len(notebook.variables["found"]) == 4
    run('%%datalog\np("eve").')
    run('%%datalog\np("eve").')
    notebook.run("%datalog_rules")
    assert notebook.out == "1  p(x) <- follows(_, x).  // p: 5 tuples\nand 1 fact of p\n"


def test_quiet_keeps_and_evaluates_nothing(notebook: Cells) -> None:
    assert notebook.run("%%datalog --quiet\np(x) <- follows(x, _).\n?- p(x).") is None
    assert notebook.displayed == [] and notebook.out == ""
    assert notebook.run("%datalog_db").workspace.evaluated() == {}
    assert notebook.run("%%datalog found --quiet\n?- p(x).") is None
    assert len(notebook.variables["found"]) == 3


# ------------------------------------------------------------------------- errors, warnings


def test_errors_are_our_text_and_tb_has_the_rest(notebook: Cells) -> None:
    assert notebook.run("%%datalog\nfan(x) <- follows(x, _).") is not None
    count = notebook.shell.execution_count
    assert fails(notebook, "%%datalog\np(x) <- fan(x).\nq(x) <- fan(x, y).") == (
        f"In[{count}]:3:9: type error: `fan` has 2 arguments here, but 1 column there\n"
        " 3 | q(x) <- fan(x, y).\n"
        "   |         ^^^^^^^^^\n"
        f"  note: In[{count - 1}]:2:1: `fan` is defined with 1 column\n"
        " 2 | fan(x) <- follows(x, _).\n"
        "   | ^^^^^^"
    )
    notebook.run("%tb")
    assert "Traceback" in notebook.out and "magics.py" in notebook.out
    assert "p" not in notebook.run("%datalog_db")


def test_errors_of_python_code_are_short(notebook: Cells) -> None:
    notebook.run("def ask(text):\n    return db.query(text)")
    text = fails(notebook, "n = 1\nask('?- folows(x, _).')")
    assert text == (
        "line 2 in ask: return db.query(text)\n"
        "<query>:1:4: name error: there is no relation `folows`\n"
        " 1 | ?- folows(x, _).\n"
        "   |    ^^^^^^^^^^^^\n"
        "  hint: did you mean `follows`?"
    )
    notebook.run("%tb")
    assert "Traceback" in notebook.out and "asking.py" in notebook.out
    text = fails(notebook, "ask(' '.join(f'p(x) <- folows(x, {i}).\\n' for i in range(20)))")
    lines = text.splitlines()
    assert len(lines) == 10 and lines[0].startswith("line 2 in ask: ")
    assert "name error" in lines[1] and re.fullmatch(
        r"  … \d+ more lines: %tb shows them", lines[6]
    )
    assert lines[-1] == "and 10 more errors"
    notebook.run("%tb")
    assert notebook.out.count("did you mean") == 10


def test_warnings_are_texts_on_stderr(notebook: Cells) -> None:
    notebook.run("%%datalog\npair(x, y) <- follows(x, other), follows(z, y).")
    assert re.match(r"In\[\d+\]:2:\d+: warning: ", notebook.err)
    assert "used only once" in notebook.err and "ProgramWarning" not in notebook.err
    db = notebook.run("%datalog_db")
    with pytest.warns(gd.ProgramWarning):
        db.query("?- follows(x, y), follows(z, _).")


def test_an_interrupt_is_one_line(notebook: Cells, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gdatalog.notebook.answers._answer", interrupted)
    notebook.run("%%datalog\np(x) <- follows(x, _).")
    assert isinstance(notebook.error, KeyboardInterrupt)
    assert re.fullmatch(r"interrupted.* after .*; the database is as it was\n*", notebook.out)
    monkeypatch.undo()
    assert "p" not in notebook.run("%datalog_db")


# ------------------------------------------------------------------------------ other magics


def test_load(notebook: Cells, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    FOLLOWS.to_csv("my edges.csv", index=False)
    notebook.run('%datalog_load E "my edges.csv"')
    assert notebook.out == "E(who: symbol, whom: symbol): 5 rows\n"
    notebook.run("%datalog_load follows --columns a,b")
    assert notebook.out == "follows(a: symbol, b: symbol): 5 rows\n"
    notebook.variables.update(ages=pd.DataFrame({"n": ["a", "a", "b"], "age": [3, 3, None]}))
    notebook.run("%datalog_load ages --fill age=0 --row_id true")
    assert notebook.out == "ages(n: symbol, age: float): 3 rows\n"
    notebook.run("%datalog_load ages --nulls drop --row_id id")
    assert notebook.out.endswith("ages(id: int, n: symbol, age: float): 2 rows\n")
    graph = nx.DiGraph([(("a", 1), ("b", 2))])
    graph.add_node(("c", 3), color="red")
    notebook.variables.update(graph=graph)
    notebook.run("%datalog_load E graph --tuples --nodes N --fill color=none")
    assert notebook.out.splitlines() == [
        "E(source0: symbol, source1: int, target0: symbol, target1: int): 1 row",
        "N(node0: symbol, node1: int, color: symbol): 3 rows",
    ]
    told = fails(notebook, "%datalog_load E folows")
    assert "neither a variable nor a file 'folows'" in told and "did you mean follows?" in told
    assert "as in: df = follows[1]" in fails(notebook, "%datalog_load E follows[1]")
    assert "edgs.csv" in fails(notebook, "%datalog_load E edgs.csv")
    assert "found 3 words" in fails(notebook, "%datalog_load E F G")


def test_relations(notebook: Cells) -> None:
    notebook.run("%%datalog --quiet\np(x) <- follows(x, _).\nq(x) <- p(x), follows(_, x).")
    notebook.run("%datalog ?- p(x).")
    listing = notebook.run("%datalog_relations")
    assert repr(listing).splitlines() == [
        "follows(who: symbol, whom: symbol)              5  data",
        "p(x: symbol)                                    3  rules",
        "q(x: symbol)                        not evaluated  rules",
    ]
    html = re.sub("<[^>]*>", " ", listing._repr_html_()).split()
    assert html[:8] == [
        "relation",
        "columns",
        "rows",
        "from",
        "follows",
        "who:",
        "symbol,",
        "whom:",
    ]
    notebook.run("%datalog_rules p")
    assert notebook.out == "1  p(x) <- follows(x, _).  // p: 3 tuples\n"
    assert "did you mean 'p'?" in fails(notebook, "%datalog_rules pp")


def test_explain_and_profile(notebook: Cells) -> None:
    text = "?- follows(x, y), follows(y, z)."
    plans = [
        notebook.run(f"%datalog_explain {text}"),
        notebook.run(f"%%datalog_explain\n{text}"),
        notebook.run(f"%%datalog --explain\n{text}"),
    ]
    assert all(isinstance(plan, gd.Explanation) for plan in plans)
    assert len(set(map(str, plans))) == 1
    assert isinstance(notebook.run(f"%%datalog_profile --strategy levelwise\n{text}"), gd.Profile)
    assert len(notebook.run(f"%datalog_profile {text}").result) == 6
    found = notebook.run(f"%%datalog --profile\n{text}")
    assert len(found) == 6 and len(notebook.displayed) == 1
    assert "held in the end" in notebook.displayed[0]["text/plain"]
    for options in ("--explain --profile", "--quiet --profile"):
        told = fails(notebook, f"%%datalog {options}\n{text}")
        assert "--profile has nothing to report" in told
    assert notebook.run(f"%%datalog plan --explain\n{text}") is None
    assert isinstance(notebook.variables["plan"], gd.Explanation)
    told = fails(notebook, f"%datalog --strategy fast {text}")
    assert "invalid choice: 'fast'" in told and told.endswith(
        "hint: %datalog? shows how it is used"
    )


def test_a_database_of_the_notebook(notebook: Cells) -> None:
    with gd.connect() as db:
        db["E"] = [(1, 2), (2, 3)]
        notebook.variables["db"] = db
        assert notebook.run("%datalog_db db") is db is notebook.run("%datalog_db")
        assert len(notebook.run("%datalog E(x, y), E(y, z)")) == 1
        notebook.run("%%datalog\np(x) <- E(x, _).")
        assert sorted(db) == ["E", "p"]
    assert "of type DataFrame" in fails(notebook, "%datalog_db follows")
    assert "no variable 'bd'" in fails(notebook, "%datalog_db bd")
    assert "closed" in fails(notebook, "%datalog_db db")
    assert "hint: %datalog_db takes another" in fails(notebook, "%datalog p(x)")


def test_an_error_tells_which_database_has_a_relation(notebook: Cells) -> None:
    with gd.connect() as db:
        db["Edges"] = [(1, 2), (2, 3)]
        notebook.variables["mine"] = db
        told = fails(notebook, "%%datalog\np(x) <- Edges(x, _).\nq(x) <- Nodes(x).")
        assert told.count("the database mine has Edges: %datalog_db mine switches to it") == 1
        assert "define `Nodes` by a rule" in told
        assert "switches to it" in fails(notebook, "%datalog_rules Edges")
        notebook.run("%datalog_db mine")
        assert len(notebook.run("%datalog Edges(x, y)")) == 2


def test_help_names_all_magics(notebook: Cells) -> None:
    notebook.run("%datalog_help")
    magics = {name for name in notebook.shell.magics_manager.magics["line"] if "datalog" in name}
    assert set(re.findall(r"^%+(\w+)", notebook.out, re.M)) == magics
    for name in magics:
        assert f"usage: %{name}" in notebook.shell.find_line_magic(name).__doc__


def test_it_is_loaded_once_and_can_be_unloaded(notebook: Cells) -> None:
    notebook.run("%reload_ext gdatalog")
    assert notebook.error is None and len(notebook.run("%datalog follows(x, y)")) == 5
    notebook.run("%unload_ext gdatalog")
    assert notebook.shell.find_line_magic("datalog") is None
    notebook.run("%load_ext gdatalog")


def test_the_package_does_not_import_ipython() -> None:
    text = (
        "import gdatalog, sys; "
        "print(callable(gdatalog.load_ipython_extension), 'IPython' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "True False\n"


# ---------------------------------------------------------------------------------- progress


def test_a_bar_fills_where_the_end_is_known() -> None:
    watch = Watch()
    assert "value" not in bundle(watch, 3.0)["text/html"]
    assert bundle(watch, 3.0)["text/plain"] == "running: 3.0 s"
    with watch.work("loading", "E from <e>.csv", total=200, unit="bytes") as work:
        work.at(50)
        told = bundle(watch, 3.0)
        assert 'value="0.250"' in told["text/html"] and "&lt;e&gt;.csv" in told["text/html"]
        assert told["text/plain"].startswith("loading E from <e>.csv: 25 %, 50 B of 200 B")
    with watch.work("round", "path"):
        told = bundle(watch, 3.0)
        assert "value" not in told["text/html"] and told["text/plain"].startswith("path: ")


def test_a_bar_comes_late_and_goes() -> None:
    shown: Queue[tuple[str, bool]] = Queue()
    watch = Watch()
    bar = ProgressBar(
        lambda bundle, again: shown.put((bundle["text/html"], again)), lambda: watch, after=0
    )
    bar.start()
    for again in (False, True):  # two calls in one cell share the place
        with watch.call():
            html, replaced = shown.get(timeout=60)
            assert "<progress" in html and replaced == again
        while html:
            html, replaced = shown.get(timeout=60)
        assert replaced
    bar.end()
    assert shown.empty()
    bar = ProgressBar(lambda bundle, again: shown.put(("", again)), lambda: watch, after=3600)
    bar.start()
    with watch.call():
        assert watch.seconds is not None
    bar.end()
    assert shown.empty() and watch.seconds is None


def test_load_has_all_options() -> None:
    of_python = {*inspect.signature(gd.Database.load).parameters} - {"self", "name", "on_progress"}
    assert of_python <= {action.dest for action in help.LOAD._actions}
