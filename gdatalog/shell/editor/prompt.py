"""The line editor: colours, completion, history, input of several lines, a bottom bar.

Imported only on a terminal. It never waits for the database: it knows a snapshot, updated between
statements.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import Event

from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import completion_is_selected, has_focus
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import create_input
from prompt_toolkit.input.typeahead import get_typeahead, store_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout.processors import TabsProcessor
from prompt_toolkit.output import create_output
from prompt_toolkit.shortcuts import PromptSession
from prompt_toolkit.styles import Style

from gdatalog.progress import amount, format_bytes
from gdatalog.shell.editor.known import KnownNames, Status
from gdatalog.shell.editor.terminal import interrupts_noted, keep_keys
from gdatalog.shell.editor.toolkit import LOOK, Colours, KeptHistory, NameCompleter
from gdatalog.shell.messages import GOES_ON, PROMPT, say
from gdatalog.terminal_text import visible

Pieces = list[tuple[str, str]]  # style and text


def bar(
    status: Status | None,
    doing: str,
    hint: str,
    argument: tuple[str, str, str] | None,
    help_: str,
    columns: int,
) -> Pieces:
    """The bar's contents, as far as they fit into `columns`. Without a status the engine is still
    starting.

    >>> status = Status("cpu", "", 2, 0, 1500, None, 8 << 30)
    >>> "".join(text for _, text in bar(status, "", "", None, "Tab completes", 40))
    'cpu · 2 relations, 1,500 rows · 8.0 GiB'
    """
    if status is None:
        return [("class:bar-busy", doing or "starting")]
    memory = format_bytes(status.limit)
    if status.used is not None:
        memory = f"{format_bytes(status.used)} of {memory}"
    counts = amount(status.relations, "relations")
    if status.invalid:
        counts += f" ({status.invalid:,} invalid)"
    counts += f", {amount(status.rows, 'rows')}"
    # In order of importance: on a narrow terminal the last parts are dropped.
    first = [("device", status.device), ("busy", doing), ("hint", hint)]
    parts: list[Pieces] = [[(f"class:bar-{kind}", text)] for kind, text in first if text]
    if argument is not None:
        before, at, after = argument
        parts.append([("", before), ("class:bar-argument", at), ("", after)])
    parts += [[("", counts)], [("", memory)], [("", help_)]]
    shown: Pieces = []
    for part in parts:
        columns -= sum(len(text) for _, text in part) + 3
        if columns < -3:
            break
        shown += [("", " · ")] * bool(shown) + part
    return [(style, visible(text)) for style, text in shown]


INDENT = "    "


class Prompt:
    """A line editor. `doing` names the current background work, such as a compilation, or is ""."""

    def __init__(self, history: KeptHistory | None = None) -> None:
        self.known = KnownNames()
        self.status: Status | None = None
        self.doing: Callable[[], str] = str
        self.drawn: Callable[[], None] = lambda: None  # called once the prompt is drawn
        self._reads = Event()  # set once the scanner is imported
        self._rest = ""  # unfinished text after statements that were submitted
        self._hint = ""
        self._indented: Document | None = None  # the text after the last automatic indentation
        self._history = history or KeptHistory()
        self._warned = False
        self._colours = Colours(lambda: self.known, lambda: self._session.default_buffer)
        stream = sys.stdout if sys.stdout.isatty() else sys.stderr
        self._session: PromptSession[str] = PromptSession(
            [("class:prompt", PROMPT)],
            multiline=True,
            prompt_continuation=_continuation,
            lexer=self._colours,
            completer=NameCompleter(lambda: self.known),
            complete_while_typing=False,
            reserve_space_for_menu=8,
            history=self._history,
            auto_suggest=AutoSuggestFromHistory(),
            enable_history_search=True,
            search_ignore_case=True,
            enable_suspend=True,
            enable_open_in_editor=True,
            tempfile_suffix=".dl",
            bottom_toolbar=self._bar,
            input_processors=[TabsProcessor(char1=" ", char2=" ")],
            key_bindings=self._keys(),
            style=Style.from_dict(LOOK),
            input=create_input(sys.stdin),
            output=create_output(stream),
        )
        self._session.default_buffer.on_text_changed += lambda _: self._advise("")
        self._put_back = keep_keys()
        self._session.app.after_render += lambda app: self._after_render()

    def read(self) -> str:
        """Reads whole commands and statements; "" for empty input.

        Raises KeyboardInterrupt if the input is dropped, EOFError at the end.
        """
        rest, self._rest = self._rest, ""
        self._advise("")
        # Forget requests for the cursor's position that a slow terminal has not answered: the
        # answer would go to a closed event loop.
        self._session.app.renderer._waiting_for_cpr_futures.clear()
        with interrupts_noted() as noted:
            # A Ctrl-C before the prompt was drawn was meant for a call that has ended.
            text = self._session.prompt(default=rest, pre_run=noted.clear)
        later = get_typeahead(self._session.input)
        stops = [at for at, press in enumerate(later) if press.key == Keys.ControlC]
        store_typeahead(self._session.input, later[stops[-1] + 1 :] if stops else later)
        if stops or noted:
            self.drop()
            raise KeyboardInterrupt  # Ctrl-C came before the submitted input started
        if self._history.trouble and not self._warned:
            self._warned = True
            say(self._history.trouble)
        self._reads.wait()
        from gdatalog.shell.typed import divide

        end = divide(text, self.known.commands).end
        if text[end:].strip():  # from the external editor
            self._rest = text[end:].strip()
        return text[:end]

    def drop(self) -> None:
        """Forgets the unfinished text after the statements that were submitted."""
        self._rest = ""

    def close(self) -> None:
        """Restores the terminal's settings."""
        put_back, self._put_back = self._put_back, lambda: None
        put_back()

    def learn(self, known: KnownNames, status: Status) -> None:
        """Takes a new snapshot. Thread-safe."""
        self.known, self.status = known, status
        self._redraw()

    def can_read(self) -> None:
        """Signals that the scanner has been imported. Thread-safe.

        Until then this thread must not import it: of modules that import each other, it would see
        half-initialised ones. Keys that need it wait.
        """
        self._colours.reads = True
        self._reads.set()
        self._redraw()

    def fail(self) -> None:
        """Signals that the database could not be opened. Thread-safe."""
        self._reads.set()
        self.doing = lambda: "the engine did not start: Enter tells why"
        self._redraw()

    def check(self) -> None:
        """Signals that the grammar is loaded, so that syntax errors are marked. Thread-safe."""
        self._colours.checks = True
        self._redraw()

    def tell(self, text: str) -> None:
        """Prints a message above the input. Thread-safe."""
        if not self._soon(lambda: run_in_terminal(lambda: say(text))):
            say(text)

    def _redraw(self) -> None:
        """Redraws the prompt, if it is shown. Thread-safe."""
        self._soon(self._session.app.invalidate)

    def _soon(self, action: Callable[[], object]) -> bool:
        """Runs an action in the drawing thread; returns False if the prompt is not shown."""
        app = self._session.app
        loop = app.loop
        if loop is None or not app.is_running:
            return False
        try:
            loop.call_soon_threadsafe(action)
        except RuntimeError:  # the loop has ended meanwhile
            return False
        return True

    def _after_render(self) -> None:
        drawn, self.drawn = self.drawn, lambda: None
        drawn()

    # --------------------------------------------------------------------------------- the bar

    def _bar(self) -> StyleAndTextTuples:
        buffer = self._session.default_buffer
        shown = bar(
            self.status,
            self.doing(),
            self._hint,
            self._argument(),
            "Alt-Enter breaks the line" if "\n" in buffer.text else "Tab completes",
            self._session.output.get_size().columns,
        )
        return [*shown]

    def _advise(self, hint: str) -> None:
        """Shows a hint until the next key."""
        self._hint = hint

    def _argument(self) -> tuple[str, str, str] | None:
        """The signature of the call being typed, if any."""
        typed = self._colours.statement_before()
        if not typed:
            return None
        from gdatalog.shell.editor.signatures import argument_at

        return argument_at(typed, self.known)

    # -------------------------------------------------------------------------------- the keys

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        typing = has_focus(DEFAULT_BUFFER)

        @keys.add("enter", filter=typing & completion_is_selected)
        def _choose(event: KeyPressEvent) -> None:
            event.current_buffer.complete_state = None

        @keys.add("escape", "enter", filter=typing)
        def _break(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        keys.add("enter", filter=typing & ~completion_is_selected)(self._enter)
        keys.add(" ", filter=typing)(self._blank)
        keys.add("tab", filter=typing)(self._tab)
        keys.add(Keys.BracketedPaste, filter=typing)(self._paste)
        return keys

    def _paste(self, event: KeyPressEvent) -> None:
        self._reads.wait()
        from gdatalog.shell.typed import without_prompts

        text = event.data.replace("\r\n", "\n").replace("\r", "\n")
        event.current_buffer.insert_text(without_prompts(text))

    def _enter(self, event: KeyPressEvent) -> None:
        """Submits whole statements if the cursor is at the end; otherwise breaks the line."""
        # Further keys are pending: the text was pasted, with its own indentation.
        more = len(event.app.key_processor.input_queue) > 0
        self._reads.wait()
        from gdatalog.shell.typed import divide, indentation

        buffer = event.current_buffer
        text, document = buffer.text, buffer.document
        if not text.strip():
            buffer.validate_and_handle()
            return
        if document.text_after_cursor.strip() and "\n" in document.text_after_cursor:
            self._new_line(buffer, more)
            return
        divided = divide(text, self.known.commands)
        rest = text[divided.end :]
        if not rest.strip():
            buffer.document = Document(text.rstrip())
            buffer.validate_and_handle()
        elif divided.begun:
            self._advise("end the statement with a dot, or drop it with Ctrl-C, first")
        elif divided.pieces:
            # The unfinished text stays for the next prompt.
            rest = rest.strip()
            self._rest = rest + "\n" + ("" if more else indentation(rest))
            buffer.document = Document(text[: divided.end].rstrip())
            buffer.validate_and_handle()
        else:
            buffer.cursor_position = len(text)
            self._new_line(buffer, more)
            if not document.current_line.strip():
                self._advise("a statement ends with a dot; Ctrl-C drops this one")

    def _new_line(self, buffer: Buffer, more: bool) -> None:
        from gdatalog.shell.typed import indentation

        buffer.insert_text("\n" + ("" if more else indentation(buffer.document.text_before_cursor)))
        self._indented = buffer.document

    def _blank(self, event: KeyPressEvent) -> None:
        """Inserts a blank. Typed indentation replaces the automatic one."""
        buffer = event.current_buffer
        if self._indented == buffer.document:
            buffer.delete_before_cursor(len(buffer.document.current_line_before_cursor))
        buffer.insert_text(" ")

    def _tab(self, event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None:
            buffer.complete_next()
            return
        document = buffer.document
        if buffer.text.strip() and not document.current_line_before_cursor.strip():
            buffer.insert_text(INDENT)
            return
        self._reads.wait()
        from gdatalog.shell.editor.completion import complete

        found = complete(document.text, document.cursor_position, self.known)
        # With "all columns" among the choices, insert no common prefix.
        whole = any(one.text.rstrip(")").count(",") for one in found)
        buffer.start_completion(insert_common_part=not whole)


def _continuation(width: int, number: int, wraps: int) -> StyleAndTextTuples:
    return [("class:goes-on", " " * width if wraps else GOES_ON)]
