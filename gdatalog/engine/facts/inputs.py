"""A program's data: stored relations, facts, lists given as parameters, and `.input` files, which
are read on demand or ahead.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from threading import Event
from typing import Any

import numpy as np

from gdatalog.account import spending
from gdatalog.cancellation import PATIENCE, Watch, current_watch, working_for
from gdatalog.cpu_ops.functions import Scope
from gdatalog.engine.derived import Derived, DistinctBlocks, Rows
from gdatalog.engine.facts import Files, locate, placed, read_relation
from gdatalog.engine.programs.folders import Folders
from gdatalog.engine.programs.prepared import Prepared
from gdatalog.engine.programs.recent import Recent
from gdatalog.errors import Caution, DataError, Error
from gdatalog.parser.syntax import Atom, Const, Decl, Directive, ListParam, Param, Statement, Values
from gdatalog.planner.check import Schema, ValueList
from gdatalog.records import dataclass, field, replace
from gdatalog.storage import DataPlace, Findings, MissingValue, shown
from gdatalog.storage.key_columns import relation_of_tables
from gdatalog.storage.keys import encode_column, encode_values, float_to_key
from gdatalog.storage.on_device import is_on_host
from gdatalog.storage.relation import Relation
from gdatalog.storage.row_store import SORTED_BELOW
from gdatalog.storage.sorting import sort_rows
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array, Column, TextColumn
from gdatalog.threads import begun
from gdatalog.values import ListOf, TypeName, Value

# Has a cluster's workers read a path, as a relation of this name and schema; None if they do not.
Afar = Callable[[str, str, Schema | None], Relation | None]
FoundFile = tuple[Relation | None, str, Schema | None, tuple[object, ...], tuple[int, int]]
# A directive, and the folders of its text.
Source = tuple[Directive, Folders]


@dataclass(slots=True, eq=False)
class Inputs(Mapping[str, Relation]):
    """Stored relations, and the files of `.input`s, read when they are first requested.

    `prepared`: caches the files. `remote`: has a cluster's workers read a path. `lists`: functions
    that make the relations of lists of values.
    """

    stored: Mapping[str, Relation]
    sources: Mapping[str, Sequence[Source]]
    schemas: Mapping[str, Schema]
    symbols: SymbolTable
    files: Files  # that may be read
    prepared: Prepared
    remote: Afar = lambda data, name, schema: None
    warn: Callable[[Caution], None] = lambda caution: None
    lists: Mapping[str, Callable[[], Relation]] = field(default_factory=dict)
    # The columns that are kept of relations whose other columns are not read.
    kept: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    ahead: ReadingAhead | None = None
    _joined: dict[str, Relation] = field(default_factory=dict)
    _files: dict[str, list[tuple[object, ...]]] = field(default_factory=dict)  # of each relation

    def let_go(self, name: str) -> None:
        """Frees the files that only this relation reads; it is not read again."""
        self._joined.pop(name, None)
        self.prepared.unions.pop(name, None)
        for key in self._files.pop(name, ()):
            if not any(key in keys for keys in self._files.values()):
                self.prepared.files.pop(key, None)

    def __contains__(self, name: object) -> bool:
        return name in self.stored or name in self.sources or name in self.lists

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self.stored, *self.sources, *self.lists)))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __getitem__(self, name: str) -> Relation:
        found = self._joined.get(name)
        if found is None and name in self.lists:
            found = self._joined[name] = self.lists[name]()
        elif found is None and name not in self.sources:
            return self.stored[name]
        elif found is None:
            parts = tuple(self.file(source, name) for source in self.sources[name])
            if name in self.stored:
                parts = (*parts, self.stored[name])
            found = parts[0] if len(parts) == 1 else self._union(name, parts)
            self._joined[name] = found
        return found

    def _union(self, name: str, parts: tuple[Relation, ...]) -> Relation:
        """The union of parts; if these only grew since the last call, it extends the last union."""
        versions, found = self.prepared.unions.get(name, ((), None))
        pairs = zip(parts, versions, strict=False)
        since = [part.since(version) for part, version in pairs]
        if found is None or len(versions) != len(parts) or None in since:
            found = union(parts)
        else:
            added = [rows for known in since for rows in known or ()]
            found = extended(found, union(added)) if added else found
        self.prepared.unions[name] = tuple(part.version for part in parts), found
        return found

    def at_hand(self, name: str) -> bool:
        """Whether a relation is available without reading a file."""
        try:
            return all(self._find(each, name)[0] is not None for each in self.sources.get(name, ()))
        except Error:
            return False

    def file(self, source: Source, name: str) -> Relation:
        """Reads an `.input`, once while the file does not change."""
        directive, _ = source
        with placed(directive):
            found, path, schema, key, version = self._find(source, name)
            self._files.setdefault(name, []).append(key)
            if found is None:
                watch, made = current_watch(), None
                with watch.work("loading", f"{name} from {path}"), spending("loading"):
                    if directive.path is not None:
                        found = self.remote(path, name, schema)
                    if found is None and self.ahead is not None:
                        made = self.ahead.take(key)
                    if found is None:
                        made = made or watch.aside(lambda: self._made(source, name, path, schema))
                        found = made[0]
                self.prepared.files[key] = version, found
                for caution in () if made is None else made[1].cautions(name):
                    self.warn(replace(caution, span=caution.span or directive.span))
                if self.ahead is not None:
                    self.ahead.after(version[1])
            return found

    def _made(self, source: Source, name: str, path: str, schema: Schema | None) -> FileContent:
        """The content of a file."""
        directive, folders = source
        findings = Findings()
        kept = self.kept.get(name)
        how = schema, folders, findings, self.symbols, kept, self.prepared.pipes
        tables = read_relation(directive, name, path, *how)
        relation, loaded = relation_of_tables(tables, self.symbols)
        souffle = directive.path is None  # these formats do not define duplicates
        if relation.types:
            findings.count(loaded, loaded if souffle else relation.length)
        return relation, findings

    def read_ahead(self, names: Iterable[str], spare: Callable[[], int]) -> ReadingAhead:
        """Starts a thread that reads the files of relations in this order, beginning with the first
        one that this thread reads. `spare`: how many more bytes it may hold."""
        files = []
        for source, name in ((source, n) for n in names for source in self.sources.get(n, ())):
            try:
                found, path, schema, key, (_, size) = self._find(source, name)
            except Error:  # the request for the file reports it
                continue
            if found is None:
                read = partial(self._made, source, name, path, schema)
                files.append(FileReading(key, f"{name} from {path}", size, read))
        self.ahead = ReadingAhead(files, spare)
        return self.ahead

    def _find(self, source: Source, name: str) -> FoundFile:
        """Looks a file up in the cache. Returns its relation if the file is unchanged, its path and
        schema, and its key and version in the cache."""
        directive, folders = source
        path = locate(directive, name, self.files, folders)
        schema = self.schemas.get(name)
        declared = name in self.stored or (schema is not None and schema.declared)
        if directive.path is not None and not declared:
            schema = None  # its types come from the data
        from gdatalog.storage.data_files import version_of

        try:
            version = version_of(path)
        except (OSError, Error):
            version = 0, 0  # reading it raises the error
        how = (directive.path is None, directive.options)
        what = None if schema is None else (schema.columns, schema.types)
        key = (os.path.abspath(path), how, what, self.kept.get(name))
        known = self.prepared.files.get(key)
        found = known[1] if known is not None and known[0] == version else None
        return found, path, schema, key, version


def union(relations: Sequence[Relation]) -> Relation:
    """The rows of relations of one schema."""
    first = relations[0]
    far = [r.remote for r in relations if r.remote is not None and r.remote.unfetched]
    if far:  # the other rows move to the workers
        near = [r for r in relations if r.remote is None or not r.remote.unfetched]
        blocks = [block for r in near if r.at_most for block in r.blocks(distinct=False)]
        parts = [part for each in far for part in each.parts]
        keeper = far[0].keeper
        return Relation.of_parts(first.columns, first.types, [*parts, *keeper.put(blocks)], keeper)
    lying = next((r.store.on_device for r in relations if not r.store.on_host), None)
    if lying is not None:  # the other rows move to the device
        there = [relation.store.lay(lying.ops) for relation in relations]
        rows = [part.as_they_are() for part in there if part.count]
        count = sum(part.count for part in there)
        return Relation.of_blocks(first.columns, first.types, rows, count, ops=lying.ops)
    blocks = [block for relation in relations for block in relation.blocks(distinct=False)]
    count = sum(relation.at_most for relation in relations)
    return Relation.of_blocks(first.columns, first.types, blocks, count)


def extended(before: Relation, more: Relation) -> Relation:
    """Adds rows to a relation. If they are few, it keeps the old rows in place and records the new
    ones."""
    many = 2 * more.at_most > before.at_most and before.at_most > SORTED_BELOW
    if many or not (before.store.on_host and more.store.on_host):
        return union([before, more])
    if not before.types:
        return before.grown(more) if before.length < more.length else before.unchanged()
    rows = more.keys
    new = np.flatnonzero(~before.holds(rows))
    return before.grown(more.part(new))


def input_sources(texts: Sequence[tuple[Sequence[Statement], Folders]]) -> dict[str, list[Source]]:
    """The `.input`s of each relation."""
    found: dict[str, list[Source]] = {}
    for statements, folders in texts:
        for statement in statements:
            if isinstance(statement, Directive) and statement.kind == "input":
                for name in statement.names:
                    found.setdefault(name, []).append((statement, folders))
            if isinstance(statement, Decl) and "input" in statement.qualifiers:
                for name in statement.names:
                    directive = Directive("input", (name,), span=statement.span)
                    found.setdefault(name, []).append((directive, folders))
    return found


# Facts as rows of keys, and the rows that a stratum starts with.


def fact_rows(facts: Collection[Atom], types: Sequence[TypeName], scope: Scope) -> Rows:
    """The rows of facts, in their order."""
    params = scope.params
    columns = []
    for at, kind in enumerate(types):
        args: list[Any] = [atom.args[at] for atom in facts]
        values = [arg.value if isinstance(arg, Const) else params[arg.name] for arg in args]
        columns.append(encode_values(values, kind, scope.symbols))
    return tuple(columns), len(facts)


def in_rows(seeds: Sequence[Derived]) -> list[Derived]:
    """Sorts each set of rows and drops duplicates; rows on a cluster's workers stay unsorted."""
    found: list[Derived] = []
    for part in seeds:
        if isinstance(part, DistinctBlocks):
            found.append(part)
            continue
        keys, count = part
        here = all(map(is_on_host, keys))  # on a device they are sorted
        rows = sort_rows(keys) if keys and here else keys
        found.append((rows, len(rows[0]) if rows else min(1, count)))
    return found


