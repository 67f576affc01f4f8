"""A saved database: a folder of arrays and a manifest.

    x.gdb/manifest.json           the versions, what is saved, and the checksums of all files
    x.gdb/data-1f0c9a3e/c0.npy    a column of values; of symbols, their places among the texts
    x.gdb/data-1f0c9a3e/text.npy  the texts, as UTF-8, and ends.npy, where each begins and ends

The arrays are those of `Table`, in 32 bits where they fit. Saving writes a new folder of arrays,
then replaces the manifest by renaming, and then removes the folders that it does not name: whenever
that ends, the manifest names a whole folder. Other places do not know what is in a manifest.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from io import BytesIO
from itertools import chain, pairwise
from typing import Any, BinaryIO

import numpy as np

from gdatalog.cancellation import current_watch
from gdatalog.distribution import VERSION
from gdatalog.errors import DataError, TimeLimitError
from gdatalog.records import dataclass, field
from gdatalog.storage.key_columns import relation_of_keys
from gdatalog.storage.keys import decode_blocks, encode_column
from gdatalog.storage.relation import Relation
from gdatalog.storage.row_groups import rows_at_once
from gdatalog.storage.saved_kinds import described, kinds_from
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import DTYPES, Array, NullableColumn, TextColumn
from gdatalog.storage.temporary_files import locked
from gdatalog.storage.writers import naming
from gdatalog.values import NULL, TypeName

FORMAT = 2  # from 2 on, columns may have nulls
_MANIFEST = "manifest.json"
_UNFINISHED = "manifest.json.tmp"
_ARRAYS = re.compile(r"data-[0-9a-f]{8}")
_FILE = re.compile(r"[a-z]+[0-9]*\.npy")
_ODD = "surrogatepass"  # half a surrogate pair is a text
_AT_ONCE = 1 << 16  # texts
_BLOCK = 1 << 20  # bytes that are read at once for a checksum
_CURE = "put a copy in its place, or make it again from its data"


@contextmanager
def replaced(path: str) -> Iterator[FolderWriter]:
    """A writer of a saved database, which replaces the one at `path` when the context ends without
    an error."""
    with naming(path):
        new = not os.path.lexists(path)
        if not new and not _is_ours(path):
            hint = "name one that does not exist, or a database that was saved (*.gdb)"
            raise DataError(f"{path}: this is no saved database, and is left as it is", hint=hint)
        os.makedirs(path, exist_ok=True)
        with locked(path) as mine:
            if not mine:
                hint = "try again when that has ended"
                raise DataError(f"{path}: the database is being saved already", hint=hint)
            name = f"data-{secrets.token_hex(4)}"
            try:
                os.mkdir(os.path.join(path, name))
                writer = FolderWriter(path, name)
                yield writer
                writer.finish()
            except BaseException:
                shutil.rmtree(os.path.join(path, name), ignore_errors=True)
                with suppress(OSError):
                    os.unlink(os.path.join(path, _UNFINISHED))
                if new:
                    with suppress(OSError):
                        os.rmdir(path)
                raise
            for other in os.listdir(path):
                if other != name and _ARRAYS.fullmatch(other):
                    shutil.rmtree(os.path.join(path, other), ignore_errors=True)


def _is_ours(path: str) -> bool:
    """Whether a folder holds a saved database, or only what a first save left that was killed."""
    if not os.path.isdir(path):
        return False
    names = os.listdir(path)
    known = all(name in (_MANIFEST, _UNFINISHED) or _ARRAYS.fullmatch(name) for name in names)
    return known and (_MANIFEST not in names or "format" in _json(path))


def _json(path: str) -> dict[str, Any]:
    try:
        with open(os.path.join(path, _MANIFEST), encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


@dataclass(eq=False)
class FolderWriter:
    """Writes the arrays of a database, and at last its manifest, with `content` in it."""

    path: str
    name: str  # of the folder of arrays
    content: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._folder = os.path.join(self.path, self.name)
        self._files: dict[str, dict[str, Any]] = {}

    def relations(self, given: Mapping[str, Relation], symbols: SymbolTable) -> dict[str, Any]:
        """Writes the rows of relations; returns what a manifest says of them."""
        found, columns = {}, 0
        marks = np.zeros(len(symbols), dtype=np.bool_)
        blocks = {name: relation.blocks() for name, relation in given.items()}
        for name, relation in given.items():
            for block in blocks[name]:
                for at in _texts(relation.types):
                    codes = np.asarray(block[at])
                    marks[codes[codes != NULL]] = True
        self._write_texts(np.flatnonzero(marks), symbols)
        places = np.cumsum(marks, dtype=np.int32) - np.int32(1)
        for name, relation in given.items():
            files = [f"c{columns + at}.npy" for at in range(len(relation.types))]
            columns += len(files)
            null = relation.nullable or (False,) * len(files)
            masks = [f"n{file}" if each else None for file, each in zip(files, null, strict=True)]
            for at, (file, kind) in enumerate(zip(files, relation.types, strict=True)):
                own = [block[at] for block in blocks[name]]
                if (mask := masks[at]) is not None:
                    own = [np.asarray(keys) for keys in own]
                    missing = [keys == NULL for keys in own]
                    self._write(mask, np.dtype(np.bool_), sum(map(len, own)), missing)
                    own = [np.where(each, 0, keys) for each, keys in zip(missing, own, strict=True)]
                self._write_column(file, own, kind, places)
            found[name] = {
                "columns": relation.columns, "types": relation.types, "rows": relation.length,
                "kinds": described(relation.kinds), "files": files, "nulls": masks,
            }  # fmt: skip
        return found

    def _write_column(
        self, name: str, blocks: Sequence[Any], kind: TypeName, places: Array
    ) -> None:
        dtype = np.dtype(np.int32) if kind == "symbol" else DTYPES[kind]
        small = all(isinstance(block, np.ndarray) and block.dtype.itemsize == 4 for block in blocks)
        if dtype == np.int64 and small:
            dtype = np.dtype(np.int32)
        step = rows_at_once((kind,))

        def pieces() -> Iterator[Array]:
            for block in blocks:
                for start in range(0, len(block), step):
                    piece = block[start : start + step]
                    if kind == "symbol":
                        yield places[np.asarray(piece)] if len(places) else piece.astype(dtype)
                    else:
                        (values,) = decode_blocks([(piece,)], (kind,), SymbolTable())
                        assert isinstance(values, np.ndarray)
                        yield values.astype(dtype)

        self._write(name, dtype, sum(map(len, blocks)), pieces())

    def _write_texts(self, codes: Array, symbols: SymbolTable) -> None:
        sizes = [np.zeros(1, dtype=np.int64)]

        def pieces() -> Iterator[Array]:
            for start in range(0, len(codes), _AT_ONCE):
                texts = symbols.texts_of(codes[start : start + _AT_ONCE])
                spelled = [text.encode("utf-8", _ODD) for text in texts]
                sizes.append(np.array([len(text) for text in spelled], dtype=np.int64))
                yield np.frombuffer(b"".join(spelled), dtype=np.uint8)

        whole = list(pieces())
        self._write("text.npy", np.dtype(np.uint8), sum(map(len, whole)), whole)
        ends = np.cumsum(np.concatenate(sizes))
        self.content |= {"texts": len(codes), "utf8": int(ends[-1])}
        self._write("ends.npy", ends.dtype, len(ends), [ends])

    def _write(self, name: str, dtype: np.dtype[Any], length: int, pieces: Iterable[Array]) -> None:
        header, watch, digest = BytesIO(), current_watch(), sha256()
        shape = {"descr": dtype.str, "fortran_order": False, "shape": (length,)}
        np.lib.format.write_array_header_1_0(header, shape)
        with _flushed(os.path.join(self._folder, name)) as file:
            for piece in chain([np.frombuffer(header.getvalue(), dtype=np.uint8)], pieces):
                watch.poll()
                data = np.ascontiguousarray(piece).view(np.uint8).data
                digest.update(data)
                file.write(data)
            self._files[name] = {"bytes": file.tell(), "sha256": digest.hexdigest()}

    def finish(self) -> None:
        """Writes the manifest, in place of the one that is there."""
        _flush_folder(self._folder)
        said = {
            "format": FORMAT, "gdatalog": VERSION, "arrays": self.name, "files": self._files,
            **self.content,
        }  # fmt: skip
        said["sha256"] = _digest(said)
        unfinished = os.path.join(self.path, _UNFINISHED)
        with suppress(FileNotFoundError):  # left by a process that was killed
            os.unlink(unfinished)
        with _flushed(unfinished) as file:
            file.write(json.dumps(said, indent=1).encode())
        os.replace(unfinished, os.path.join(self.path, _MANIFEST))
        _flush_folder(self.path)
        _flush_folder(os.path.dirname(os.path.abspath(self.path)))


class FolderReader:
    """Reads a saved database."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.content = self._checked_manifest()
        self._texts = np.empty(0, dtype=np.int32)  # the codes of the texts, by place
        folder = os.path.join(path, self.content["arrays"])
        self._files = {name: os.path.join(folder, name) for name in self.content["files"]}

    def check(self) -> None:
        """Raises unless all files are as they were written; within `undamaged`."""
        for name, said in self.content["files"].items():
            self._check(name, said["bytes"], said["sha256"])

    @property
    def stale(self) -> bool:
        """Whether another database has been saved here since the manifest was read."""
        return bool(_json(self.path).get("sha256") != self.content["sha256"])

    def _checked_manifest(self) -> dict[str, Any]:
        path = self.path
        if not os.path.lexists(path):
            hint = f'gd.connect() opens an empty database, and db.save("{path}") saves it'
            raise DataError(f"{path}: there is no such database", hint=hint)
        if not os.path.lexists(os.path.join(path, _MANIFEST)):
            if _is_ours(path):
                raise self._damaged("to save it was begun, and did not end")
            hint = f"a database is a folder that db.save made, with the file {_MANIFEST}"
            raise DataError(f"{path}: this is no saved database", hint=hint)
        said = _json(path)
        if isinstance(said.get("format"), int) and said["format"] > FORMAT:
            by = said.get("gdatalog")
            raise DataError(
                f"{path}: gdatalog {by} saved this in format {said['format']}, and gdatalog "
                f"{VERSION} reads formats up to {FORMAT}",
                hint=f"open it with gdatalog {by} or a later version",
            )
        if said.get("sha256") != _digest({k: v for k, v in said.items() if k != "sha256"}):
            raise self._damaged(f"{_MANIFEST} is not as it was written")
        arrays, files = said.get("arrays"), said.get("files")
        named = [arrays, *files] if isinstance(arrays, str) and isinstance(files, dict) else [""]
        if not _ARRAYS.fullmatch(named[0]) or not all(map(_FILE.fullmatch, named[1:])):
            raise self._damaged(f"{_MANIFEST} names other files than a database has")
        return said

    def _check(self, name: str, size: int, digest: str) -> None:
        """Raises unless a file has this size and this checksum."""
        path, found, watch = self._files[name], sha256(), current_watch()
        if not os.path.isfile(path):
            raise self._damaged(f"the file {path} is missing")
        if os.path.getsize(path) != size:
            raise self._damaged(f"{path} has {os.path.getsize(path):,} bytes, not {size:,}")
        with open(path, "rb") as file:
            while block := file.read(_BLOCK):
                watch.poll()
                found.update(block)
        if found.hexdigest() != digest:
            raise self._damaged(f"{path} has a wrong checksum")

    def _damaged(self, what: str) -> DataError:
        return DataError(f"{self.path}: this database is damaged: {what}", hint=_CURE)

    @contextmanager
    def undamaged(self) -> Iterator[None]:
        """A context in which what no database has is an error that says so."""
        try:
            yield
        except TimeLimitError:
            raise
        except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
            why = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
            raise self._damaged(why) from error

    def relations(self, symbols: SymbolTable) -> Iterator[tuple[str, Relation]]:
        """The relations that the manifest names; within `undamaged`."""
        codes = self._codes(symbols)
        for name, said in self.content["relations"].items():
            types = tuple(said["types"])
            if not {*types} <= {"symbol", *DTYPES}:
                raise self._damaged(f"{name} has unknown types: {', '.join(types)}")
            columns, rows = tuple(map(str, said["columns"])), int(said["rows"])
            masks = said.get("nulls", [None] * len(types))
            keys = self._keys(said["files"], masks, types, rows, codes)
            relation = relation_of_keys(columns, types, keys, rows)
            null = tuple(mask is not None for mask in masks)
            yield name, relation.of_kinds(kinds_from(said["kinds"]), null if any(null) else ())

    def _keys(
        self,
        files: Sequence[str],
        masks: Sequence[str | None],
        types: Sequence[TypeName],
        rows: int,
        codes: Array,
    ) -> Iterator[list[Array]]:
        """The keys of a relation, in blocks of rows. `masks`: the files of nullable columns that
        say where nulls are."""
        step, none = rows_at_once(types), SymbolTable()
        columns = [self._column(file, rows) for file, _ in zip(files, types, strict=True)]
        nulls = [None if mask is None else self._column(mask, rows) for mask in masks]
        for start in range(0, rows if types else 0, step):
            block = []
            for read, null, kind in zip(columns, nulls, types, strict=True):
                end = min(rows, start + step)
                values, missing = read(start, end), None if null is None else null(start, end)
                right = values.dtype == DTYPES.get(kind, np.int32) or values.dtype == np.int32
                if not right or (kind in ("float", "bool") and values.dtype != DTYPES[kind]):
                    raise self._damaged(f"a column of type {kind} holds {values.dtype}")
                if missing is not None and missing.dtype != np.bool_:
                    raise self._damaged(f"a mask of nulls holds {missing.dtype}")
                if kind == "symbol" and missing is not None:
                    there = values[~missing]
                    if len(there) and not 0 <= int(there.min()) <= int(there.max()) < len(codes):
                        raise self._damaged("a row has a text that is not there")
                    made = np.full(len(values), NULL)
                    made[~missing] = codes[there]
                    block.append(made)
                    continue
                if kind == "symbol":
                    if int(values.min()) < 0 or int(values.max()) >= len(codes):
                        raise self._damaged("a row has a text that is not there")
                    block.append(codes[values])
                    continue
                if kind == "float" and np.isnan(values).any():
                    raise self._damaged("a row holds NaN")
                if kind == "bool":
                    values = values.view(np.uint8) != 0
                column = values if missing is None else NullableColumn(values, missing)
                block.append(encode_column(column, kind, none))
            yield block

    def _column(self, name: str, length: int) -> Callable[[int, int], Array]:
        """A function that reads rows of an array of this length."""
        path = self._files[name]
        with open(path, "rb") as file:
            if np.lib.format.read_magic(file) != (1, 0):
                raise self._damaged(f"{path} has an unknown header")
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
            begin = file.tell()
        size = os.path.getsize(path) - begin
        if shape != (length,) or dtype.hasobject or size != length * dtype.itemsize:
            raise self._damaged(f"{path} does not hold {length:,} values")

        def read(start: int, end: int) -> Array:
            return np.fromfile(path, dtype, end - start, offset=begin + start * dtype.itemsize)

        return read

    def _codes(self, symbols: SymbolTable) -> Array:
        """The code of each text."""
        count, size = int(self.content["texts"]), int(self.content["utf8"])
        text = self._column("text.npy", size)(0, size).data
        ends = self._column("ends.npy", count + 1)(0, count + 1)
        if int(ends[0]) != 0 or int(ends[-1]) != size or (np.diff(ends) < 0).any():
            raise self._damaged("texts do not end where they should")
        bounds = ends.tolist()
        texts = np.empty(count, dtype=object)
        for at, (start, end) in enumerate(pairwise(bounds)):
            texts[at] = str(text[start:end], "utf-8", _ODD)
        return symbols.encode(TextColumn(np.arange(count, dtype=np.int32), texts))


def _digest(said: Mapping[str, Any]) -> str:
    return sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _texts(types: Sequence[TypeName]) -> list[int]:
    """The columns of texts."""
    return [at for at, kind in enumerate(types) if kind == "symbol"]


@contextmanager
def _flushed(path: str) -> Iterator[BinaryIO]:
    """A new file, which is on the disk when the context ends."""
    with open(path, "xb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def _flush_folder(path: str) -> None:
    """Waits until the names in a folder are on the disk, where a system can."""
    with suppress(OSError):
        opened = os.open(path, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
