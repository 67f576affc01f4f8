"""Progress, cancellation and deadlines of calls.

Each thread that calls a database has a `Watch`. Long work reports to it:

    with watch.work("loading", "E from e.csv", total=size, unit="bytes") as work:
        for block in blocks:
            ...
            work.at(read)  # reports progress; stops the call on request

Work is nested: a join is part of a round of a fixpoint. Progress lines show the innermost work. The
storage has no watch of its own and uses `current_watch()`, the watch of the call in this thread.

A long call of NumPy or Arrow cannot be stopped and reports no progress. It runs `aside`, in its own
thread, while the calling thread polls and calls the progress listener.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from math import inf
from threading import Event, local
from time import perf_counter
from types import FrameType
from typing import TypeVar

from gdatalog.account import SMALL, Account
from gdatalog.errors import Interrupted, TimeLimitError, UsageError
from gdatalog.importing import whole_imports
from gdatalog.overhead import Costs, take_over, time_spent
from gdatalog.progress import OnProgress, Progress, Stage, amount, duration
from gdatalog.records import dataclass, field
from gdatalog.terminal_text import visible
from gdatalog.threads import Abandoned, CancellableThread

EVERY = 0.1  # minimum seconds between two calls of the progress listener
LATE = 1 << 21  # rows: a pass over more rows must be cancellable
OBJECT = 16  # cost of a row of Python objects, in rows of arrays
PATIENCE = 0.02  # seconds between two polls
LONG_TEXT = 1_000  # characters: longer programs are parsed and checked aside

AS_IT_WAS = "; the database is as it was"
TOO_LATE = "interrupted at its end: what it did stays"

Made = TypeVar("Made")

_here = local()


def current_watch() -> Watch:
    """The watch of the call that runs in this thread, or a new one if none does."""
    found: Watch | None = getattr(_here, "watch", None)
    if found is None:
        found = _here.watch = Watch()
    return found


def working_space(what: str, count: int) -> AbstractContextManager[None]:
    """A context that charges this many bytes to the evaluation in this thread."""
    return current_watch().account.working(what, count) if count >= SMALL else nullcontext()


def interrupt_message(error: KeyboardInterrupt) -> str:
    """The message for Ctrl-C: what it interrupted, and how far that was."""
    return next(iter(getattr(error, "__notes__", ())), f"interrupted{AS_IT_WAS}")


def out_of_time(seconds: float, figures: str) -> TimeLimitError:
    """The error for a call that exceeds its time limit."""
    hint = "raise the limit: timeout=... or --timeout"
    message = f"this takes longer than the time limit of {seconds:g} s: {figures}"
    return TimeLimitError(message, hint=hint)


def cancellable(rows: int, work: Callable[[], Made], stage: Stage | None = "sorting") -> Made:
    """Returns the result of `work`, which makes several passes over this many rows, such as a sort.
    Work on many rows runs aside, so that the caller can watch and stop it.

    `stage`: None if it is a part of other work.
    """
    if rows < LATE:
        return work()
    watch = current_watch()
    if watch.behind or stage is None:
        watch.poll()
        return watch.aside(work)
    with watch.work(stage) as progress:
        progress.new_rows = rows
        return watch.aside(work)


def apart(work: Callable[[], Made]) -> Made:
    """Returns the result of `work`, which may take long and is pure Python: it parses, checks,
    plans or prints.

    It runs in its own thread; stopping the call ends this thread at any point of the work. So no
    pass over a program needs to poll.
    """
    watch = current_watch()
    watch.poll()
    return watch.aside(work, ended=True)


def working_for(watch: Watch) -> None:
    """Assigns this pool thread to the call of another thread, which waits for it."""
    _here.watch = watch


@dataclass(slots=True, eq=False)
class WorkItem:
    """A piece of work: its stage, its object `what`, and its progress."""

    watch: Watch
    stage: Stage
    what: str
    total: int | None
    unit: str
    done: int = 0
    round: int | None = None
    new_rows: int | None = None
    began: float = field(default_factory=perf_counter)
    span: tuple[float, float] = (0.0, 1.0)  # the current part, as an interval of the whole
    several: bool = False  # whether it has consecutive parts, such as files
    _depth: int = 0

    def __enter__(self) -> WorkItem:
        works = self.watch.works
        self._depth = len(works)
        works.append(self)
        if self.stage == "compiling":
            self.watch.begun_compiling(self.what)
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, KeyboardInterrupt):
            self.watch.stopped()
        del self.watch.works[self._depth :]

    def at(self, done: int) -> None:
        """Reports progress; raises if the call is to stop."""
        self.done = done
        self.watch.poll()

    @contextmanager
    def within(self, low: float, high: float) -> Iterator[None]:
        """Within this context, progress is mapped onto this interval of the current part.

        Work of unknown amount has ten thousand parts. Files, which may be pipes, and rounds, whose
        end is unknown, report the bytes or rows done instead.
        """
        before = start, end = self.span
        if self.total is None and self.stage not in ("loading", "round"):
            self.total, self.unit = 10_000, "parts"
        self.span = start + (end - start) * low, start + (end - start) * high
        self.share(0.0)
        try:
            yield
        finally:
            self.share(1.0)
            self.span = before

    def one_of(self, number: int, parts: int) -> None:
        """Makes the current part one of several, counted from 0."""
        if parts > 1:
            self.stretch(number / parts, (number + 1) / parts)

    def stretch(self, low: float, high: float) -> None:
        """Makes the current part this interval of the whole."""
        self.several = True
        self.span = 0.0, 1.0
        with self.within(low, high):
            span, done = self.span, self.done
        self.span, self.done = span, done

    def share(self, share: float) -> None:
        """Reports the finished share of the current part."""
        if self.total is not None:
            low, high = self.span
            self.done = int(self.total * (low + (high - low) * min(1.0, share)))


def _drop_frames_without_line(error: BaseException) -> None:
    """Drops traceback frames without a line number, which IPython cannot show: a signal may stop
    Python before a function's first line."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        if frame.tb_next.tb_lineno is None:  # despite its type
            frame.tb_next = None
        frame = frame.tb_next


