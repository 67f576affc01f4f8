"""What a run of the benchmarks is: how much of them, within what time, with data kept where."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from benchmarks.columns import Columns, write_columns
from benchmarks.graphs import Graph, graph
from benchmarks.peers import installed, package_of
from benchmarks.race import Race
from benchmarks.records import CAP, Case
from benchmarks.remembered import Remembered
from benchmarks.worker import Side

SPEED_GRAPHS = ("email-Enron", "ego-Twitter", "cnr-2000", "ogbl-ddi")


@dataclass(slots=True)
class Setting:
    """`small`: everything on tiny data, to see that it runs; its figures mean nothing."""

    folder: Path  # where data is kept while the benchmarks run
    known: Remembered
    full: bool = False
    small: bool = False
    minutes: float | None = None
    only: str = ""  # part of the name of what is run
    huge: bool = False  # random graphs up to 100 million edges
    left_out: list[str] = field(default_factory=list)
    _began: float = field(default_factory=perf_counter)
    _graphs: dict[str, Graph] = field(default_factory=dict)

    @property
    def cap(self) -> float:
        return 5.0 if self.small else CAP

    def graph(self, name: str) -> Graph:
        name = "ca-GrQc" if self.small else name
        if name not in self._graphs:
            self._graphs[name] = graph(name)
        return self._graphs[name]

    def graphs(self) -> list[str]:
        """The graphs of the speed table."""
        return list(SPEED_GRAPHS[:1] if self.small else SPEED_GRAPHS)

    def stored(self, name: str, make: Callable[[], Columns]) -> Path:
        """The folder of a data set, which is made the first time."""
        folder = self.folder / name.replace("/", "_").replace(" ", "_")
        if not folder.exists():
            write_columns(folder, make())
        return folder

    def graph_data(self, graph: Graph) -> Path:
        return self.stored(graph.name, graph.columns)

    def race(
        self,
        suite: str,
        what: str,
        data: Path,
        sides: Sequence[Side],
        expected: object = None,
        notes: tuple[str, ...] = (),
        timed_compiling: bool = True,
        afresh: bool = False,
    ) -> Case:
        """Runs the sides whose packages are installed.

        `timed_compiling`: each of our rules is compiled anew, to see how long that takes.
        `afresh`: indexes are part of the time, as they are made anew for each answer.
        """
        there = installed()
        able = [side for side in sides if package_of(side) is None or package_of(side) in there]
        known = Remembered(None) if self.small else self.known
        code = self.folder / "code"
        code.mkdir(mode=0o700, exist_ok=True)
        race = Race(Case(suite, what, []), data, known, self.cap, code)
        case = race.run(able, expected, timed_compiling, afresh)
        missing = [side.name for side in sides if side not in able]
        if missing:
            notes = (*notes, f"not installed: {', '.join(missing)}")
        case.notes = notes
        return case

    def wait(self, what: str, side: Side) -> float:
        """The most seconds that a slow peer may take: none where it is remembered."""
        return self.cap if self.known.of(what, side) is None else 0.0

    def wants(self, what: str, seconds: float) -> bool:
        """Whether to run this: there is time for so many seconds more, and it was asked for."""
        if self.only not in what:
            return False
        if self.minutes is None:
            return True
        if perf_counter() - self._began + seconds <= 60 * self.minutes:
            return True
        self.left_out.append(what)
        return False
