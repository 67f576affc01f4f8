"""Calls for one purpose, at work: sent, waited for, and begun again where that must be."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any

from gdatalog.cancellation import PATIENCE
from gdatalog.cluster.pool.calling import part_of, run_call, run_calls, told_of
from gdatalog.cluster.pool.calls import (
    BAD,
    Call,
    Kept,
    Lost,
    Part,
    Recipe,
    TooLarge,
    future_of,
    made_by,
    whole,
)
from gdatalog.cluster.pool.here import Missing
from gdatalog.cluster.pool.lineage import Lineage
from gdatalog.cluster.pool.packing import Packing, Run
from gdatalog.cluster.pool.placing import ALONE, EVERY, OFTEN, awaited
from gdatalog.cluster.pool.sending import Sending
from gdatalog.cluster.workers.scheduler import set_free
from gdatalog.errors import DeviceError, Interrupted, MemoryLimitError
from gdatalog.limits import Limits
from gdatalog.progress import format_bytes

if TYPE_CHECKING:
    from gdatalog.cluster.pool import Pool

TASKS = 16  # for each thread of a worker: of more calls some go together
PATIENT = 1.0  # seconds without an end of a call, after which the scheduler is asked to look
TOGETHER = 64  # calls that go together, at the most

Smaller = Callable[[TooLarge], Iterable[Call]]


class Stage:
    """Calls for one purpose, at work."""

    def __init__(
        self, pool: Pool, told: str, limits: Limits, smaller: Smaller | None = None
    ) -> None:
        self.pool = pool
        self.told = told
        self.limits = limits
        self.smaller = smaller
        self.instead: Callable[[Call, Lost], Call] | None = None  # of what is lost
        self.firm: Collection[Kept] = ()  # of these none is made again
        self._client = pool.connection.client
        self._sending = Sending(self._client, pool.placing, told)
        self._lineage = Lineage(self._sending)
        self._waiting: list[Run | Call] = []
        self._running: dict[Any, list[Run]] = {}  # by the future that tells of them
        self._ended: SimpleQueue[Any] = SimpleQueue()  # futures
        self._packing = Packing()
        self._added = self._done = 0
        self._looked = self._worked = self._asked = monotonic()

    def add(self, call: Call) -> None:
        self._added += 1
        self._waiting.append(call)

    def start(self) -> None:
        """Sends what was added; who iterates need not call it."""
        if self._waiting:
            self._send()

    def __iter__(self) -> Generator[tuple[Call, Any], None, None]:
        """What calls give, as they end: results, or `Kept` ones."""
        try:
            while self._waiting or self._running:
                self.start()
                for call, found in self._found(self._some()):
                    self._done += 1
                    self.limits.watch.part(self._done, self._added)
                    yield call, found
        finally:
            self.cancel()

    def cancel(self) -> None:
        """Calls off what is at work; what workers run ends at its next look."""
        self._waiting.clear()
        futures = list(self._running)
        futures += [run.made for runs in self._running.values() for run in runs if run.made]
        self._running.clear()
        if futures and self._client.status == "running":
            with contextlib.suppress(Exception):
                cancelled = self._client.cancel(futures, asynchronous=True)
                asyncio.run_coroutine_threadsafe(cancelled, self._loop).result(1.0)

    # ------------------------------------------------------------------------------ sending

    def _send(self) -> None:
        """Sends all that waits: alone what is kept, waits for others or was begun before; of the
        rest so many together that workers have some ten tasks each."""
        self._stand()
        waiting, self._waiting = self._waiting, []
        runs = [each for each in waiting if isinstance(each, Run)]
        runs += self._packing.runs(each for each in waiting if isinstance(each, Call))
        alone: dict[str | None, list[Run]] = {}
        together: list[Run] = []
        for run in runs:
            if run.call.keep or run.inputs or run.tries or run.call.worker is not None:
                alone.setdefault(run.call.worker, []).append(run)
            else:
                together.append(run)
        for each in {id(each): each for run in runs for each in run.inputs}.values():
            if whole(each).future.status in ("cancelled", "error"):
                self._lineage.revived(each, False)
        self._parts([each for run in runs for each in run.inputs if isinstance(each, Part)])
        size = min(TOGETHER, -(-len(together) // (TASKS * max(1, self.pool.slots))))
        groups = [together[at : at + size] for at in range(0, len(together), size or 1)]
        self._submit(groups, None)
        for worker, some in alone.items():
            self._submit([[run] for run in some if not run.call.keep], worker)
            self._keep([run for run in some if run.call.keep], worker)

    def _parts(self, parts: Sequence[Part]) -> None:
        """Has parts of what is kept lie apart, each where the whole is."""
        wanted = list({
            (id(part.kept), part.key): part
            for part in parts if part.key not in part.kept.parts
        }.values())  # fmt: skip
        if not wanted:
            return
        at: dict[str | None, list[Part]] = {}
        for part, worker in zip(wanted, self.pool.where([p.kept for p in wanted]), strict=True):
            at.setdefault(worker, []).append(part)
        for worker, some in at.items():
            futures = self._sending.map(
                part_of, worker, [part.kept.future for part in some], [part.key for part in some]
            )
            for part, future in zip(some, futures, strict=True):
                part.kept.parts[part.key] = future

    def _submit(self, groups: Sequence[list[Run]], worker: str | None) -> None:
        if groups:
            futures = self._sending.map(
                run_calls,
                worker,
                [[run.packed for run in group] for group in groups],
                [[each for run in group for each in self._given_to(run)] for group in groups],
                [self._brought(group) for group in groups],
            )
            for future, group in zip(futures, groups, strict=True):
                self._watch(future, group)

    def _keep(self, runs: Sequence[Run], worker: str | None) -> None:
        if not runs:
            return
        futures = self._sending.map(
            run_call,
            worker,
            [run.packed for run in runs],
            list(map(self._given_to, runs)),
            [self._brought([run]) for run in runs],
        )
        for run, future in zip(runs, futures, strict=True):
            run.made = future
        telling = [run for run in runs if run.call.told is not None]
        for run in runs:
            if run.call.told is None:
                self._watch(run.made, [run])
        if telling:
            futures = self._sending.map(
                told_of, None, [run.made for run in telling], [run.call.told for run in telling]
            )
            for future, run in zip(futures, telling, strict=True):
                self._watch(future, [run])

    def _given_to(self, run: Run) -> list[Any]:
        run.given = list(map(future_of, run.inputs))
        return run.given

    def _brought(self, runs: Iterable[Run]) -> dict[Any, Any]:
        """Values that the worker may not have which gets the calls."""
        found: dict[Any, Any] = {}
        for run in runs:
            found |= self._sending.bringing(run.placed, every=run.missing)
        return found

    def _watch(self, future: Any, runs: list[Run]) -> None:
        self._running[future] = runs
        future.add_done_callback(self._ended.put)

    # ------------------------------------------------------------------------------ waiting

    @property
    def _loop(self) -> Any:
        return self._client.loop.asyncio_loop

    def _some(self) -> list[Any]:
        """Futures that have ended, a few at the most; none if that takes long."""
        self.limits.poll()
        self._stand()
        found = []
        try:
            found.append(self._ended.get(timeout=PATIENCE))
            while len(found) < TOGETHER:
                found.append(self._ended.get_nowait())
        except Empty:
            pass
        if monotonic() - self._looked > EVERY:
            self._looked = monotonic()
            found += [future for future in self._running if future.status == "lost"]
            self._check()
        return [future for future in dict.fromkeys(found) if future in self._running]

    def _found(self, futures: Sequence[Any]) -> Iterator[tuple[Call, Any]]:
        """What calls gave that have ended; those that did not end well are begun again."""
        if futures:
            self._worked = monotonic()
        values = self._gathered([f for f in futures if self._brings(f)])
        for future in futures:
            runs = self._running.pop(future)
            if future in values:
                yield from self._given(runs, values[future])
            elif future.status == "finished" and not self._brings(future, runs):
                yield runs[0].call, self._kept(runs[0], None)
            else:
                self._failed(runs, future)

    def _brings(self, future: Any, runs: list[Run] | None = None) -> bool:
        """Whether what a future has comes here."""
        run = (runs or self._running[future])[0]
        return future.status == "finished" and run.made is not future

    def _gathered(self, futures: list[Any]) -> dict[Any, Any]:
        """What tasks gave; of those whose workers died meanwhile nothing."""
        while futures:
            wanted = {future.key: future for future in futures}
            gather = self._client.gather(wanted, errors="skip", asynchronous=True)
            alive = partial(self._intact, futures)
            with contextlib.suppress(OSError):
                found = awaited(self._client, gather, alive, self.limits.poll)
                return {f: found[f.key] for f in futures if f.status == "finished"}
            futures = [future for future in futures if future.status == "finished"]
        return {}

    def _intact(self, futures: Sequence[Any]) -> bool:
        self._check()
        return not any(future.status in BAD for future in futures)

    def _given(self, runs: list[Run], value: Any) -> Iterator[tuple[Call, Any]]:
        if runs[0].call.keep:
            yield runs[0].call, self._kept(runs[0], value)
            return
        for run, outcome in zip(runs, value, strict=False):
            if outcome.error is None:
                yield run.call, outcome.value
            else:
                self._raised(run, outcome.error)
        self._waiting += runs[len(value) :]

    def _kept(self, run: Run, told: Any) -> Kept:
        inputs = []
        for each in run.inputs:
            kept = whole(each)
            part = (each.key,) if isinstance(each, Part) else ()
            inputs.append((kept.recipe or kept, part))
        recipe = Recipe(run.packed, tuple(inputs), tuple(run.placed), run.call.worker)
        return made_by(recipe, run.made, told)

    # ------------------------------------------------------------------------------- faults

    def _failed(self, runs: list[Run], future: Any) -> None:
        """A task did not end well: its worker died, what it needed is lost, or it raised."""
        self._connected()
        self._stand()
        error = future.exception() if future.status == "error" else None
        killed = type(error).__name__ == "KilledWorker"
        missing, lost = isinstance(error, Missing), isinstance(error, Lost)
        if isinstance(error, Interrupted):  # the worker let go of it, nobody here did
            error = None
        if lost:  # what was made again may be what is not as it was
            self._lineage.forget()
        revived = 0
        if error is None or killed or missing or lost:
            for run in runs:
                for each, future in zip(run.inputs, run.given, strict=True):
                    # It may have been made again for another run meanwhile.
                    revived += self._lineage.revived(each, missing) or future_of(each) is not future
        for run in runs:
            run.made = None
            if isinstance(error, Missing):
                self._missing(run, error)
            elif error is None or revived:
                self._again(run, error if lost else None)
            elif killed:
                self._killed(run, alone=len(runs) == 1)
            else:
                self._raised(run, error)

    def _again(self, run: Run, error: BaseException | None = None) -> None:
        run.tries += 1
        if run.tries > OFTEN:
            raise error or DeviceError(
                f"a part of {self.told} was begun {run.tries} times, and each time its worker or "
                "what it needed was lost",
                hint="the logs of the cluster's workers say what ends them",
            )
        self._waiting.append(run)

    def _missing(self, run: Run, error: Missing) -> None:
        run.missing = True
        if error.unseen:
            self.pool.placing.send_all()
        self._again(run)

    def _raised(self, run: Run, error: BaseException) -> None:
        if isinstance(error, Missing):
            self._missing(run, error)
        elif isinstance(error, Interrupted):
            self._again(run)
        elif isinstance(error, MemoryError):
            told = error.message if isinstance(error, MemoryLimitError) else str(error)
            hint = error.hint if isinstance(error, MemoryLimitError) else None
            large = TooLarge(run.call, f"on a worker: {told or 'not enough memory'}", hint)
            if not self._smaller(large):
                raise large from error
        elif isinstance(error, Lost):
            if self.instead is None:
                raise error
            self._waiting.append(self.instead(run.call, error))
        else:
            raise error

    def _killed(self, run: Run, alone: bool) -> None:
        """Workers died, one after the other, while they had this call, or one beside it."""
        limit = min(self.pool.memory, default=0)
        most = f" of {format_bytes(limit)} each" if limit else ""
        large = TooLarge(
            run.call,
            f"workers{most} died one after the other while they ran a part of {self.told}: "
            "it probably needs more memory than they have",
            "give workers more memory, or fewer threads each; their logs say what ended them",
        )
        if not alone:
            self._again(run)
        elif not self._smaller(large):
            if run.deaths:
                raise large
            run.deaths += 1  # which may have been those of one that ran beside it
            self._again(run)

    def _smaller(self, large: TooLarge) -> bool:
        """Whether there are smaller calls in the place of one; then they are added."""
        smaller = list(self.smaller(large)) if self.smaller is not None else []
        for call in smaller:
            self.add(call)
        self._added -= bool(smaller)
        return bool(smaller)

    def _connected(self) -> None:
        if self._client.status not in ("running", "connecting"):
            raise DeviceError(
                f"the connection to the cluster was lost while it worked on {self.told}",
                hint="see whether its scheduler still runs, and connect again",
            )

    def _check(self) -> None:
        """Raises if there is nobody who could do the work."""
        self._connected()
        waited = monotonic() - max(self._worked, self._asked)
        if monotonic() - self._worked > PATIENT:
            keys = [future.key for future in self._running]
            free = self._client.run_on_scheduler(set_free, wanted=keys, asynchronous=True)
            asyncio.run_coroutine_threadsafe(free, self._loop)  # and nobody waits for it
        if waited > ALONE:
            self._asked = monotonic()
            if not self._client.nthreads():
                raise DeviceError(
                    f"the cluster has had no workers for {ALONE:.0f} s: {self.told} is not done",
                    hint="start workers, and ask again",
                )

    def _stand(self) -> None:
        if any(kept.future.status in BAD for kept in self.firm):
            raise Lost(f"a part of {self.told} was lost with its worker")
