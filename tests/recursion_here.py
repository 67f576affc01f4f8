"""Recursion on workers that are this process: a stand-in for their pool."""

from __future__ import annotations

import io
import pickle
import tempfile
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from gdatalog.cluster.dask_cluster import DaskCluster
from gdatalog.cluster.joins.bucket_store import BucketStore
from gdatalog.cluster.pool import calls
from gdatalog.cluster.pool.calls import Call, RemoteElement, RemoteValue


class Here:
    """What stands for the workers' pool: calls run in this process. `moved`: whatever is kept goes
    to another worker before it is used."""

    def __init__(self, workers: int = 2, moved: bool = False) -> None:
        self.workers = self.threads = {f"worker {number}": 1 for number in range(workers)}
        client = SimpleNamespace(status="running")
        self.connection = SimpleNamespace(
            client=client, budget=1 << 40, device_for=lambda rows, thresholds: "cpu", gpus=False
        )
        self.slots = workers
        self.moved = moved
        self.placed: dict[Any, Any] = {}
        self.kept: list[tuple[str | None, There]] = []  # the worker of each
        self.functions: list[str] = []
        self.shared = True
        self.folders: list[str] = []

    def folder(self) -> str:
        self.folders.append(tempfile.mkdtemp())
        return self.folders[-1]

    def broadcast(self, key: Any, value: Any, version: Any = None, once: bool = False) -> There:
        found = self.placed.get((key, version))
        if found is None or key is None:
            found = self.placed[key, version] = value, There(copied(value))
        return found[1]

    def stage(self, told: str, limits: Any, smaller: Any = None) -> Stage:
        return Stage(self)

    def close(self) -> None:
        self.placed.clear()


class There:
    """What lies on a worker."""

    status = "finished"

    def __init__(self, value: Any) -> None:
        self.value = value


class Stage:
    def __init__(self, pool: Here) -> None:
        self.pool = pool
        self.left: list[Call] = []

    def add(self, call: Call) -> None:
        self.left.append(call)

    def __iter__(self) -> Iterator[tuple[Call, Any]]:
        while self.left:
            call = self.left.pop()  # the last first: in any order
            self.pool.functions.append(call.function.__name__)
            found = call.function(*unpacked(call.args, self._given))
            if call.keep:
                there = There(found)
                self.pool.kept.append((call.worker, there))
                yield call, RemoteValue(there, call.summary and copied(call.summary(found)))
            else:
                yield call, copied(found)

    def _given(self, arg: Any) -> Any:
        if isinstance(arg, There):
            return arg.value
        if isinstance(arg, RemoteValue):
            return copied(arg.future.value) if self.pool.moved else arg.future.value
        return copied(arg.kept.future.value[arg.key])


def unpacked(args: Any, value_of: Callable[[Any], Any]) -> Any:
    """What a worker gets: copies of arguments, with values in place of what stands for them."""
    inputs: list[Any] = []

    def name(each: Any) -> int | None:
        if not isinstance(each, There | RemoteValue | RemoteElement):
            return None
        inputs.append(value_of(each))
        return len(inputs) - 1

    file = io.BytesIO()
    calls._Packer(file, name).dump(args)
    return calls._Unpacker(file.getvalue(), inputs).load()


def copied(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


class Recursion(DaskCluster):
    """Only what is recursive is left to workers."""

    def __init__(self, pool: Any) -> None:
        self.pool = pool
        self.connection = pool.connection
        self.store = BucketStore(pool)
        self._keeping = None

    def rule(self, *_: Any) -> None:
        return None
