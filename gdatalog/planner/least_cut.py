"""A least cut between two nodes of a graph, by augmenting shortest paths."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from itertools import pairwise

SMALL = 1e-12  # capacities that count as none


class FlowGraph:
    """A graph with capacities; nodes are any values."""

    source: Hashable = "source"
    sink: Hashable = "sink"

    def __init__(self) -> None:
        self._left: dict[Hashable, dict[Hashable, float]] = {self.source: {}, self.sink: {}}

    def edge(self, start: Hashable, end: Hashable, capacity: float) -> None:
        """Adds an edge, whose capacity may be infinite; several between the same nodes add up."""
        if start == end:
            return
        there = self._left.setdefault(start, {})
        there[end] = there.get(end, 0.0) + capacity
        self._left.setdefault(end, {}).setdefault(start, 0.0)

    def least_cut(self) -> tuple[float, set[Hashable]]:
        """The capacity of a least cut, and the nodes on the sink's side: as few as possible.

        >>> graph = FlowGraph()
        >>> graph.edge("source", "a", 3.0), graph.edge("a", "sink", 2.0)
        (None, None)
        >>> graph.least_cut()
        (2.0, {'sink'})
        """
        flow = 0.0
        while path := self._path():
            pairs = [*pairwise(path)]
            least = min(self._left[start][end] for start, end in pairs)
            for start, end in pairs:
                self._left[start][end] -= least
                self._left[end][start] += least
            flow += least
        beyond, todo = {self.sink}, [self.sink]
        while todo:
            end = todo.pop()
            for start in self._left[end]:
                if start not in beyond and self._left[start][end] > SMALL:
                    beyond.add(start)
                    todo.append(start)
        return flow, beyond

    def _path(self) -> list[Hashable]:
        """A shortest path with room from the source to the sink; empty if there is none."""
        came: dict[Hashable, Hashable] = {self.source: self.source}
        todo = deque([self.source])
        while todo:
            node = todo.popleft()
            for end, room in self._left[node].items():
                if room > SMALL and end not in came:
                    came[end] = node
                    if end == self.sink:
                        path = [end]
                        while path[-1] != self.source:
                            path.append(came[path[-1]])
                        return path[::-1]
                    todo.append(end)
        return []
