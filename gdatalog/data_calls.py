"""The methods of `Database` that load, insert, delete and drop data."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal

from gdatalog.errors import UsageError
from gdatalog.progress import OnProgress
from gdatalog.records import replace
from gdatalog.storage.load_options import LoadOptions, Nulls, checked
from gdatalog.values import plain

if TYPE_CHECKING:
    from gdatalog.prepared import Inserter
    from gdatalog.relations import Deleted, Inserted
    from gdatalog.workspace import Workspace


class DataCalls:
    """The methods of `Database` for data."""

    if TYPE_CHECKING:

        @property
        def workspace(self) -> Workspace: ...
        def call(
            self, on_progress: OnProgress | None = None, timeout: float | None = None
        ) -> AbstractContextManager[None]: ...

    def load(
        self,
        name: str,
        data: Any,
        *,
        columns: Sequence[str] | None = None,
        header: bool | None = None,
        nulls: Nulls = "keep",
        null: str | None = None,
        fill: Mapping[str, Any] | None = None,
        row_id: str | bool | None = None,
        nodes: str | None = None,
        tuples: bool = False,
        on_progress: OnProgress | None = None,
    ) -> None:
        """Store data under a name; it replaces all data of that relation.

        It replaces rows that were loaded or inserted, facts of programs, and rows that `.input`
        read. Rules stay, and a warning says that they still add to the relation. A warning also
        names kept rules that do not fit the new data: they are invalid until they fit again, or
        until you drop them.

        `data` is a DataFrame (pandas, polars, cuDF), an Arrow table or stream, an array (NumPy,
        CuPy), a list of tuples, a scipy.sparse matrix, a networkx graph, or a path: of a file, of a
        folder of Parquet files, or a pattern such as "edges/*.csv". On a cluster it may be a dask
        DataFrame, and workers read Parquet files that are not small themselves.

        `columns` selects columns by name (`column0`, `column1` where there are none), or names all
        of them. If the relation is declared, its columns match by name where the data has all of
        its names, and by position where it has none of them; anything in between is an error.
        `header` says whether the first line of a text file holds names; else the types decide.

        Missing values become nulls: those of pandas (NaN, NaT, None), Arrow and polars, None, and
        empty cells of text files, but for columns of texts. `nulls="drop"` drops rows with missing
        values and warns how many, `nulls="error"` refuses them; `fill` gives values for them, by
        column. `null` is a word of a text file that stands for a null, such as "NA".

        A relation is a set: duplicate rows become one, with a warning; with the setting
        `duplicates="error"` they are an error. `row_id=True` keeps all rows: it adds a last column
        of row numbers, `row_id`, which atoms and answers leave out unless they name it.
        `row_id="id"` adds a column with this name in front.

        A networkx graph gives its edges, in both directions if it is undirected, with the
        attributes that a third and further `columns` are named after. `nodes` is the name of
        another relation, for all nodes and their attributes; `nulls` and `fill` hold for it, too.
        Without it a warning says what is left out. `tuples` makes columns of the parts of nodes
        that are tuples.

        Data on the GPU that runs the queries stays there, except for texts. `on_progress` gets
        the progress of loading, as in `query`.

        >>> import gdatalog as gd
        >>> db = gd.connect()
        >>> db.load("E", [(1, 2), (2, 3)], columns=["src", "dst"])
        >>> db["E"].columns
        ('src', 'dst')
        """
        fill = {} if fill is None else fill
        options = LoadOptions(columns, header, nulls, null, fill, row_id, tuples=tuples)
        self._load(plain(name), data, checked(options), plain(nodes), on_progress)

    def _load(
        self,
        name: str,
        data: Any,
        options: LoadOptions,
        nodes: str | None,
        on_progress: OnProgress | None = None,
    ) -> None:
        """As `load`, with options that were checked."""
        parts = {name: (data, options)}
        if nodes is not None or options.tuples:
            options = replace(options, with_nodes=nodes is not None)
            parts = self._of_graph(name, nodes, data, options)
        found = {}
        with self.call(on_progress), self.workspace.rollback():
            for name, (part, own) in parts.items():
                found[name] = self.workspace.load(name, self._shared(part), own)
        for name, findings in found.items():
            self.workspace.tell_of(name, findings)

    def _of_graph(
        self, name: str, nodes: str | None, data: Any, options: LoadOptions
    ) -> dict[str, tuple[Any, LoadOptions]]:
        """The edges of a graph and, under the name `nodes`, its nodes, each with their options."""
        from gdatalog.storage.networks import Nodes, is_graph

        if not is_graph(data):
            option = "tuples" if nodes is None else "nodes"
            raise UsageError(f"{option}= is for networkx graphs, not for {type(data).__name__}")
        if nodes is None:
            return {name: (data, options)}
        if nodes == name:
            raise UsageError(f"edges and nodes are two relations, but both are named {name!r}")
        part, columns, fill = Nodes(data), options.columns or (), options.fill
        known = set(map(str, part.attributes))
        of_nodes = {key: value for key, value in fill.items() if key in known}
        rest = {key: fill[key] for key in fill if key not in known or key in columns}
        own = replace(options, columns=None, row_id=None, fill=of_nodes)
        return {name: (data, replace(options, fill=rest)), nodes: (part, own)}

    def _shared(self, data: Any) -> Any:
        """Data to load; the rows of a result need not be decoded."""
        self.workspace.check_open()
        from gdatalog.result import Result

        return data.shared(self.workspace.symbols) if isinstance(data, Result) else data

    def __setitem__(self, name: str, data: Any) -> None:
        self.load(name, data)

    def insert(
        self,
        name: str,
        rows: Any,
        *,
        nulls: Nulls = "keep",
        fill: Mapping[str, Any] | None = None,
        row_id: str | bool | None = None,
        on_progress: OnProgress | None = None,
    ) -> Inserted:
        """Add rows to a relation. If there is no such relation, create it.

        If the relation has rules, the rows are base facts beside those that the rules derive, and
        the returned value says so, beside the numbers of new rows (`rows`) and of rows that were
        `known`. Columns match, and missing values are dropped or filled, as in
        `load`; `row_id` continues from the greatest number, as hidden row numbers always do.
        `on_progress` gets the progress of loading, as in `query`.

        >>> import gdatalog as gd
        >>> db = gd.connect()
        >>> db["E"] = [(1, 2)]
        >>> db.insert("E", [(2, 3), (1, 2)])
        E: 1 row inserted, 1 known already
        >>> db.insert("E", [(1, 2)]).rows, len(db["E"]), len(db["E"].new)
        (0, 2, 0)
        >>> _ = db.run("path(x, y) <- E(x, y).")
        >>> db.insert("path", [(7, 8)])
        path: 1 row inserted, as base facts beside its 1 rule
        """
        inserter = self.inserter(name, nulls=nulls, fill=fill, row_id=row_id)
        return inserter(rows, on_progress=on_progress)

    def inserter(
        self,
        name: str,
        *,
        nulls: Nulls = "keep",
        fill: Mapping[str, Any] | None = None,
        row_id: str | bool | None = None,
    ) -> Inserter:
        """Prepare inserts into a relation: a function of the rows, with the options of `insert`.

        >>> import gdatalog as gd
        >>> db = gd.connect()
        >>> insert = db.inserter("E")
        >>> insert([(1, 2)])
        E: 1 row inserted
        """
        from gdatalog.prepared import Inserter

        options = LoadOptions(None, None, nulls, None, {} if fill is None else fill, row_id)
        return Inserter(self.workspace, self.call, plain(name), options)

    def delete(
        self,
        what: str,
        rows: Any = None,
        *,
        params: Mapping[str, Any] | None = None,
        on_progress: OnProgress | None = None,
    ) -> Deleted:
        """Delete rows of a relation: those of `rows`, or those that match.

        `rows` is data as in `insert`; its columns match as there, and a null is equal to a null.
        Without `rows`, `what` is an atom of the relation, which may be followed by conditions:
        the rows of its matches go. `params` gives values to `$name`s.

        Rows that were loaded or inserted go, rows that `.input` read, and facts of programs; what
        rules derive goes when they no longer derive it. The returned value has the number of
        `rows` that went, and of given rows that were not there (`missing`), which is no error.

        >>> import gdatalog as gd
        >>> db = gd.connect()
        >>> db["E"] = [(1, 2), (2, 3), (3, 4), (9, 9)]
        >>> _ = db.run("path(x, z) <- E(x, z) ; path(x, y), E(y, z).")
        >>> db.delete("E", [(1, 2), (5, 6)])
        E: 1 row deleted, 1 not there
        >>> db.delete("E(x, _), x > $most", params={"most": 5}).rows
        1
        >>> db["path"].sorted().fetchall()
        [(2, 3), (2, 4), (3, 4)]
        """
        what = plain(what)
        with self.call(on_progress), self.workspace.rollback():
            workspace = self.workspace
            workspace.check_open()
            from gdatalog.deleting import delete_rows, delete_where
            from gdatalog.relations import Deleted

            if rows is None:
                name, gone = delete_where(workspace, what, params)
                return Deleted(name, gone, 0, workspace.catalog.rules_of(name))
            from gdatalog.parser.words import check_relation_name

            check_relation_name(what)
            if params is not None:
                raise UsageError("params= is for a condition, and rows have none")
            gone, missing = delete_rows(workspace, what, self._shared(rows))
            return Deleted(what, gone, missing, workspace.catalog.rules_of(what))

    def drop(self, name: str, *, only: Literal["rules", "data"] | None = None) -> tuple[str, ...]:
        """Drop a relation: its rules, its data and its declaration, or `only` its rules or data.

        Data are rows that were loaded or inserted, facts of programs and rows that `.input` read.
        Returns the relations that depended on it: they cannot be evaluated until it is there
        again, and a warning names their rules. `del db[name]` drops all of it, too.

        >>> import gdatalog as gd
        >>> db = gd.connect()
        >>> _ = db.run("E(1, 2). path(x, y) <- E(x, y).")
        >>> db.drop("path")
        ()
        >>> list(db.relations)
        ['E']
        """
        if only not in (None, "rules", "data"):
            raise UsageError(f"only is 'rules', 'data' or None, not {only!r}")
        with self.call():
            workspace = self.workspace
            workspace.check_open()
            before = workspace.standing()[1]
            workspace.drop([name], only or "all")
            return tuple(sorted(workspace.standing()[1].keys() - before.keys() - {name}))

    def save(self, path: str | os.PathLike[str], *, on_progress: OnProgress | None = None) -> None:
        """Write the database to a folder whose name ends with ".gdb"; `connect(path)` opens it.

        The folder has the rows of relations with their dtypes, facts, rules, declarations and
        values of parameters. Answers of rules are evaluated when they are asked for, and files of
        `.input` are read again. A database that was saved there before is replaced at once, when
        the new one is whole; anything else there is an error. `on_progress` is as in `query`.

        >>> import gdatalog as gd, os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "roads.gdb")
        >>> with gd.connect() as db:
        ...     _ = db.run("E(1, 2). E(2, 3). two(x, z) <- E(x, y), E(y, z).")
        ...     db.save(path)
        >>> with gd.connect(path) as db:
        ...     db["two"].fetchall()
        [(1, 3)]
        """
        with self.call(on_progress):
            self.workspace.check_open()
            from gdatalog.saving import save

            save(self.workspace, path)

    def __delitem__(self, name: str) -> None:
        self.drop(name)
