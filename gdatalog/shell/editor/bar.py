"""The bar below the prompt: where queries run, what there is, what is typed."""

from __future__ import annotations

from gdatalog.progress import format_bytes
from gdatalog.shell.editor.known import Status
from gdatalog.widths import visible

Pieces = list[tuple[str, str]]  # texts, each with its style


def bar(
    status: Status | None,
    doing: str,
    hint: str,
    argument: tuple[str, str, str] | None,
    help_: str,
    columns: int,
) -> Pieces:
    """What has room in so many columns. Without a status, the engine is still on its way.

    >>> status = Status("cpu", "", 2, 0, 1500, None, 8 << 30)
    >>> "".join(text for _, text in bar(status, "", "", None, "Tab completes", 40))
    'cpu · 2 relations, 1,500 rows · 8.0 GiB'
    """
    if status is None:
        return [("class:bar-busy", doing or "starting")]
    memory = format_bytes(status.limit)
    if status.used is not None:
        memory = f"{format_bytes(status.used)} of {memory}"
    counts = _number(status.relations, "relation")
    if status.invalid:
        counts += f" ({status.invalid:,} invalid)"
    counts += f", {_number(status.rows, 'row')}"
    # The first are the last to go where there is no room for all.
    parts: list[Pieces] = [[("class:bar-device", status.device)]]
    if doing:
        parts.append([("class:bar-busy", doing)])
    if hint:
        parts.append([("class:bar-hint", hint)])
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


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
