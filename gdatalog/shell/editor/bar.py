"""The bar below the prompt: device, relations, and the call being typed."""

from __future__ import annotations

from gdatalog.progress import amount, format_bytes
from gdatalog.shell.editor.known import Status
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
