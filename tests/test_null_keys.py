"""Columns with nulls: their keys, and what leaves the database."""

from __future__ import annotations

from datetime import date

import numpy as np
import pandas as pd
import pytest

import gdatalog as gd
from gdatalog.errors import DataError
from gdatalog.storage.key_columns import relation_of_tables
from gdatalog.storage.keys import decode_blocks, encode_column
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import NullableColumn, Table, TextColumn
from gdatalog.values import NULL, TypeName

COLUMNS: dict[TypeName, tuple[list[object], object]] = {
    "int": ([5, -(2**63), 2**62], np.int64),
    "float": ([1.5, -np.inf, np.inf], np.float64),
    "bool": ([True, False, True], np.bool_),
    "timestamp": ([5, -1, 2**62], np.int64),
    "date": ([0, -719_162, 2_932_896], np.int64),
    "duration": ([5, -1, 2**62], np.int64),
    "symbol": (["a", "", "b"], object),
}


def nullable(kind: TypeName) -> NullableColumn:
    """Three values, and a null before and after them."""
    given, dtype = COLUMNS[kind]
    values = np.array([given[0], *given, given[0]], dtype=dtype)  # type: ignore[call-overload]
    column = values
    if kind == "symbol":
        texts, codes = np.unique(values, return_inverse=True)
        return NullableColumn(TextColumn(codes, texts), np.array([True, *[False] * 3, True]))
    return NullableColumn(column, np.array([True, *[False] * 3, True]))


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_null_has_the_greatest_key_of_64_bits(kind: TypeName) -> None:
    symbols, column = SymbolTable(), nullable(kind)
    keys = encode_column(column, kind, symbols)
    assert keys.dtype == np.int64
    assert (keys == NULL).tolist() == column.missing.tolist()
    (back,) = decode_blocks([(keys[:2],), (keys[2:],)], [kind], symbols, nullable=[True])
    assert isinstance(back, NullableColumn)
    assert back.missing.tolist() == column.missing.tolist()
    values = back.values.decode() if isinstance(back.values, TextColumn) else back.values
    assert values[1:4].tolist() == COLUMNS[kind][0]


@pytest.mark.parametrize("kind", ["int", "timestamp", "duration"])
def test_no_value_has_the_key_of_a_null(kind: TypeName) -> None:
    column = NullableColumn(np.array([NULL, NULL]), np.array([True, False]))
    with pytest.raises(DataError, match="its key is that of a null"):
        encode_column(column, kind, SymbolTable())


def test_nulls_leave_as_each_library_has_them() -> None:
    db = gd.connect()
    columns = tuple(map(nullable, COLUMNS))
    names = tuple(f"c_{kind}" for kind in COLUMNS)
    table = Table(names, tuple(COLUMNS), columns, 5, nullable=(True,) * len(names))
    db.workspace.put("t", relation_of_tables([table], db.workspace.symbols)[0])
    result = db["t"].sorted()
    assert result.fetchall()[-1] == (None,) * len(names)  # the two rows of nulls are one
    assert len(result) == 4
    frame = result.df()
    assert frame.isna().to_numpy().tolist() == [[False] * 7] * 3 + [[True] * 7]
    assert [*map(str, frame.dtypes)] == [
        "Int64", "Float64", "boolean", "datetime64[ns, UTC]", "object", "timedelta64[ns]",
        str(pd.Series(["a"]).astype("str").dtype),
    ]  # fmt: skip
    arrow = result.to_arrow()
    assert arrow.slice(3).to_pylist() == [dict.fromkeys(names)]
    assert all(field.nullable for field in arrow.schema)
    assert arrow["c_date"].to_pylist()[:2] == [date(1, 1, 1), date(1970, 1, 1)]
    assert np.isnan(result.to_numpy()["c_float"][3])
    assert result.to_numpy()["c_int"].tolist() == [-(2**63), 5, 2**62, None]
