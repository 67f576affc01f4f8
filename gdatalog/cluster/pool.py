"""Calls that a cluster's workers run, and values that lie there.

Whoever spreads work makes a `Stage`, adds calls to it, and takes what they give as they end; more
can be added meanwhile. All that waits for the cluster waits here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any

from gdatalog.cluster.connection import Connection
from gdatalog.executors.limits import Limits
from gdatalog.watching import PATIENCE


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """A value that lies on the workers, once each: an argument of calls, which are given it."""

    future: Any
    nbytes: int


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """What a call gave, and left where it ran: an argument of further calls."""

    future: Any


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A function of a module that workers import, and its arguments; those that are `Placed` or
    `Kept`, also in lists and dicts, are there what these stand for.

    `keep`: what it gives stays where it runs. `worker`: where it should run. `tag`: whatever the
    caller knows it by.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    keep: bool = False
    worker: str | None = None
    tag: Any = None


class Pool:
    """The workers of a connection."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._placed: dict[Hashable, Placed] = {}

    def place(self, key: Hashable, value: Any, nbytes: int = 0) -> Placed:
        """Has a value on all workers, once: the same key is the same value."""
        found = self._placed.get(key)
        if found is None:
            (future,) = self.connection.client.scatter([value], broadcast=True, hash=False)
            found = self._placed[key] = Placed(future, nbytes)
        return found

    def stage(self, told: str, limits: Limits) -> Stage:
        """`told`: what is done, by the rule's name: for the dashboard and for who looks on."""
        return Stage(self, told, limits)

    def close(self) -> None:
        self._placed.clear()
        self.connection.close()


class Stage:
    """Calls for one purpose, at work."""

    def __init__(self, pool: Pool, told: str, limits: Limits) -> None:
        self.pool = pool
        self.told = told
        self.limits = limits
        self._calls: dict[Any, Call] = {}  # by future
        self._number = 0

    def add(self, call: Call) -> None:
        client = self.pool.connection.client
        self._number += 1
        future = client.submit(
            call.function,
            *_unpacked(call.args),
            key=f"{self.told}-{id(self):x}-{self._number}",
            workers=None if call.worker is None else [call.worker],
            allow_other_workers=call.worker is not None,
            pure=False,
        )
        self._calls[future] = call

    def __iter__(self) -> Iterator[tuple[Call, Any]]:
        """What calls give, as they end: results, or `Kept` ones."""
        from dask.distributed import wait

        client = self.pool.connection.client
        try:
            while self._calls:
                self.limits.poll()
                calls = list(self._calls)
                try:
                    with client.as_current():  # it need not be the default of its process
                        ended = wait(calls, timeout=PATIENCE, return_when="FIRST_COMPLETED")
                except TimeoutError:
                    continue
                for future in ended.done:
                    call = self._calls.pop(future)
                    if call.keep and future.status == "finished":
                        yield call, Kept(future)
                    else:
                        yield call, future.result()
        finally:
            if self._calls:
                self.pool.connection.client.cancel(list(self._calls))
                self._calls.clear()


def _unpacked(value: Any) -> Any:
    """Futures in the place of what they stand for."""
    if isinstance(value, Placed | Kept):
        return value.future
    if isinstance(value, tuple | list):
        return type(value)(map(_unpacked, value))
    if isinstance(value, dict):
        return {key: _unpacked(part) for key, part in value.items()}
    return value
