"""A folder of Parquet files in the place of one file: whole or not at all, as files are.

It is filled under another name beside its place, and takes it when all of it is there.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from gdatalog.errors import DataError, TimeLimitError
from gdatalog.storage.table import Table
from gdatalog.storage.temporaries import beside
from gdatalog.storage.writers import cannot_write, write_tables

PART = re.compile(r"part-\d+\.parquet")


def names_a_folder(path: str | os.PathLike[str]) -> bool:
    """Whether a path says of itself that it is a folder's: it ends with a slash."""
    name = os.fspath(path)
    return name.endswith("/") or name.endswith(os.sep)


def file_name(number: int) -> str:
    """The name of a part."""
    return f"part-{number:05}.parquet"


def write_folder(
    path: str | os.PathLike[str], parts: Iterable[tuple[Iterable[Table], int]]
) -> None:
    """Writes each part, some tables and how many rows they have, into a file of its own; there is
    at least one."""
    with filled(path) as folder:
        for number, (tables, length) in enumerate(parts):
            write_tables(tables, length, os.path.join(folder, file_name(number)), format="parquet")


@contextmanager
def filled(path: str | os.PathLike[str]) -> Iterator[str]:
    """A new folder, which is at `path` when it has been filled. A folder of parts that is there is
    replaced; one that has anything else stays, and is an error."""
    name = os.fspath(path)
    target = os.path.realpath(name)
    _check(name, target)
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with beside(os.path.dirname(target), os.mkdir) as temporary:
            yield temporary
            _check(name, target)
            before = None
            if os.path.isdir(target):
                before = f"{target}-{secrets.token_hex(8)}.before"
                os.rename(target, before)
            os.rename(temporary, target)
            if before is not None:
                shutil.rmtree(before, ignore_errors=True)
    except TimeLimitError:
        raise
    except OSError as error:
        raise cannot_write(name, error) from error


def _check(name: str, target: str) -> None:
    if not os.path.exists(target):
        return
    if not os.path.isdir(target):
        raise DataError(f"{name}: this is a file, not a folder", hint="leave out the slash")
    other = next((entry for entry in os.listdir(target) if not PART.fullmatch(entry)), None)
    if other is not None:
        raise DataError(
            f"{name}: this folder has other files than parts that were written, {other!r}",
            hint="name a folder that is new, or that holds such parts only: it is replaced",
        )
