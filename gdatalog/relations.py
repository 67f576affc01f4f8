"""The relations of a database, as a mapping."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from gdatalog.engine.execution import Usage
from gdatalog.errors import Error, NameResolutionError, UsageError
from gdatalog.parser import Program
from gdatalog.parser.syntax import Const, Param
from gdatalog.planner.check import AnswerCut, Schema
from gdatalog.planner.check.invalid import Cause
from gdatalog.planner.check.statements import ruled
from gdatalog.planner.check.wording import count
from gdatalog.records import dataclass
from gdatalog.result import Result
from gdatalog.storage.relation import Relation
from gdatalog.storage.row_order import completed
from gdatalog.storage.table import Table
from gdatalog.terminal_text import brief, visible
from gdatalog.values import type_texts

if TYPE_CHECKING:
    import pandas as pd

    from gdatalog.engine.execution import Execution
    from gdatalog.session import Session


def answer(
    execution: Execution,
    name: str,
    limit: int | None = None,
    max_rows: int | None = None,
    cut: AnswerCut | None = None,
) -> Result:
    """Evaluates a relation or a query of a text. Returns at most `limit` rows of those that the
    query asks for; the limit does not apply to propositions, which have one row or none."""
    part = AnswerPart.of(cut, execution.params, limit)
    relation = execution.relation(name, *part.needs(max_rows))
    schema = execution.checked.schemas[name]
    relation = relation.of_kinds(schema.kinds, schema.nullable)
    return part.of_result(Result.of(relation, execution.context.scope.symbols))


@dataclass(frozen=True, slots=True)
class AnswerPart:
    """The rows of a relation that an answer has: sorted by the columns in `order`, without the
    first `offset`, and at most `limit`."""

    limit: int | None = None
    order: tuple[tuple[int, bool], ...] = ()
    offset: int = 0

    @staticmethod
    def of(cut: AnswerCut | None, params: Mapping[str, Any], limit: int | None) -> AnswerPart:
        """What a query asks for, with these parameters, and at most `limit` rows of it."""
        if cut is None:
            return WHOLE if limit is None else AnswerPart(limit)
        own, offset = (_bound(each, params) for each in (cut.limit, cut.offset))
        given = [each for each in (own, limit) if each is not None]
        return AnswerPart(min(given, default=None), cut.order, offset or 0)

    def needs(self, max_rows: int | None = None) -> tuple[int | None, int | None]:
        """How many rows of the relation are enough, None if it takes all of them; and `max_rows`
        unless the answer cannot have more rows in any case."""
        limit = self.limit
        needed = None if self.order or limit is None else max(1, self.offset + limit)
        within = max_rows is None or (limit is not None and limit <= max_rows)
        return needed, None if within else max_rows

    def of_result(self, result: Result) -> Result:
        """These rows of the relation's; the result says so if the limit has cut off others."""
        if self is WHOLE:
            return result
        if self.order or self.offset:
            most = len(result)
            stop = most if self.limit is None else min(most, self.offset + self.limit)
            if self.order:
                order = completed(self.order, len(result.columns))
                result = result._sorted(order, stop)  # ties are broken by the other columns
                result.ordered = True
            result = result._part(min(self.offset, stop), stop)
        return limited(result, self.limit)


WHOLE = AnswerPart()


def _bound(bound: Const | Param | None, params: Mapping[str, Any]) -> int | None:
    if bound is None:
        return None
    value: int = params[bound.name] if isinstance(bound, Param) else bound.value  # type: ignore[assignment]  # checked to be an int
    if value < 0:
        message = f"a number of rows cannot be negative: {value}"
        raise UsageError(message, bound.span, hint="give 0 or more")
    return value


def limited(result: Result, limit: int | None) -> Result:
    """At most `limit` rows of a result, which says so if it has as many: there may be more. A
    proposition has no rows to limit."""
    if limit is None or not result.columns:
        return result
    made = result.head(limit)
    made.limit = limit if len(made) == limit else result.limit
    return made


@dataclass(frozen=True, slots=True)
class Inserted:
    """The result of an insert: the number of new rows, of rows that were `known`, and of rules that
    also define the relation."""

    relation: str
    rows: int
    known: int
    rules: int

    def __repr__(self) -> str:
        text = f"{brief(self.relation)}: {count(self.rows, 'row')} inserted"
        text += f", {self.known:,} known already" * bool(self.known)
        beside = f", as base facts beside its {count(self.rules, 'rule')}"
        return text + beside * bool(self.rules)