# A thread that reads files before rules request them, in the order of these requests.
#
# The thread drops errors: the rule that requests the file reads it again and gets the error. It
# reads the files in a fixed order, so that a program's strings get codes of the same ranges in each
# run: plans and loops depend on these ranges.

LARGE = 1 << 21  # bytes of a file worth reading ahead
LONG = 1 << 20  # bytes of a file that compiled code reads
ROOM = 4  # bytes of memory needed for each byte of a file

Key = tuple[object, ...]
FileContent = tuple[Relation, Findings]  # the content of a file, and the notes about it


@dataclass(slots=True)
class FileReading:
    """A file to read."""

    key: Key  # cache key of its content
    what: str  # for progress reports
    size: int
    read: Callable[[], FileContent]
    made: FileContent | None = None
    done: Event = field(default_factory=Event)


class ReadingAhead:
    """Reads files, one after the other, during the evaluation."""

    def __init__(self, files: Sequence[FileReading], spare: Callable[[], int]) -> None:
        """`spare`: how many more bytes may be held."""
        worth = any(each.size >= LARGE for each in files)
        self._waiting = {each.key: each for each in files} if worth else {}
        self._spare = spare
        self._watch: Watch | None = None

    def after(self, size: int) -> None:
        """Called after a file of this many bytes was read on request. After the first long file, a
        thread reads the others: by then the modules that it needs are imported."""
        if self._watch is None and self._waiting and size >= LONG:
            self._watch = Watch(current_watch())
            begun(self._run)

    def stop(self) -> None:
        """Stops the thread at its next poll, because no one needs files any more."""
        self._waiting.clear()
        if self._watch is not None:
            self._watch.left = True

    def take(self, key: Key) -> FileContent | None:
        """Waits for the thread, and returns a file's content; None if it does not read the file."""
        file = self._waiting.get(key)
        if file is not None and self._watch is not None:
            watch = current_watch()
            while not file.done.wait(PATIENCE):
                watch.poll()
        self._waiting.pop(key, None)
        return None if file is None else file.made

    def _run(self) -> None:
        assert self._watch is not None
        working_for(self._watch)
        try:
            for file in list(self._waiting.values()):
                try:
                    if file.key in self._waiting and ROOM * file.size <= self._spare():
                        with self._watch.work("loading", file.what):
                            file.made = file.read()
                except BaseException:  # also cancellation
                    pass
                finally:
                    file.done.set()
        finally:
            working_for(Watch())


