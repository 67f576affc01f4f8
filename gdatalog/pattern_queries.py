"""The methods of `Database` that count and find graph patterns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

if TYPE_CHECKING:
    import pandas as pd

    from gdatalog.patterns.pattern import Pattern
    from gdatalog.patterns.queries import Queried
    from gdatalog.progress import OnProgress
    from gdatalog.result import Result


class CountOptions(TypedDict, total=False):
    """The keyword arguments of `count`, for type checkers."""

    edges: str
    induced: bool
    labels: str
    directed: bool | None
    timeout: float | None
    on_progress: OnProgress | None


class PatternQueries:
    """The methods of `Database` for patterns."""

    @overload
    def count(self: Queried, pattern: Pattern | str, **options: Unpack[CountOptions]) -> int: ...

    @overload
    def count(
        self: Queried,
        pattern: Sequence[Pattern] | list[str] | list[Pattern | str],
        **options: Unpack[CountOptions],
    ) -> list[int]: ...

    def count(
        self: Queried,
        pattern: Any,
        *,
        edges: str = "E",
        induced: bool = False,
        labels: str = "L",
        directed: bool | None = None,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Any:
        """Count the occurrences of a pattern in a relation of edges, or of several patterns at
        once.

        `pattern` is one of `gdatalog.patterns`, or its name. Each occurrence counts once,
        regardless of the pattern's symmetries. `induced` counts only occurrences without other
        edges between their vertices. `labels` names the relation of vertices and labels. The edges
        of an undirected pattern may be stored in one direction or both; `directed` decides for
        patterns that leave it open.

        >>> import gdatalog as gd
        >>> from gdatalog import patterns
        >>> db = gd.connect()
        >>> db["E"] = [(1, 2), (2, 3), (3, 4), (4, 1), (1, 3)]
        >>> db.count(patterns.cycle(4)), db.count(patterns.cycle(4), induced=True)
        (1, 0)
        >>> db.count(["clique3", patterns.path(3)])
        [2, 8]
        """
        from gdatalog.patterns.queries import DataGraph, count_patterns

        several = isinstance(pattern, (list, tuple))
        graph = DataGraph(self, edges, labels, induced, directed)
        given = [graph.pattern(one) for one in (pattern if several else [pattern])]
        with self._session(on_progress, timeout):
            found = count_patterns(given, graph)
        return found if several else found[0]

    def match(
        self: Queried,
        pattern: Pattern | str,
        *,
        edges: str = "E",
        induced: bool = False,
        labels: str = "L",
        directed: bool | None = None,
        limit: int | None = None,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Result:
        """Return the occurrences of a pattern: a row of vertices for each, in any order.

        >>> import gdatalog as gd
        >>> from gdatalog import patterns
        >>> db = gd.connect()
        >>> db["E"] = [(1, 2), (2, 3), (1, 3), (3, 4)]
        >>> db.match(patterns.clique(3)).fetchall()
        [(1, 2, 3)]
        """
        from gdatalog.patterns.queries import DataGraph, match_pattern

        graph = DataGraph(self, edges, labels, induced, directed)
        with self._session(on_progress, timeout):
            return match_pattern(graph.pattern(pattern), graph, limit)

    def motifs(
        self: Queried,
        size: int,
        *,
        edges: str = "E",
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> dict[str, int]:
        """Count the induced occurrences of each connected graph of 3, 4 or 5 vertices.

        The graphs are named as graphlets: `patterns.graphlets(size)` shows them.

        >>> import gdatalog as gd
        >>> db = gd.connect()
        >>> db["E"] = [(1, 2), (2, 3), (1, 3), (3, 4)]
        >>> db.motifs(3)
        {'G1': 2, 'G2': 1}
        """
        from gdatalog.patterns.queries import DataGraph, count_motifs

        with self._session(on_progress, timeout):
            return count_motifs(size, DataGraph(self, edges))

    def orbits(
        self: Queried,
        size: int,
        *,
        edges: str = "E",
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> pd.DataFrame:
        """Count graphlet degrees: how often each vertex occurs in each orbit of the connected
        graphs of 2 to `size` (3, 4 or 5) vertices, as induced subgraphs.

        Orbits are numbered as in Przulj (2007): O0 is the degree, O3 counts triangles.

        >>> import gdatalog as gd
        >>> db = gd.connect()
        >>> db["E"] = [(1, 2), (2, 3), (1, 3), (3, 4)]
        >>> print(db.orbits(3).to_string(index=False))
         vertex  O0  O1  O2  O3
              1   2   1   0   1
              2   2   1   0   1
              3   3   0   2   1
              4   1   2   0   0
        """
        from gdatalog.patterns.queries import DataGraph, count_orbits

        with self._session(on_progress, timeout):
            return count_orbits(size, DataGraph(self, edges))

    def frequent(
        self: Queried,
        k_edges: int,
        support: int,
        *,
        edges: str = "E",
        labels: str | None = "L",
        measure: Literal["mni", "instances"] = "mni",
        directed: bool = False,
        max_rows: int | None = None,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> pd.DataFrame:
        """Find the frequent patterns of up to `k_edges` edges, with labels.

        `labels` names the relation of vertices and labels; None: vertices have none. `measure`
        defines the support. "mni": the smallest number of distinct vertices in one position of the
        pattern. "instances": the number of occurrences, as in `count`. More patterns than
        `max_rows` raise a `RowLimitError`.

        >>> import gdatalog as gd
        >>> db = gd.connect()
        >>> db["E"] = [(1, 2), (2, 3), (3, 4), (4, 5)]
        >>> db["L"] = [(1, "x"), (2, "y"), (3, "x"), (4, "y"), (5, "x")]
        >>> print(db.frequent(2, 2).drop(columns="pattern").to_string(index=False))
         edges  support           drawing
             1        2       (a:x)-(b:y)
             2        2 (b:x)-(a:y)-(c:x)
        """
        from gdatalog.patterns.queries import DataGraph, frequent_patterns

        graph = DataGraph(self, edges, labels, directed=directed)
        with self._session(on_progress, timeout):
            return frequent_patterns(k_edges, support, measure, graph, max_rows)
