"""Tasks on their way to workers, and the values that go with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from uuid import uuid4

from gdatalog.cluster.pool.calls import BAD
from gdatalog.cluster.pool.placing import Placed, Placing


class Sending:
    """How one stage sends: its tasks have its name, by which the dashboard shows them."""

    def __init__(self, client: Any, placing: Placing, told: str) -> None:
        self._client = client
        self._placing = placing
        self._name = f"{told.replace('?', 'query ').replace('-', ' ')}-{uuid4().hex[:8]}1"
        self._number = 0

    def map(self, function: Callable[..., Any], worker: str | None, *args: list[Any]) -> list[Any]:
        """Futures of a function's calls, one for each entry of the lists."""
        first, self._number = self._number, self._number + len(args[0])
        futures: list[Any] = self._client.map(
            function,
            *args,
            key=[f"{self._name}-{number:07}" for number in range(first, self._number)],
            workers=None if worker is None else [worker],
            allow_other_workers=worker is not None,
            pure=False,
        )
        return futures

    def bringing(
        self, placed: Iterable[Placed], sent: bool = False, every: bool = False
    ) -> dict[Any, Any]:
        """What goes with a task: what may not have come to all workers; or all that is sent; or
        everything."""
        found = {}
        for each in placed:
            if every or (each.sent and (sent or not each.everywhere)):
                if each.laid.future is None or each.laid.future.status in BAD:
                    self._placing.send(each)
                found[each.ref] = each.laid.future
        return found