# Lists given as parameters, and the relations of their values.


def list_relation(
    params: Mapping[str, Any], symbols: SymbolTable, made: Recent[Relation], values: ValueList
) -> Relation:
    """The relation of a program's list. `made`: those built recently, by their content."""
    given = [params[p.name] if isinstance(p, Param | ListParam) else None for p in values.parts]
    contents = (v.digest if isinstance(v, GivenList) else (type(v), v) for v in given)
    content = (values, *contents)
    found = made.get(content)
    if found is not None:
        return found

    def keys_of(part: Values | Const | Param | ListParam) -> Array:
        if isinstance(part, ListParam):
            own: GivenList = params[part.name]
            return own.keys(values.type, symbols)
        if isinstance(part, Values):
            return encode_values(part.values, values.type, symbols)
        value = params[part.name] if isinstance(part, Param) else part.value
        return encode_values((value,), values.type, symbols)

    columns, types = values.schema
    keys = np.concatenate(list(map(keys_of, values.parts)))
    found = Relation.from_rows(columns, types, [keys], len(keys))
    made.put(content, found)
    return found


# A list given as a parameter: an immutable column of values.

_ARRAYS = ("__arrow_c_array__", "__arrow_c_stream__", "__array__")


@dataclass(frozen=True, slots=True)
class _ListPlace(DataPlace):
    """The place of a list's value, for errors."""

    def where(self, row: int) -> str:
        return f"the parameter ${self.column}: value {row}"

    def missing(self, row: int, found: object) -> MissingValue:
        hint = f"leave it out: [x for x in {self.column} if x is not None], or .dropna()"
        return MissingValue.of(self.error(row, f"a value is missing ({shown(found)})", hint))


