"""Queries for patterns: counts, occurrences, and frequent patterns.

Frequent patterns of a labelled graph are found by a program that grows shapes edge by edge. Shapes
without labels are few, and known beforehand. Each has rules in which labels are columns:

- Candidates are the label tuples for which every part with one edge less is frequent: a join of
  the tuples found for these parts. Comparisons of labels keep one of several symmetric tuples.
- MNI ("minimum node image") counts, for each position of the shape, the vertices that are there in
  some embedding: all vertices with the label, minus those without an embedding. The search for a
  vertex stops at its first embedding. Tuples below the support are dropped at once.
- Instances are counted embeddings. A larger shape may have more of them, so the next size only
  leaves out tuples without any.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from gdatalog.cancellation import current_watch
from gdatalog.errors import EvaluationError, RowLimitError, UsageError, check_rows
from gdatalog.patterns.orbits import EMBEDDED, ROOTLESS, TOTALS, copies, induced, orbits, rules
from gdatalog.patterns.pattern import (
    NAMES,
    Pattern,
    Shape,
    drawn,
    grown,
    parts,
    restrictions,
    turns,
)
from gdatalog.patterns.suites import graphlets, named
from gdatalog.records import dataclass, replace

if TYPE_CHECKING:
    import pandas as pd

    from gdatalog.progress import OnProgress
    from gdatalog.result import Result


class Queried(Protocol):
    """The methods of a database that patterns use."""

    def _session(
        self, on_progress: OnProgress | None = None, timeout: float | None = None
    ) -> AbstractContextManager[Any]: ...
    def query(self, text: str, *, limit: int | None = None) -> Result: ...
    def __getitem__(self, name: str) -> Result: ...
    def __iter__(self) -> Iterator[str]: ...
    def __contains__(self, name: object) -> bool: ...


@dataclass(frozen=True, slots=True)
class DataGraph:
    """The graph to search: the names of a database's relations of edges, and of vertices and
    labels.

    `induced`: occurrences have no edges between their vertices except the pattern's. `directed`:
    overrides the patterns' own setting.
    """

    db: Queried
    edges: str = "E"
    labels: str | None = None
    induced: bool = False
    directed: bool | None = None

    def pattern(self, given: Pattern | str) -> Pattern:
        """The pattern, or the pattern of that name, with this graph's direction."""
        found = given if isinstance(given, Pattern) else named(given)
        if self.directed is None or self.directed == found.directed:
            return found
        return replace(found, directed=self.directed)

    def unused(self, name: str) -> str:
        """A prefix that no relation's name has."""
        while any(known.startswith(name) for known in (*self.db, self.edges, self.labels or "")):
            name += "_"
        return name


SIZES = 3, 4, 5  # of motifs
MOST_EDGES = 7  # of frequent patterns: 8 edges need thousands of rules


