"""Rows that lie on workers on their way out: as a dask DataFrame, or into files.

Keys become values, and codes texts, where the rows lie. Nothing passes the driver.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from gdatalog.calls import Limits
from gdatalog.cluster.pool import Call, Pool, RemoteValue
from gdatalog.cluster.rows.parts import columns_of
from gdatalog.cluster.rows.texts import placed_texts
from gdatalog.errors import DataError
from gdatalog.storage.export import to_pandas
from gdatalog.storage.keys import decode_blocks
from gdatalog.storage.remote import RemotePart, RemoteSchema
from gdatalog.storage.rows import Columns
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Table
from gdatalog.storage.writers import file_name, write_table


def to_dask(
    pool: Pool,
    parts: Sequence[RemotePart],
    shape: RemoteSchema,
    symbols: SymbolTable,
    limits: Limits,
) -> Any:
    """A dask DataFrame with a partition for each part, made when it is computed."""
    import dask.dataframe as dd
    from dask.delayed import delayed
    from distributed.client import _get_global_client, _set_global_client

    values = [_futures(value) for value in _lying(pool, parts, limits)]
    client = pool.connection.client
    if _get_global_client() is None:  # so that `compute()` asks those who have the rows
        _set_global_client(client)
    texts = client.scatter(symbols, broadcast=True, hash=False) if "symbol" in shape.types else None
    frame = delayed(frame_of, pure=False)
    frames = [frame(value, shape, texts) for value in values]
    return dd.from_delayed(frames, meta=to_pandas(_table([], shape, None)), verify_meta=False)


def write_parts(
    pool: Pool,
    parts: Sequence[RemotePart],
    shape: RemoteSchema,
    symbols: SymbolTable,
    folder: str,
    limits: Limits,
) -> None:
    """Writes each part into a Parquet file of a folder that all workers see, and this process."""
    texts = placed_texts(pool, symbols) if "symbol" in shape.types else None
    stage = pool.stage(f"write {os.path.basename(folder)}", limits)
    for number, part in enumerate(parts):
        path = os.path.join(folder, file_name(number))
        stage.add(Call(write_part, (part.value, shape, texts, path), tag=path))
    for call, size in stage:
        seen = os.path.getsize(call.tag) if os.path.exists(call.tag) else None
        if seen != size:
            raise DataError(
                f"{folder}: the workers write where this process cannot see it",
                hint="name a folder that all machines share; or let Dask write: "
                "to_dask().to_parquet('s3://...')",
            )


def _lying(pool: Pool, parts: Sequence[RemotePart], limits: Limits) -> list[Any]:
    """The parts' values; those that are more than what lies on workers lie there from now on."""
    values = [part.value for part in parts]
    stage = pool.stage("read rows", limits)
    for number, value in enumerate(values):
        if not _lies(value):
            stage.add(Call(columns_of, (value,), keep=True, tag=number))
    for call, kept in stage:
        values[call.tag] = kept
    return values


def _lies(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_lies, value.values()))
    return isinstance(value, RemoteValue | tuple | list)


def _futures(value: Any) -> Any:
    """Futures in the place of what is kept."""
    if isinstance(value, RemoteValue):
        return value.future
    if isinstance(value, dict):
        return {key: _futures(part) for key, part in value.items()}
    return value


# ------------------------------------------------------------------------------- on a worker


def frame_of(value: Any, shape: RemoteSchema, symbols: SymbolTable | None) -> Any:
    """A part as a pandas DataFrame."""
    return to_pandas(_table([columns_of(value)], shape, symbols), given=True)


def write_part(value: Any, shape: RemoteSchema, symbols: SymbolTable | None, path: str) -> int:
    """Writes a part; how many bytes the file has."""
    write_table(_table([columns_of(value)], shape, symbols), path, format="parquet")
    return os.path.getsize(path)


def _table(rows: Sequence[Columns], shape: RemoteSchema, symbols: SymbolTable | None) -> Table:
    """Rows, in blocks, as people know them."""
    columns = decode_blocks(rows, shape.types, symbols or SymbolTable())
    return Table(shape.names, shape.types, columns, sum(len(block[0]) for block in rows))
