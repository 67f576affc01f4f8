"""A tree as a mermaid flowchart, which GitHub, GitLab and many editors draw."""

from __future__ import annotations

from collections.abc import Iterator

from gdatalog.report.numbers import about, took
from gdatalog.report.tree import Kind, ReportNode
from gdatalog.terminal_text import visible

# Mermaid's brackets for the shapes of nodes; other nodes are boxes.
_SHAPES: dict[Kind, tuple[str, str]] = {
    "plan": ('(["', '"])'),
    "stratum": ('(["', '"])'),
    "branch": ('{{"', '"}}'),
    "end": ('[/"', '"/]'),
    "indexes": ('[("', '")]'),
    "memory": ('[("', '")]'),
}
_NAMES = str.maketrans({"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "&": "#amp;"})
_STYLES = (
    "classDef marked stroke:#c2410c,stroke-width:3px",
    "classDef level stroke:#0f766e,stroke-width:2px",
)


def mermaid(root: ReportNode) -> str:
    """Returns the tree as a flowchart from top to bottom.

    >>> print(mermaid(ReportNode("plan", 'on "cpu"', children=(ReportNode("note", "x < 3"),))))
    flowchart TD
        n0(["on #quot;cpu#quot;"])
        n1["x #lt; 3"]
        n0 --> n1
        classDef marked stroke:#c2410c,stroke-width:3px
        classDef level stroke:#0f766e,stroke-width:2px
    """
    nodes = list(root.walk())
    numbers = {id(node): at for at, node in enumerate(nodes)}
    lines = ["flowchart TD"]
    lines += [f"    n{at}{_box(node)}" for at, node in enumerate(nodes)]
    for at, node in enumerate(nodes):
        lines += [f"    n{at} --> n{numbers[id(child)]}" for child in node.children]
    lines += [f"    {style}" for style in _STYLES]
    marked = [at for at, node in enumerate(nodes) if node.marks]
    levels = [at for at, node in enumerate(nodes) if node.kind == "level" and not node.marks]
    for name, chosen in (("marked", marked), ("level", levels)):
        if chosen:
            lines.append(f"    class {','.join(f'n{at}' for at in chosen)} {name}")
    return "\n".join(lines)


def _box(node: ReportNode) -> str:
    opens, closes = _SHAPES.get(node.kind, ('["', '"]'))
    return opens + "<br/>".join(map(_escaped, _texts(node))) + closes


def _texts(node: ReportNode) -> Iterator[str]:
    yield node.label
    yield from node.details
    numbers = []
    if node.estimate is not None:
        numbers.append(f"{about(node.estimate)} expected")
    if node.actual is not None:
        numbers.append(f"{node.actual:,} came")
    if node.seconds is not None and node.kind != "plan":
        numbers.append(took(node.seconds))
    if numbers:
        yield ", ".join(numbers)
    yield from node.marks


def _escaped(text: str) -> str:
    """Escapes what would end a label, start a tag, or (`%%`) start a mermaid directive."""
    return visible(text).translate(_NAMES).replace("%%", "#37;#37;")
