"""Places the strata of a program on the CPU or on a device: all of them together.

A stratum takes some seconds here and some there, and a relation that is read on the other side is
copied, once. The cheapest placement is a least cut of a graph: strata on the side of its source run
on the CPU, those on the side of its sink on the device, and the edges between the sides are paid.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from math import inf

from gdatalog.planner.least_cut import FlowGraph
from gdatalog.records import dataclass, field
from gdatalog.settings import Thresholds

EACH = 4.0  # times the rows that loops look at for each further thread, to keep it busy


@dataclass(frozen=True, slots=True)
class Work:
    """What an operator is expected to do.

    `looked`: the rows that compiled loops look at; `arrays`: those of array operations; `new`: the
    rows that are told from known ones, apart from the loops; `indexed`: the values of indexes that
    are not built yet. `turns`: how often a rule has its turn; `launches`: how many a turn takes on
    a device. `everywhere`: the CPU and a device do it in the same way. `on_host`: the CPU runs it
    in any case.
    """

    looked: float
    arrays: float = 0.0
    new: float = 0.0
    indexed: float = 0.0
    turns: float = 1.0
    launches: float = 1.0
    everywhere: bool = False
    on_host: bool = False

    def on_cores(self, thresholds: Thresholds, threads: int) -> float:
        """Its seconds on the CPU."""
        used = max(1.0, min(float(threads), self.looked / (EACH * thresholds.loops_looked_each)))
        rows = self.looked / (thresholds.core_rows * used) + self.arrays / thresholds.array_rows
        rows += self.new / thresholds.core_new_rows + self.indexed / thresholds.core_indexed
        return self.turns * thresholds.core_turn + rows

    def on_device(self, thresholds: Thresholds) -> float:
        """Its seconds on a device."""
        if self.on_host:
            return inf
        rows = self.looked / thresholds.gpu_rows + self.arrays / thresholds.gpu_array_rows
        rows += self.new / thresholds.gpu_new_rows + self.indexed / thresholds.gpu_indexed
        turns = self.turns * self.launches * thresholds.gpu_launch
        return thresholds.gpu_rule + turns + rows


def sum_of(works: Sequence[Work]) -> Work:
    """The work of several rules, one after the other."""
    turns = sum([each.turns for each in works])
    return Work(
        sum([each.looked for each in works]),
        sum([each.arrays for each in works]),
        sum([each.new for each in works]),
        sum([each.indexed for each in works]),
        turns,
        sum([each.turns * each.launches for each in works]) / max(1.0, turns),
        everywhere=True,
    )


@dataclass(frozen=True, slots=True)
class PlaceableStratum:
    """A stratum with its seconds on the CPU and on the device, and the relations that it reads."""

    relations: tuple[str, ...]
    reads: Sequence[str]
    cpu: float
    device: float

    @property
    def seconds(self) -> tuple[float, float]:
        return self.cpu, self.device


@dataclass(slots=True, eq=False)
class PlacementDraft:
    """Strata to be placed, in order.

    `seconds`: what it takes to copy each relation. `here` and `there`: the relations that lie on
    the CPU's side and on the device already. `asked`: those that the CPU reads in the end. `least`:
    the seconds that the device must save.
    """

    strata: Sequence[PlaceableStratum]
    seconds: Mapping[str, float]
    here: Collection[str] = ()
    there: Collection[str] = ()
    asked: Collection[str] = ()
    least: float = 0.0
    on_device: set[tuple[str, ...]] = field(default_factory=set)  # the relations of strata


def might_pay(stratum: PlaceableStratum, copies: float) -> bool:
    """Whether a stratum is sooner done on the device if that spares all `copies` of what it reads
    and derives. Otherwise the CPU runs it, wherever others run."""
    return stratum.device < stratum.cpu + copies


def place_strata(draft: PlacementDraft) -> None:
    """Each stratum runs where the program takes the least time, copies of rows included.

    Without a gain of `least` seconds, all of them run on the CPU.
    """
    draft.on_device, graph, cpu = set(), FlowGraph(), FlowGraph.source
    hopeful = []
    readers: dict[str, list[Hashable]] = {name: [cpu] for name in draft.asked}
    for each in draft.strata:
        beside = sorted({*each.reads, *each.relations})
        pays = might_pay(each, sum([draft.seconds.get(name, 0.0) for name in beside]))
        hopeful += [each] if pays else []
        for name in each.reads:
            readers.setdefault(name, []).append(each.relations if pays else cpu)
    makers: dict[str, Hashable] = {n: each.relations for each in hopeful for n in each.relations}
    whole = 0.0  # seconds if the CPU runs all
    for each in hopeful:
        whole += each.cpu
        graph.edge(cpu, each.relations, each.device)
        graph.edge(each.relations, graph.sink, each.cpu)
    for name, some in readers.items():
        seconds, maker = draft.seconds.get(name, 0.0), makers.get(name, cpu)
        if name in draft.there:
            if name in draft.here:
                continue
            maker, whole = graph.sink, whole + seconds
        up, down = ("up", name), ("down", name)
        graph.edge(maker, up, seconds)
        graph.edge(down, maker, seconds)
        for reader in some:
            graph.edge(up, reader, inf)
            graph.edge(reader, down, inf)
    if hopeful:
        value, beyond = graph.least_cut()
        if whole - value > draft.least:
            draft.on_device = {each.relations for each in hopeful if each.relations in beyond}