@dataclass(frozen=True, slots=True, eq=False)
class GivenList:
    """A list of values of one type; `digest` identifies the values."""

    name: str
    kind: TypeName
    column: Column
    digest: bytes = field(repr=False)

    @staticmethod
    def of(name: str, given: Any) -> GivenList:
        if hasattr(given, "columns") and hasattr(given, "shape"):
            raise DataError(
                f"the parameter ${name} is a table, and a list has one column",
                hint='give one of its columns, as in params={"' + name + '": df["id"]}',
            )
        many = given if any(hasattr(given, kind) for kind in _ARRAYS) else list(given)
        from gdatalog.storage.columns import column_from

        kind, column = column_from(many, None, _ListPlace("the parameter", name))
        if isinstance(column, np.ndarray):
            column = column.copy()
        return GivenList(name, kind, column, _digest(kind, column))

    @property
    def type(self) -> ListOf:
        unknown = len(self) == 0 and self.kind == "symbol"  # the default without values
        return ListOf(None if unknown else self.kind, empty=len(self) == 0)

    def __len__(self) -> int:
        return len(self.column)

    def values(self) -> list[Value]:
        column = self.column
        return list((column.decode() if isinstance(column, TextColumn) else column).tolist())

    def keys(self, kind: TypeName, symbols: SymbolTable) -> Array:
        """The values as keys: of their own type, or of float for ints."""
        if len(self) == 0:
            return np.empty(0, dtype=np.int32)
        if kind == "float":
            return float_to_key(np.asarray(self.column, dtype=np.float64))
        return encode_column(self.column, self.kind, symbols)


def holds_many(value: object) -> bool:
    """Whether a value is a collection, and not a scalar, a text or a mapping."""
    if isinstance(value, str | bytes | bytearray | Mapping):
        return False
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, Collection) or any(hasattr(value, kind) for kind in _ARRAYS)


def _digest(kind: TypeName, column: Column) -> bytes:
    from hashlib import blake2b

    found = blake2b(kind.encode(), digest_size=16)
    if isinstance(column, TextColumn):
        found.update(np.ascontiguousarray(column.codes, dtype=np.int64).tobytes())
        found.update(repr(list(column.texts)).encode())
    else:
        found.update(str(column.dtype).encode())
        found.update(column.tobytes())
    return found.digest()
