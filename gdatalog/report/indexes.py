"""The indexes that plans read, and the estimated memory of those that must be built."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from gdatalog.engine.device import Device
from gdatalog.engine.memory_estimate import AskedIndex, memory_asked
from gdatalog.plan.effects import relations_read
from gdatalog.plan.nodes import RulePlan, TrieRef
from gdatalog.progress import format_bytes
from gdatalog.records import dataclass
from gdatalog.report.tree import ReportNode
from gdatalog.report.words import many
from gdatalog.storage.relation import Relation
from gdatalog.values import shown_name

RelationOf = Callable[[str], Relation | None]


@dataclass(frozen=True, slots=True)
class NamedIndex:
    """An index, its display name, and what is known of it."""

    label: str
    asked: AskedIndex

    @property
    def node(self) -> ReportNode:
        asked = self.asked
        if asked.rows is None or asked.bytes is None:
            return ReportNode("index", self.label, ("rows not known yet",))
        size = format_bytes(asked.bytes)
        text = f"{size}, cached" if asked.there else size if asked.exact else f"about {size}"
        return ReportNode(
            "index",
            self.label,
            (f"{many(asked.rows, 'entry')}, {text}",),
            facts=(
                ("relation", asked.relation),
                ("rows", asked.rows),
                ("bytes", asked.bytes),
                ("there", asked.there),
            ),
        )


def indexes_of(
    plans: Iterable[RulePlan], relation_of: RelationOf, device: Device, memory: int
) -> list[NamedIndex]:
    """Returns the indexes that joins read, once each, without prefixes of other indexes."""
    found = []
    for plan in plans:
        asked = memory_asked(plan, relation_of, device, memory).indexes
        for ref, index in zip(relations_read(plan), asked, strict=True):
            if ref.columns and (index.bytes != 0 or index.there or not index.rows):
                relation = relation_of(ref.relation)
                columns = None if relation is None else relation.columns
                found.append(NamedIndex(index_label(ref, columns), index))
    return found


def index_label(ref: TrieRef, names: Sequence[str] | None = None) -> str:
    """Names an index by its columns in order, by column name where known.

    >>> index_label(TrieRef("E", "full", (1, 0)), ["src", "dst"])
    'E by dst, src'
    >>> index_label(TrieRef("path", "old", (0,)))
    'old path by column 0'
    """
    which = "" if ref.version == "full" else f"{ref.version} "
    which = f"ranked {which}" if ref.ranked else which
    column = partial(_column, names=names)
    text = f"{which}{shown_name(ref.relation)} by {', '.join(map(column, ref.columns))}"
    if ref.tests:
        tests = (f"{column(t.left)} {t.op} {column(t.right)}" for t in ref.tests)
        text += f" where {', '.join(tests)}"
    return f"{text} with counts" if ref.weighted else text


def _column(column: int, names: Sequence[str] | None) -> str:
    return f"column {column}" if names is None else names[column]


def indexes_node(indexes: Sequence[NamedIndex], limit: int | None) -> ReportNode | None:
    """A node with all indexes and their total size; `limit`: the memory limit, if shown."""
    if not indexes:
        return None
    missing = [index.asked for index in indexes if not index.asked.there]
    bytes_asked = sum(index.bytes or 0 for index in missing)
    text = f"{len(missing)} to build" if missing else "all cached"
    unknown = any(index.bytes is None for index in missing)
    if bytes_asked:
        about = "" if all(index.exact for index in missing) else "about "
        text += f", {about if not unknown else 'at least '}{format_bytes(bytes_asked)}"
    within = "" if limit is None else f"; memory limit {format_bytes(limit)}"
    return ReportNode(
        "indexes",
        f"indexes: {text}{within}",
        facts=(("bytes", bytes_asked), ("limit", limit)),
        children=tuple(index.node for index in indexes),
    )
