"""The indexes that plans read, and the estimated memory of those that must be built."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from gdatalog.engine.device import Device
from gdatalog.engine.index_memory import AskedIndex, memory_asked
from gdatalog.plan.effects import relations_read
from gdatalog.plan.join_plan import RulePlan, TrieRef
from gdatalog.progress import format_bytes
from gdatalog.report.numbers import many
from gdatalog.report.tree import ReportNode, facts
from gdatalog.storage.relation import Relation
from gdatalog.values import shown_name

RelationOf = Callable[[str], Relation | None]


def indexes_of(
    plan: RulePlan, relation_of: RelationOf, device: Device
) -> Iterator[tuple[str, AskedIndex]]:
    """Gives the indexes that joins read, with their display names, without prefixes of others."""
    asked = memory_asked(plan, relation_of, device)
    for ref, index in zip(relations_read(plan), asked, strict=True):
        if ref.columns and (index.bytes != 0 or index.there or not index.rows):
            relation = relation_of(ref.relation)
            yield index_label(ref, None if relation is None else relation.columns), index


def index_label(ref: TrieRef, names: Sequence[str] | None = None) -> str:
    """Names an index by its columns in order, by column name where known.

    >>> index_label(TrieRef("E", "full", (1, 0)), ["src", "dst"])
    'E by dst, src'
    >>> index_label(TrieRef("path", "old", (0,)))
    'old path by column 0'
    """
    which = "" if ref.version == "full" else f"{ref.version} "
    which = f"ranked {which}" if ref.ranked else which

    def column(number: int) -> str:
        return f"column {number}" if names is None else names[number]

    text = f"{which}{shown_name(ref.relation)} by {', '.join(map(column, ref.columns))}"
    if ref.tests:
        tests = (f"{column(left)} {op} {column(right)}" for left, op, right in ref.tests)
        text += f" where {', '.join(tests)}"
    return f"{text} with counts" if ref.weighted else text


def indexes_node(indexes: Mapping[str, AskedIndex], limit: int | None) -> ReportNode:
    """A node with all indexes and their total size; `limit`: the memory limit, if shown."""
    missing = [index for index in indexes.values() if not index.there]
    bytes_asked = sum(index.bytes or 0 for index in missing)
    text = f"{len(missing)} to build" if missing else "all cached"
    if bytes_asked:
        about = "" if all(index.exact for index in missing) else "about "
        unknown = any(index.bytes is None for index in missing)
        text += f", {'at least ' if unknown else about}{format_bytes(bytes_asked)}"
    within = "" if limit is None else f"; memory limit {format_bytes(limit)}"
    return ReportNode(
        "indexes",
        f"indexes: {text}{within}",
        facts=(("bytes", bytes_asked), ("limit", limit)),
        children=tuple(_index_node(label, index) for label, index in indexes.items()),
    )


def _index_node(label: str, index: AskedIndex) -> ReportNode:
    if index.rows is None or index.bytes is None:
        return ReportNode("index", label, ("rows not known yet",))
    size = format_bytes(index.bytes)
    text = f"{size}, cached" if index.there else size if index.exact else f"about {size}"
    return ReportNode(
        "index",
        label,
        (f"{many(index.rows, 'entry')}, {text}",),
        facts=facts(relation=index.relation, rows=index.rows, bytes=index.bytes, there=index.there),
    )
