"""The start of `gdatalog`: an interactive prompt appears before the engine is imported.

A thread imports the engine once the prompt is drawn, usually before the first statement is typed;
otherwise that statement waits.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Mapping, Sequence
from threading import Event, Thread
from typing import TYPE_CHECKING, NoReturn

from gdatalog.shell.editor import can_edit, in_foreground, keep_keys

if TYPE_CHECKING:
    from gdatalog.database import Database
    from gdatalog.shell.editor.prompt import Prompt

SWITCH = 0.0005  # seconds: longest wait of a key for the importing thread


class Begun:
    """A prompt that is already drawn, while a thread opens its database."""

    def __init__(self, prompt: Prompt, args: Sequence[str]) -> None:
        self.prompt = prompt
        self.args = args  # the command line
        self.first = ""  # the first input
        self._db: Database | None = None
        self._problem: BaseException | None = None
        self._there = Event()
        prompt.drawn = Thread(target=self._load, daemon=True).start

    def wait(self) -> None:
        """Waits until the database is open or has failed to open."""
        self._there.wait()

    def database(self) -> Database:
        self.wait()
        if self._problem is not None:
            raise self._problem
        assert self._db is not None
        return self._db

    def _load(self) -> None:
        usual = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH)
        try:
            from gdatalog.shell.editor import completion, highlighting  # noqa: F401  for the next key

            self.prompt.can_read()
            from gdatalog.shell import cli, repl
            from gdatalog.shell.editor import known

            self._db = cli.connected(self.args)
            seen, status = known.look(self._db)
            self.prompt.learn(seen, status)
            if status.why:
                self.prompt.tell(status.why)
        except BaseException as problem:
            self._problem = problem
            self.prompt.fail()
        finally:
            self._there.set()
        try:
            if self._db is not None:
                repl.warm(self.prompt)
        finally:
            sys.setswitchinterval(usual)
            gc.enable()


def main() -> NoReturn:
    """The entry point of the command `gdatalog`."""
    # gdatalog multiplies no matrices: OpenBLAS's threads, one per core, would only start and spin.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.disable()  # importing modules leaves no garbage
    args = sys.argv[1:]
    said = _plain_options(args) if can_edit() else None
    begun = None if said is None else _begin(args, said.get("--device") == "cpu")
    if begun is None and can_edit() and _asks_for_prompt(args) and in_foreground():
        keep_keys()  # keys typed before the prompt appears
    try:
        from gdatalog.shell import cli
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    gc.freeze()  # no collection visits the modules, nor does the one at exit
    gc.enable()
    cli.main(begun)


def _asks_for_prompt(args: Sequence[str]) -> bool:
    from gdatalog.shell.options import asks_for_prompt

    return asks_for_prompt(args)


def _plain_options(args: Sequence[str]) -> Mapping[str, str] | None:
    if not args:
        return {}
    from gdatalog.shell.options import plain_options

    return plain_options(args)


def _begin(args: Sequence[str], on_cpu: bool) -> Begun:
    """Draws the prompt and reads the first input; exits on `.quit`."""
    from gdatalog.engine import plainly_none
    from gdatalog.shell import banner, say
    from gdatalog.shell.editor.prompt import Prompt

    begun = Begun(Prompt(), args)
    say(banner("cpu" if on_cpu or plainly_none() else ""))
    while True:
        try:
            begun.first = begun.prompt.read()
        except KeyboardInterrupt:
            continue
        except EOFError:
            _leave(begun.prompt)
        if begun.first.strip():
            from gdatalog.shell.editor.typed import command_of

            if (command_of(begun.first) or ("",))[0] in ("quit", "exit"):
                _leave(begun.prompt)
            try:
                begun.wait()
            except KeyboardInterrupt:
                begun.prompt.drop()
                continue
            return begun


def _leave(prompt: Prompt) -> NoReturn:
    prompt.close()
    sys.stdout.flush()
    os._exit(0)  # does not wait for imports in the background