def _release_rows(error: BaseException | None) -> None:
    """Cuts the traceback where functions of ours have ended: their variables would hold rows, in
    memory and in temporary files, as long as somebody keeps the error."""
    trace = None
    while error is not None:
        before, trace = None, error.__traceback__
        while trace is not None and not _has_ended(trace.tb_frame):
            before, trace = trace, trace.tb_next
        if before is None:
            error.__traceback__ = None
        else:
            before.tb_next = None
        error = error.__context__
    del trace
    gc.collect()  # rules of rounds and the fixpoint refer to each other


def _has_ended(frame: FrameType) -> bool:
    if str(frame.f_globals.get("__name__")).partition(".")[0] != "gdatalog":
        return False
    try:
        frame.clear()
    except RuntimeError:  # it still runs
        return False
    return True


class Watch:
    """Observes and stops the calls of a thread. A watch with `above` belongs to a thread that works
    aside for a call; the call's own watch reads its progress."""

    def __init__(self, above: Watch | None = None) -> None:
        self.stop = Event()  # set to request cancellation
        self.by_key = False  # whether Ctrl-C requested it
        self.works: list[WorkItem] = []  # the current work, innermost last
        self.behind = above is not None
        self.left = False  # whether that thread was abandoned
        # In this context, another thread works on the device of the present call.
        self.use: Callable[[], AbstractContextManager[None]] = nullcontext
        # Memory of the current evaluation.
        self.account: Account = Account() if above is None else above.account
        self._above: list[WorkItem] = [] if above is None else above.works
        self._aside: Watch | None = None  # watch of the thread that works aside
        self._listener: OnProgress | None = None
        self._asking = False  # whether the listener runs; it may query the database
        self.calls = 0  # depth of nested calls; 0: none runs
        self._began = self._reported = 0.0
        self._stopped: str | None = None
        self.clock: Callable[[], float] = perf_counter
        self._until = inf  # deadline, by the clock
        self.allowed = inf  # time limit in seconds

    # ------------------------------------------------------------------------- who calls

    @contextmanager
    def call(
        self, on_progress: OnProgress | None = None, seconds: float | None = None
    ) -> Iterator[None]:
        """Within this context, this thread works for a call, which stops after so many seconds and
        reports its progress; None: as the enclosing call."""
        before, above = getattr(_here, "watch", None), (self._listener, self._until, self.allowed)
        if on_progress is not None:
            self._listener = on_progress
        if seconds is not None and (until := self.clock() + seconds) < self._until:
            self._until, self.allowed = until, seconds
        if not self.calls:
            if self.stop.is_set():
                self.stop.clear()
            self.by_key = False
            self.works.clear()
            self._began = self._reported = perf_counter()
            self._stopped = None
        self.calls += 1
        _here.watch = self
        try:
            with whole_imports():
                yield
        except KeyboardInterrupt as error:
            if self.calls == 1:
                error.add_note(f"interrupted: {self.stopped()}".replace(": after", " after", 1))
                _drop_frames_without_line(error)
                _release_rows(error)
            raise
        except (MemoryError, TimeLimitError, Interrupted) as error:
            if self.calls == 1:
                _release_rows(error)
            raise
        except RecursionError:
            hint = "give a part of its body a name: a relation of its own"
            raise UsageError("a rule of this program has too many variables", hint=hint) from None
        finally:
            self.calls -= 1
            _here.watch = before
            self._listener, self._until, self.allowed = above
        if not self.calls and self.by_key and self.stop.is_set():
            # The call ended before it polled: raise now, so that later statements do not run.
            self.stop.clear()
            late = KeyboardInterrupt()
            late.add_note(TOO_LATE)
            raise late

    def is_late(self) -> bool:
        """Whether the call has reached its time limit."""
        return self._until < inf and self.clock() >= self._until

    @property
    def seconds(self) -> float | None:
        """How long the current call has run; None if there is none. Thread-safe."""
        return perf_counter() - self._began if self.calls else None

    @property
    def now(self) -> Progress | None:
        """The current work and its progress. Thread-safe."""
        seen = self.all_now()
        return seen[-1] if seen else None

    def all_now(self) -> list[Progress]:
        """All nested work items, the innermost last."""
        aside = self._aside
        found: list[Progress] = []
        round_: int | None = None
        for work in [*self.works, *(aside.works if aside is not None else ())]:
            round_ = work.round if work.round is not None else round_
            kind = work.stage, work.what, work.done, work.total, work.unit
            found.append(Progress(*kind, round_, work.new_rows, perf_counter() - work.began))
        return found

    def status(self) -> tuple[Progress | None, list[str]]:
        """One line of progress: the work, and a few words for each figure."""
        seen = self.all_now()
        if not seen:
            return None, []
        last = seen[-1]
        rounds = next((each for each in reversed(seen) if each.stage == "round"), last)
        figures = rounds.figures()
        if rounds is not last:
            title = last.title
            if last.stage == "joining":
                title = title.removeprefix(rounds.what).strip(" ()")  # "rule 2 of 3"
            if last.share is not None:
                title = f"{title} at {int(100 * last.share)} %".lstrip()
            figures += [f"now {title}"] if title else []
        return rounds, figures

    def stopped(self) -> str:
        """What the call was doing when it was stopped, and how far it was."""
        if self._stopped is None:
            self._stopped = f"{self._where()}after {duration(perf_counter() - self._began)}"
        return f"{self._stopped}{AS_IT_WAS}"

    def _where(self) -> str:
        seen = self.all_now()
        if not seen:
            return ""
        last = seen[-1]
        rounds = [progress for progress in seen if progress.stage == "round"]
        if rounds:
            figures = f"{rounds[-1].title}, round {rounds[-1].round or 1}"
            figures += f", {amount(rounds[-1].done, rounds[-1].unit)} so far"
        elif last.share is not None:
            figures = f"{last.title} at {int(100 * last.share)} %"
        else:
            so_far = f", {amount(last.done, last.unit)} so far" if last.done else ""
            figures = f"{last.title}{so_far}"
        return f"{figures}, "

    # --------------------------------------------------------------------------- who works

    def work(
        self, stage: Stage, what: str = "", total: int | None = None, unit: str = ""
    ) -> WorkItem:
        """A context for a piece of work on `what`; by default on the object of the enclosing
        work."""
        if not what:
            works = self.works or self._above
            what = works[-1].what if works else "rows"
        return WorkItem(self, stage, what, total, unit)

    def poll(self) -> None:
        """Raises if the call is to stop; calls the progress listener when it is time."""
        if self.behind:
            if self.left:
                raise Abandoned
            return
        if self.stop.is_set():
            self.stop.clear()
            raise KeyboardInterrupt if self.by_key else Interrupted(self.stopped())
        if self._until < inf and self.clock() >= self._until:
            raise out_of_time(self.allowed, self.stopped())
        if self._listener is not None and perf_counter() - self._reported >= EVERY:
            self._tell(self._listener)

    @property
    def innermost(self) -> WorkItem:
        """The current work; a silent one if there is none."""
        works = self.works or self._above
        return works[-1] if works else WorkItem(self, "joining", "", None, "")

    def part(self, done: int, total: int) -> None:
        """Divides the innermost work, or its current part, into parts.

        Rounds ignore it, because they report rows and their end is unknown.
        """
        work = self.innermost
        if work.span != (0.0, 1.0):
            work.share(done / total)
        elif work.stage != "round":
            work.done, work.total, work.unit = done, total, work.unit or "parts"

    def begun_compiling(self, what: str) -> None:
        """Reports a compilation at once, because it may take long and nothing polls meanwhile."""
        if self.behind:
            return
        import logging

        logging.getLogger("gdatalog").info("compiling %s", visible(what))
        if self._listener is not None:
            self._tell(self._listener)

    def _tell(self, listener: OnProgress) -> None:
        now = self.now
        if now is None:
            return
        self._listener = None  # queries by the listener report no progress
        self._asking = True
        try:
            listener(now)
        finally:
            self._asking = False
            self._listener = listener
            self._reported = perf_counter()

    def aside(self, work: Callable[[], Made], ended: bool = False) -> Made:
        """Runs `work` in its own thread and returns its result; this thread polls meanwhile.

        If polling raises, this thread abandons the other and drops its results, so `work` must not
        change shared state. The abandoned thread ends at its next poll; with `ended`, at any point.
        The listener is called in this thread: a third one would wait for locks that this one holds.
        """
        if self._asking or self.behind:
            self.poll()
            return work()
        found: list[Made] = []
        errors: list[BaseException] = []
        spent: list[Costs] = []
        aside = Watch(self)

        def run() -> None:
            _here.watch = aside
            try:
                with self.use(), whole_imports():
                    found.append(work())
            except BaseException as error:
                errors.append(error)
            spent.append(time_spent())

        self._aside = aside
        hand = CancellableThread(run)
        try:
            hand.start()
            while not hand.wait(PATIENCE):
                self.poll()
        except BaseException:
            self.stopped()
            aside.left = True
            if ended:
                hand.end()
            raise
        finally:
            self._aside = None
        take_over(spent.pop())
        if errors:
            raise errors.pop()
        return found.pop()
