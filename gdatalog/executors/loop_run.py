"""Printed loops with their arguments: the input of a device's `walk` and `follow`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gdatalog.executors.limits import Limits
from gdatalog.plan.placement import Shared
from gdatalog.records import dataclass
from gdatalog.storage.trie import Trie


@dataclass(frozen=True, slots=True)
class LoopRun:
    """One run of printed loops over tries.

    `label`: what is compiled, for messages. `beside`: arguments that belong neither to tries nor to
    the plan, by name: arrays of the device. `rows`: how many are expected to be looked at.
    `shared`: how the members of a device run them together; without it the first one runs them.
    """

    printed: Any
    tries: Sequence[Trie]
    scope: Any
    limits: Limits
    label: str
    knobs: Any
    beside: Mapping[str, Any]
    rows: float
    shared: Shared | None = None
