"""What a user may say about loading, and what loading has to say to the user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gdatalog.errors import Caution


@dataclass(slots=True)
class Findings:
    """What a user should know of data that was loaded."""

    warnings: list[Caution] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """`columns` selects columns by name, or gives names by position. `findings` collects what is
    found, if somebody asks."""

    columns: Sequence[str] | None = None
    findings: Findings | None = field(default=None, compare=False)


PLAIN = LoadOptions()
