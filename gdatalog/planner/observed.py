"""What planning looks at: the questions that it asks about relations and parameters.

Planning depends on nothing else but its rule and settings. So a stored plan is the one that
planning again would give if all of its questions have the same answers as then. They are asked in
the same order, up to the first answer that differs, so that none is asked that planning would not
ask.

Statistics of many rows are estimated from some of them. Which ones depends on the order of the
rows, and that on threads. So such an answer counts as the same within a factor: planning again over
the same rows might as well have had the other. The number of rows is never estimated. Likewise, the
codes of texts are others in another process, and so are the walks along lists of them: such lists
count as the same if as many of them have each length.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, cast
from zlib import crc32

import numpy as np

from gdatalog.plan.join_plan import Version
from gdatalog.planner.statistics import Assumed, Bound, ColumnTest, RelationStatistics, Statistics
from gdatalog.storage.degrees import AdjacencyLists, Degrees
from gdatalog.storage.statistics import SAMPLE
from gdatalog.storage.table import Array
from gdatalog.values import Value

# A relation, the version of its rows, the statistic, and its arguments; or a parameter's name.
Question = tuple[Any, ...]
# A hash of what is exact in an answer, then what is estimated in it.
Answer = tuple[float, ...]
MOST_READ = 1 << 20  # entries of lists: more are not read just to compare them
LIKE = 1.5  # estimates that differ by at most this factor are alike
KIND, PARAMETER, EDGES = "kind", "$", "edges"
_PROPERTIES = frozenset({"rows", "rises", "balanced", "symmetric", "loopless"})
_ESTIMATED = frozenset({"size", "distinct", "degrees", "within"})
_BY_KEY = frozenset({"skew"})
_OF_GRAPHS = frozenset({"symmetric", "loops", "mirrored", "skew", "paths", "list_length"})


class Observed:
    """The questions of one planning, with what stands for their answers. `whole`: planning has
    looked at nothing else."""

    __slots__ = ("asked", "before", "statistics", "whole")

    def __init__(self) -> None:
        self.statistics: list[ObservedStatistics] = []
        self.asked: dict[Question, Answer] = {}
        self.before: Mapping[Question, Answer] = {}  # of what is planned around a part
        self.whole = True

    def note(self, question: Question, answer: object, estimated: bool = False) -> None:
        if question not in self.asked:
            known = self.before.get(question)
            self.asked[question] = _recorded(answer, estimated) if known is None else known

    def add(self, asked: Mapping[Question, Answer]) -> None:
        """Adds the questions of an earlier search whose result is used again."""
        for question, answer in asked.items():
            self.asked.setdefault(question, answer)

    @contextmanager
    def apart(self) -> Iterator[Observed]:
        """Within this context, the questions of a part of planning are also kept separately."""
        before, inner = self.asked, Observed()
        self.asked, self.before = inner.asked, before
        for each in self.statistics:
            each.forget()
        try:
            yield inner
        finally:
            self.asked, self.before = before, {}
            self.add(inner.asked)
            inner.whole = self.whole


def observing(sizes: Statistics, observed: Observed) -> Statistics:
    """The same statistics; what is asked of them is noted."""

    @cache
    def look(name: str, version: Version) -> RelationStatistics:
        size = sizes(name, version)
        observed.note((name, version, KIND), size)
        if isinstance(size, Assumed):
            return size
        found = ObservedStatistics(size, (name, version), observed)
        observed.statistics.append(found)
        return cast(RelationStatistics, found)

    return look


def same_answers(
    asked: Sequence[tuple[Question, Answer]], sizes: Statistics, values: Mapping[str, Value]
) -> bool:
    """Whether all questions have these answers now."""
    return all(_alike(_answer(question, sizes, values), then) for question, then in asked)


def _alike(now: Answer, then: Answer) -> bool:
    return (
        now[0] == then[0]
        and len(now) == len(then)
        and all(a <= b * LIKE and b <= a * LIKE for a, b in zip(now[1:], then[1:], strict=True))
    )


def _answer(question: Question, sizes: Statistics, values: Mapping[str, Value]) -> Answer:
    name, version, what, *args = question
    if version == PARAMETER:
        return _recorded(values.get(name))
    size = sizes(name, version)
    if what == KIND:
        return _recorded(size)
    if what in _PROPERTIES:
        return _recorded(getattr(size, what))
    if what == "graph":
        return _recorded(size.graph is not None)
    if what == EDGES:
        return _recorded(_edges(size))
    of = size.graph if what in _OF_GRAPHS else size
    found = getattr(of, what)
    found = found(*args) if callable(found) else found
    return _recorded(_without_codes(size, found), _estimates(size, what))


def _estimates(size: Any, what: str) -> bool:
    """Whether a statistic is estimated from some of the rows, or depends on the order of codes."""
    return (what in _ESTIMATED and size.rows > SAMPLE) or (what in _BY_KEY and size.codes)


def _without_codes(size: Any, answer: object) -> object:
    """What lists, or a set, have in common in all processes."""
    if isinstance(answer, AdjacencyLists) and size.codes:
        found: object = answer.picked.get("lengths")
        if found is None:
            found = answer.picked["lengths"] = _number(np.sort(answer.ends - answer.starts))
        return found
    return len(answer) if isinstance(answer, np.ndarray) and size.codes else answer


def _recorded(answer: object, estimated: bool = False) -> Answer:
    """What stands for an answer: the same in each process."""
    if type(answer) is int or type(answer) is bool:
        return (hash((type(answer) is bool, answer)),) if not estimated else (0, answer)
    if isinstance(answer, Assumed):
        known = answer.rows, answer.values, answer.arity, answer.balanced, answer.each is None
        return hash((*known, *sorted(answer.rises))), *(answer.each or ())
    if not estimated or answer is None:
        return (_number(answer),)
    if isinstance(answer, Degrees):
        values, rows, squares, *_ = answer.powers
        return 0, values, rows, squares / max(1.0, rows)
    return (0, *answer) if isinstance(answer, tuple) else (0, cast(float, answer))


def _edges(size: Any) -> object:
    """The rows of a binary relation; None if they are too many to compare, not on the host, or
    codes of texts."""
    left = None if size.codes else getattr(size.graph, "left", None)
    if left is None or len(left) > MOST_READ:
        return None
    return left, size.graph.right


def _number(answer: object) -> int:
    """A number that is the same in each process, and differs for answers that differ."""
    if answer is None:
        return 0
    if isinstance(answer, Degrees):
        return hash((answer.most, *answer.powers))
    if isinstance(answer, str):
        return crc32(answer.encode("utf-8", "surrogatepass"))
    if isinstance(answer, tuple):
        return hash((-1, *map(_number, answer)))
    if isinstance(answer, frozenset):
        return hash((-2, *sorted(map(_number, answer))))
    if isinstance(answer, AdjacencyLists):
        return _of_lists(answer)
    if isinstance(answer, (bool, int, float)):
        return hash((type(answer) is bool, answer))
    if isinstance(answer, np.ndarray):
        return hash((-3, *_of_arrays([answer])))
    return crc32(type(answer).__name__.encode())  # the kind of statistics


def _of_lists(lists: AdjacencyLists) -> int:
    """The number of lists, which keep it: many rules walk them."""
    found: int | None = lists.picked.get("number")
    if found is None:
        arrays = [lists.values, lists.starts, lists.ends, lists.children]
        found = lists.picked["number"] = hash((-4, *_of_arrays(arrays)))
    return found


def _of_arrays(arrays: Sequence[Array]) -> Iterator[int]:
    for array in arrays:
        yield len(array)
        yield crc32(np.ascontiguousarray(array).data)


class ObservedStatistics:
    """The statistics of a relation; what is asked of them is noted, and asked once."""

    def __init__(self, of: Any, key: tuple[str, Version], observed: Observed) -> None:
        self._of = of
        self._key = key
        self._observed = observed
        self._known: dict[Question, Any] = {}
        self._earlier: dict[Question, Any] = {}  # answers whose questions are noted again
        self.assumed = False
        self.codes = bool(of.codes)
        self._many = of.rows > SAMPLE

    def forget(self) -> None:
        """Lets questions be noted again."""
        self._earlier.update(self._known)
        self._known.clear()
        for what in (*_PROPERTIES, "graph"):
            vars(self).pop(what, None)

    def _ask(self, *question: Any) -> Any:
        answer = self._known.get(question)
        if answer is not None:
            return answer
        what, *args = question
        answer = self._earlier.get(question)
        if answer is None:
            answer = getattr(self._of, what)(*args)
        self._known[question] = answer
        self._observed.note((*self._key, *question), answer, self._many and what in _ESTIMATED)
        return answer

    def __getattr__(self, what: str) -> Any:
        """A property, which is kept."""
        if what not in _PROPERTIES and what != "graph":
            raise AttributeError(what)
        answer = self._earlier.get((what,))
        if answer is None:
            answer = self._earlier[what,] = getattr(self._of, what)
        if what == "graph":
            self._observed.note((*self._key, what), answer is not None)
            if answer is not None:
                answer = ObservedGraph(answer, self._of, self._key, self._observed)
        else:
            self._observed.note((*self._key, what), answer)
        setattr(self, what, answer)
        return answer

    def size(self, tests: tuple[ColumnTest, ...] = (), ranked: bool = False) -> int:
        return self._ask("size", tests, ranked)  # type: ignore[no-any-return]

    def distinct(self, columns: frozenset[int]) -> int:
        return self._ask("distinct", columns)  # type: ignore[no-any-return]

    def degrees(
        self, column: int, tests: tuple[ColumnTest, ...] = (), ranked: bool = False
    ) -> Degrees:
        return self._ask("degrees", column, tests, ranked)  # type: ignore[no-any-return]

    def sorting(self, column: int, tests: tuple[ColumnTest, ...] = (), ranked: bool = False) -> int:
        return self._ask("sorting", column, tests, ranked)  # type: ignore[no-any-return]

    def within(
        self, column: int, bounds: Sequence[Bound], ranked: bool = False
    ) -> tuple[float, float]:
        return self._ask("within", column, tuple(bounds), ranked)  # type: ignore[no-any-return]

    def lists(
        self, column: int, tests: tuple[ColumnTest, ...] = (), ranked: bool = False
    ) -> AdjacencyLists | None:
        found: AdjacencyLists | None = self._of.lists(column, tests, ranked)
        if found is not None and (ranked or len(found.children) > MOST_READ):
            self._observed.whole = False  # such lists may exist for a while only
        else:
            answer = _without_codes(self._of, found)
            self._observed.note((*self._key, "lists", column, tests, ranked), answer)
        return found

    def set(self) -> Array | None:
        found: Array | None = self._of.set()
        if found is not None and len(found) > MOST_READ:
            self._observed.whole = False
        else:
            self._observed.note((*self._key, "set"), _without_codes(self._of, found))
        return found


class ObservedGraph:
    """The rows of a relation as edges; what is asked of them is noted. Who reads the edges
    themselves has looked at all of them."""

    __slots__ = ("_graph", "_key", "_observed", "_size")

    def __init__(self, graph: Any, size: Any, key: tuple[str, Version], observed: Observed) -> None:
        self._graph = graph
        self._size = size
        self._key = key
        self._observed = observed

    def __getattr__(self, what: str) -> Any:
        found = getattr(self._graph, what)
        if what not in _OF_GRAPHS:
            edges = _edges(self._size)
            self._observed.note((*self._key, EDGES), edges)
            self._observed.whole &= edges is not None
            return found
        if not callable(found):
            self._observed.note((*self._key, what), found, _estimates(self._size, what))
            return found

        def ask(*args: Any) -> Any:
            answer = found(*args)
            self._observed.note((*self._key, what, *args), answer)
            return answer

        return ask


class ObservedValues(Mapping[str, Value]):
    """The values of parameters; which are read is noted."""

    __slots__ = ("_observed", "_of")

    def __init__(self, of: Mapping[str, Value], observed: Observed) -> None:
        self._of = of
        self._observed = observed

    def __getitem__(self, name: str) -> Value:
        value = self._of[name]
        self._observed.note((name, PARAMETER, ""), value)
        return value

    def get(self, name: str, default: Any = None) -> Any:
        value = self._of.get(name)
        self._observed.note((name, PARAMETER, ""), value)
        return default if value is None else value

    def __iter__(self) -> Iterator[str]:
        return iter(self._of)

    def __len__(self) -> int:
        return len(self._of)
