"""DataFrames of pandas and cuDF, Series and indexes as raw columns.

An index that has a name, or several levels, is data: its levels are the first columns. One without
a name that holds integers numbers the rows, and is left out; one that holds anything else is left
out with a warning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gdatalog.errors import Caution
from gdatalog.storage.raw import Raw, default_name


def raw_of_pandas(data: Any, what: str, named: bool) -> Raw | None:
    """A DataFrame, Series, index or extension array; None if it is something else.

    `named`: whether the caller names the columns. Then the data have names only if all of their
    columns have one.
    """
    import pandas as pd

    if isinstance(data, pd.DataFrame):
        positions = range(data.shape[1])
        # A frame that was made without names numbers its columns.
        numbered = isinstance(data.columns, pd.RangeIndex)
        names = [None if numbered else str(name) for name in data.columns]
        columns = [data.iloc[:, i] for i in positions]
        return _with_index(data, names, columns, what, named)
    if isinstance(data, pd.Series):
        return _with_index(data, [None if data.name is None else str(data.name)], [data],
                           what, named)  # fmt: skip
    if isinstance(data, pd.Index):
        levels = index_columns(data)
        return _raw([name for name, _ in levels], [column for _, column in levels], named)
    return Raw(None, (pd.Series(data),), len(data)) if hasattr(data, "__array__") else None


def _with_index(
    data: Any, names: list[str | None], columns: list[Any], what: str, named: bool
) -> Raw:
    """The columns of a frame or Series, behind those of its index if that is data."""
    import pandas as pd

    index = data.index
    if index.name is None and index.nlevels == 1:
        raw = _raw(names, columns, named, len(data))
        if isinstance(index, pd.RangeIndex) or index.dtype.kind in "iu" or not len(index):
            return raw
        raw.warnings.append(index_warning(what))
        return raw
    levels = index_columns(index)
    return _raw([name for name, _ in levels] + names, [c for _, c in levels] + columns, named)


def index_columns(index: Any) -> list[tuple[str | None, Any]]:
    """The levels of an index, each with its name; unnamed levels of several have numbers."""
    import pandas as pd

    if index.nlevels == 1:
        return [(None if index.name is None else str(index.name), pd.Series(index))]
    names = [f"level_{at}" if name is None else str(name) for at, name in enumerate(index.names)]
    return [(name, pd.Series(index.get_level_values(at))) for at, name in enumerate(names)]


def index_warning(what: str) -> Caution:
    return Caution(
        f"{what}: the index has no name and is not loaded",
        hint='name it to load it as a column, df.rename_axis("name"), or drop it, '
        "df.reset_index(drop=True)",
    )


def _raw(
    names: Sequence[str | None], columns: Sequence[Any], named: bool, length: int | None = None
) -> Raw:
    """The columns; those without a name are numbered, unless none has one or `named`."""
    rows = len(columns[0]) if length is None else length
    unnamed = [name is None for name in names]
    if any(unnamed) and (named or all(unnamed)):
        return Raw(None, tuple(columns), rows)
    labels = tuple(default_name(at) if name is None else name for at, name in enumerate(names))
    return Raw(labels, tuple(columns), rows)


def raw_of_cudf(data: Any, what: str, named: bool) -> Raw:
    """A frame's columns, or a Series, as they lie on the device."""
    index = getattr(data, "index", None)
    levels = getattr(index, "nlevels", 1)
    if index is not None and (levels > 1 or getattr(index, "name", None) is not None):
        data = data.reset_index()
    if not hasattr(data, "columns"):
        return _raw([None if data.name is None else str(data.name)], [data], named)
    names = list(data.columns)
    numbered = names == list(range(len(names)))
    labels = [None if numbered or isinstance(name, int) else str(name) for name in names]
    return _raw(labels, [data[name] for name in names], named, len(data))