def count_patterns(patterns: Sequence[Pattern], graph: DataGraph) -> list[int]:
    """The number of occurrences of each pattern. One query counts all of them, and shares
    statistics and indexes."""
    if not patterns:
        return []
    names, rules = _edges_of(patterns, graph)
    head = graph.unused("counts")
    for at, (pattern, name) in enumerate(zip(patterns, names, strict=True)):
        rules.append(
            pattern.count_rule(name, graph.labels or "", graph.induced, head=f"{head}{at}")
        )
    if len(patterns) > 1:
        rules += [f"{head}({at}, c) <- {head}{at}(c)." for at in range(len(patterns))]
        rules.append(f"?- {head}(pattern, c).")
    try:
        rows = graph.db.query("\n".join(rules)).fetchall()
        found = {row[0] if len(patterns) > 1 else 0: row[-1] for row in rows}
    except EvaluationError as error:
        exact = getattr(error, "exact", None)  # beyond 64 bits
        if exact is None:
            raise
        if len(patterns) == 1:
            return [exact // patterns[0].automorphisms]
        return [count_patterns([each], graph)[0] for each in patterns]
    return [found[at] // pattern.automorphisms for at, pattern in enumerate(patterns)]


def match_pattern(pattern: Pattern, graph: DataGraph, limit: int | None) -> Result:
    """Each occurrence once, as a row of its vertices."""
    (name,), rules = _edges_of([pattern], graph)
    head = graph.unused("matches")
    rules.append(pattern.rule(name, graph.labels or "", graph.induced, head))
    return graph.db.query("\n".join(rules), limit=limit)


def count_motifs(size: int, graph: DataGraph) -> dict[str, int]:
    """The number of induced subgraphs that are isomorphic to each connected graph of `size`
    vertices.

    Computed from counts of embeddings, or of homomorphisms if these are faster.
    """
    if size not in SIZES:
        raise UsageError(f"motifs have 3, 4 or 5 vertices, not {size!r}")
    every = [number for number in TOTALS if orbits()[number].size <= size]
    embedded: Collection[int] = EMBEDDED
    counts = _totals(every, graph) if size == SIZES[-1] and _fits(size, graph) else None
    if counts is None:  # few vertices, or beyond 64 bits
        every = [number for number in every if orbits()[number].size == size]
        patterns = [orbits()[number].pattern for number in every]
        found = count_patterns(patterns, graph)
        counts = {
            number: count * pattern.automorphisms
            for number, pattern, count in zip(every, patterns, found, strict=True)
        }
        embedded = every
    told = copies(counts, embedded)
    return {pattern.name: told[pattern.name] for pattern in graphlets(size)}


def _totals(numbers: Sequence[int], graph: DataGraph) -> dict[int, int] | None:
    """For each orbit the number of homomorphisms of its graph, or of embeddings; None beyond 64
    bits."""
    name, text = _simple(graph)
    head = graph.unused("motifs")
    mapped = [number for number in numbers if number not in (*EMBEDDED, *ROOTLESS)]
    text += rules(name, head, mapped)
    for number in numbers:
        pattern = orbits()[number].pattern
        if number in EMBEDDED:
            text += pattern.count_rule(name, head=f"{head}{number}") + "\n"
        elif number in ROOTLESS:
            body = ", ".join(f"{name}(_{u}, _{v})" for u, v in pattern.edges)
            text += f"{head}{number}(count()) <- {body}.\n"
        else:
            text += f"{head}{number}(sum(n)) <- {head}h{number}(_, n).\n"
        text += f"{head}({number}, n) <- {head}{number}(n).\n"
    try:
        return dict(graph.db.query(f"{text}?- {head}(orbit, count).").fetchall())
    except EvaluationError as error:
        if "64 bits" not in str(error):
            raise
    return None


def count_orbits(size: int, graph: DataGraph) -> pd.DataFrame:
    """The graphlet degrees of each vertex: how often it is in each orbit of the connected induced
    subgraphs of up to `size` vertices."""
    if size not in SIZES:
        raise UsageError(f"orbits are of graphs of 3, 4 or 5 vertices, not {size!r}")
    if not _fits(size, graph):
        raise EvaluationError(
            "graphlet degrees may not fit into 64 bits: a vertex has too many edges"
        )
    every = [orbit.number for orbit in orbits() if orbit.size <= size]
    name, text = _simple(graph)
    head = graph.unused("orbits")
    text += rules(name, head, every)
    text += "".join(f"{head}({number}, v, n) <- {head}h{number}(v, n).\n" for number in every)
    rows = graph.db.query(f"{text}?- {head}(orbit, vertex, count).").df()
    vertices, places = np.unique(rows["vertex"].to_numpy(), return_inverse=True)
    maps = np.zeros((len(every), len(vertices)), dtype=np.int64)
    maps[rows["orbit"].to_numpy(), places] = rows["count"].to_numpy()
    found = induced(every, maps.__getitem__)
    import pandas as pd

    return pd.DataFrame({"vertex": vertices, **{f"O{number}": found[number] for number in every}})


def frequent_patterns(
    k_edges: int, support: int, measure: Measure, graph: DataGraph, max_rows: int | None
) -> pd.DataFrame:
    """A row for each frequent pattern of up to `k_edges` edges, sorted by number of edges."""
    if not (isinstance(k_edges, Integral) and 1 <= k_edges <= MOST_EDGES):
        raise UsageError(f"frequent patterns have 1 to {MOST_EDGES} edges, not {k_edges!r}")
    if not (isinstance(support, Integral) and 1 <= support < 1 << 63):
        raise UsageError(f"the support is a whole number, 1 at least, not {support!r}")
    k_edges, support = int(k_edges), int(support)
    if measure not in ("mni", "instances"):
        raise UsageError(f'the measure is "mni" or "instances", not {measure!r}')
    check_rows("max_rows", max_rows)
    labels, directed = graph.labels, bool(graph.directed)
    if labels is not None:
        _check_labels(graph)
    edge = grown(1, directed)[0].pattern((), directed)
    (name,), rules = _edges_of([edge], graph)
    head = graph.unused("frequent")
    with current_watch().work("planning", "frequent patterns"):
        rules.append(frequent_rules(k_edges, support, measure, name, labels, directed, head))
    found = graph.db.query("\n".join(rules))
    shapes = [shape for size in range(1, k_edges + 1) for shape in grown(size, directed)]
    groups = {at: shape.automorphisms() for at, shape in enumerate(shapes)}
    rows = []
    for at, *filled, count in found.fetchall():
        told = tuple(filled[: shapes[at].size])
        images = [tuple(told[place] for place in mapping) for mapping in groups[at]]
        if told != min(images):
            continue  # a duplicate: the same pattern in another order of its vertices
        if measure == "instances":  # the count is of embeddings so far
            count //= images.count(told)
        if count >= support:
            if len(rows) == max_rows:
                message = f"there are more frequent patterns than max_rows={max_rows:,} allows"
                raise RowLimitError(message, hint="raise max_rows, or the support")
            pattern = shapes[at].pattern(() if labels is None else told, directed)
            rows.append((pattern, len(pattern.edges), count, drawn(pattern)))
    rows.sort(key=lambda row: (row[1], -row[2], row[3]))
    import pandas as pd

    return pd.DataFrame(rows, columns=["pattern", "edges", "support", "drawing"])


def _check_labels(graph: DataGraph, told: Sequence[object] = ()) -> None:
    """Checks the relation of labels, and the labels of patterns."""
    name = graph.labels or ""
    if name not in graph.db:
        hint = f"load it: db[{name!r}] = ...; or labels=None for vertices without labels"
        raise UsageError(f"there is no relation {name} of vertices and labels", hint=hint)
    vertices, given = (graph.db[each]._relation.types for each in (graph.edges, name))
    if len(given) != 2 or given[0] != vertices[0] or given[1] not in ("int", "symbol"):
        raise UsageError(
            f"{name} is no relation of vertices and labels: its columns are {', '.join(given)}",
            hint=f"a vertex ({vertices[0]}), and its label: an int or a symbol; labels=None: none",
        )
    texts = given[1] == "symbol"
    wrong = next((label for label in told if isinstance(label, str) != texts), None)
    if wrong is not None:
        kinds = "texts" if texts else "ints"
        message = f"a pattern has the label {wrong!r}, and the labels of {name} are {kinds}"
        raise UsageError(message)


def _edges_of(patterns: Sequence[Pattern], graph: DataGraph) -> tuple[list[str], list[str]]:
    """The relation of edges for each pattern, and the rules that derive it."""
    edges = graph.edges
    labelled = next((pattern for pattern in patterns if pattern.labels), None)
    if labelled is not None and graph.labels not in graph.db:
        raise UsageError(
            f"the pattern {labelled.name} has labels, but there is no relation {graph.labels}",
            hint=f"load vertices and their labels: db[{graph.labels!r}] = ..., --labels FILE in "
            "the shell; or name their relation: labels=...",
        )
    if labelled is not None:
        _check_labels(graph, [label for pattern in patterns for _, label in pattern.labels])
    if not all(pattern.directed for pattern in patterns) and not _is_both_ways(graph):
        name = graph.unused("both_ways")
        rules = [f"{name}(x, y) <- {edges}(x, y) ; {edges}(y, x)."]
        return [edges if pattern.directed else name for pattern in patterns], rules
    return [edges] * len(patterns), []


def _simple(graph: DataGraph) -> tuple[str, str]:
    """A relation with each edge in both directions and without loops, and the rules that derive
    it."""
    edges = graph.edges
    if _is_both_ways(graph):
        found = graph.db[edges]._relation.statistics.graph
        if found is None or not found.loops:
            return edges, ""
    name = graph.unused("simple")
    return name, f"{name}(x, y) <- {edges}(x, y), x != y ; {edges}(y, x), x != y.\n"


def _fits(size: int, graph: DataGraph) -> bool:
    """Whether any graph of `size` vertices has less than 2^63 homomorphisms for each root."""
    columns = (0,) if _is_both_ways(graph) else (0, 1)
    degrees = graph.db[graph.edges]._relation.statistics.degrees
    most = sum(int(degrees(column).most) for column in columns)
    return bool(most ** (size - 1) < 1 << 63)


def _is_both_ways(graph: DataGraph) -> bool:
    """Whether the relation of edges has each edge in both directions."""
    relation = graph.db[graph.edges]._relation
    if len(relation.types) != 2 or relation.types[0] != relation.types[1]:
        told = ", ".join(relation.types)
        message = f"{graph.edges} is no relation of edges: its columns are {told}"
        raise UsageError(message, hint="edges have two columns of one type")
    found = relation.statistics.graph
    return bool(found is None or found.symmetric)


# -------------------------------------------------------------------------------- frequent patterns


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
