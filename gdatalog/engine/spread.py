"""How a rule's work is spread over the workers of a cluster: before it is done, or after."""

from __future__ import annotations

from math import inf
from typing import Literal

from gdatalog.progress import format_bytes
from gdatalog.records import dataclass


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

    way: Literal["replicated", "partitioned", "in place"]
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
            told = [f"over {workers}, each of which has all rows"]
        elif self.way == "in place":
            told = [f"over {workers}, each of which reads the rows of {self.stays} that it has"]
        else:
            by = " and ".join(map(str, self.classes))
            classes = f" by {by} classes of keys" if self.classes else ""
            told = [f"over {workers}, each of which has a part of the rows{classes}"]
        if self.cells is not None:
            told.append(_many(self.cells, "cell" if self.stays is None else "block"))
        if self.calls is not None:
            all_or_some = "" if self.on_gpus == self.calls else f", {self.on_gpus:,} of them"
            told.append(_many(self.calls, "call") + f"{all_or_some} on GPUs" * (self.on_gpus > 0))
        if self.moved is not None:
            planned = "" if self.planned is None else f" ({format_bytes(self.planned)} planned)"
            told.append(f"{format_bytes(self.moved)} moved from worker to worker{planned}")
        elif self.planned is not None:
            told.append(f"about {format_bytes(self.planned)} to be moved from worker to worker")
        text = ", ".join(told)
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
class SpreadFixpoint:
    """How a recursive stratum is spread. `by`: workers take stretches of the values of these
    columns; without, they own rows, and exchange what is new. `parted`: none has all that is read.

    `patient`: for how many seconds it is tried here first; as long as there is room where it is
    infinite, and `why` that is. `refusal`: why only one machine can do it.
    """

    workers: int
    by: str | None = None
    parted: bool = False
    patient: float = 0.0
    why: str = ""
    refusal: str | None = None

    def __str__(self) -> str:
        workers = _many(self.workers, "worker")
        if self.refusal is not None:
            return f"here, and not over {workers}: {self.refusal}"
        if self.by is not None:
            told = f"over {workers}, each of which takes stretches of the values of {self.by}"
        else:
            told = f"over {workers}, which own the rows by hash, and exchange what is new in rounds"
        if self.parted:
            told += "; none has all that is read"
        if self.patient == inf:
            return f"here, as long as there is room ({self.why}); then {told}"
        return f"{told}, if it takes more than {self.patient:g} s here" if self.patient else told

    def facts(self) -> tuple[tuple[str, str | int | None], ...]:
        """The same, to be looked up."""
        way = "values" if self.by is not None else "rows"
        first = "as long as there is room" if self.patient == inf else f"{self.patient:g} s"
        return (
            ("spread", way if self.refusal is None else None),
            ("workers", self.workers),
            ("here first", None if self.refusal is not None or not self.patient else first),
            ("reason", self.refusal or self.why or None),
        )


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
