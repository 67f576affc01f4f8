"""Real graphs and facts, which are no part of the repository.

They are read from the folder that GDATALOG_DATA names, else from a folder `shared` beside the
repository. Tests that need it ask `needs`, and are skipped where it is not there.
"""

from __future__ import annotations

import io
import lzma
import os
import tarfile
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Columns = tuple[Array, Array]


def _folder() -> Path | None:
    named = os.environ.get("GDATALOG_DATA")
    if named is not None:
        found = Path(named)
        return found if found.is_dir() else None
    beside = Path(__file__).resolve().parents[2] / "shared"
    return beside if (beside / "graphs").is_dir() else None


FOLDER = _folder()


def needs(*paths: str) -> Any:
    """The mark of a test that reads these files of the data folder."""
    import pytest  # here, for the benchmarks read this file too

    if FOLDER is None:
        reason = "no data folder: GDATALOG_DATA names one"
        return pytest.mark.skipif(True, reason=reason)
    missing = [path for path in paths if not (FOLDER / path).exists()]
    return pytest.mark.skipif(bool(missing), reason=f"the data folder has no {missing}")


def graph_path(name: str) -> str:
    return f"graphs/packed/{name}.npz.xz"


def closure_path(name: str) -> str:
    return f"facts/closure/{name}.tsv.xz"


HMMER = "facts/hmmer.tar.xz"


def graph(name: str) -> tuple[int, Array, Array]:
    """(vertices, u, v): an undirected graph's edges, once each, u < v, in order of (u, v).

    A file holds how many larger neighbours each vertex has, and the gaps between them: the
    first is counted from the vertex itself.
    """
    with np.load(io.BytesIO(lzma.decompress(_path(graph_path(name)).read_bytes()))) as packed:
        degrees, gaps = packed["deg_up"], packed["gap"].astype(np.int64)
    u = np.repeat(np.arange(len(degrees)), degrees)
    v = np.cumsum(gaps)
    first = np.flatnonzero(np.diff(u, prepend=-1))
    before = np.where(first > 0, v[first - 1], 0)
    v += np.repeat(u[first] - before, np.diff(first, append=len(u)))
    return len(degrees), u, v


def labels(name: str) -> Array:
    """The label of each vertex of a graph that has some."""
    with np.load(io.BytesIO(lzma.decompress(_path(graph_path(name)).read_bytes()))) as packed:
        return packed["labels"].astype(np.int64)


def both_ways(u: Array, v: Array) -> Columns:
    """A graph's edges in either direction."""
    return np.concatenate([u, v]), np.concatenate([v, u])


def closure_edges(name: str) -> Columns:
    """The directed edges of a graph that closures are computed of."""
    text = lzma.decompress(_path(closure_path(name)).read_bytes())
    cells = np.array(text.split(), dtype=np.int64).reshape(-1, 2)
    return cells[:, 0], cells[:, 1]


def hmmer(folder: Path) -> Path:
    """Unpacks the facts of a C program and its points-to sets; gives where they are."""
    unpack(HMMER, folder)
    return folder / "hmmer"


def unpack(path: str, folder: Path) -> None:
    """Unpacks an archive of the data folder."""
    with tarfile.open(_path(path)) as archive:
        archive.extractall(folder, filter="data")


def _path(path: str) -> Path:
    assert FOLDER is not None, "no data folder"
    return FOLDER / path
