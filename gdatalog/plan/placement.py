"""Where rules and strata run: here, or on the workers of a cluster. Planned, and what happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from gdatalog.plan.conditions import When
from gdatalog.progress import format_bytes
from gdatalog.records import dataclass, field, replace

if TYPE_CHECKING:
    from gdatalog.plan.slicing import Schedule

SpreadWay = Literal["replicated", "partitioned", "in place"]


@dataclass(frozen=True, slots=True)
class Spread:
    """`replicated`: each worker has the relations whole. `partitioned`: none has; the keys of
    variables that are joined through the same columns fall into `classes`, cells are made of these,
    and rows are moved to the workers that need them. `in place`: each has a part of the rows of one
    relation, which `stays` where it is.

    `planned`: the bytes that are expected to go from worker to worker; `moved`: those that went.
    `calls`: what workers were asked for, and how many of these ran `on_gpus`. `patient`: it is
    done here if that is soon done.
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
        workers = _many(self.workers, "worker")
        if self.way == "replicated":
            parts = [f"over {workers}, each of which has all rows"]
        elif self.way == "in place":
            parts = [f"over {workers}, each of which reads the rows of {self.stays} that it has"]
        else:
            by = " and ".join(map(str, self.classes))
            classes = f" by {by} classes of keys" if self.classes else ""
            parts = [f"over {workers}, each of which has a part of the rows{classes}"]
        if self.cells is not None:
            parts.append(_many(self.cells, "cell" if self.stays is None else "block"))
        if self.calls is not None:
            all_or_some = "" if self.on_gpus == self.calls else f", {self.on_gpus:,} of them"
            parts.append(_many(self.calls, "call") + f"{all_or_some} on GPUs" * (self.on_gpus > 0))
        if self.moved is not None:
            planned = "" if self.planned is None else f" ({format_bytes(self.planned)} planned)"
            parts.append(f"{format_bytes(self.moved)} moved from worker to worker{planned}")
        elif self.planned is not None:
            parts.append(f"about {format_bytes(self.planned)} to be moved from worker to worker")
        text = ", ".join(parts)
        return text if self.patient is None else f"{text}, if it takes more than {self.patient:g} s"

    def facts(self) -> tuple[tuple[str, str | int | None], ...]:
        """The same, to be looked up."""
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
    """A rule runs in cells: its indexes stay in the host's memory, and the device reads slices.

    `ranges`: into how many each cut variable is cut, the outermost first. `cells`: those that may
    have bindings; `skipped`: the others. `planned`: the bytes that are expected to be copied.
    `ran` and `moved`: how many cells ran, and the bytes that were copied.
    """

    ranges: tuple[tuple[str, int], ...] = ()
    cells: int = 0
    skipped: int = 0
    planned: int = 0
    ran: int | None = None
    moved: int | None = None

    def with_join(self, found: Schedule) -> InCells:
        """The same, with the cells of one join more."""
        ranges = tuple((name, len(each)) for name, each in found.ranges.items())
        return replace(
            self,
            ranges=(*self.ranges, *ranges),
            cells=self.cells + len(found.turns),
            skipped=self.skipped + found.skipped,
            planned=self.planned + found.moved,
        )

    def __str__(self) -> str:
        by = ", ".join(f"{name} in {_many(count, 'range')}" for name, count in self.ranges)
        parts = [f"in {_many(self.cells, 'cell')}" + (f" ({by})" if by else "")]
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
        """The same, to be looked up."""
        return (
            ("cells", self.cells),
            ("cells skipped", self.skipped),
            ("cells that ran", self.ran),
            ("cut by", ", ".join(name for name, _ in self.ranges) or None),
            ("bytes planned to be copied", self.planned),
            ("bytes copied", self.moved),
        )


@dataclass(frozen=True, slots=True)
class InPages:
    """A rule's indexes, of so many bytes, stay in the host's memory and are read in place; the
    pages that are read most, `placed` bytes, lie on the device meanwhile.

    `planned`: the bytes that reads of the others are expected to move over the link; `read`: those
    that they moved, by how many lists were read. `copied`: what was written to pages.
    """

    size: int = 0
    placed: int = 0
    planned: int = 0
    read: int | None = None
    copied: int | None = None

    def with_join(self, other: InPages) -> InPages:
        """The same, with one join more."""
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
        """The same, to be looked up."""
        return (
            ("bytes read in place", self.size),
            ("bytes on the device", self.placed),
            ("bytes planned to be read", self.planned),
            ("bytes read, by lists", self.read),
            ("bytes copied to pages", self.copied),
        )


@dataclass(slots=True)
class DeviceWork:
    """What one of several devices did: how many pieces, in how many seconds, of how many rows."""

    pieces: int = 0
    seconds: float = 0.0
    rows: int = 0

    def __str__(self) -> str:
        rows = f", {_many(self.rows, 'row')}" * (self.rows > 0)  # none where they are only counted
        return f"{_many(self.pieces, 'piece')}, {self.seconds:.3f} s{rows}"


@dataclass(slots=True, eq=False)
class Shared:
    """Several devices run a join or a fixpoint together, in `pieces` for each of them.

    `work_of`: what each did, once it has.
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
class Local:
    """A stratum runs on this machine's device `device`; on several if it is `shared`."""

    device: str = "cpu"
    shared: Shared | None = None

    def __str__(self) -> str:
        return f"on {self.device}" if self.shared is None else str(self.shared)


@dataclass(frozen=True, slots=True)
class OnWorkers:
    """A recursive stratum runs on the workers of a cluster. `by`: they take stretches of the values
    of these columns; without, they own rows by hash, and exchange new ones. `parted`: none has all
    that is read.

    `until`: it runs here first, until one of these conditions is met, and `why` that is. `refusal`:
    why only one machine can do it.
    """

    workers: int
    by: str | None = None
    parted: bool = False
    until: tuple[When, ...] = ()
    why: str = ""
    refusal: str | None = None

    def __str__(self) -> str:
        workers = _many(self.workers, "worker")
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
        """The same, to be looked up."""
        way = "values" if self.by is not None else "rows"
        return (
            ("spread", way if self.refusal is None else None),
            ("workers", self.workers),
            ("here first", self._until if self.until and self.refusal is None else None),
            ("reason", self.refusal or self.why or None),
        )


Placement = Local | OnWorkers


def _sum(one: int | None, other: int | None) -> int | None:
    """What is known of both together."""
    return one if other is None else (one or 0) + other


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
