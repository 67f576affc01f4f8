"""`connect` and `query` open a database."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gdatalog.database import Database
from gdatalog.progress import OnProgress
from gdatalog.settings import Strategy
from gdatalog.starting import Start

if TYPE_CHECKING:
    from gdatalog.result import Result


def connect(
    path: str | os.PathLike[str] | None = None,
    /,
    *,
    device: str = "auto",
    memory_limit: str | int | None = None,
    temp_directory: str | os.PathLike[str] | None = None,
    threads: int | None = None,
    timeout: float | None = None,
    files: str | os.PathLike[str] = "all",
    cluster: Any = None,
    untrusted: bool = False,
    temp_limit: str | int | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Database:
    """A new, empty database; or the one that `Database.save` wrote to the folder `path`.

    `device` says where queries run: "cpu", "cuda" (or "cuda:1"), several GPUs together
    ("cuda:0,1", "cuda:all"), or "auto": the CPU, and a usable GPU for large work, which opens it.
    `db.device` names the devices, `db.explain` says what runs where and why, and `gd.doctor()` says
    what is missing for a GPU.
    `memory_limit` ("8GiB", or bytes) bounds the memory of the queries that run at once. Larger data
    goes to temporary files in `temp_directory` (default: the system's folder); with "" there are no
    such files, and a query that needs more memory is an error. `temp_limit` ("64GiB", or bytes)
    bounds all of these files together. By default they take at most 16 times the memory limit and
    half of the free space, and those of a recursion that makes new values, which may not end, at
    most as much as the memory limit. `threads` is the number of threads of compiled loops (default:
    one for each core). `timeout` is the time limit in seconds of calls that do not have their own.
    `files` bounds what a text may read and write: "all", "read", "none", or a folder.

    `cluster` spreads large queries over Dask workers: those of a client, of a scheduler by its
    address ("tcp://10.0.0.7:8786"), or "local": `threads` workers on this machine, which end with
    the database. `db.cluster` describes them.

    `untrusted` is for texts by strangers: programs name no files and have bounded sizes, `match`
    takes linear time, nothing is compiled, and by default there is a memory limit of 512 MiB and a
    timeout of 10 seconds. Your own `db.load(path)` still reads files.

    `settings` has values of further settings by name, such as {"magic_sets": "never"};
    docs/settings.md lists them, and `db.set` changes them later.

    >>> import gdatalog as gd
    >>> gd.connect(memory_limit="1GiB", files="none")
    <gdatalog.Database on cpu: empty>
    >>> with gd.connect(cluster="local", threads=2) as db:
    ...     db
    <gdatalog.Database on cpu and 2 workers: empty>
    """
    db = Database(
        Start(
            device, memory_limit, temp_directory, threads, timeout, files, cluster, untrusted,
            temp_limit, settings,
        )
    )  # fmt: skip
    if path is not None:
        try:
            with db.call():
                from gdatalog.saving import load

                load(db.workspace, path)
        except BaseException:
            db.close()
            raise
    return db


def query(
    text: str,
    data: Mapping[str, Any] | None = None,
    params: Mapping[str, Any] | None = None,
    *,
    device: str = "auto",
    threads: int | None = None,
    strategy: Strategy = "auto",
    max_rows: int | None = None,
    timeout: float | None = None,
    on_progress: OnProgress | None = None,
) -> Result:
    """Run one query over some data, without keeping a database.

    `on_progress` gets the progress of loading and of the query, as in `Database.query`. `timeout`
    is the time limit in seconds for both together.

    >>> import gdatalog as gd
    >>> gd.query("n(count()) <- E(_, _).", {"E": [(1, 2), (2, 3)]}).fetchall()
    [(2,)]
    """
    with connect(device=device, threads=threads) as db, db.call(timeout=timeout):
        for name, rows in (data or {}).items():
            db.load(name, rows, on_progress=on_progress)
        return db.query(text, params, strategy=strategy, max_rows=max_rows, on_progress=on_progress)
