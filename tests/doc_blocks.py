"""What the pages of docs/ show, run: each fenced block, and what must come of it.

How to write a page:

- Name the page in mkdocs.yml's nav: it must be there, and links must lead somewhere.
- A ```text block shows what the block before it prints. A line `...` in it stands for any lines;
  with ```text roughly numbers and bars are not compared (times and `<input 7>` never are).
- ```python blocks of a page run in order, in one namespace, in a folder of the page's own. What
  they print must be shown. With title="NetworkX" a block runs only where that module is installed.
- ```csv title="edges.csv" (tsv, json, text, facts) writes that file into the folder. So does
  ```datalog title="tc.dl".
- ```ipython is a cell of a notebook, which IPython runs; what it shows is shown without `Out[1]:`.
- ```datalog is a program; shown is what `gdatalog` prints of it on a terminal. Without ```text it
  must run without an error. ```datalog more continues the program of the blocks before it (their
  queries and outputs are not asked again). args="-M limit=3" are more arguments.
- ```console has commands after `$ ` and what they print, or a conversation: after `$ gdatalog`
  the prompt. A later block that begins with the prompt continues it. `^C` is Ctrl-C.
- ```sql is run by DuckDB, ```cypher by Kùzu, where they are installed: one connection a page. Their
  rows are shown as gdatalog shows them, sorted. Without a ```text of its own such a block must give
  what the next ```text shows: the answer of the ```datalog beside it.
- Any block with skip="why" is not run; REASONS has the reasons that count.

    python tests/doc_blocks.py docs/tutorial.md            compares
    python tests/doc_blocks.py --write docs/tutorial.md    puts into the page what came

Write an empty ```text block, or a command alone, have it filled in, and read what came.
"""

from __future__ import annotations

import re
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from doc_fences import Block, asks, blocks_of, split_statements
from doc_peers import PEERS, Peers
from sessions import (
    PROMPT,
    Conversation,
    OnTerminal,
    Shell,
    split_commands,
    typed_in,
    without_times,
)

import gdatalog as gd

if TYPE_CHECKING:
    from cells import Cells

REASONS = {
    "a drawing",
    "a form, not a program",
    "differs from machine to machine",
    "installs packages",
    "needs a GPU",
    "needs a cluster",
    "needs a notebook",
}
PROGRAM = "program.dl"

