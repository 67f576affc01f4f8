"""What calls of one join have in common, as workers know it, and what each gives back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from gdatalog.cluster.rows.shuffle import PartSize
from gdatalog.cluster.rows.texts import FewTexts, NewTexts
from gdatalog.engine.session.knobs import Knobs
from gdatalog.errors import Caution, MemoryLimitError
from gdatalog.executors.gather import Gathering
from gdatalog.executors.levelwise import StepCounts
from gdatalog.plan.cells import Cell, bounded
from gdatalog.plan.nodes import RulePlan
from gdatalog.plan.tuning import Tuning
from gdatalog.records import dataclass, field, replace
from gdatalog.storage.rows import Columns, concatenate
from gdatalog.values import Value

SMALL = 1 << 16  # bytes that a call gives, up to which they are sent at once

Mode = Literal["set", "distinct", "bag"]


@dataclass(frozen=True, slots=True)
class JoinTask:
    """What all parts of a join's work have in common: join `number` of a rule.

    `mode`: its rows as a set; rows that need not be compared, for no two bindings give the same;
    or what they come to, group by group. `known`: how many texts the table has that was sent, or
    would have been: instead there may be a `few`. `limit`: rows that are enough. `counted`: for a
    profile. `device`: that of a database: "cpu", or "auto", or "cuda".
    """

    plan: RulePlan
    number: int
    params: Mapping[str, Value]
    memory: int
    knobs: Knobs
    mode: Mode = "set"
    known: int = 1 << 62
    few: FewTexts | None = None
    limit: int | None = None
    counted: bool = False
    chunk: int | None = None
    device: str = "cpu"
    tuning: Tuning = Tuning()
    bounded: dict[tuple[str, ...], RulePlan] = field(default_factory=dict)  # on a worker

    def plan_of(self, cell: Cell) -> RulePlan:
        """The plan within cells: one for all that bound the same variables."""
        names = tuple(cell.stretches)
        found = self.bounded.get(names)
        if found is None:
            joins = list(self.plan.joins)
            joins[self.number] = bounded(joins[self.number], names)
            found = self.bounded[names] = replace(self.plan, joins=tuple(joins))
        return found


@dataclass(slots=True)
class CellResult:
    """What a call gives of its cells: of the first `cells` of them. The next one may have been
    too `hard`: `error` says if it did not fit into memory. Where cells are claimed, they are those
    that it has `taken`, by their numbers; whether that was because there are no more: `out`.

    `given`: rows that the joins gave, equal ones included. `seen`: what happened at the steps, by
    their place among all steps of the join. `left`: what is told of rows or groups that stay
    where they were made, in what is `kept`. `cuts`: for each variable a key that cuts the hard
    cell, and how many rows that tells apart. `moved`: bytes that came from other workers.
    """

    cells: int = 0
    taken: tuple[int, ...] = ()
    out: bool = False
    hard: bool = False
    error: MemoryLimitError | None = None
    blocks: list[Columns] = field(default_factory=list)
    count: int = 0
    gathering: Gathering | None = None
    given: int = 0
    seconds: float = 0.0
    compiling: float = 0.0
    peak: int = 0
    executor: Any = None  # the last choice
    gpu: bool = False  # whether a GPU did it
    cautions: dict[str, Caution] = field(default_factory=dict)
    anew: NewTexts = field(default_factory=NewTexts)
    seen: dict[int, StepCounts] = field(default_factory=dict)
    left: PartSize | None = None
    kept: Any = None
    cuts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    moved: int = 0

    def __sizeof__(self) -> int:
        held = sum(column.nbytes for block in self.blocks for column in block)
        return held + (0 if self.gathering is None else self.gathering.nbytes)

    def columns(self) -> Columns:
        """The rows."""
        return concatenate(self.blocks)

    def light(self) -> CellResult:
        """The same to be sent, without rows and groups if they are many: these stay. Those whose
        texts are told go with them."""
        gathering = self.gathering
        if gathering is not None:
            left = PartSize(gathering.groups, gathering.nbytes)
        else:
            held = sum(column.nbytes for block in self.blocks for column in block)
            left = PartSize(self.count, held)
        if left.nbytes <= SMALL or len(self.anew.codes):
            return self
        return replace(self, blocks=[], gathering=None, left=left)
