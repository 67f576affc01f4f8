"""How a rule's work is spread over the workers of a cluster: before it is done, or after."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gdatalog.progress import format_bytes


@dataclass(frozen=True, slots=True)
class Spread:
    """`replicated`: each worker has the relations whole. `partitioned`: none has; the keys of
    variables that are joined through the same columns fall into `classes`, cells are made of these,
    and rows are moved to the workers that need them. `in place`: each has a part of the rows of one
    relation, which `stays` where it is.

    `planned`: the bytes that are expected to go from worker to worker; `moved`: those that went.
    `calls`: what workers were asked for. `patient`: it is done here if that is soon done.
    """

    way: Literal["replicated", "partitioned", "in place"]
    workers: int
    cells: int | None = None
    classes: tuple[int, ...] = ()
    planned: int | None = None
    moved: int | None = None
    calls: int | None = None
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
            told.append(_many(self.calls, "call"))
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
            ("classes", ", ".join(map(str, self.classes)) or None),
            ("bytes planned to be moved", self.planned),
            ("bytes moved between workers", self.moved),
        )


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
