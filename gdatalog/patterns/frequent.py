"""Frequent patterns of a labelled graph: a program that grows shapes edge by edge.

Shapes without labels are few, and known beforehand. Each has rules in which labels are columns:

- Candidates are the label tuples for which every part with one edge less is frequent: a join of
  the tuples found for these parts. Comparisons of labels keep one of several symmetric tuples.
- MNI ("minimum node image") counts, for each position of the shape, the vertices that are there in
  some embedding: all vertices with the label, minus those without an embedding. The search for a
  vertex stops at its first embedding. Tuples below the support are dropped at once.
- Instances are counted embeddings. A larger shape may have more of them, so the next size only
  leaves out tuples without any.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from gdatalog.cancellation import current_watch
from gdatalog.patterns.grown import grown, parts, turns
from gdatalog.patterns.pattern import NAMES
from gdatalog.patterns.shapes import Shape, restrictions
from gdatalog.records import dataclass

Measure = Literal["mni", "instances"]


def frequent_rules(
    k_edges: int,
    support: int,
    measure: Measure = "mni",
    edges: str = "E",
    labels: str | None = "L",
    directed: bool = False,
    head: str = "frequent",
) -> str:
    """The program that finds frequent patterns: its last rules derive (shape, labels, support).

    Tuples of smaller shapes are padded with their first label.

    >>> from gdatalog import patterns
    >>> print(patterns.frequent_rules(1, 100, "instances", head="f"))
    f_label(v, l) <- L(v, l).
    f_kept(l) <- f_label(_, l).
    f_to(u, l, v) <- E(u, v), u != v, f_label(v, l), f_kept(l).
    f0(la, lb) <- f_label(a, la), f_kept(la), f_to(a, lb, _), la <= lb.
    f0_n(la, lb, count()) <- f0(la, lb), f_label(a, la), f_to(a, lb, b), distinct(a, b).
    f(0, la, lb, n) <- f0_n(la, lb, n), n >= 100.
    """
    return "\n".join(_Program(support, measure, edges, labels, directed, head).rules(k_edges))


@dataclass(frozen=True, slots=True)
class _Program:
    """Relations of a shape have its number in their names: its candidates, positions and tuples."""

    support: int
    measure: Measure
    edges: str
    labels: str | None
    directed: bool
    head: str

    def rules(self, k_edges: int) -> Iterator[str]:
        yield from self._graph()
        enough = f", n >= {self.support}" if self.measure == "instances" else ""
        number, smaller = 0, tuple[Shape, ...]()
        width = k_edges + 1
        for size in range(1, k_edges + 1):
            here = grown(size, self.directed)
            before = number - len(smaller)
            for at, shape in enumerate(here, number):
                current_watch().poll()
                yield self._candidates(at, shape, smaller, before)
                yield from self._counted(at, shape)
                if size < k_edges:
                    yield from self._turned(at, shape)
                names = _labels(shape)
                filled = ", ".join([*names, *[names[0]] * (width - len(names))])
                found = ", ".join(names)
                yield f"{self.head}({at}, {filled}, n) <- {self.head}{at}_n({found}, n){enough}."
            number, smaller = number + len(here), here

    def _graph(self) -> Iterator[str]:
        """The labels that can be in a pattern, and each vertex's neighbours by label."""
        h = self.head
        if self.labels is None:
            yield f"{h}_label(v, 0) <- {self.edges}(v, _) ; {self.edges}(_, v)."
        else:
            yield f"{h}_label(v, l) <- {self.labels}(v, l)."
        if self.measure == "mni":
            yield f"{h}_many(l, count()) <- {h}_label(_, l)."
            yield f"{h}_kept(l) <- {h}_many(l, n), n >= {self.support}."
        else:
            yield f"{h}_kept(l) <- {h}_label(_, l)."
        kept = f"u != v, {h}_label(v, l), {h}_kept(l)"
        yield f"{h}_to(u, l, v) <- {self.edges}(u, v), {kept}."
        if self.directed:
            yield f"{h}_from(u, l, v) <- {self.edges}(v, u), {kept}."

    def _candidates(self, at: int, shape: Shape, smaller: Sequence[Shape], before: int) -> str:
        """The label tuples all of whose parts with one edge less were found."""
        h, names = self.head, _labels(shape)
        if len(shape.edges) == (1 if self.directed else 2):
            body = [self._label(0), f"{h}_kept(la)", f"{h}_to(a, lb, _)"]
        else:
            body = [
                f"{h}{before + number}_all({', '.join(names[place] for place in mapping)})"
                for number, mapping in parts(shape, smaller, self.directed)
            ]
        body += [f"{names[u]} <= {names[v]}" for u, v in restrictions(shape)]
        return f"{h}{at}({', '.join(names)}) <- {', '.join(body)}."

    def _counted(self, at: int, shape: Shape) -> Iterator[str]:
        """The candidates with their support."""
        h, found = f"{self.head}{at}", ", ".join(_labels(shape))
        if self.measure == "instances":
            body = f"{h}({found}), {self._label(0)}, {self._body(shape, 0)}"
            yield f"{h}_n({found}, count()) <- {body}."
            return
        last = f"{h}({found})"
        for place in range(shape.size):
            vertex = NAMES[place]
            here = f"{h}_{vertex if place < shape.size - 1 else 'n'}"
            without = f"count : {{{self._label(place)}, !({self._body(shape, place)})}}"
            least = f"min(k, n - {without})" if place else f"n - {without}"
            many = f"{self.head}_many(l{vertex}, n)"
            yield f"{here}({found}, m) <- {last}, {many}, m = {least}, m >= {self.support}."
            last = f"{here}({found}, k)"

    def _label(self, place: int) -> str:
        return f"{self.head}_label({NAMES[place]}, l{NAMES[place]})"

    def _turned(self, at: int, shape: Shape) -> Iterator[str]:
        """The tuples in all orders in which larger shapes may join them."""
        names = _labels(shape)
        last, found = f"{self.head}{at}_n", ", ".join([*names, "_"])
        steps = list(turns(shape)) or [[tuple(range(shape.size))]]
        for step, mappings in enumerate(steps, 1):
            head = f"{self.head}{at}_all{step if step < len(steps) else ''}"
            for mapping in mappings:
                yield f"{head}({', '.join(names[to] for to in mapping)}) <- {last}({found})."
            last, found = head, ", ".join(names)

    def _body(self, shape: Shape, root: int) -> str:
        """The rest of an embedding, along a tree from one vertex: neighbours by label."""
        h, seen = self.head, [root]
        atoms = []
        left = sorted(shape.edges)
        while edge := next((e for e in left if (e[0] in seen) != (e[1] in seen)), None):
            u, v = edge
            forth = u in seen
            near, far = (NAMES[u], NAMES[v]) if forth else (NAMES[v], NAMES[u])
            way = "from" if self.directed and not forth else "to"
            atoms.append(f"{h}_{way}({near}, l{far}, {far})")
            seen.append(v if forth else u)
            left = [e for e in left if e != edge and (self.directed or e != (v, u))]
        left = [e for e in left if self.directed or e[0] < e[1]]
        atoms += [f"{self.edges}({NAMES[u]}, {NAMES[v]})" for u, v in left]
        return ", ".join([*atoms, f"distinct({', '.join(NAMES[: shape.size])})"])


def _labels(shape: Shape) -> list[str]:
    """The variables of the vertices' labels."""
    return [f"l{name}" for name in NAMES[: shape.size]]
