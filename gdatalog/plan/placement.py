"""Where rules and strata run: on a device, on several, or on a cluster; with measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from gdatalog.plan.conditions import When
from gdatalog.progress import amount, format_bytes
from gdatalog.records import dataclass, field, replace

if TYPE_CHECKING:
    from gdatalog.plan.slices import Schedule

SpreadWay = Literal["replicated", "partitioned", "in place"]


@dataclass(frozen=True, slots=True)
class Spread:
    """How a rule is distributed.

    `replicated`: each worker has whole relations. `partitioned`: the keys of variables that are
    joined through the same columns are hashed into `classes`, of which cells are made, and rows
    move to the workers that need them. `in place`: each worker has a part of one relation, which
    `stays` where it is.

    `planned`: the bytes expected to move between workers; `moved`: the measured bytes. `calls`:
    calls of workers, of which `on_gpus` ran on GPUs. `patient`: the rule runs locally first, and
    moves to the workers after so many seconds.
    """

    way: SpreadWay
    workers: int
    cells: int | None = None
    classes: tuple[int, ...] = ()
    planned: int | None = None
    moved: int | None = None
    calls: int | None = None
    on_gpus: int = 0
    patient: float | None = None
    stays: str | None = None

    def __str__(self) -> str:
        workers = amount(self.workers, "workers")
        if self.way == "replicated":
            parts = [f"over {workers}, each of which has all rows"]
        elif self.way == "in place":
            parts = [f"over {workers}, each of which reads the rows of {self.stays} that it has"]
        else:
            by = " and ".join(map(str, self.classes))
            classes = f" by {by} classes of keys" if self.classes else ""
            parts = [f"over {workers}, each of which has a part of the rows{classes}"]
        if self.cells is not None:
            parts.append(amount(self.cells, "cells" if self.stays is None else "blocks"))
        if self.calls is not None:
            some = "" if self.on_gpus == self.calls else f", {self.on_gpus:,} of them"
            parts.append(amount(self.calls, "calls") + f"{some} on GPUs" * (self.on_gpus > 0))
        if self.moved is not None:
            planned = "" if self.planned is None else f" ({format_bytes(self.planned)} planned)"
            parts.append(f"{format_bytes(self.moved)} moved from worker to worker{planned}")
        elif self.planned is not None:
            parts.append(f"about {format_bytes(self.planned)} to be moved from worker to worker")
        text = ", ".join(parts)
        return text if self.patient is None else f"{text}, if it takes more than {self.patient:g} s"

    def facts(self) -> tuple[tuple[str, str | int | None], ...]:
        """The same as names and values."""
        return (
            ("spread", self.way),
            ("workers", self.workers),
            ("cells", self.cells),
            ("calls", self.calls),
            ("calls on GPUs", self.on_gpus or None),
            ("classes", ", ".join(map(str, self.classes)) or None),
            ("bytes planned to be moved", self.planned),
            ("bytes moved between workers", self.moved),
        )


@dataclass(frozen=True, slots=True)
class InCells:
    """A rule runs in cells: its indexes stay in host memory, and slices are copied to the device.

    `ranges`: the number of ranges of each cut variable, the outermost first. `cells`: those that
    may have bindings; `skipped`: the others. `planned`: the bytes expected to be copied. `ran` and
    `moved`: the number of cells that ran, and the bytes that were copied.
    """

    ranges: tuple[tuple[str, int], ...] = ()
    cells: int = 0
    skipped: int = 0
    planned: int = 0
    ran: int | None = None
    moved: int | None = None

    def with_join(self, found: Schedule) -> InCells:
        """The same with the cells of another join."""
        ranges = tuple([(name, len(each)) for name, each in found.ranges.items()])
        return replace(
            self,
            ranges=(*self.ranges, *ranges),
            cells=self.cells + len(found.turns),
            skipped=self.skipped + found.skipped,
            planned=self.planned + found.moved,
        )

    def __str__(self) -> str:
        by = ", ".join([f"{name} in {amount(count, 'ranges')}" for name, count in self.ranges])
        parts = [f"in {amount(self.cells, 'cells')}" + (f" ({by})" if by else "")]
        if not self.cells and self.ran is None:
            return "in cells: its indexes do not fit the device"
        if self.ran is None:
            if self.skipped:
                parts.append(f"{self.skipped:,} skipped")
            parts.append(f"about {format_bytes(self.planned)} to be copied to the device")
        else:
            parts.append(f"{self.ran:,} ran")
            parts.append(f"{self.skipped:,} skipped")
            planned = f" ({format_bytes(self.planned)} planned)"
            parts.append(f"{format_bytes(self.moved or 0)} copied to the device{planned}")
        return ", ".join(parts)

    def facts(self) -> tuple[tuple[str, str | int | None], ...]:
        """The same as names and values."""
        return (
            ("cells", self.cells),
            ("cells skipped", self.skipped),
            ("cells that ran", self.ran),
            ("cut by", ", ".join([name for name, _ in self.ranges]) or None),
            ("bytes planned to be copied", self.planned),
            ("bytes copied", self.moved),
        )


@dataclass(frozen=True, slots=True)
class InPages:
    """A rule's indexes, of `size` bytes, stay in host memory and are read in place; the hottest
    pages, `placed` bytes, are on the device.

    `planned`: the bytes that reads of other pages are expected to move over the link; `read`: those
    they moved, by the number of lists read. `copied`: bytes written to pages.
    """

    size: int = 0
    placed: int = 0
    planned: int = 0
    read: int | None = None
    copied: int | None = None

    def with_join(self, other: InPages) -> InPages:
        """The same with another join."""
        return replace(
            self,
            size=max(self.size, other.size),
            placed=max(self.placed, other.placed),
            planned=self.planned + other.planned,
            read=_sum(self.read, other.read),
            copied=_sum(self.copied, other.copied),
        )

    def __str__(self) -> str:
        parts = [
            f"reads {format_bytes(self.size)} of indexes in place",
            f"{format_bytes(self.placed)} of them on the device",
        ]
        if self.copied is None:
            parts.append(f"about {format_bytes(self.planned)} over the link")
        else:
            if self.read is not None:
                planned = f" ({format_bytes(self.planned)} planned)"
                parts.append(f"some {format_bytes(self.read)} over the link{planned}")
            parts.append(f"{format_bytes(self.copied)} copied to pages")
        return ", ".join(parts)

    def facts(self) -> tuple[tuple[str, str | int | None], ...]:
        """The same as names and values."""
        return (
            ("bytes read in place", self.size),
            ("bytes on the device", self.placed),
            ("bytes planned to be read", self.planned),
            ("bytes read, by lists", self.read),
            ("bytes copied to pages", self.copied),
        )


@dataclass(slots=True)
class DeviceWork:
    """The work of one of several devices: pieces, seconds, and rows."""

    pieces: int = 0
    seconds: float = 0.0
    rows: int = 0

    def __str__(self) -> str:
        rows = f", {amount(self.rows, 'rows')}" * (self.rows > 0)  # 0 if rows are only counted
        return f"{amount(self.pieces, 'pieces')}, {self.seconds:.3f} s{rows}"


@dataclass(slots=True, eq=False)
class Shared:
    """Several devices run a join or a fixpoint together, in `pieces` for each device.

    `work_of`: the work of each device, after the run.
    """

    devices: tuple[str, ...]
    pieces: int = 1
    work_of: dict[str, DeviceWork] = field(default_factory=dict)

    def __str__(self) -> str:
        """
        >>> str(Shared(("cuda:0", "cuda:1")))
        'on cuda:0 and cuda:1'
        """
        parts = [
            f"{name} ({self.work_of[name]})" if name in self.work_of else name
            for name in self.devices
        ]
        return f"on {', '.join(parts[:-1])} and {parts[-1]}"


@dataclass(frozen=True, slots=True)
class ExecutorChoice:
    """The executor of a join, and the reason. `allowed`: after so many rows, the choice is made
    again; None: it is final. `scans`: the executor reads the rows of a relation in storage order,
    chunk by chunk. `shared`: the devices that run the join together, if there are several."""

    breadth_first: bool
    reason: str
    allowed: int | None = None
    scans: bool = False
    shared: Shared | None = None

    @property
    def kind(self) -> str:
        if self.scans:
            return "scan"
        return "breadth-first" if self.breadth_first else "depth-first"

    def __str__(self) -> str:
        shared = "" if self.shared is None else f" {self.shared}"
        return f"{self.kind}{shared}: {self.reason}"


@dataclass(frozen=True, slots=True)
class WorkerPlacement:
    """A recursive stratum runs on the workers of a cluster. `by`: they take ranges of the values of
    these columns; without it, they own rows by hash and exchange new rows. `parted`: no worker has
    all input rows.

    `until`: it runs locally until one of these conditions is met; `why` is the reason. `refusal`:
    why it can only run on one machine.
    """

    workers: int
    by: str | None = None
    parted: bool = False
    until: tuple[When, ...] = ()
    why: str = ""
    refusal: str | None = None

    def __str__(self) -> str:
        workers = amount(self.workers, "workers")
        if self.refusal is not None:
            return f"here, and not over {workers}: {self.refusal}"
        if self.by is not None:
            text = f"over {workers}, each of which takes ranges of the values of {self.by}"
        else:
            text = f"over {workers}, which own the rows by hash, and shuffle new rows in rounds"
        if self.parted:
            text += "; none has all that is read"
        if self.until:
            text = f"here, and {self._until} {text}"
        return f"{text} ({self.why})" if self.why else text

    @property
    def _until(self) -> str:
        return " or ".join(map(str, self.until))

    def facts(self) -> tuple[tuple[str, str | int | None], ...]:
        """The same as names and values."""
        way = "values" if self.by is not None else "rows"
        return (
            ("spread", way if self.refusal is None else None),
            ("workers", self.workers),
            ("here first", self._until if self.until and self.refusal is None else None),
            ("reason", self.refusal or self.why or None),
        )


def _sum(one: int | None, other: int | None) -> int | None:
    """The sum of the known ones."""
    return one if other is None else (one or 0) + other
