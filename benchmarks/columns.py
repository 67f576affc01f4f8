"""Columns of named relations, kept in a folder so that processes can read the same data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Relation = dict[str, Array]  # columns by name
Columns = dict[str, Relation]  # relations by name


def write_columns(folder: Path, columns: Mapping[str, Mapping[str, Array]]) -> Path:
    """One file for each column."""
    for relation, of_relation in columns.items():
        (folder / relation).mkdir(parents=True)
        for place, (name, values) in enumerate(of_relation.items()):
            np.save(folder / relation / f"{place}-{name}.npy", values)
    return folder


def read_columns(folder: Path) -> Columns:
    """All relations, in memory."""
    return {
        relation.name: {
            path.stem.partition("-")[2]: np.load(path) for path in sorted(relation.iterdir())
        }
        for relation in sorted(folder.iterdir())
    }


def distinct(values: Array) -> Array:
    """The different values, in order. NumPy's own `unique` hashes, which is slower here."""
    ordered = np.sort(values)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])]
