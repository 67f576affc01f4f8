"""The options for loading, and warnings about loaded data."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, get_args

from gdatalog.errors import Caution, DataError, UsageError, meant
from gdatalog.records import dataclass, field, replace
from gdatalog.settings import Duplicates
from gdatalog.storage.places import shown
from gdatalog.values import TypeName, plain

Nulls = Literal["keep", "drop", "error"]
Names = tuple[str, ...]
Types = tuple[TypeName, ...]
FilePath = str | os.PathLike[str]
DATABASE = ".gdb"  # the ending of the folders of saved databases


def is_database(path: str) -> bool:
    """Whether a path names a saved database."""
    return path.rstrip("/").endswith(DATABASE)


class Declared(Protocol):
    """The declared columns of a relation; the planner's Schema implements this."""

    @property
    def columns(self) -> Names: ...
    @property
    def types(self) -> Types: ...
    @property
    def nullable(self) -> tuple[bool, ...]: ...
    @property
    def declared(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class TypedColumns:
    """The names and types of a relation's columns, and which are nullable (empty: none).
    `declared`: others may hold no nulls."""

    columns: Names
    types: Types
    nullable: tuple[bool, ...] = ()
    declared: bool = False


@dataclass(slots=True)
class Findings:
    """Counts and warnings from loading one file or several."""

    warnings: list[Caution] = field(default_factory=list)
    header: bool | None = None  # whether a text file has a header
    guess: Caution | None = None  # the warning that the header was guessed
    rows: int = 0  # loaded rows
    dropped: int = 0  # rows that were dropped because a value is missing
    missing: dict[str, int] = field(default_factory=dict)  # missing values by column
    duplicates: int = 0

    def count(self, loaded: int, distinct: int) -> None:
        """Counts the loaded rows, and the duplicates among them."""
        self.rows += loaded
        self.duplicates += loaded - distinct

    def cautions(self, name: str) -> list[Caution]:
        """The warnings about the relation `name`."""
        found = [*self.warnings, *([self.guess] if self.guess is not None else [])]
        if self.dropped:
            columns = ", ".join(
                f"`{key}` in {row_count(count)}" for key, count in self.missing.items()
            )
            found.append(
                Caution(
                    f"{name}: {self.dropped:,} of {row_count(self.rows + self.dropped)} dropped "
                    f"because values are missing: {columns}"
                )
            )
        if self.duplicates:
            loaded = f": {row_count(self.rows - self.duplicates)} loaded"
            found.append(Caution(self._duplicates_of(name) + loaded, hint=_KEEP))
        return found

    def check_duplicates(self, name: str, setting: Duplicates) -> None:
        """Raises if there are duplicates, and the setting says that they are an error."""
        if self.duplicates and setting == "error":
            warn = 'duplicates="warn" drops the duplicates with a warning'
            raise DataError(self._duplicates_of(name), hint=f"{_KEEP}; {warn}")

    def _duplicates_of(self, name: str) -> str:
        are = "is a duplicate" if self.duplicates == 1 else "are duplicates"
        of = f"{self.duplicates:,} of {row_count(self.rows)}"
        return f"{name}: {of} {are}, and a relation is a set"


_KEEP = "row_id=True keeps all rows, so that sums and counts see each of them"


class KeptPipes(Protocol):
    """Reads what can be read only once (`pipes.py`)."""

    def read(self, name: str, read: Callable[[str], bytes]) -> bytes: ...


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """`columns` selects columns by name, or names them by position. `header`: whether the first
    line of a text file is a header. `nulls`: whether missing values are kept, their rows dropped,
    or refused; `fill` replaces them, by column. `row_id` adds a column of row numbers with this
    name, or a hidden one. `findings` collects warnings, if given. `declared`: the relation's
    declaration. `what`: the name of the data, in errors. `there`: the array module of a device;
    columns on that device stay there. `pipes`: keeps the content of pipes. Of a graph: `tuples`
    makes columns of the parts of nodes that are tuples; `with_nodes`: its nodes are loaded, too.
    `marking`: as `marks`, for columns that are not declared here. `null`: the word for nulls in a
    text file.
    """

    columns: Sequence[str] | None = None
    header: bool | None = None
    nulls: Nulls = "keep"
    null: str | None = None
    fill: Mapping[str, Any] = field(default_factory=dict)
    row_id: str | bool | None = None  # True: hidden
    first_row_id: int = 0
    fill_is_text: bool = False  # whether the values of `fill` are parsed like cells of a file
    findings: Findings | None = field(default=None, compare=False)
    declared: Declared | None = None
    what: str = "data"
    there: Any = None
    pipes: KeptPipes | None = field(default=None, compare=False)
    tuples: bool = False
    with_nodes: bool = False
    marking: bool = False

    @property
    def arity(self) -> int | None:
        """The number of wanted columns, if it is known."""
        wanted = self.columns if self.declared is None else self.declared.types
        return None if wanted is None else len(wanted)

    def is_nullable(self, at: int) -> bool:
        """Whether a column is nullable, whatever its data."""
        return self.declared is not None and True in self.declared.nullable[at : at + 1]

    @property
    def marks(self) -> bool:
        """Whether empty cells without quotes are marked: in some column of texts they are nulls."""
        declared = self.declared
        null = () if declared is None else zip(declared.types, declared.nullable, strict=False)
        return self.marking or ("symbol", True) in null

    def marked(self, at: int) -> bool:
        """Whether marked cells of a column are nulls."""
        declared = self.declared
        return declared is not None and declared.types[at] == "symbol" and self.is_nullable(at)

    def blank_is_row(self, quoted: bool) -> bool:
        """Whether an empty line of a text file is a row: of the only column, which has texts or is
        nullable."""
        declared = self.declared
        if declared is None or len(declared.types) != 1:
            return False
        return self.is_nullable(0) if quoted else declared.types[0] == "symbol"

    def keeps(self, at: int) -> bool:
        """Whether a column's missing values become nulls."""
        strict = self.declared is not None and self.declared.declared
        return self.nulls == "keep" and (not strict or self.is_nullable(at))

    @property
    def mends(self) -> bool:
        """Whether missing values are filled, or their rows dropped."""
        return self.nulls == "drop" or bool(self.fill)


PLAIN = LoadOptions()


def row_count(count: int) -> str:
    return f"{count:,} row{'s' * (count != 1)}"


def checked(options: LoadOptions) -> LoadOptions:
    """The options; raises an error if one is not valid."""
    if options.nulls not in get_args(Nulls):
        raise UsageError(
            f"there is no nulls={options.nulls!r}",
            hint='nulls="keep" keeps missing values, nulls="drop" drops rows with some, '
            'nulls="error" refuses them',
        )
    if not isinstance(options.fill, Mapping):
        raise UsageError(
            f'fill is a dict of columns and values, {{"age": 0}}, not {options.fill!r}'
        )
    if isinstance(options.row_id, str | None) and options.row_id != "":
        options = replace(options, row_id=plain(options.row_id))
    elif options.row_id is False:
        options = replace(options, row_id=None)
    elif options.row_id is not True:
        message = f"row_id is True or the name of a column, found {options.row_id!r}"
        raise UsageError(message)
    if options.null is not None and not isinstance(options.null, str):
        raise UsageError(f"null is the word for nulls in a text file, found {options.null!r}")
    if options.header is not None and not isinstance(options.header, bool):
        raise UsageError(f"header is True, False or None, found {options.header!r}")
    if options.columns is None:
        return options
    names = list(options.columns) if isinstance(options.columns, Iterable) else [None]
    if isinstance(options.columns, str) or not all(isinstance(name, str) for name in names):
        raise UsageError(f"columns is a list of names, found {shown(options.columns)}")
    return replace(options, columns=list(map(plain, names)))


TEXT_OPTIONS = ("header", "headers", "columns", "nulls", "null", "fill", "row_id")


def options_of_text(given: Mapping[str, str], findings: Findings | None = None) -> LoadOptions:
    """Options from a directive or a command.

    >>> options_of_text({"header": "true", "columns": "a, b", "fill": "age=0"}).fill
    {'age': '0'}
    """
    unknown = next((name for name in given if name not in TEXT_OPTIONS), None)
    if unknown is not None:
        near = meant(unknown, TEXT_OPTIONS)
        raise UsageError(
            f"there is no option {unknown!r}",
            hint=f"did you mean {near!r}?" if near else "options are " + ", ".join(TEXT_OPTIONS),
        )
    header = flag_of(given, "header", "headers")
    columns = given.get("columns")
    row_id = given.get("row_id")
    fill: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in given.get("fill", "").split(","))):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise UsageError(
                f"fill gives columns values, found {part!r}", hint='fill="age=0, city=unknown"'
            )
        fill[name.strip()] = value.strip()
    return checked(
        LoadOptions(
            None if columns is None else [name.strip() for name in columns.split(",")],
            header,
            given.get("nulls", "keep"),  # type: ignore[arg-type]  # `checked` looks at the word
            given.get("null"),
            fill,
            {"true": True, "false": None}.get((row_id or "").lower(), row_id),
            fill_is_text=True,
            findings=findings,
        )
    )


def flag_of(given: Mapping[str, str], *names: str) -> bool | None:
    """The value of an option that is true or false, under the first of some names that is given."""
    for name in names:
        if name in given:
            if given[name].lower() not in ("true", "false"):
                raise UsageError(f"{name} is true or false, found {given[name]!r}")
            return given[name].lower() == "true"
    return None


def delimiter_of(given: Mapping[str, str]) -> str | None:
    """The delimiter that the options of a directive give; a tab may be written as in Soufflé."""
    delimiter = given.get("delimiter")
    return "\t" if delimiter == "\\t" else delimiter


def broken_link(path: str) -> str | None:
    """Says that a path is a link, or leads through one, that points to nothing; None if not."""
    while path and path != os.path.dirname(path):
        if os.path.islink(path) and not os.path.exists(path):
            return f"{path} is a link to {os.readlink(path)!r}, and nothing is there"
        path = os.path.dirname(path)
    return None


def check_delimiter(delimiter: str) -> str:
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n\0':
        raise UsageError(
            f"a delimiter is one ASCII character, found {delimiter!r}",
            hint=r'"," or "\t", for instance',
        )
    return delimiter
