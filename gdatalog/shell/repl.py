"""The prompt's loop: reads statements up to their dot, evaluates them, and survives every error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from threading import Thread
from time import perf_counter
from typing import TYPE_CHECKING

from gdatalog.cancellation import interrupt_message
from gdatalog.engine.devices import PLAIN
from gdatalog.engine.untrusted import waits_too_long
from gdatalog.errors import Error
from gdatalog.shell.commands import run_command
from gdatalog.shell.conversation import Conversation
from gdatalog.shell.editor.known import look, place_of
from gdatalog.shell.editor.terminal import can_edit, heeding
from gdatalog.shell.messages import GOES_ON, PROMPT, banner, say, say_error, say_unexpected
from gdatalog.shell.registry import COMMANDS, Leave
from gdatalog.shell.statements import take
from gdatalog.shell.typed import command_of, divide

if TYPE_CHECKING:
    from gdatalog.shell.editor.prompt import Prompt


class Repl(Conversation):
    """A conversation with a user or a pipe.

    `interactive`: the input is a terminal. From a pipe, no prompt is printed, and a last statement
    may lack its dot.
    """

    _typed = ""  # an unfinished statement
    _count = 0
    _stopped = False  # the last statement was interrupted

    def loop(self, prompt: Prompt | None = None, first: str = "") -> list[BaseException]:
        """Reads and evaluates input until its end; returns the errors that were reported.

        `prompt`: a prompt that is already drawn, with `first` typed in it.
        """
        if prompt is not None:
            return self._converse(prompt, first)
        if self.interactive:
            say(banner(place_of(self.db)))
            why = self.db.workspace.why
            if self.db.device == "cpu" and why not in PLAIN:
                say(why)
            # No line editor with --untrusted: it completes paths and keeps a history.
            if can_edit() and not self.db.workspace.untrusted:
                from gdatalog.shell.editor.prompt import Prompt

                prompt = Prompt()
                prompt.can_read()
                prompt.drawn = Thread(target=warm, args=(prompt,), daemon=True).start
                return self._converse(prompt)
            if not self.db.workspace.untrusted:
                _use_readline()
        while True:
            try:
                if not self._step() or (self.failed and self.bail):
                    return self.failed
            except KeyboardInterrupt:
                if not self.interactive:
                    raise KeyboardInterrupt from None
                self._typed = ""
                say("")

    def _converse(self, prompt: Prompt, text: str = "") -> list[BaseException]:
        """The loop with a line editor, which returns whole statements."""
        watch = self.db.workspace.watch
        prompt.doing = lambda: "" if (now := watch.now) is None else now.title
        try:
            while True:
                try:
                    if not self.take_all(text) or (self.failed and self.bail):
                        break
                    prompt.learn(*look(self.db))
                except KeyboardInterrupt as error:  # between two statements
                    say(interrupt_message(error))
                try:
                    text = prompt.read()
                except KeyboardInterrupt:
                    text = ""  # drop the input
                except EOFError:
                    break
        finally:
            prompt.close()
        return self.failed

    def take_all(self, text: str) -> bool:
        """Runs the whole statements and commands of a text; returns False to leave."""
        return self._run_pieces(divide(text, COMMANDS).pieces, "")

    def _run_pieces(self, pieces: Sequence[tuple[str, bool]], unfinished: str) -> bool:
        """Runs statements and commands, and keeps an unfinished statement for the next line."""
        self._typed = unfinished if unfinished.strip() else ""
        self._count += bool(pieces)
        self._stopped = False
        for piece, is_command in pieces:
            if not (self._run_command(piece) if is_command else self._run(piece)):
                return False
            if self._stopped or (self.failed and self.bail):
                break
        return True

    def _run_command(self, line: str) -> bool:
        found = command_of(line)
        assert found is not None
        return self._guarded(lambda: run_command(self, *found))

    def _step(self) -> bool:
        """Reads a line and runs it once it completes a statement; returns False at the end."""
        try:
            line = self._read_line()
        except EOFError:
            if self.interactive:
                say("")
            elif self._typed.strip():
                self._count += 1
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
        """Adds a line to the input, and runs what it completes; returns False to leave."""
        typed = self._typed
        text = f"{typed}\n{line}" if typed else line
        if self.db.workspace.untrusted and waits_too_long(text):
            return self._run_pieces(((text, False),), "")
        divided = divide(text, COMMANDS)
        if typed and divided.begun:  # the line is a command
            if self.interactive:
                say("(first end the statement with a dot, or discard it with Ctrl-C)")
                return True
            return self._run_pieces(((typed, False), (line, True)), "")
        if typed and self.interactive and not line.strip():
            say("(a statement ends with a dot; Ctrl-C discards this one)")
        return self._run_pieces(divided.pieces, text[divided.end :])

    def _run(self, text: str) -> bool:
        return self._guarded(lambda: take(self, text, f"<input {self._count}>"))

    def _guarded(self, action: Callable[[], None]) -> bool:
        """Runs an action and reports its errors; returns False to leave."""
        started = perf_counter()
        try:
            workspace = self.db.workspace
            limited = nullcontext() if workspace.settings.timeout is None else self.db.call()
            with heeding(workspace.watch), limited:
                action()
        except Leave:
            return False
        except KeyboardInterrupt as error:
            if not self.interactive:
                raise
            self._stopped = True
            say(interrupt_message(error))
        except BrokenPipeError:
            raise
        except (Error, MemoryError, RecursionError) as error:
            self.failed.append(error)
            say_error(error)
        except Exception as error:
            self.failed.append(error)
            say_unexpected(error)
        watch = self.db.workspace.watch
        if watch.by_key and watch.stop.is_set():  # an error occurred before Ctrl-C was noticed
            self._stopped = True
        if self.timer:
            say(f"{perf_counter() - started:.3f} s")
        return True


def warm(prompt: Prompt) -> None:
    """Loads Lark and the grammar's tables, then lets the prompt mark syntax errors."""
    from gdatalog.parser.grammar import parser

    parser()
    prompt.check()


def _use_readline() -> None:
    """Enables line editing and history, where the system has readline."""
    try:
        import readline
    except ImportError:
        return
    readline.set_auto_history(True)
