"""The folders of a text's `.input`, `.output` and `.include`."""

from __future__ import annotations

from gdatalog.records import dataclass, field


@dataclass(frozen=True, slots=True)
class Folders:
    """The folders of the bare and keyword forms."""

    facts: str = "."
    out: str = "."
    include: tuple[str, ...] = field(default=())
