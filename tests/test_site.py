"""The documentation is built, strictly and without the network; its links lead somewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from importlib.metadata import entry_points
from inspect import getmembers
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from terminal import ROOT

import gdatalog

pytest.importorskip("material", reason="needs mkdocs-material")

POINTS = """[pygments.lexers]
gdatalog = gdatalog.shell.editor.lexer:DatalogLexer
gdatalog_cell = gdatalog.shell.editor.lexer:CellLexer
gdatalog_console = gdatalog.shell.editor.lexer:SessionLexer
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    folder = tmp_path_factory.mktemp("site")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if "gdatalog" not in {point.name for point in entry_points(group="pygments.lexers")}:
        # It is not installed, only found: as if it were.
        told = folder / "told" / f"gdatalog_engine-{gdatalog.__version__}.dist-info"
        told.mkdir(parents=True)
        (told / "entry_points.txt").write_text(POINTS, encoding="utf-8")
        environment["PYTHONPATH"] += os.pathsep + str(told.parent)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    done = subprocess.run(
        [*command, "--site-dir", str(folder / "built")],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return folder / "built"


class Contents(HTMLParser):
    """What a page points to, what can be pointed to in it, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.fetched: list[str] = []  # what a browser loads by itself
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.words: list[str] = []
        self._inside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids.add(given.get("id", ""))
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag != "a":
            self.fetched += [given[name] for name in ("src", "href", "data") if name in given]
        if tag not in ("br", "img", "input", "link", "meta", "hr", "path", "circle"):
            self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._inside and self._inside.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self._inside):
            self.words.append(data)


def pages(site: Path) -> dict[Path, Contents]:
    return {path: Contents(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


def test_links_lead_somewhere(site: Path) -> None:
    found = pages(site)
    assert len(found) > 3
    for path, contents in found.items():
        if path.name == "404.html":  # it is shown at any address
            continue
        for link in contents.links + contents.fetched:
            parts = urlsplit(link)
            if parts.scheme or link.startswith("data:"):
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            there = there / "index.html" if there.is_dir() else there
            assert there.is_file(), f"{path.name}: {link}"
            if parts.fragment and there in found:
                assert unquote(parts.fragment) in found[there].ids, f"{path.name}: {link}"


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    for path, contents in pages(site).items():
        away = [link for link in contents.fetched if urlsplit(link).netloc]
        assert away == [], path.name
    for path in (*site.rglob("*.css"), *site.rglob("*.svg")):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"(?:url\(|@import|href=)\s*[\"']?(?:https?:)?//", text), path.name


def test_every_block_is_a_block(site: Path) -> None:
    for path, contents in pages(site).items():
        assert "```" not in "".join(contents.words), path.name


def test_programs_have_colours(site: Path) -> None:
    text = (site / "index.html").read_text(encoding="utf-8")
    assert '<span class="nf">' in text
    cells = (site / "notebooks.html").read_text(encoding="utf-8")
    assert 'class="language-gdatalog-cell' in cells and not list(site.rglob("*.py"))


def test_the_reference_has_all_that_is_public(site: Path) -> None:
    """The page api.md is made while the site is built, and so is the changelog's."""
    found = pages(site)
    ids = found[site / "api.html"].ids
    wanted = {
        f"{thing.__name__}.{name}"
        for thing in (gdatalog.Database, gdatalog.Result)
        for name, value in getmembers(thing)
        if name[0] != "_" and (callable(value) or isinstance(value, property))
    }
    # what other parts of the package call
    wanted -= {"Result.of", "Result.shared", "Result.table", "Result.tables"}
    assert {name.lower().replace(".", "") for name in wanted} - ids == set()
    assert set(gdatalog.__all__) - set(found[site / "api.html"].words) == set()
    assert "Unreleased" in "".join(found[site / "changelog.html"].words)


def test_no_caches_of_python_are_in_it(site: Path) -> None:
    assert list(site.rglob("__pycache__")) == []  # the hooks that mkdocs imports leave one in docs


@pytest.mark.slow
def test_search_needs_no_server(site: Path, tmp_path: Path) -> None:
    """Chromium, with the page read from the disk."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("needs chromium")
    quiet = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking"
    budget = ["--virtual-time-budget=5000", f"--user-data-dir={tmp_path}"]
    page = f"file://{site}/index.html?q=recursion"
    done = subprocess.run(
        [chromium, *quiet.split(), *budget, "--dump-dom", page],
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=60,
    )
    found = re.search(r"(\d+) matching documents", done.stdout)
    assert found is not None and int(found[1]) > 3
    assert "Uncaught" not in done.stderr


def test_the_shell_is_what_the_lexers_are_for(site: Path) -> None:
    """What `make docs` needs of pyproject.toml is what this test tells mkdocs."""
    told = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert POINTS.split("\n", 1)[1].replace("= ", '= "').replace("\n", '"\n') in told
