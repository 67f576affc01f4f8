"""A stage of calls: sends them to workers, waits for them, and retries them."""

from __future__ import annotations

import asyncio
import contextlib
import operator
import os
import pickle
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from queue import Empty, SimpleQueue
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

from gdatalog.cancellation import PATIENCE, current_watch
from gdatalog.cluster.pool import broadcast, calls
from gdatalog.cluster.pool.broadcast import Broadcast, Broadcaster, awaited
from gdatalog.cluster.pool.broadcast_files import MissingBroadcast
from gdatalog.cluster.pool.calls import (
    Call,
    Lost,
    RemoteElement,
    RemoteValue,
    RunningCall,
    TooLarge,
    future_of,
    whole,
)
from gdatalog.cluster.workers.connection import Connection
from gdatalog.cluster.workers.stored_rows import set_free
from gdatalog.cluster.workers.worker_list import workers_told
from gdatalog.errors import DeviceError, Interrupted, MemoryLimitError, UsageError
from gdatalog.limits import Limits
from gdatalog.progress import format_bytes
from gdatalog.records import replace

PATIENT = 1.0  # seconds until the scheduler is asked to free forgotten tasks
TOGETHER = 64  # results fetched together at most

Smaller = Callable[[TooLarge], Iterable[Call]]


class TaskStage:
    """Calls that serve one purpose."""

    def __init__(
        self, pool: Pool, name: str, limits: Limits, smaller: Smaller | None = None
    ) -> None:
        self.pool = pool
        self.name = name
        self.limits = limits
        self.smaller = smaller
        self.unrecoverable: Iterable[RemoteValue] = ()  # never recomputed
        self.reports = True  # reports progress; else the caller does
        self._client = pool.connection.client
        self._prefix = f"{name.replace('?', 'query ').replace('-', ' ')}-{uuid4().hex[:8]}1"
        self._tasks = 0
        self._waiting: list[RunningCall] = []
        self._running: dict[Any, RunningCall] = {}  # by the future of its result or summary
        self._ended: SimpleQueue[Any] = SimpleQueue()  # futures
        self._added = self._done = 0
        self._looked = self._worked = self._asked = monotonic()

    def add(self, call: Call) -> None:
        self._added += 1
        self._waiting.append(RunningCall(call))

    def defer(self, call: Call) -> RemoteValue:
        """Submits a call at once; returns its future result, an argument of further calls."""
        run = RunningCall(call)
        self._make([run], call.worker)
        return _kept(run, None)

    @property
    def pending(self) -> int:
        """How many calls have not ended."""
        return len(self._waiting) + len(self._running)

    def __iter__(self) -> Generator[tuple[Call, Any], None, None]:
        """Yields calls and their results, as calls end; a result that stays is a `RemoteValue`."""
        try:
            while self.pending:
                self.start()
                for call, found in self._found(self._some()):
                    self._done += 1
                    if self.reports:
                        self.limits.watch.part(self._done, self._added)
                    yield call, found
        finally:
            self.cancel()

    def cancel(self) -> None:
        """Cancels all calls; workers stop them at their next poll."""
        self._waiting.clear()
        futures = list(self._running)
        futures += [run.made for run in self._running.values() if run.made]
        self._running.clear()
        if futures and self._client.status == "running":
            with contextlib.suppress(Exception):
                cancelled = self._client.cancel(futures, asynchronous=True)
                asyncio.run_coroutine_threadsafe(cancelled, self._loop).result(1.0)

    # ------------------------------------------------------------------------------ sending

    def start(self) -> None:
        """Sends the calls that were added; iterating does this too."""
        if not self._waiting:
            return
        self._check_unrecoverable()
        waiting, self._waiting = self._waiting, []
        self._compute_again(waiting)
        self._parts(
            [each for run in waiting for each in run.inputs if isinstance(each, RemoteElement)]
        )
        by_worker: dict[str | None, list[RunningCall]] = {}
        for run in waiting:
            by_worker.setdefault(run.call.worker, []).append(run)
        for worker, runs in by_worker.items():
            given = [run for run in runs if not run.call.keep]
            self._watch(self._tasks_of(calls.outcome_of, given, worker), given)
            kept = [run for run in runs if run.call.keep]
            self._make(kept, worker)
            plain = [run for run in kept if run.call.summary is None]
            self._watch([run.made for run in plain], plain)
            telling = [run for run in kept if run.call.summary is not None]
            summaries, made = [run.call.summary for run in telling], [run.made for run in telling]
            self._watch(self._submit(operator.call, None, summaries, made), telling)

    def _submit(self, function: Callable[..., Any], worker: str | None, *args: Any) -> list[Any]:
        """The futures of one task for each entry of the lists; the dashboard shows their names."""
        first, self._tasks = self._tasks, self._tasks + len(args[0])
        if first == self._tasks:
            return []
        futures: list[Any] = self._client.map(
            function,
            *args,
            key=[f"{self._prefix}-{number:07}" for number in range(first, self._tasks)],
            workers=None if worker is None else [worker],
            allow_other_workers=worker is not None,
            pure=False,
        )
        return futures

    def _tasks_of(
        self, function: Callable[..., object], runs: Sequence[RunningCall], worker: str | None
    ) -> list[Any]:
        for run in runs:
            run.given = list(map(future_of, run.inputs))
        bodies, given = [run.body for run in runs], [list(run.given) for run in runs]
        return self._submit(function, worker, bodies, given)

    def _make(self, runs: Sequence[RunningCall], worker: str | None) -> None:
        for run, future in zip(runs, self._tasks_of(calls.run_call, runs, worker), strict=True):
            run.made = future

    def _watch(self, futures: Sequence[Any], runs: Sequence[RunningCall]) -> None:
        for future, run in zip(futures, runs, strict=True):
            self._running[future] = run
            future.add_done_callback(self._ended.put)

    def _compute_again(self, runs: Sequence[RunningCall]) -> None:
        """Makes Dask compute inputs again that failed; raises if it cannot, because it has
        forgotten what they were computed from."""
        failed: set[str] = set()
        for each in {id(each): each for run in runs for each in run.inputs}.values():
            kept = whole(each)
            if kept.future.status == "cancelled":
                raise self._gone(kept)
            futures = kept.future, future_of(each)
            failed |= {one.key for one in futures if one is not None and one.status == "error"}
        if failed:
            work = self._client.run_on_scheduler(set_free, failed=[*failed], asynchronous=True)
            awaited(self._client, work, lambda: True, self.limits.poll)

    def _gone(self, kept: RemoteValue | Broadcast) -> DeviceError:
        origins = kept.origins if isinstance(kept, RemoteValue) else ()
        names = ", ".join(sorted(each for each in origins if isinstance(each, str)))
        if not names:
            return DeviceError(
                f"{self.name} needs rows that were lost, because the cluster was restarted",
                hint="run the query again; if that does not help, load the data again",
            )
        return DeviceError(
            f"rows of {names} were lost with their worker or when the cluster was restarted, and "
            "Dask cannot compute them again",
            hint=f"load {names} again, then run the query again",
        )

    def _parts(self, parts: Sequence[RemoteElement]) -> None:
        """Makes items of remote values tasks of their own, on the workers that hold the whole."""
        missing = (part for part in parts if part.key not in part.kept.parts)
        wanted = list({(id(part.kept), part.key): part for part in missing}.values())
        at: dict[str | None, list[RemoteElement]] = {}
        for part, worker in zip(wanted, self.pool.where([p.kept for p in wanted]), strict=True):
            at.setdefault(worker, []).append(part)
        for worker, some in at.items():
            kept, keys = [part.kept.future for part in some], [part.key for part in some]
            futures = self._submit(operator.getitem, worker, kept, keys)
            for part, future in zip(some, futures, strict=True):
                part.kept.parts[part.key] = future

    # ------------------------------------------------------------------------------ waiting

    @property
    def _loop(self) -> Any:
        return self._client.loop.asyncio_loop

    def _some(self) -> list[Any]:
        """Futures that have ended, at most a few; none after a short wait."""
        self.limits.poll()
        self._check_unrecoverable()
        found = []
        try:
            found.append(self._ended.get(timeout=PATIENCE))
            while len(found) < TOGETHER:
                found.append(self._ended.get_nowait())
        except Empty:
            pass
        if monotonic() - self._looked > broadcast.EVERY:
            self._looked = monotonic()
            found += [future for future in self._running if future.status == "lost"]
            self._check()
        return [future for future in dict.fromkeys(found) if future in self._running]

    def _found(self, futures: Sequence[Any]) -> Iterator[tuple[Call, Any]]:
        """The results of calls that ended; failed calls are retried."""
        if futures:
            self._worked = monotonic()
        finished = [future for future in futures if future.status == "finished"]
        values = self._gathered([f for f in finished if self._running[f].made is not f])
        for future in futures:
            run = self._running.pop(future)
            if run.made is future and future.status == "finished":
                yield run.call, _kept(run, None)
            elif future not in values:
                self._failed(run, future)
            elif run.call.keep:
                yield run.call, _kept(run, values[future])
            else:
                value, error = values[future]
                if error is None:
                    yield run.call, value
                else:
                    self._raised(run, error)

    def _gathered(self, futures: list[Any]) -> dict[Any, Any]:
        """Results of tasks; omits those whose workers have died meanwhile."""

        def alive() -> bool:
            self._check()
            return not any(future.status in broadcast.BAD for future in futures)

        while futures:
            wanted = {future.key: future for future in futures}
            gather = self._client.gather(wanted, errors="skip", asynchronous=True)
            with contextlib.suppress(OSError):
                found = awaited(self._client, gather, alive, self.limits.poll)
                return {f: found[f.key] for f in futures if f.status == "finished"}
            futures = [future for future in futures if future.status == "finished"]
        return {}

    # ------------------------------------------------------------------------------- faults

    def _failed(self, run: RunningCall, future: Any) -> None:
        """Handles a failed task: its worker died, an input is lost, or it raised an error."""
        self._connected()
        self._check_unrecoverable()
        error = None
        if future.status == "error":  # a copy: the client keeps its own
            error = pickle.loads(pickle.dumps(future.exception()))
        killed = type(error).__name__ == "KilledWorker"
        lost = isinstance(error, Lost)
        if isinstance(error, Interrupted):  # the worker cancelled it, not the driver
            error = None
        run.made = None
        recoverable = error is None or killed or lost
        again = recoverable and any(
            whole(each).future.status in broadcast.BAD or future_of(each) is not given
            for each, given in zip(run.inputs, run.given, strict=True)
        )
        if isinstance(error, MissingBroadcast):
            self._raised(run, error)
        elif error is None or again:
            self._again(run, error if lost else None)
        elif killed:
            self._killed(run)
        else:
            self._raised(run, error)

    def _again(self, run: RunningCall, error: BaseException | None = None) -> None:
        run.tries += 1
        if run.tries > broadcast.OFTEN:
            if error is None and run.unseen is not None:
                error = self._unseen(run.unseen)
            raise error or DeviceError(
                f"a part of {self.name} was started {run.tries} times, and each time its worker or "
                "its input was lost",
                hint="see the logs of the cluster's workers",
            )
        self._waiting.append(run)

    def _raised(self, run: RunningCall, error: BaseException) -> None:
        if isinstance(error, MissingBroadcast):
            self.pool.broadcaster.send_all()
            if error.path not in run.paths:  # an input's: a worker that sees it may compute it
                run.unseen = error.path
                return self._again(run)
            for each in run.placed:
                if each.file is not None:  # else another call had it sent
                    each.send()
            self._again(RunningCall(run.call, tries=run.tries, deaths=run.deaths))
        elif isinstance(error, Interrupted):
            self._again(run)
        elif isinstance(error, MemoryError):
            told = error.message if isinstance(error, MemoryLimitError) else str(error)
            hint = error.hint if isinstance(error, MemoryLimitError) else None
            large = TooLarge(run.call, f"on a worker: {told or 'not enough memory'}", hint)
            if not self._smaller(large):
                raise large from error
        else:
            raise error

    def _unseen(self, path: str) -> DeviceError:
        return DeviceError(
            f"{self.name} needs rows that were lost with their worker, and they cannot be computed "
            f"again, because workers do not see {os.path.dirname(path)}",
            hint="run the query again; if that does not help, load the data again; to keep rows "
            f"when workers are replaced, set {broadcast.FOLDER} to a folder that all machines see",
        )

    def _killed(self, run: RunningCall) -> None:
        """Workers died one after the other while they ran this call, or another one beside it."""
        limit = min(self.pool.memory, default=0)
        most = f" of {format_bytes(limit)} each" if limit else ""
        large = TooLarge(
            run.call,
            f"workers{most} died one after the other while they ran a part of {self.name}: "
            "it probably needs more memory than they have",
            "give workers more memory, or fewer threads each; see their logs",
        )
        if not self._smaller(large):
            if run.deaths:
                raise large
            run.deaths += 1  # another call may have killed them
            self._again(run)

    def _smaller(self, large: TooLarge) -> bool:
        """Replaces a call by smaller ones; returns whether there are any."""
        smaller = list(self.smaller(large)) if self.smaller is not None else []
        for call in smaller:
            self.add(call)
        self._added -= bool(smaller)
        return bool(smaller)

    def _connected(self) -> None:
        if self._client.status not in ("running", "connecting"):
            raise DeviceError(
                f"the connection to the cluster was lost while it ran {self.name}",
                hint="check that its scheduler still runs, and connect again",
            )

    def _check(self) -> None:
        """Raises if no worker can do the work."""
        self._connected()
        waited = monotonic() - max(self._worked, self._asked)
        if monotonic() - self._worked > PATIENT:
            keys = [future.key for future in self._running]
            free = self._client.run_on_scheduler(set_free, wanted=keys, asynchronous=True)
            asyncio.run_coroutine_threadsafe(free, self._loop)  # does not wait for the answer
        if waited > broadcast.ALONE:
            self._asked = monotonic()
            workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
            if not workers:
                raise DeviceError(
                    f"the cluster has had no workers for {broadcast.ALONE:.0f} s: {self.name} was "
                    "stopped",
                    hint="start workers, and run the query again",
                )
            if all(worker["status"] == "paused" for worker in workers):
                raise DeviceError(
                    "all workers of the cluster have paused, because their memory is almost full: "
                    f"{self.name} was stopped",
                    hint="start more workers, or workers with more memory",
                )

    def _check_unrecoverable(self) -> None:
        if any(kept.future.status in broadcast.BAD for kept in self.unrecoverable):
            raise Lost(f"a part of {self.name} was lost with its worker")


