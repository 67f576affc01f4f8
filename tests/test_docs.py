"""What docs/ shows is true: every fenced block is run, and what it shows compared.

How blocks are run, and how to write them, stands in doc_blocks.py. test_site.py builds the pages.
"""

from __future__ import annotations

import re
from inspect import getmembers
from pathlib import Path

import pytest
import test_gpu_checks
from doc_blocks import REASONS, Block, Page, blocks_of, matches
from terminal import ROOT

import gdatalog as gd
from gdatalog.gpu_ops.diagnosis import checks
from gdatalog.gpu_ops.probe import Probe
from gdatalog.parser.directive_words import DIRECTIVES
from gdatalog.parser.words import INFIX_WORDS
from gdatalog.plan.functions import AGGREGATES, ALIASES, FUNCTIONS, GENERATORS
from gdatalog.shell import arguments, cli
from gdatalog.values import TYPE_NAMES

DOCS = ROOT / "docs"
# What `make bench` writes is no page of ours: it shows tables, and runs nothing.
PAGES = sorted(path for path in DOCS.rglob("*.md") if "benchmarks" not in path.parts)
NAMES = [path.relative_to(DOCS).as_posix() for path in PAGES]


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES, ids=NAMES)
def test_a_page_shows_what_comes(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    for shown in Page(path, tmp_path).run():
        if not shown.agrees:  # then the difference as pytest shows it
            where = f"{path.name}:{shown.block.line}"
            assert f"{where}\n{shown.came}" == f"{where}\n{shown.shown}"


def test_what_is_not_run_has_a_reason() -> None:
    for path, name in zip(PAGES, NAMES, strict=True):
        for block in blocks_of(path.read_text(encoding="utf-8")):
            assert block.options.get("skip") in (None, *REASONS), f"{name}:{block.line}"


def test_every_fence_is_read() -> None:
    for path, name in zip(PAGES, NAMES, strict=True):
        text = path.read_text(encoding="utf-8")
        fences = [line for line in text.splitlines() if line.lstrip().startswith("```")]
        assert len(fences) == 2 * len(blocks_of(text)), name


def words(page: str) -> set[str]:
    """The words that a page names in running text."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return {
        word for code in re.findall(r"`([^`\n]+)`", text) for word in re.split(r"[^\w.-]+", code)
    }


def test_the_language_page_names_every_word() -> None:
    functions = {name for name in (*FUNCTIONS, *ALIASES) if name.isidentifier()}
    directives = {f".{name}" for name in DIRECTIVES if not name.endswith("_type")}
    wanted = functions | directives | AGGREGATES | GENERATORS | INFIX_WORDS
    wanted |= {*TYPE_NAMES, "decimal"}
    assert wanted - words("language.md") == set()


def test_the_shell_page_names_every_option_and_code() -> None:
    text = (DOCS / "shell.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"(?:^\| |, )`(-[^` ]+)", text, re.MULTILINE))
    declared = arguments.command.params
    options = {name for option in declared for name in option.opts if name[0] == "-"}
    assert rows == options | {"-h", "--help"}
    codes = {cli.DONE, cli.WRONG, cli.USAGE, cli.RESOURCES, cli.INTERRUPTED, cli.TERMINATED}
    assert set(map(int, re.findall(r"^\| (\d+) \|", text, re.MULTILINE))) == codes


def test_the_pages_on_python_name_all_that_is_public() -> None:
    dotted = (
        words("python.md") | words("patterns.md") | {"Database", "Result", "Explanation", "Profile"}
    )
    named = {part for word in dotted for part in word.split(".")}
    methods = {
        name
        for thing in (gd.Database, gd.Result)
        for name, value in getmembers(thing)
        if name[0] != "_" and (callable(value) or isinstance(value, property))
    }
    # what other parts of the package call
    wanted = {*gd.__all__, *methods} - {"table", "tables", "shared"}
    assert wanted - named == set()


@pytest.mark.parametrize("state", test_gpu_checks.STATES, ids=lambda state: state[1])
def test_troubleshooting_knows_what_the_doctor_says(state: tuple[Probe, str, str]) -> None:
    said = checks(state[0])[-1].found
    text = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([^`]+)`", text, re.MULTILINE)
    patterns = [".*".join(map(re.escape, row.split("..."))) for row in rows]
    assert any(re.match(pattern, said) for pattern in patterns), said


# ----------------------------------------------------------------------------- the harness itself


def run(text: str, folder: Path) -> list[tuple[Block, str]]:
    path = folder / "page.md"
    path.write_text(text, encoding="utf-8")
    inner = folder / "run"
    inner.mkdir()
    return [(shown.block, shown.came) for shown in Page(path, inner).run() if not shown.agrees]


@pytest.mark.slow
def test_a_page_of_all_kinds(tmp_path: Path) -> None:
    assert run(PAGE + AT_A_TERMINAL, tmp_path) == []


def test_what_is_wrong_is_found(tmp_path: Path) -> None:
    wrong = PAGE.replace("rows 2", "rows 3").replace("│ 3 │", "│ 4 │").replace("x\n2\n", "x\n9\n")
    found = run(wrong, tmp_path)
    # of the second text DuckDB's rows too
    assert [block.language for block, _ in found] == ["text", "text", "text", "console"]
    assert found[0][1] == "rows 2\n" and found[1][1] == found[2][1] and "x\n2\n3" in found[3][1]


@pytest.mark.parametrize(
    ("block", "why"),
    [
        ("```python\nprint(1)\n```", "line 1 does not show this:\n1"),
        ("```datalog\np(x) <- q(x).\n```", "line 1 does not show this:\nprogram.dl:1:9"),
        ("```rust\nfn main() {}\n```", 'line 1: a rust block needs skip="..."'),
        ("```console\ngdatalog> e(1).\n```", "there is no `\\$ gdatalog` before"),
    ],
)
def test_what_cannot_be_right(block: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=why):
        run(block + "\n", tmp_path)


def test_comparing() -> None:
    assert matches("a\n...\nd\n", "a\nb\nc\nd\n") and not matches("a\n...\nd\n", "a\nb\n")
    assert matches("(0.012 s, cpu)  \n", "(1.3 s, cpu)\n") and not matches("2 rows", "3 rows")
    assert matches("~1.5 bindings,  3 MiB", "~12 bindings, 4.5 MiB", roughly=True)
    spent = "took 2.1 s\n  16 ms planning, 0.29 ms making indexes\n3 rows, 1 ms making indexes"
    brief = "took 1 s\n3 rows"
    assert matches(brief, spent, roughly=True) and not matches(brief, spent)


PAGE = """
```csv title="edges.csv"
src,dst
1,2
2,3
```

```python
import gdatalog as gd

db = gd.connect()
db.load("E", "edges.csv")
print("rows", len(db.query("?- E(x, y).")))
```

```text
rows 2
```

=== "Indented"

    ```datalog title="end.dl"
    .input E("edges.csv")
    end(y) <- E(_, y).
    ?- end(x).
    ```

    ```text
    ┌───┐
    │ x │
    ├───┤
    │ 2 │
    ...
    2 rows
    ```

```sql
select y as x from (select dst as y from 'edges.csv')
```

```datalog more
?- end(x).
```

```text
┌───┐
│ x │
├───┤
│ 2 │
│ 3 │
└───┘
2 rows
```

```console
$ gdatalog end.dl --format csv
x
2
3
$ gdatalog -c '?- nothing(x)'
...
 1 | ?- nothing(x)
...
```
"""

AT_A_TERMINAL = """
```console
$ gdatalog -c '?- x in {1, 2, 3}.' | head -2; echo $?
x
1
0
```

```console
$ gdatalog
gdatalog 0.2.0 on cpu. A statement ends with a dot. .help helps, Ctrl-D leaves.
gdatalog> e(1, 2).
e: 1 fact added, 1 tuple
```

Words between the parts of a conversation.

```console
gdatalog> p(x) <-
     ...>     e(x, _).
p: 1 tuple (0.002 s, cpu)
gdatalog> .quit
```
"""
