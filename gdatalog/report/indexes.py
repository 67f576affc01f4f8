"""Which indexes a plan's joins read, and about what memory those take that are to be made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from gdatalog.plan.nodes import RulePlan, TrieRef
from gdatalog.progress import format_bytes
from gdatalog.report.tree import Node
from gdatalog.report.words import many
from gdatalog.storage.relation import Relation

OFFSET = 8  # bytes of where a list begins
PASSING = 0.5  # of rows, where an index holds those only that pass a comparison

RelationOf = Callable[[str], Relation | None]


@dataclass(frozen=True, slots=True)
class Index:
    """`rows` and `bytes` are None where the relation is not there yet."""

    label: str
    rows: int | None
    bytes: int | None
    there: bool

    @property
    def node(self) -> Node:
        if self.rows is None or self.bytes is None:
            return Node("index", self.label, ("of rows that are not there yet",))
        size = format_bytes(self.bytes)
        told = f"{size}, there already" if self.there else f"about {size}"
        return Node(
            "index",
            self.label,
            (f"{many(self.rows, 'row')}, {told}",),
            facts=(("rows", self.rows), ("bytes", self.bytes), ("there", self.there)),
        )


def indexes_of(plans: Iterable[RulePlan], relation_of: RelationOf) -> list[Index]:
    """The indexes that joins read, each once, in the order in which they are met."""
    refs = dict.fromkeys(ref for plan in plans for join in plan.joins for ref in join.tries)
    return [
        _index(ref, relation_of(ref.relation))
        for ref in refs
        if ref.columns and not any(_begins(ref, other) for other in refs)
    ]


def _begins(ref: TrieRef, other: TrieRef) -> bool:
    """Whether an index is the first levels of another, and need not be made."""
    longer = other.columns[: len(ref.columns)] == ref.columns and len(other.columns) > len(
        ref.columns
    )
    alike = replace(other, columns=ref.columns, weighted=False)
    return longer and alike == ref


def index_label(ref: TrieRef, columns: Sequence[str]) -> str:
    """An index by the names of its columns, in their order.

    >>> index_label(TrieRef("E", "full", (1, 0)), ["src", "dst"])
    'E by dst, src'
    """
    text = ref.relation if ref.version == "full" else f"{ref.version} {ref.relation}"
    text = f"ranked {text}" if ref.ranked else text
    text += f" by {', '.join(columns[at] for at in ref.columns)}"
    if ref.tests:
        tests = (f"{columns[t.left]} {t.op} {columns[t.right]}" for t in ref.tests)
        text += f" where {', '.join(tests)}"
    return f"{text} with counts" if ref.weighted else text


def _index(ref: TrieRef, relation: Relation | None) -> Index:
    numbers = [f"column {at}" for at in range(max(ref.columns) + 1)]
    label = index_label(ref, numbers if relation is None else relation.columns)
    if relation is None or ref.version != "full":
        return Index(label, None, None, False)
    rows = relation.at_most
    tests = tuple((test.left, test.op, test.right) for test in ref.tests)
    made = relation.made(ref.columns, tests, ref.weighted, ref.ranked)
    if made is not None:
        return Index(label, rows, int(made.nbytes), True)
    return Index(label, rows, _expected_bytes(ref, relation), False)


def _expected_bytes(ref: TrieRef, relation: Relation) -> int:
    """A level has a value for each path to it, and where the list of each path above begins."""
    rows = relation.at_most
    if not rows:
        return 0
    share = PASSING if ref.tests else 1.0
    width = max(1.0, relation.nbytes / (rows * len(relation.types)))
    total, above = 0.0, 1.0
    for depth in range(len(ref.columns)):
        paths = relation.statistics.distinct(frozenset(ref.columns[: depth + 1]))
        here = min(rows * share, paths)
        total += here * width + (above + 1) * OFFSET
        above = here
    return int(total + (above * OFFSET if ref.weighted else 0))


def indexes_node(indexes: list[Index], limit: int | None) -> Node | None:
    """All of them, and what they take together; `limit`: of memory, where that is worth a word."""
    if not indexes:
        return None
    missing = [index for index in indexes if not index.there]
    asked = sum(index.bytes or 0 for index in missing)
    told = f"{len(missing)} to be made, about {format_bytes(asked)}" if missing else "all there"
    within = "" if limit is None else f" of at most {format_bytes(limit)}"
    return Node(
        "indexes",
        f"indexes: {told}{within}",
        facts=(("bytes", asked), ("limit", limit)),
        children=tuple(index.node for index in indexes),
    )
