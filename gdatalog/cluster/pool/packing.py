"""Calls as bytes that go to workers: what is placed or kept is only named in them, and what many
calls have in common is packed once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import uuid4

from gdatalog.cluster.pool.calling import Packed, packed
from gdatalog.cluster.pool.calls import Call, Kept, Part
from gdatalog.cluster.pool.placing import Placed
from gdatalog.records import dataclass, field

SMALL = (str, bytes, int, float, bool, type(None), Placed, Kept, Part)


@dataclass(slots=True, eq=False)
class Run:
    """A call on its way."""

    call: Call
    packed: Packed
    inputs: list[Kept | Part]
    placed: list[Placed]
    tries: int = 0
    deaths: int = 0  # how often it may have been what ended its workers
    missing: bool = False  # whether a worker did not have what is placed
    given: Sequence[Any] = ()  # the futures of its inputs
    made: Any = None  # the future of what is kept


@dataclass(slots=True, eq=False)
class _Common:
    """An argument of several calls, as bytes."""

    value: Any
    name: str
    body: bytes
    placed: list[Placed]


@dataclass(slots=True)
class Packing:
    """The calls of a stage. Arguments that were seen are held: so no other has their id."""

    _seen: dict[int, Any] = field(default_factory=dict)
    _common: dict[int, _Common | None] = field(default_factory=dict)  # None: names what is kept

    def runs(self, calls: Iterable[Call]) -> list[Run]:
        calls = list(calls)
        counts = Counter(id(arg) for call in calls for arg in call.args)
        return [self._run(call, counts) for call in calls]

    def _run(self, call: Call, counts: Counter[int]) -> Run:
        shared: dict[int, _Common] = {}
        for arg in call.args:
            if isinstance(arg, SMALL):
                continue
            key = id(arg)
            if counts[key] == 1 and key not in self._seen:
                self._seen[key] = arg
                continue
            if key not in self._common:
                self._seen[key] = arg
                self._common[key] = _common(arg)
            found = self._common[key]
            if found is not None:
                shared[key] = found
        body, inputs, placed, common = _named((call.function, call.args), shared)
        return Run(call, Packed(body, tuple(common.items())), inputs, placed)


def _common(value: Any) -> _Common | None:
    body, inputs, placed, _ = _named(value, {})
    return None if inputs else _Common(value, uuid4().hex, body, placed)


def _named(
    value: Any, shared: dict[int, _Common]
) -> tuple[bytes, list[Kept | Part], list[Placed], dict[str, bytes]]:
    """A value as bytes, and what is only named there."""
    inputs: list[Kept | Part] = []
    placed: list[Placed] = []
    common: dict[str, bytes] = {}

    def name(each: Any) -> Any:
        if isinstance(each, Placed):
            placed.append(each)
            return each.ref
        if isinstance(each, Kept | Part):
            inputs.append(each)
            return len(inputs) - 1
        found = shared.get(id(each))
        if found is None:
            return None
        placed.extend(found.placed)
        common[found.name] = found.body
        return found.name

    return packed(value, name), inputs, placed, common
