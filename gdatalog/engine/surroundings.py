"""What evaluating a stratum needs from outside of it, and what it tells of its rounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gdatalog.cpu_ops.evaluate import Scope
from gdatalog.engine.device import CPU, Device
from gdatalog.engine.knobs import Knobs
from gdatalog.engine.prepared import Plans
from gdatalog.engine.run import RuleRun
from gdatalog.executors.limits import Limits
from gdatalog.planner.checked import Schema, Stratum
from gdatalog.storage.relation import Relation
from gdatalog.values import TypeName


@dataclass(slots=True)
class Followed:
    """What a rule did in a round, with the new rows of one of its atoms.

    `tried`: rows that came out of its loops, `rows`: those that were left once equal ones had become
    one; of loops, those that are new to the relation. What came breadth-first and is new only all
    rules of a relation together can tell.
    """

    relation: str
    follows: str
    given: int
    tried: int = 0
    rows: int = 0
    seconds: float = 0.0
    executor: str = ""


@dataclass(slots=True)
class Round:
    """What a round of a fixpoint did, for the progress line and for errors.

    `nbytes`: what the relations take, with what tells their new rows.
    """

    number: int
    new: Mapping[str, int]
    total: Mapping[str, int]
    seconds: float = 0.0
    nbytes: int = 0
    rules: Sequence[Followed] = ()


@dataclass(slots=True)
class Surroundings:
    """What evaluating a stratum needs from outside of it."""

    schemas: Mapping[str, Schema]
    param_types: Mapping[str, TypeName]
    relation: Callable[[str], Relation]  # of the strata below
    scope: Scope
    limits: Limits
    memory: int
    limit_sizes: Mapping[str, int] = field(default_factory=dict)  # .limitsize
    on_round: Callable[[Stratum, Round], None] = lambda stratum, round_: None
    reports: list[RuleRun] | None = None
    force_chunk: int | None = None
    knobs: Knobs = Knobs()
    plans: Plans = field(default_factory=Plans)
    device: Device = CPU