def _kept(run: RunningCall, told: object) -> RemoteValue:
    inputs = [kept for kept in map(whole, run.inputs) if isinstance(kept, RemoteValue)]
    origins = frozenset(run.placed).union(*(kept.origins for kept in inputs))
    return RemoteValue(run.made, told, origins)


SOON = 1.0  # seconds until new and lost workers are noticed


class Pool:
    """A connection's workers, the values broadcast to them, and the calls that they run."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.broadcaster = Broadcaster(connection.client)
        self.broadcast = self.broadcaster.place
        self._info: tuple[float, Mapping[str, Mapping[str, Any]]] = 0.0, {}

    def folder(self) -> str | None:
        """A new folder that the driver and all workers see, which the caller deletes; None if they
        share no file system."""
        return tempfile.mkdtemp(dir=self.broadcaster.seen()) if self.shared else None

    @property
    def shared(self) -> bool:
        """Whether the driver and all workers see a common folder."""
        return self.broadcaster.seen() is not None

    def stage(self, name: str, limits: Limits, smaller: Smaller | None = None) -> TaskStage:
        """`name`: what the calls do, with the rule's name, for the dashboard and progress.
        `smaller`: returns smaller calls for one that was too large; may return none."""
        if self.connection.client.status == "closed":
            raise UsageError(
                "the connection to the cluster was closed; rows on its workers are gone",
                hint="fetch or write rows, to_parquet(folder), before the database is closed",
            )
        self.broadcaster.tidy()
        return TaskStage(self, name, limits, smaller)

    def all(self, calls: Sequence[Call], name: str, limits: Limits) -> list[Any]:
        """The results of calls, in the calls' order."""
        stage = self.stage(name, limits)
        for number, call in enumerate(calls):
            stage.add(replace(call, tag=number))
        found = {call.tag: given for call, given in stage}
        return [found[number] for number in range(len(calls))]

    def bring(
        self, kept: Sequence[RemoteValue | RemoteElement], name: str, limits: Limits
    ) -> list[Any]:
        """Fetches values from workers, in the given order."""
        return self.all([Call(calls.itself, (each,)) for each in kept], name, limits)

    def where(self, kept: Sequence[RemoteValue]) -> list[str | None]:
        """A worker that holds each value; None if unknown."""
        client = self.connection.client
        keys = [each.future.key for each in kept]
        held = client.sync(client.scheduler.who_has, keys=keys) if keys else {}
        return [next(iter(held.get(key, ())), None) for key in keys]

    @property
    def workers(self) -> dict[str, int]:
        """The number of threads of each worker, by address; waits if there are no workers."""
        until = monotonic() + broadcast.ALONE
        while True:
            workers: dict[str, int] = self.connection.client.nthreads()
            if workers:
                return workers
            if monotonic() > until:
                raise DeviceError(
                    f"the cluster has had no workers for {broadcast.ALONE:.0f} s",
                    hint="start workers, and run the query again",
                )
            current_watch().poll()
            sleep(broadcast.PAUSE)

    @property
    def info(self) -> Mapping[str, Mapping[str, Any]]:
        """The scheduler's report of each worker, by address; waits until there is a worker. Cached
        for a second, because a request takes milliseconds."""
        when, found = self._info
        while not found or monotonic() - when > SOON:
            if self.workers:
                found = workers_told(self.connection.client)
            when, _ = self._info = monotonic(), found
        return found

    @property
    def threads(self) -> dict[str, int]:
        """Like `workers`, cached for a second."""
        return {address: each["nthreads"] for address, each in self.info.items()}

    @property
    def slots(self) -> int:
        """How many calls can run at once."""
        return sum(self.threads.values())

    @property
    def memory(self) -> list[int]:
        """The memory limits of those workers that have one, in bytes."""
        return [limit for each in self.info.values() if (limit := each["memory_limit"])]

    def close(self) -> None:
        self.broadcaster.close()
        self.connection.close()
