"""Reads Parquet files in batches of rows, or some of their row groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from gdatalog.cancellation import current_watch
from gdatalog.errors import DataError, TimeLimitError
from gdatalog.records import replace
from gdatalog.storage.imported_later import pa, pq
from gdatalog.storage.places import DataPlace, FilePlace, SomeRows
from gdatalog.storage.raw import Raw, data_columns, index_warnings, raw_of_columns
from gdatalog.values import INT_MAX

ROWS_AT_ONCE = 1 << 22  # most rows of a batch
LEAST_BYTES, MOST_BYTES = 1 << 23, 1 << 27  # bounds for the bytes of a batch
SHARE = 16  # a batch takes at most 1/16 of the free memory
ROWS = "gdatalog.rows"  # the number of rows in a file without columns


def damaged(name: str, error: BaseException) -> DataError:
    reason = (str(error) or type(error).__name__).splitlines()[0][:200]
    return DataError(f"{name}: the file is damaged or of another format: {reason}")


def raws_of_parquet(
    name: str, opened: Callable[[], pa.NativeFile], wanted: Sequence[str] | None
) -> Iterator[Raw]:
    """The rows of a file in batches, at least one: only the `wanted` columns, if the file has them
    all. `opened`: opens the file's bytes."""
    with reading_parquet(name):
        file = pq.ParquetFile(opened())
        schema = file.schema_arrow
        there = data_columns(schema.names)
    if not there:
        with reading_parquet(name):
            said = (file.read().schema.metadata or {}).get(ROWS.encode(), b"0")
        yield Raw((), (), int(said == b"1"))
        return
    only = wanted if wanted and set(wanted) <= set(there) else there
    warnings = index_warnings(schema, name)
    again = partial(raws_of_parquet, name, opened, wanted)
    before = 0
    if not current_watch().innermost.several:
        current_watch().innermost.new_rows = file.metadata.num_rows
    for table, share in _batches(name, file, [there[column] for column in only]):
        place = partial(place_among, name, before)
        with current_watch().innermost.within(*share):
            raw = raw_of_columns(table, there)
            yield replace(raw, warnings=warnings, place=place, whole=again)
        before, warnings = before + table.num_rows, []


def place_among(name: str, before: int, _: int, column: str) -> DataPlace:
    """A column of the rows after the first ones; errors count rows from the start of the file."""
    return SomeRows(name, column, FilePlace(name, column), range(before, INT_MAX))


@contextmanager
def reading_parquet(name: str, gone: str | None = None) -> Iterator[None]:
    """Turns errors of reading into errors that say that the file is damaged. `gone`: the message if
    there is no file."""
    try:
        yield
    except TimeLimitError:
        raise
    except (pa.ArrowException, OSError, ValueError, MemoryError, OverflowError, KeyError) as error:
        if gone is not None and isinstance(error, FileNotFoundError):
            raise DataError(f"{name}: {gone}") from None
        raise damaged(name, error) from error


def _batches(
    name: str, file: pq.ParquetFile, columns: list[str]
) -> Iterator[tuple[pa.Table, tuple[float, float]]]:
    """The rows of a file in batches, which Arrow reads on all cores; and the share of all rows at
    which each batch starts and ends."""
    watch, size = current_watch(), file.metadata
    nbytes = sum(size.row_group(group).total_byte_size for group in range(size.num_row_groups))
    width = max(1, nbytes // max(1, size.num_rows))
    most = max(LEAST_BYTES, min(MOST_BYTES, watch.account.spare() // SHARE))
    rows = max(1, min(ROWS_AT_ONCE, most // width))
    batches = file.iter_batches(rows, columns=columns)
    done, total = 0, max(1, size.num_rows)
    while True:
        watch.poll()
        with reading_parquet(name):
            batch = next(batches, None)
            if batch is None and done:
                return
            table = (
                file.schema_arrow.empty_table().select(columns)
                if batch is None
                else pa.Table.from_batches([batch])
            )
            table.validate(full=True)
        yield table, (done / total, min(1.0, (done + table.num_rows) / total))
        done += table.num_rows
        if batch is None:
            return
