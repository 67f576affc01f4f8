"""networkx graphs that are loaded with nodes and attributes, and relations that become graphs."""

from __future__ import annotations

import warnings
from typing import Any

import networkx as nx
import pytest

import gdatalog as gd


def people(kind: Any = nx.Graph) -> Any:
    graph = kind()
    graph.add_edge(1, 2, km=3, road="A1")
    graph.add_edge(2, 3, km=5, road="A2")
    graph.add_edge(3, 3, km=0, road="A3")
    graph.add_nodes_from([(1, {"name": "ann"}), (2, {"name": "bob", "age": 9}), (3, {"name": "c"})])
    graph.add_node(7, name="eve", age=30)
    return graph


@pytest.fixture(autouse=True)
def _no_warnings() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error", gd.ProgramWarning)
        yield


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph])
def test_a_graph_goes_in_and_comes_out(kind: Any) -> None:
    graph, db = people(kind), gd.connect()
    for node in graph:
        graph.nodes[node].setdefault("age", 0)
    db.load("E", graph, columns=["source", "target", "km", "road"], nodes="person")
    assert db["person"].columns == ("node", "name", "age")
    assert len(db["E"]) == (3 if graph.is_directed() else 5)
    back = db["E"].to_networkx(nodes=db["person"], directed=graph.is_directed())
    assert back.adj == graph.adj and back.nodes(data=True) == graph.nodes(data=True)
    assert type(back) is kind


def test_missing_attributes_are_nulls_errors_dropped_or_filled() -> None:
    db = gd.connect()
    db["E"] = [(0, 0)]
    columns = ["s", "t", "km"]
    with pytest.raises(gd.DataError, match="person: row 0, column 'age'") as caught:
        db.load("E", people(), columns=columns, nodes="person", nulls="error")
    assert "columns=" not in str(caught.value)  # these are the columns of the edges
    assert list(db) == ["E"] and len(db["E"]) == 1  # nothing is loaded
    db.load("E", people(), columns=columns, nodes="person")
    assert (1, "ann", None) in db["person"].fetchall() and len(db["person"]) == 4
    db.load("E", people(), columns=columns, nodes="person", fill={"age": -1, "km": 1})
    assert (1, "ann", -1) in db["person"].fetchall() and len(db["person"]) == 4
    with pytest.warns(gd.ProgramWarning, match="person: 2 of 4 rows dropped"):
        db.load("E", people(), columns=columns, nodes="person", nulls="drop")
    assert sorted(db["person"]["node"]) == [2, 7] and len(db["E"]) == 5


def test_what_is_left_out_is_told() -> None:
    db = gd.connect()
    with pytest.warns(gd.ProgramWarning) as told:
        db["E"] = people()
    (message,) = (str(one.message) for one in told)
    assert message == (
        "warning: E: not loaded: 1 node without edges; the attributes `name`, `age` of nodes; the "
        "attributes `km`, `road` of edges\n"
        '  hint: nodes="..." loads the nodes as a relation with this name; '
        'columns=["source", "target", "km", "road"] loads attributes of edges'
    )
    with pytest.warns(gd.ProgramWarning, match="not loaded: 1 node without edges") as told:
        db.load("E", people(), columns=["s", "t"])
    assert "of edges\n" not in str(told[0].message)
    db["E"] = nx.path_graph(3)  # nothing is left out
    db.load("E", people(), columns=["s", "t"], nodes="person", fill={"age": 0})


def test_a_declared_relation_of_nodes() -> None:
    db = gd.connect()
    db.run(".decl person(id: int, age: int)")
    db.load("E", people(), columns=["s", "t"], nodes="person", fill={"age": 0})
    assert sorted(db["person"].fetchall()) == [(1, 0), (2, 9), (3, 0), (7, 30)]


def test_nodes_without_edges_have_the_type_of_nodes() -> None:
    db = gd.connect()
    db.load("E", nx.empty_graph(3), nodes="person")
    assert db["E"].dtypes == ("int", "int") and db["person"].sorted().fetchall() == [
        (0,), (1,), (2,),
    ]  # fmt: skip


def test_nodes_that_are_tuples() -> None:
    grid, db = nx.grid_2d_graph(2, 3), gd.connect()
    with pytest.raises(gd.DataError, match=r"node \(0, 0\) is a tuple") as caught:
        db["E"] = grid
    assert "tuples=True" in str(caught.value)
    db.load("E", grid, nodes="cell", tuples=True)
    assert db["E"].columns == ("source0", "source1", "target0", "target1")
    assert db["cell"].columns == ("node0", "node1")
    assert set(db["cell"].fetchall()) == set(grid)
    assert set(db["E"].fetchall()) == {(*s, *t) for s, t in grid.to_directed().edges}
    nx.set_edge_attributes(grid, 4, "km")
    db.load("E", grid, columns=["a", "b", "c", "d", "km"], tuples=True)
    assert len(db["E"]) == 14 and set(db["E"]["km"]) == {4}
    with pytest.raises(gd.DataError, match="no tuple of 2 values"):
        db.load("E", nx.Graph([((0, 1), (0, 1, 2))]), tuples=True)


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ([(1, 2)], {"nodes": "v"}, "nodes= is for networkx graphs, not for list"),
        ([(1, 2)], {"tuples": True}, "tuples= is for networkx graphs, not for list"),
        (nx.path_graph(2), {"nodes": "E"}, "both are named 'E'"),
    ],
)
def test_options_for_graphs_are_checked(data: Any, options: Any, message: str) -> None:
    with pytest.raises(gd.UsageError, match=message):
        gd.connect().load("E", data, **options)


def test_answers_that_are_no_graph() -> None:
    data = {"E": [(1, 2, 3), (1, 2, 4)]}
    with pytest.raises(gd.DataError, match="several rows have the ends 1 and 2"):
        gd.query("?- E(x, y, w).", data).to_networkx()
    with pytest.raises(gd.UsageError, match="edges have at least 2 columns, found 1 column"):
        gd.query("?- E(x, _, _).", data).to_networkx()
    both = gd.query("?- E(x, y, w).", {"E": [(1, 2, 3), (2, 1, 3)]})
    assert both.to_networkx(directed=False).number_of_edges() == 1
    assert both.to_networkx().number_of_edges() == 2
