"""networkx graphs as raw columns, of edges and of nodes with attributes; and tables as graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gdatalog.errors import Caution, DataError, UsageError
from gdatalog.records import dataclass
from gdatalog.storage.export import to_rows
from gdatalog.storage.load_options import LoadOptions
from gdatalog.storage.places import shown
from gdatalog.storage.raw import Raw, count_of_columns, own_names
from gdatalog.storage.table import Table


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes of a graph, as data to load."""

    graph: Any

    @property
    def attributes(self) -> list[Any]:
        """The names of the nodes' attributes."""
        return list(dict.fromkeys(key for _, own in self.graph.nodes(data=True) for key in own))


def is_graph(data: object) -> bool:
    """Whether data is a networkx graph."""
    return hasattr(data, "edges") and hasattr(data, "is_directed")


def raw_of_nodes(nodes: Nodes, options: LoadOptions) -> Raw:
    """A column of nodes, or one for each part of those that are tuples, and their attributes."""
    graph, declared = nodes.graph, options.declared
    names, columns = _parts("node", list(graph), _width(graph, options), options)
    attributes = nodes.attributes
    if declared is not None:  # the nodes come first, whatever their name
        names = [*declared.columns[: len(names)]]
        attributes = [each for each in attributes if str(each) in declared.columns]
    columns += [[value for _, value in graph.nodes(data=each)] for each in attributes]
    return Raw((*names, *map(str, attributes)), tuple(columns), len(graph))


def raw_of_edges(graph: Any, options: LoadOptions) -> Raw:
    """The edges, in both directions if undirected, as source and target, and the attributes that
    further columns are named after."""
    edges = list(graph.edges())
    ends: list[Sequence[Any]] = [[edge[at] for edge in edges] for at in (0, 1)]
    if not edges:
        none: Any = np.array(list(graph))[:0]  # of the nodes' type
        ends = [none, none]
    # An undirected loop is one row, not two.
    both = [] if graph.is_directed() else [at for at, (s, t) in enumerate(edges) if s != t]
    if both:
        back = [[column[at] for at in both] for column in ends]
        ends = [[*ends[0], *back[1]], [*ends[1], *back[0]]]
    width = _width(graph, options)
    sources, found = _parts("source", ends[0], width, options)
    targets, more = _parts("target", ends[1], width, options)
    declared, columns = options.declared, options.columns
    wanted = columns if columns is not None else () if declared is None else declared.columns
    attributes = list(wanted[2 * width :])
    found += more
    for attribute in attributes:
        values = [value for _, _, value in graph.edges(data=attribute)]
        found.append([*values, *(values[at] for at in both)])
    if options.findings is not None:
        options.findings.warnings += _left_out(graph, options, columns is None and not attributes)
    names = (*sources, *targets, *attributes)
    return Raw(own_names(names, declared), tuple(found), len(found[0]))


def _width(graph: Any, options: LoadOptions) -> int:
    """The number of columns of a node."""
    first = next(iter(graph), None)
    if not isinstance(first, tuple):
        return 1
    if not options.tuples:
        message = f"{options.what}: the node {shown(first)} is a tuple, and a column has no tuples"
        raise DataError(message, hint="tuples=True loads each part of the nodes as a column")
    return len(first)


def _parts(
    name: str, nodes: Sequence[Any], width: int, options: LoadOptions
) -> tuple[list[str], list[Sequence[Any]]]:
    """The columns of some nodes, with their names."""
    if width == 1:
        return [name], [nodes]
    odd = next((n for n in nodes if not isinstance(n, tuple) or len(n) != width), None)
    if odd is not None:
        raise DataError(
            f"{options.what}: the node {shown(odd)} is no tuple of {width} values",
            hint="all nodes of a graph that are loaded with tuples=True have as many parts",
        )
    parts = range(width)
    return [f"{name}{at}" for at in parts], [[node[at] for node in nodes] for at in parts]


def _left_out(graph: Any, options: LoadOptions, of_edges: bool) -> list[Caution]:
    """A warning about what loading a graph leaves out. `of_edges`: attributes of edges, too."""
    left: list[str] = []
    cures: list[str] = []
    if not options.with_nodes:
        alone = sum(not degree for _, degree in graph.degree())
        if alone:
            left.append(f"{alone:,} node{'s' * (alone != 1)} without edges")
        left += _listed("nodes", dict.fromkeys(Nodes(graph).attributes))
        if left:
            cures.append('nodes="..." loads the nodes as a relation with this name')
    if of_edges:
        keys = dict.fromkeys(key for _, _, own in graph.edges(data=True) for key in own)
        if keys:
            left += _listed("edges", keys)
            some = ", ".join(f'"{name}"' for name in ("source", "target", *list(keys)[:3]))
            cures.append(f"columns=[{some}] loads attributes of edges")
    if not left:
        return []
    return [Caution(f"{options.what}: not loaded: {'; '.join(left)}", hint="; ".join(cures))]


def _listed(of: str, keys: Mapping[Any, None]) -> list[str]:
    if not keys:
        return []
    names = ", ".join(f"`{key}`" for key in list(keys)[:10]) + ", ..." * (len(keys) > 10)
    return [f"the attribute{'s' * (len(keys) != 1)} {names} of {of}"]


def network_of(edges: Table, nodes: Table | None, directed: bool) -> Any:
    """The graph of some edges, and of more nodes; further columns are their attributes."""
    for what, table, least in (("edges", edges, 2), ("nodes", nodes, 1)):
        if table is not None and len(table.names) < least:
            found = count_of_columns(len(table.names))
            raise UsageError(f"{what} have at least {count_of_columns(least)}, found {found}")
    import networkx as nx

    graph = nx.DiGraph() if directed else nx.Graph()
    if nodes is not None:
        for node, *values in to_rows(nodes):
            graph.add_nodes_from([(node, dict(zip(nodes.names[1:], values, strict=True)))])
    for source, target, *values in to_rows(edges):
        own = dict(zip(edges.names[2:], values, strict=True))
        if own and graph.edges.get((source, target), own) != own:
            raise DataError(
                f"several rows have the ends {shown(source)} and {shown(target)}, with different "
                "attributes, and a graph has one edge for each pair",
                hint="combine them in a rule, such as total(x, y, sum(w)) <- e(x, y, w).",
            )
        graph.add_edges_from([(source, target, own)])
    return graph
