"""Patterns in DotMotif's language: edges, edges that must not be, macros and labels.

# a feed-forward loop that nothing closes
edge(A, B) {
    A -> B
    B !> A
}
edge(x, y)
y -> z
x -> z
x.label = 3
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from gdatalog.errors import UsageError
from gdatalog.patterns.pattern import Label, Pair, Pattern, from_edges, variable
from gdatalog.records import dataclass, field

_NAME = r"[A-Za-z_]\w*"
_QUOTED = r"\"[^\"\n]*\"|'[^'\n]*'"
_EDGE = re.compile(rf"({_NAME})\s*(->|<-|!>|~>)\s*({_NAME})$")
_LABEL = re.compile(rf"({_NAME})\.label\s*=\s*(?:(-?\d+)|\"([^\"]*)\"|'([^']*)')$")
_CALL = re.compile(rf"({_NAME})\s*\(([^()]*)\)$")
_MACRO = re.compile(rf"({_NAME})\s*\(([^()]*)\)\s*\{{([^{{}}]*)\}}")
_DEEPEST = 100  # macros within macros


@dataclass(slots=True)
class _Read:
    edges: list[Pair] = field(default_factory=list)
    absent: list[Pair] = field(default_factory=list)
    labels: dict[str, Label] = field(default_factory=dict)


def from_dotmotif(text: str, *, name: str = "pattern") -> Pattern:
    """The pattern that a text in DotMotif's language describes; edges have a direction.

    `A -> B` and `B <- A` are edges; `A !> B` or `A ~> B` must not be one; `A.label = 3` is a
    label; `pair(A, B) { A -> B; B -> A }` makes a macro, which `pair(x, y)` uses; `#` begins a
    comment.

    >>> from gdatalog import patterns
    >>> print(patterns.from_dotmotif("A -> B; B -> C; A !> C", name="open_chain"))
    open_chain(A, B, C) <- E(A, B), E(B, C), not E(A, C), distinct(A, B, C).
    """
    text = re.sub(rf"({_QUOTED})|#[^\n]*", lambda found: found[1] or "", text)
    macros: dict[str, tuple[list[str], str]] = {}
    for macro in _MACRO.finditer(text):
        macros[macro[1]] = _names(macro[2]), macro[3]
    found = _Read()
    _read(_MACRO.sub("", text), {}, macros, found, 0)
    made = from_edges(found.edges, name=name, labels=found.labels, directed=True)
    ends = {vertex for pair in found.edges for vertex in pair}
    if outside := [vertex for pair in found.absent for vertex in pair if vertex not in ends]:
        raise UsageError(f"{outside[0]} is on no edge of the pattern")
    absent = dict.fromkeys((variable(u), variable(v)) for u, v in found.absent)
    return Pattern(name, made.edges, tuple(absent), made.labels, True)


def _read(
    text: str,
    called: Mapping[str, str],
    macros: Mapping[str, tuple[Sequence[str], str]],
    found: _Read,
    depth: int,
) -> None:
    """Reads statements, whose names stand for those that a macro was `called` with."""
    for line in _statements(text):
        if edge := _EDGE.match(line):
            u, v = (called.get(edge[at], edge[at]) for at in (1, 3))
            pair = (v, u) if edge[2] == "<-" else (u, v)
            (found.absent if edge[2] in ("!>", "~>") else found.edges).append(pair)
        elif label := _LABEL.match(line):
            vertex = called.get(label[1], label[1])
            found.labels[vertex] = int(label[2]) if label[2] else label[3] or label[4] or ""
        elif (call := _CALL.match(line)) and call[1] in macros and depth < _DEEPEST:
            names, body = macros[call[1]]
            given = [called.get(one, one) for one in _names(call[2])]
            if len(given) != len(names):
                raise UsageError(f"{call[1]} takes {len(names)} vertices, not {len(given)}: {line}")
            _read(body, dict(zip(names, given, strict=True)), macros, found, depth + 1)
        else:
            raise UsageError(
                f"this is no statement of a motif: {line}",
                hint="A -> B, A <- B, A !> B, A.label = 3, or a macro that the text defines",
            )


def _statements(text: str) -> Iterator[str]:
    for line in re.findall(rf"(?:{_QUOTED}|[^;\n])+", text):
        if line.strip():
            yield line.strip()


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
