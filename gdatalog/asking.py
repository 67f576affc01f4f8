"""Answers queries: by an execution of their text, and later by what they are bound to."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from operator import is_
from typing import Any

from gdatalog.engine.catalog.parameters import GivenList
from gdatalog.engine.compiler.compiled import Compiled
from gdatalog.engine.compiler.constants import SharedText
from gdatalog.engine.evaluator.bound import Bound, BoundPart, bind
from gdatalog.engine.execution import typed_params
from gdatalog.errors import Caution, Error
from gdatalog.parser import Program
from gdatalog.records import dataclass
from gdatalog.relations import AnswerPart
from gdatalog.result import Result
from gdatalog.session import Session
from gdatalog.settings import Settings
from gdatalog.values import ParamType, Value

TypedParams = Mapping[str, tuple[ParamType, Value | GivenList]]
MOST_QUERIES = 256  # queries that are remembered with a catalog


@dataclass(slots=True, eq=False)
class AskedQuery:
    """A query that was asked over a catalog, with these settings. `bound`: what it is bound to,
    which was `tried` when it was asked for the second time."""

    program: Program  # its id is in the key
    settings: Settings
    tried: bool = False
    bound: Bound | None = None


@contextmanager
def reading(
    session: Session, text: str, params: Mapping[str, Any]
) -> Iterator[tuple[Program, Mapping[str, Any]]]:
    """The program of a query's text and its parameters. A text that differs from an earlier one in
    constants shares its program; within this context, messages speak of the text as it was given.
    """
    found = session.query(text)
    if isinstance(found, SharedText) and not _fits(session, found, params):
        found = session.parse(text, "<query>", bare=True)
    if not isinstance(found, SharedText):
        yield found, params
        return
    shared, warn = found, session.on_caution
    with shared.speaking(), session.warnings_to(lambda caution: warn(shared.caution(caution))):
        yield shared.program, {**params, **shared.params}


def _fits(session: Session, text: SharedText, params: Mapping[str, Any]) -> bool:
    """Whether the program with parameters is valid over the catalog, and gives the same columns as
    the one with constants."""
    catalog, shape = session.catalog, text.shape
    over = catalog.texts, catalog.schemas
    before = shape.fits[0]
    if isinstance(before, tuple) and all(map(is_, before, over)):
        return shape.fits[1]
    try:
        plain, _ = session.signature(shape.program, params)
        shared, _ = session.signature(text.program, {**params, **text.params})
        fits = len(plain.cautions) == len(shared.cautions) and _columns(plain) == _columns(shared)
    except Error:
        fits = False
    shape.fits = over, fits
    return fits


def _columns(compiled: Compiled) -> tuple[Any, ...]:
    schema = compiled.checked.schemas[compiled.asked]
    return schema.columns, schema.types, schema.kinds, schema.nullable


def ask(
    session: Session,
    program: Program,
    params: Mapping[str, Any],
    strategy: str = "auto",
    limit: int | None = None,
    max_rows: int | None = None,
    warns: bool = True,
) -> Result:
    """Answers the one query of a program. `warns`: about the program, and not only about its
    evaluation."""
    session.check_open()
    if strategy == "auto" and max_rows is None and session.binds:
        catalog = session.catalog
        given = {**catalog.params, **params} if catalog.params else params
        typed = typed_params(program, given)
        result = _asked_before(session, program, params, typed, limit, warns)
        if result is not None:
            return result
    execution = session.execution(program, params=params, strategy=strategy)
    name = execution.asked()
    part = AnswerPart.of(execution.compiled.cut, execution.params, limit)
    relation = execution.relation(name, *part.needs(max_rows))
    schema = execution.checked.schemas[name]
    relation = relation.of_kinds(schema.kinds, schema.nullable)
    result = part.of_result(Result.of(relation, session.symbols))
    if warns:
        session.tell(execution, params)
    else:
        session.warn(execution.context.scope.cautions.values())
    return result


def _asked_before(
    session: Session,
    program: Program,
    params: Mapping[str, Any],
    typed: TypedParams,
    limit: int | None,
    warns: bool,
) -> Result | None:
    """The answer of a query that was asked before over this catalog; None if it was not."""
    bound = _bound(session, program, params, typed)
    if bound is None:
        return None
    found = _answer(session, bound, typed, limit)
    if found is None:
        return None
    result, cautions = found
    if cautions or (warns and bound.compiled.cautions):
        session.warn((*(bound.compiled.cautions if warns else ()), *cautions))
    return result


def _key(program: Program, typed: TypedParams) -> tuple[object, ...]:
    return id(program), tuple([(name, kind) for name, (kind, _) in typed.items()])


def _bound(
    session: Session,
    program: Program,
    params: Mapping[str, Any],
    typed: TypedParams,
) -> Bound | None:
    """What a query is bound to, if it has been asked before over this catalog."""
    before, settings, key = session.catalog.bound, session.settings, _key(program, typed)
    asked: AskedQuery | None = before.get(key)
    if asked is None or asked.settings is not settings:
        earlier, again = session.catalog.asked, (key, id(settings))
        for kept in (before, earlier):
            if len(kept) >= MOST_QUERIES:
                kept.clear()
        asked = before[key] = AskedQuery(program, settings)
        if again not in earlier:
            earlier.add(again)
            return None
    if not asked.tried:
        asked.tried = True
        execution = session.execution(program, params=params)
        known = execution.compiled.parameters
        if all(name in known for name in params):
            asked.bound = bind(execution.evaluator, execution.compiled)
    elif isinstance(asked.bound, BoundPart) and asked.bound.then is not None:
        asked.bound = asked.bound.then
    return asked.bound


def _answer(
    session: Session, bound: Bound, typed: TypedParams, limit: int | None
) -> tuple[Result, Collection[Caution]] | None:
    """The answer of a bound query, and the warnings of its evaluation."""
    values = {name: value for name, (_, value) in typed.items()}
    context = session.bound_context(bound.compiled, values)
    part = AnswerPart.of(bound.compiled.cut, values, limit)
    relation = bound.relation(context, part.needs()[0])
    if relation is None:
        return None
    cautions, compiled = context.scope.cautions.values(), bound.compiled
    schema = compiled.checked.schemas[compiled.asked]
    relation = relation.of_kinds(schema.kinds, schema.nullable)
    return part.of_result(Result.of(relation, session.symbols)), cautions
