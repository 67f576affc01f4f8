"""A folder of Parquet files instead of one file: written completely or not at all.

It is filled under a temporary name in the same folder, and renamed when it is complete.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from gdatalog.errors import DataError
from gdatalog.storage.load_options import FilePath
from gdatalog.storage.table import Table
from gdatalog.storage.temporary_files import beside
from gdatalog.storage.writers import naming, write_tables

PART = re.compile(r"part-\d+\.parquet")


def names_a_folder(path: FilePath) -> bool:
    """Whether a path ends with a slash, and so names a folder."""
    name = os.fspath(path)
    return name.endswith("/") or name.endswith(os.sep)


def file_name(number: int) -> str:
    """The file name of a part."""
    return f"part-{number:05}.parquet"


def write_folder(path: FilePath, parts: Iterable[tuple[Iterable[Table], int]]) -> None:
    """Writes each part to a file of its own. A part is some tables and their number of rows; there
    is at least one."""
    with filled(path) as folder:
        for number, (tables, length) in enumerate(parts):
            write_tables(tables, length, os.path.join(folder, file_name(number)), format="parquet")


@contextmanager
def filled(path: FilePath) -> Iterator[str]:
    """A new folder, which is renamed to `path` once it is filled. An existing folder of parts is
    replaced; a folder with other files stays, and is an error."""
    name = os.fspath(path)
    target = os.path.realpath(name)
    _check(name, target)
    with naming(name):
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