_NUMBER = re.compile(r"[-~]?\d[\d,]*(\.\d+)?(e[+-]?\d+)?( million| billion| [KMG]i?B| B\b)?")
# A profile tells what planning and the like took where that was worth telling.
_SPENT = re.compile(r"^ +TIME planning.*\n|, TIME making indexes", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Shown:
    """What a block shows, and what came when it was run."""

    block: Block
    shown: str
    came: str

    @property
    def agrees(self) -> bool:
        return matches(self.shown, self.came, "roughly" in self.block.options)


def matches(shown: str, came: str, roughly: bool = False) -> bool:
    """Whether what came is what is shown, but for times and what `...` stands for."""
    shown, came = _comparable(shown, roughly), _comparable(came, roughly)
    if "..." not in shown.split("\n"):
        return shown == came
    pattern = "\n".join(
        "(?:.*\n)*?.*" if line == "..." else re.escape(line) for line in shown.split("\n")
    )
    return re.fullmatch(pattern, came) is not None


def _comparable(text: str, roughly: bool) -> str:
    text = re.sub(r"<input \d+>", "<input>", without_times(text))
    if roughly:
        text = _SPENT.sub("", text)
        text = re.sub(r"[ ─▁-▏]+", " ", _NUMBER.sub("N", text))
    return "\n".join(line.rstrip() for line in text.strip("\n").split("\n"))


class Page:
    """A page whose blocks are run, in a folder of its own."""

    def __init__(self, path: Path, folder: Path) -> None:
        """`folder`: an empty one, for the page's files and what running them needs."""
        self.text = path.read_text(encoding="utf-8")
        self.blocks = blocks_of(self.text)
        self.folder = folder / "page"
        self.folder.mkdir()
        scripts = folder / "bin"
        scripts.mkdir()
        self._scripts = scripts
        self._shell = Shell(self.folder, scripts)
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self._before: list[str] = []  # statements that `more` continues
        self._talk: Conversation | None = None
        self._peers = Peers()
        self._cells: Cells | None = None

    def run(self) -> Iterator[Shown]:
        """Runs the blocks in order; gives what each that shows something shows, and what came."""
        out: str | None = ""  # of the block before; None where it could not run
        rows: list[str] = []  # of other tools, that the next text must show
        try:
            for at, block in enumerate(self.blocks):
                if block.is_output:
                    came = [*rows, out] if out or not rows else rows
                    yield from (Shown(block, block.text, text) for text in came if text is not None)
                    out, rows = "", []
                elif "skip" in block.options:
                    continue
                elif block.is_file:
                    (self.folder / block.title).write_text(block.text, encoding="utf-8")
                elif block.language == "console":
                    yield Shown(block, block.text, self._console(block.text))
                elif block.language in PEERS:
                    answer = self._peers.run(block.language, block.text, self.folder)
                    if answer is None:
                        out = None
                    rows += [answer] if answer else []
                else:
                    out = self._runner(block)(block)
                    shown = any(b.is_output for b in self.blocks[at + 1 : at + 2])
                    if not shown and (self._shell.code if block.language == "datalog" else out):
                        raise AssertionError(f"line {block.line} does not show this:\n{out}")
        finally:
            if self._talk is not None:
                self._talk.close()
            if self._cells is not None:
                self._cells.close()

    def _runner(self, block: Block) -> Callable[[Block], str | None]:
        runners = {"python": self._python, "datalog": self._datalog, "ipython": self._ipython}
        if block.language not in runners:
            raise AssertionError(f'line {block.line}: a {block.language} block needs skip="..."')
        return runners[block.language]

    def _python(self, block: Block) -> str | None:
        if block.title and find_spec(block.title.lower()) is None:
            return None
        out = OnTerminal()

        def tell(message: Warning | str, category: type[Warning], *_place: object) -> None:
            out.write(f"{category.__name__}: {message}\n")

        with warnings.catch_warnings(), chdir(self.folder), redirect_stdout(out):
            warnings.simplefilter("always", gd.ProgramWarning)
            warnings.showwarning = tell  # type: ignore[assignment]
            exec(compile(block.text, f"<line {block.line}>", "exec"), self._names)
        return out.getvalue()

    def _ipython(self, block: Block) -> str | None:
        if find_spec("IPython") is None:
            return None
        from cells import Cells

        if self._cells is None:
            self._cells = Cells(self.folder / "ipython")
        with chdir(self.folder):
            return self._cells.shown(block.text)

    def _datalog(self, block: Block) -> str:
        name = block.title or PROGRAM
        (self.folder / name).write_text(block.text, encoding="utf-8")
        files, before = [name], self.folder / "before.dl"
        if "more" in block.options:
            before.write_text("\n".join(self._before), encoding="utf-8")
            files.insert(0, before.name)
        else:
            self._before = []
        out = self._shell.run(
            shlex.join(["gdatalog", *files]) + " " + block.options.get("args", "")
        )
        if self._shell.code == 0:
            self._before += [s for s in split_statements(block.text) if not asks(s)]
        return out

    def _console(self, text: str) -> str:
        if text.startswith(PROMPT):
            return self._converse(text)
        came = ""
        for command, shown in split_commands(text):
            came += f"$ {command}\n"
            if PROMPT not in shown and command.split() != ["gdatalog"]:
                came += self._shell.run(command)
                continue
            if self._talk is not None:
                self._talk.close()
            self._talk = Conversation(command, self.folder, self._scripts)
            came += self._talk.banner() + self._converse(shown)
        return came

    def _converse(self, shown: str) -> str:
        if self._talk is None:
            raise AssertionError("there is no `$ gdatalog` before this conversation")
        came = ""
        for typed in typed_in(shown):
            if not self._talk.ended:
                came += self._talk.take(typed)
        return came


def rewrite(page: Page) -> str:
    """The page's text with what came in the place of what is shown, where they differ."""
    text = page.text
    last = {shown.block.start: shown for shown in page.run()}  # our own answer comes last
    for shown in reversed(last.values()):
        if not shown.agrees:
            lines = shown.came.rstrip("\n").split("\n")
            came = "".join(f"{shown.block.indent}{line}".rstrip() + "\n" for line in lines)
            text = text[: shown.block.start] + came + text[shown.block.end :]
    return text


def main(arguments: list[str]) -> int:
    import tempfile

    failed = 0
    for name in arguments:
        if name == "--write":
            continue
        path = Path(name)
        try:
            with tempfile.TemporaryDirectory() as folder:
                page = Page(path, Path(folder))
                if "--write" in arguments:
                    path.write_text(rewrite(page), encoding="utf-8")
                    continue
                for shown in page.run():
                    if not shown.agrees:
                        failed = 1
                        print(f"{name}:{shown.block.line} shows\n{shown.shown}\nbut there came")
                        print(shown.came)
        except AssertionError as error:
            failed = 1
            print(f"{name}: {error}")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
