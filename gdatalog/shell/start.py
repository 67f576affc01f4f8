"""The start of `gdatalog`: an interactive prompt appears before the engine is imported.

A thread imports the engine once the prompt is drawn, usually before the first statement is typed;
otherwise that statement waits.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from threading import Thread
from typing import TYPE_CHECKING, NoReturn

from gdatalog.shell.editor.terminal import can_edit, in_foreground, keep_keys

if TYPE_CHECKING:
    from concurrent.futures import Future

    from gdatalog.database import Database
    from gdatalog.shell.cli import BegunPrompt
    from gdatalog.shell.editor.prompt import Prompt

SWITCH = 0.0005  # seconds: longest wait of a key for the importing thread


def _load(prompt: Prompt, args: Sequence[str], opened: Future[Database]) -> None:
    """Opens the database of a command line for a prompt that is already drawn."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    try:
        from gdatalog.shell.editor import completion, highlighting  # noqa: F401  for the next key

        prompt.can_read()
        from gdatalog.shell import cli, repl
        from gdatalog.shell.editor import known

        db = cli.connected(args)
        seen, status = known.look(db)
        prompt.learn(seen, status)
        if status.why:
            prompt.tell(status.why)
        opened.set_result(db)
        repl.warm(prompt)
    except BaseException as problem:
        if opened.done():
            raise
        prompt.fail()
        opened.set_exception(problem)
    finally:
        sys.setswitchinterval(usual)
        gc.enable()


def main() -> NoReturn:
    """The entry point of the command `gdatalog`."""
    # gdatalog multiplies no matrices: OpenBLAS's threads, one per core, would only start and spin.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.disable()  # importing modules leaves no garbage
    args = sys.argv[1:]
    _make_context(args)
    begun = _begun(args) if can_edit() else None
    try:
        from gdatalog.shell import cli
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    gc.freeze()  # no collection visits the modules, nor does the one at exit
    gc.enable()
    cli.main(begun)


def _make_context(args: Sequence[str]) -> None:
    """Begins to open a GPU that is asked for by name, while texts and files are read."""
    from gdatalog.engine.nvidia import plainly_none

    words = [word.removeprefix("--device=") for word in args]
    devices = [word for word in words if word.startswith("cuda")]
    if devices and not plainly_none():
        from gdatalog.gpu_ops.context import begin

        number = devices[-1].removeprefix("cuda:")
        begin(int(number) if number.isdecimal() else 0)


def _begun(args: Sequence[str]) -> BegunPrompt | None:
    """The prompt and its first input, if the options of a prompt are certainly valid."""
    if not args:
        return _begin(args, on_cpu=False)
    from gdatalog.shell.options import asks_for_prompt, plain_options

    said = plain_options(args)
    if said is not None:
        return _begin(args, said.get("--device") == "cpu")
    if asks_for_prompt(args) and in_foreground():
        keep_keys()  # keys typed before the prompt appears
    return None


def _begin(args: Sequence[str], on_cpu: bool) -> BegunPrompt:
    """Draws the prompt and reads the first input; exits on `.quit`."""
    from concurrent.futures import Future

    from gdatalog.engine.nvidia import plainly_none
    from gdatalog.shell.editor.prompt import Prompt
    from gdatalog.shell.messages import banner, say

    prompt = Prompt()
    opened: Future[Database] = Future()
    prompt.drawn = Thread(target=_load, args=(prompt, args, opened), daemon=True).start
    say(banner("cpu" if on_cpu or plainly_none() else ""))
    while True:
        try:
            first = prompt.read()
        except KeyboardInterrupt:
            continue
        except EOFError:
            _leave(prompt)
        if first.strip():
            from gdatalog.shell.typed import command_of

            if (command_of(first) or ("",))[0] in ("quit", "exit"):
                _leave(prompt)
            try:
                opened.exception()  # waits
            except KeyboardInterrupt:
                prompt.drop()
                continue
            return prompt, first, opened


def _leave(prompt: Prompt) -> NoReturn:
    prompt.close()
    sys.stdout.flush()
    os._exit(0)  # does not wait for imports in the background
