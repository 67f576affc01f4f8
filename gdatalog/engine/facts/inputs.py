"""A program's data: stored relations, lists given as parameters, and `.input` files, which are read
on demand or ahead.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from gdatalog.cancellation import current_watch
from gdatalog.claims import Claims
from gdatalog.engine.catalog.sources import Source
from gdatalog.engine.facts.files import Files, locate, placed, read_relation
from gdatalog.engine.facts.reading_ahead import FileContent, FileReading, ReadingAhead
from gdatalog.engine.facts.unions import extended, union
from gdatalog.engine.recent import Recent
from gdatalog.errors import Caution, Error
from gdatalog.overhead import spending
from gdatalog.planner.check import Schema
from gdatalog.records import dataclass, field, replace
from gdatalog.settings import Duplicates
from gdatalog.storage.history import Version
from gdatalog.storage.key_columns import relation_of_tables
from gdatalog.storage.load_options import Findings
from gdatalog.storage.pipes import Pipes
from gdatalog.storage.relation import Relation
from gdatalog.storage.symbols import SymbolTable

# Has a cluster's workers read a path, as a relation of this name and schema; None if they do not.
Afar = Callable[[str, str, Schema | None], Relation | None]
FoundFile = tuple[Relation | None, str, Schema | None, tuple[object, ...], tuple[int, int]]


@dataclass(slots=True)
class FileCache:
    """The data outside the catalog that a database has read. `files`: the newest version of each
    file, by reading options; `pipes`: what can be read only once; `unions`: the relations of
    several files, so that views stay fresh; `lists`: the relations of values, by their content;
    `reading`: the files that threads read now."""

    files: dict[tuple[object, ...], tuple[tuple[int, int], Relation]] = field(default_factory=dict)
    pipes: Pipes = field(default_factory=Pipes)
    unions: dict[str, tuple[tuple[Version, ...], Relation]] = field(default_factory=dict)
    lists: Recent[Relation] = field(default_factory=Recent)
    reading: Claims[Relation] = field(default_factory=Claims)

    def forget(self) -> None:
        """Drops files that can be read again."""
        self.files, self.unions = {}, {}


@dataclass(slots=True, eq=False)
class Inputs(Mapping[str, Relation]):
    """Stored relations, and the files of `.input`s, read when they are first requested.

    `cache`: the files that were read. `remote`: has a cluster's workers read a path. `lists`:
    functions that make the relations of lists of values. `duplicates`: what equal rows are.
    """

    stored: Mapping[str, Relation]
    sources: Mapping[str, Sequence[Source]]
    schemas: Mapping[str, Schema]
    symbols: SymbolTable
    files: Files  # that may be read
    cache: FileCache
    remote: Afar = lambda data, name, schema: None
    warn: Callable[[Caution], None] = lambda caution: None
    lists: Mapping[str, Callable[[], Relation]] = field(default_factory=dict)
    # The columns that are kept of relations whose other columns are not read.
    kept: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    ahead: ReadingAhead | None = None
    duplicates: Duplicates = "warn"
    _joined: dict[str, Relation] = field(default_factory=dict)
    _files: dict[str, list[tuple[object, ...]]] = field(default_factory=dict)  # of each relation

    def let_go(self, name: str) -> None:
        """Frees the files that only this relation reads; it is not read again."""
        self._joined.pop(name, None)
        self.cache.unions.pop(name, None)
        for key in self._files.pop(name, ()):
            if not any(key in keys for keys in self._files.values()):
                self.cache.files.pop(key, None)

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
            each = tuple(self.file(source, name) for source in self.sources[name])
            if name in self.stored:
                each = (*each, self.stored[name])
            found = each[0] if len(each) == 1 else self._union(name, each)
            self._joined[name] = found
        return found

    def _union(self, name: str, each: tuple[Relation, ...]) -> Relation:
        """The union of relations; if these only grew since the last call, it extends the last
        union."""
        versions, found = self.cache.unions.get(name, ((), None))
        pairs = zip(each, versions, strict=False)
        since = [relation.since(version) for relation, version in pairs]
        if found is None or len(versions) != len(each) or None in since:
            found = union(each)
        else:
            added = [rows for known in since for rows in known or ()]
            found = extended(found, union(added)) if added else found
        self.cache.unions[name] = tuple(relation.version for relation in each), found
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
            if found is not None:
                return found
            with self.cache.reading.on((key, version), current_watch().poll) as claim:
                if claim.found is None:
                    claim.found = self._find(source, name)[0]
                if claim.found is None:
                    claim.found = self._read(source, name, path, schema, key, version)
                return claim.found

    def _read(
        self,
        source: Source,
        name: str,
        path: str,
        schema: Schema | None,
        key: tuple[object, ...],
        version: tuple[int, int],
    ) -> Relation:
        """Reads a file, and caches its relation."""
        directive, _ = source
        watch, found, made = current_watch(), None, None
        with watch.work("loading", f"{name} from {path}"), spending("loading"):
            if directive.path is not None:
                found = self.remote(path, name, schema)
            if found is None and self.ahead is not None:
                made = self.ahead.take(key)
            if found is None:
                made = made or watch.aside(lambda: self._made(source, name, path, schema))
                found = made[0]
        if made is not None:
            made[1].check_duplicates(name, self.duplicates)
        self.cache.files[key] = version, found
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
        how = schema, folders, findings, self.symbols, kept, self.cache.pipes
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
        from gdatalog.storage.file_sets import version_of

        try:
            version = version_of(path)
        except (OSError, Error):
            version = 0, 0  # reading it raises the error
        how = (directive.path is None, directive.options)
        what = None if schema is None else (schema.columns, schema.types, schema.nullable)
        key = (os.path.abspath(path), how, what, self.kept.get(name))
        known = self.cache.files.get(key)
        found = known[1] if known is not None and known[0] == version else None
        return found, path, schema, key, version
