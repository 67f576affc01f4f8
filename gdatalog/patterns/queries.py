"""Queries for patterns: counts, occurrences, motifs and orbits."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from numbers import Integral
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from gdatalog.cancellation import current_watch
from gdatalog.errors import EvaluationError, RowLimitError, UsageError, check_rows
from gdatalog.patterns.drawn import drawn
from gdatalog.patterns.frequent import Measure, frequent_rules
from gdatalog.patterns.grown import grown
from gdatalog.patterns.orbits import EMBEDDED, ROOTLESS, TOTALS, copies, induced, orbits, rules
from gdatalog.patterns.pattern import Pattern, pattern_of
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
    edge = pattern_of(grown(1, directed)[0], (), directed)
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
            pattern = pattern_of(shapes[at], () if labels is None else told, directed)
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