@dataclass(frozen=True, slots=True)
class Deleted:
    """The result of a deletion: the number of `rows` that went, of given rows that were not there
    (`missing`), and of rules that also define the relation."""

    relation: str
    rows: int
    missing: int
    rules: int

    def __repr__(self) -> str:
        text = f"{brief(self.relation)}: {count(self.rows, 'row')} deleted"
        text += f", {self.missing:,} not there" * bool(self.missing)
        beside = f"; its {count(self.rules, 'rule')} may still derive them"
        return text + beside * bool(self.rules)


@dataclass(frozen=True, slots=True)
class RelationEntry:
    """A relation in a listing: its rows, if known without evaluation, and its origin.

    For an invalid relation `schema` is None, and `origin` is the reason.
    """

    name: str
    schema: Schema | None
    rows: Relation | None
    origin: str

    @property
    def columns(self) -> str:
        """The columns and their types, as `.decl` writes them."""
        if self.schema is None:
            return ""
        schema = self.schema.as_shown()
        types = type_texts(schema.types, schema.nullable)
        pairs = zip(schema.columns, types, strict=True)
        return ", ".join(map(": ".join, pairs))

    def __str__(self) -> str:
        return self.name if self.schema is None else f"{self.name}({self.columns})"


def catalog(session: Session) -> list[RelationEntry]:
    """All relations by name, without evaluating any."""
    execution = session.execution(Program(()))
    with_rules = ruled(session.texts.outline())
    schemas, broken = execution.checked.schemas, execution.validity.broken

    def entry(name: str) -> RelationEntry:
        if name in broken:
            return RelationEntry(name, None, None, broken[name].why(name))
        origin = "rules" if name in with_rules else "data"
        return RelationEntry(name, schemas[name], execution.at_hand(name), origin)

    return [entry(name) for name in sorted({*schemas, *broken})]


def schema_frame(session: Session) -> pd.DataFrame:
    """All columns of all relations, without evaluating any."""
    import pandas as pd

    from gdatalog.storage.column_arrays import empty_column
    from gdatalog.storage.export import dtypes_of

    found: list[tuple[object, ...]] = []
    for entry in catalog(session):
        schema, rows = entry.schema, entry.rows
        if schema is None:
            found.append((entry.name, None, None, None, None, "invalid"))
            continue
        names, types = schema.columns, schema.types
        null = schema.nullable or (False,) * len(types)
        columns = tuple(map(empty_column, types, null))
        table = Table(names, types, columns, 0, schema.kinds, schema.nullable)
        length = rows.length if rows is not None and rows.counted else None
        told = type_texts(types, null)
        own: list[tuple[object, ...]] = list(zip(names, told, dtypes_of(table), strict=True))
        found += [(entry.name, *column, length, entry.origin) for column in own or [(None,) * 3]]
    labels = ["relation", "column", "type", "dtype", "rows", "origin"]
    return pd.DataFrame(found, columns=labels).astype({"rows": "Int64"})


@dataclass(frozen=True, eq=False)
class Relations(Mapping[str, Result]):
    """The relations of a database, by name. Includes invalid ones, which raise on access."""

    _call: Callable[[], AbstractContextManager[Session]]

    def _standing(self) -> tuple[dict[str, Schema], Mapping[str, Cause]]:
        with self._call() as session:
            return session.standing()

    def _names(self) -> list[str]:
        schemas, broken = self._standing()
        return sorted({*schemas, *broken})

    def __getitem__(self, name: str) -> Result:
        with self._call() as session:
            execution = session.execution(Program(()), Usage(lasting=True))
            validity = execution.validity
            if name not in execution.checked.schemas and name not in validity.broken:
                raise NameResolutionError(f"there is no relation {name!r}", hint=session.near(name))
            return answer(execution, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def __contains__(self, name: object) -> bool:
        return name in self._names()

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def schema(self, name: str) -> Schema:
        """A relation's columns and types, without evaluating it."""
        schemas, broken = self._standing()
        if name in broken:
            raise broken[name].error_for(name)
        return schemas[name]

    @property
    def invalid(self) -> dict[str, Error]:
        """The invalid relations, each with the error that a query of it raises.

        >>> import gdatalog as gd
        >>> db = gd.connect()
        >>> db["E"] = [(1, 2)]
        >>> _ = db.run("path(x, y) <- E(x, y).")
        >>> db.relations.invalid
        {}
        """
        return {name: cause.error_for(name) for name, cause in self._standing()[1].items()}

    def __repr__(self) -> str:
        schemas, broken = self._standing()
        lines = {name: f"{name}: invalid, {cause.why(name)}" for name, cause in broken.items()}
        for name, schema in schemas.items():
            lines[name] = str(RelationEntry(name, schema, None, ""))
        return "\n".join(visible(brief(lines[name])) for name in sorted(lines)) or "no relations"
