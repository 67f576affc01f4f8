"""A pattern on one line, as graph query languages draw it: `(a:0)-(b:1)-(c:0), (b)-(d:2)`."""

from __future__ import annotations

from gdatalog.patterns.pattern import Pattern


def drawn(pattern: Pattern) -> str:
    """The pattern as walks along its edges, in which each edge occurs once.

    >>> from gdatalog import patterns
    >>> print(drawn(patterns.clique(3).labelled([0, 1, 1])))
    (a:0)-(b:1)-(c:1)-(a)
    """
    left, told = list(pattern.edges), dict(pattern.labels)
    shown: set[str] = set()

    def vertex(name: str) -> str:
        label = f":{told[name]}" if name in told and name not in shown else ""
        shown.add(name)
        return f"({name}{label})"

    walks = []
    while left:
        ends = {v: sum(v in edge for edge in left) for v in pattern.vertices}
        odd = [v for v in ends if ends[v] % 2 and (v in shown or not shown)]
        here = min(odd, key=ends.__getitem__, default=left[0][0])
        walk = vertex(here)
        while edge := next((edge for edge in left if here in edge), None):
            left.remove(edge)
            forth = edge[0] == here
            here = edge[1] if forth else edge[0]
            arrow = "-" if not pattern.directed else "->" if forth else "<-"
            walk += arrow + vertex(here)
        walks.append(walk)
    return ", ".join([*walks, *(vertex(v) for v in pattern.vertices if v not in shown)])
