"""What a run of the GPU's benchmarks is: on which device, how much of them, within what time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, TypeVar

from benchmarks.gpu.clocks import Clocked
from benchmarks.gpu.forced import Ours, device_of
from benchmarks.gpu.made import Edges, Oriented, oriented, rmat, uniform, wu
from benchmarks.graphs import Graph
from benchmarks.graphs import closure as real_closure
from benchmarks.graphs import graph as real_graph
from gdatalog.gpu_ops.cupy_driver import CupyDriver

T = TypeVar("T")


@dataclass(slots=True)
class Setting:
    """`small`: everything on tiny data, to see that it runs; its figures mean nothing.

    Data stays on the device until `forget`.
    """

    driver: Clocked
    fresh: Callable[[], CupyDriver]  # another driver, which has compiled nothing
    small: bool = False
    minutes: float | None = None
    only: str = ""
    rows: int = 10_000_000  # of the facts of large programs
    left_out: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)  # why something could not be measured
    budget: float = 0.25  # seconds of runs for each figure
    cap: float = 20.0  # seconds after which a run is stopped
    _began: float = field(default_factory=perf_counter)
    _until: float = float("inf")  # seconds since then: the suite at hand has to be over
    _edges: dict[str, Edges] = field(default_factory=dict)
    _oriented: dict[str, Oriented] = field(default_factory=dict)
    _ours: dict[tuple[str, bool], Ours] = field(default_factory=dict)

    def begin(self, share: float) -> None:
        """A suite begins, which may go on until a share of all the time is over."""
        if self.minutes is not None:
            self._until = 60 * self.minutes * share

    def wants(self, what: str, seconds: float) -> bool:
        """Whether to run this: there is time for so many seconds more, and it was asked for."""
        if self.only not in what:
            return False
        if self.small or perf_counter() - self._began + seconds <= self._until:
            return True
        self.left_out.append(what)
        return False

    def few(self, things: Sequence[T], number: int = 1) -> Sequence[T]:
        """All of them, or the first of them where it is only to be seen that all runs."""
        return things[:number] if self.small else things

    # --------------------------------------------------------------------------------- data

    def graph(self, name: str) -> Edges:
        """A real graph by its name."""
        if self.small:
            return self._kept("", lambda: Edges("small", *uniform(self.xp, 40, 250, seed=1)))
        return self._kept(name, lambda: _of(real_graph(name)))

    def closure(self, name: str) -> Edges:
        """A graph of directed edges, for recursion."""
        if self.small:
            u, v = uniform(self.xp, 40, 90, seed=2)
            return self._kept("directed", lambda: Edges("small, directed", u, v, rises=True))

        def made() -> Edges:
            graph = real_closure(name)
            return Edges(f"{graph.name}, directed", graph.u, graph.v, graph.real, rises=True)

        return self._kept(f"{name} directed", made)

    def wu(self, edges: int, clique: int) -> Edges:
        edges = min(edges, 1_000) if self.small else edges
        return self._kept(f"wu {edges} {clique}", lambda: wu(self.xp, edges, clique))

    def rmat(self, scale: int, edges: int) -> Edges:
        scale, edges = (7, 500) if self.small else (scale, edges)
        return self._kept(f"rmat {scale} {edges}", lambda: rmat(self.xp, scale, edges))

    def _kept(self, key: str, make: Callable[[], Edges]) -> Edges:
        if key not in self._edges:
            self._edges[key] = make()
        return self._edges[key]

    def oriented(self, edges: Edges) -> Oriented:
        if edges.name not in self._oriented:
            self._oriented[edges.name] = oriented(self.xp, edges)
        return self._oriented[edges.name]

    def ours(self, edges: Edges, gpu: bool) -> Ours:
        """A database that holds a graph, whose joins run on the GPU or on the CPU."""
        key = edges.name, gpu
        if key not in self._ours:
            device = device_of(self.driver) if gpu else None
            self._ours[key] = Ours(edges, device, self.xp)
        return self._ours[key]

    def forget(self) -> None:
        """Lets go of all data."""
        for ours in self._ours.values():
            ours.close()
        self._ours, self._oriented, self._edges = {}, {}, {}

    @property
    def xp(self) -> Any:
        return self.driver.xp


def _of(graph: Graph) -> Edges:
    return Edges(graph.name, graph.u, graph.v, graph.real)
