"""The prompt that answers: reads to the dot, evaluates, and survives every error."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from time import perf_counter
from typing import Any

from gdatalog import __version__
from gdatalog.database import Database
from gdatalog.engine.devices import ASKED, NO_GPU
from gdatalog.engine.files import Folders
from gdatalog.errors import Error
from gdatalog.parser import is_complete
from gdatalog.parser.directives import DIRECTIVES, REFUSED_DIRECTIVES
from gdatalog.shell.commands import COMMANDS, Leave, run_command
from gdatalog.shell.messages import say, say_error, say_unexpected
from gdatalog.shell.output import Output
from gdatalog.shell.progress import ProgressLine
from gdatalog.shell.statements import take
from gdatalog.shell.undoing import SHARE, History, Loaded

PROMPT = "gdatalog> "
GOES_ON = "     ...> "

_COMMAND = re.compile(r"\s*\.([A-Za-z_]\w*)(.*)", re.DOTALL)
# By habit, and with no dot to come: the parser says what to write instead.
_SQL = re.compile(r"\s*(select|insert|update|delete|create|with)\s[^()]*;\s*\Z", re.IGNORECASE)
_PLAIN = {"quit": "quit", "exit": "quit", "quit()": "quit", "exit()": "quit", "help": "help"}


class Repl:
    """One conversation with a database.

    `interactive`: somebody types at a terminal; else lines come from a pipe, nothing is
    prompted, and a text that lacks its last dot is run at the end.
    """

    def __init__(
        self,
        db: Database,
        output: Output,
        folders: Folders | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        interactive: bool = True,
        bail: bool = False,
    ) -> None:
        self.db = db
        self.output = output
        self.folders = db._workspace.folders = folders or Folders()
        self.params = dict(params or {})
        self.interactive = interactive
        self.bail = bail
        self.timer = False
        self.line = ProgressLine(sys.stderr, at_work=db._workspace.at_work)
        self.loaded: Mapping[str, Loaded] = {}  # the files that `.load` read
        self.history = History(db.memory_limit // SHARE)  # of `.undo`
        self.failed: list[BaseException] = []
        self._typed = ""  # of a statement whose dot is still to come
        self._count = 0
        db._workspace.announce = self.line.announce
        db._workspace.on_caution = lambda caution: say(caution.format())

    def loop(self) -> list[BaseException]:
        """Reads and answers until there is no more; gives the errors that were told."""
        if self.interactive:
            _use_readline()
            say(
                f"gdatalog {__version__} on {self.db.device}. A statement ends with a dot. "
                ".help helps, Ctrl-D leaves."
            )
            why = self.db._workspace.why
            if self.db.device == "cpu" and why not in (ASKED, NO_GPU):
                say(why)
        while True:
            try:
                if not self._step() or (self.failed and self.bail):
                    return self.failed
            except KeyboardInterrupt:
                self._interrupted()

    def _interrupted(self) -> None:
        if not self.interactive:
            raise KeyboardInterrupt
        self._typed = ""
        say("")

    def _step(self) -> bool:
        """Reads a line, and runs what is complete; False at the end."""
        try:
            line = self._read_line()
        except EOFError:
            if self.interactive:
                say("")
            elif self._typed.strip():
                self._run(self._typed)
            return False
        return self.feed(line)

    def _read_line(self) -> str:
        prompt = GOES_ON if self._typed else PROMPT
        if self.interactive and sys.stdout.isatty():
            return input(prompt)
        if self.interactive:
            sys.stderr.write(prompt)
            sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line.rstrip("\r\n")

    def feed(self, line: str) -> bool:
        """Takes a line; False if it says to leave."""
        if not self._typed:
            command = self._command(line)
            if command is not None:
                return self._guarded(lambda: run_command(self, *command))
        if self._typed and self.interactive:
            begun = self._command(line) if line.lstrip().startswith(".") else None
            if begun is not None and begun[0] in COMMANDS:
                say("(a statement is begun: end it with a dot, or drop it with Ctrl-C, first)")
                return True
            if not line.strip():
                say("(a statement ends with a dot; Ctrl-C drops this one)")
        text = f"{self._typed}\n{line}" if self._typed else line
        if not text.strip():
            return True
        if not is_complete(text) and not _SQL.match(text):
            self._typed = text
            return True
        self._typed = ""
        return self._run(text)

    def _command(self, line: str) -> tuple[str, str] | None:
        """The command and its argument, if the line is one. Directives win."""
        plain = _PLAIN.get(line.strip())
        if plain is not None:
            return plain, ""
        found = _COMMAND.fullmatch(line)
        if found is None or found[1] in DIRECTIVES or found[1] in REFUSED_DIRECTIVES:
            return None
        return found[1], found[2].strip()

    def _run(self, text: str) -> bool:
        self._count += 1
        return self._guarded(lambda: take(self, text, f"<input {self._count}>"))

    def _guarded(self, action: Any) -> bool:
        """Runs one thing; tells of whatever goes wrong in it. False if it says to leave."""
        started = perf_counter()
        try:
            action()
        except Leave:
            return False
        except KeyboardInterrupt:
            if not self.interactive:
                raise
            say("interrupted; the database is as it was")
        except BrokenPipeError:
            raise
        except (Error, MemoryError, RecursionError) as error:
            self.failed.append(error)
            say_error(error)
        except Exception as error:
            self.failed.append(error)
            say_unexpected(error)
        if self.timer:
            say(f"{perf_counter() - started:.3f} s")
        return True


def _use_readline() -> None:
    """Lines can be edited and recalled, where the system has what it takes."""
    try:
        import readline
    except ImportError:
        return
    readline.set_auto_history(True)
