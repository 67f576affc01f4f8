"""`connect` and `query`: how a database is opened."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gdatalog.database import Database
from gdatalog.engine.session.knobs import Strategy
from gdatalog.progress import OnProgress

if TYPE_CHECKING:
    from gdatalog.result import Result


def connect(
    *,
    device: str = "auto",
    memory_limit: str | int | None = None,
    temp_directory: str | os.PathLike[str] | None = None,
    threads: int | None = None,
    timeout: float | None = None,
    files: str | os.PathLike[str] = "all",
    cluster: Any = None,
    untrusted: bool = False,
) -> Database:
    """A new, empty database.

    `device` says where its queries run: "cpu", "cuda" (or "cuda:1"), several GPUs together
    ("cuda:0,1", "cuda:all"), or "auto", which takes a GPU if there is a usable one; `db.device`
    tells, and `gd.doctor()` what is missing for a GPU.
    `memory_limit` ("8GiB", or bytes) bounds what a query may hold in memory. What is larger lies in
    temporary files in `temp_directory`, for which the system's folder serves if you name none; with
    "" there are no such files, and a query that needs more memory is an error. `threads` says how
    many compiled loops use; without it there is one for each core. `timeout` is the number of
    seconds that each call may take which does not name its own. `files` bounds what a text may read
    and write: "all", "read", "none", or a folder.

    `cluster` spreads the work of large queries over Dask's workers: those of a client, of a
    scheduler by its address ("tcp://10.0.0.7:8786"), or "local": `threads` workers on this machine,
    which end with the database. `db.cluster` tells of them.

    `untrusted` is for texts that strangers write: programs name no files and have bounded sizes,
    `match` takes linear time, nothing is compiled, and unless you give others there is a memory
    limit of 512 MiB and a timeout of 10 seconds. Your own `db.load(path)` stays as it is.

    >>> import gdatalog as gd
    >>> gd.connect(memory_limit="1GiB", files="none")
    <gdatalog.Database on cpu: empty>
    >>> with gd.connect(cluster="local", threads=2) as db:
    ...     db
    <gdatalog.Database on cpu and 2 workers: empty>
    """
    return Database(
        device=device,
        memory_limit=memory_limit,
        temp_directory=temp_directory,
        threads=threads,
        timeout=timeout,
        files=files,
        cluster=cluster,
        untrusted=untrusted,
    )


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
    """One query over some data, without keeping a database.

    `on_progress` is told how far it is, of the loading too, as `Database.query` tells it.
    `timeout` seconds may pass with all of it.

    >>> import gdatalog as gd
    >>> gd.query("n(count()) <- E(_, _).", {"E": [(1, 2), (2, 3)]}).fetchall()
    [(2,)]
    """
    with connect(device=device, threads=threads) as db, db.call(timeout=timeout):
        for name, rows in (data or {}).items():
            db.load(name, rows, on_progress=on_progress)
        return db.query(text, params, strategy=strategy, max_rows=max_rows, on_progress=on_progress)
