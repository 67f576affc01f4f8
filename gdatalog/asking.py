"""Answers queries: by an execution of their text, and later by what they are bound to."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from operator import is_
from typing import Any

from gdatalog.calls import Limits
from gdatalog.cancellation import Watch, current_watch
from gdatalog.cpu_ops.expressions import Scope
from gdatalog.engine.catalog.parameters import GivenList
from gdatalog.engine.compiler.compiled import Compiled
from gdatalog.engine.compiler.constants import SharedText
from gdatalog.engine.evaluator.bound import Bound, BoundPart, BoundRules, bind
from gdatalog.engine.execution import scalars, typed_params
from gdatalog.errors import Caution, DataError, Error
from gdatalog.parser import Program
from gdatalog.records import dataclass
from gdatalog.relations import answer, limited
from gdatalog.result import Result
from gdatalog.settings import Settings
from gdatalog.values import ParamType, TypeName, Value
from gdatalog.workspace import Workspace

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


def ask_text(
    workspace: Workspace,
    text: str,
    params: Mapping[str, Any],
    strategy: str,
    limit: int | None,
    max_rows: int | None,
) -> Result:
    """Answers a query; a text that differs from an earlier one in constants shares its plan."""
    found = workspace.query(text)
    if not isinstance(found, SharedText):
        return ask(workspace, found, params, strategy, limit, max_rows)
    if not _fits(workspace, found, params):
        program = workspace.parse(text, "<query>", bare=True)
        return ask(workspace, program, params, strategy, limit, max_rows)
    warn = workspace.on_caution
    with found.speaking(), workspace.warnings_to(lambda caution: warn(found.caution(caution))):
        given = {**params, **found.params}
        return ask(workspace, found.program, given, strategy, limit, max_rows)


def _fits(workspace: Workspace, text: SharedText, params: Mapping[str, Any]) -> bool:
    """Whether the program with parameters is valid over the catalog, and gives the same columns as
    the one with constants."""
    catalog, shape = workspace.catalog, text.shape
    over = catalog.texts, catalog.schemas
    before = shape.fits[0]
    if isinstance(before, tuple) and all(map(is_, before, over)):
        return shape.fits[1]
    try:
        plain, _ = workspace.signature(shape.program, params)
        shared, _ = workspace.signature(text.program, {**params, **text.params})
        fits = len(plain.cautions) == len(shared.cautions) and _columns(plain) == _columns(shared)
    except Error:
        fits = False
    shape.fits = over, fits
    return fits


def _columns(compiled: Compiled) -> tuple[Sequence[str], Sequence[TypeName]]:
    schema = compiled.checked.schemas[compiled.asked]
    return schema.columns, schema.types


def ask(
    workspace: Workspace,
    program: Program,
    params: Mapping[str, Any],
    strategy: str = "auto",
    limit: int | None = None,
    max_rows: int | None = None,
    warns: bool = True,
) -> Result:
    """Answers the one query of a program. `warns`: about the program, and not only about its
    evaluation."""
    workspace.check_open()
    if strategy == "auto" and max_rows is None and workspace.binds:
        catalog = workspace.catalog
        given = {**catalog.params, **params} if catalog.params else params
        typed = typed_params(program, given)
        result = _asked_before(workspace, program, params, typed, limit, warns)
        if result is not None:
            return result
    execution = workspace.execution(program, params=params, strategy=strategy)
    result = answer(execution, execution.asked(), limit, max_rows)
    if warns:
        workspace.tell(execution, params)
    else:
        workspace.warn(execution.context.scope.cautions.values())
    return result


def look_up_text(
    workspace: Workspace, text: str, params: Mapping[str, Any], limit: int | None
) -> Result | None:
    """As `look_up`, for a text."""
    if not (isinstance(text, str) and workspace.compiler.keeps(text) and _may_look_up(workspace)):
        return None
    compiler = workspace.compiler
    try:
        found = compiler.query(text, "<query>")
    except Error:
        return None
    if not isinstance(found, SharedText):
        program, cautions = found
        result = None if cautions else look_up(workspace, program, params, limit)
        shared = compiler.shared(text, "<query>") if result is None else None
        if shared is None:
            return result
        found = shared
    return look_up(workspace, found.program, {**params, **found.params}, limit)


def look_up(
    workspace: Workspace,
    program: Program,
    params: Mapping[str, Any],
    limit: int | None,
    warns: bool = True,
) -> Result | None:
    """The answer of a query that only looks rows up, from a snapshot of what the database holds:
    it waits for no other call. None if the query has to be asked in a call."""
    if not _may_look_up(workspace):
        return None
    catalog, symbols = workspace.published, workspace.symbols
    try:
        typed = typed_params(program, {**catalog.params, **params})
    except DataError:
        return None
    asked = catalog.bound.get(_key(program, typed))
    if asked is None or asked.settings is not workspace.settings:
        return None
    bound: Bound | None = asked.bound
    if not isinstance(bound, BoundRules) or (warns and bound.compiled.cautions):
        return None
    if any(name not in bound.compiled.parameters for name in params):
        return None
    values = scalars(bound.compiled, {name: value for name, (_, value) in typed.items()})
    if not all(symbols.has(value) for value in values.values() if isinstance(value, str)):
        return None
    wanted = None if limit is None else max(1, limit)
    relation = bound.looked_up(Scope(symbols, values), Limits(watch=Watch()), wanted)
    return None if relation is None else limited(Result(relation, symbols), limit)


def _may_look_up(workspace: Workspace) -> bool:
    """Whether this thread is in no call of the database, and may read what is published."""
    inside = current_watch() is workspace.watch
    return not (inside or workspace.closed) and workspace.binds


def _asked_before(
    workspace: Workspace,
    program: Program,
    params: Mapping[str, Any],
    typed: TypedParams,
    limit: int | None,
    warns: bool,
) -> Result | None:
    """The answer of a query that was asked before over this catalog; None if it was not."""
    bound = _bound(workspace, program, params, typed)
    if bound is None:
        return None
    found = _answer(workspace, bound, typed, limit)
    if found is None:
        return None
    result, cautions = found
    if cautions or (warns and bound.compiled.cautions):
        workspace.warn((*(bound.compiled.cautions if warns else ()), *cautions))
    return result


def _key(program: Program, typed: TypedParams) -> tuple[object, ...]:
    return id(program), tuple([(name, kind) for name, (kind, _) in typed.items()])


def _bound(
    workspace: Workspace,
    program: Program,
    params: Mapping[str, Any],
    typed: TypedParams,
) -> Bound | None:
    """What a query is bound to, if it has been asked before over this catalog."""
    before, settings, key = workspace.catalog.bound, workspace.settings, _key(program, typed)
    asked: AskedQuery | None = before.get(key)
    if asked is None or asked.settings is not settings:
        earlier, again = workspace.catalog.asked, (key, id(settings))
        for kept in (before, earlier):
            if len(kept) >= MOST_QUERIES:
                kept.clear()
        asked = before[key] = AskedQuery(program, settings)
        if again not in earlier:
            earlier.add(again)
            return None
    if not asked.tried:
        asked.tried = True
        execution = workspace.execution(program, params=params)
        known = execution.compiled.parameters
        if all(name in known for name in params):
            asked.bound = bind(execution.evaluator, execution.compiled)
    elif isinstance(asked.bound, BoundPart) and asked.bound.then is not None:
        asked.bound = asked.bound.then
    return asked.bound


def _answer(
    workspace: Workspace, bound: Bound, typed: TypedParams, limit: int | None
) -> tuple[Result, Collection[Caution]] | None:
    """The answer of a bound query, and the warnings of its evaluation."""
    values = {name: value for name, (_, value) in typed.items()}
    context = workspace.bound_context(bound.compiled, values)
    relation = bound.relation(context, None if limit is None else max(1, limit))
    if relation is None:
        return None
    cautions = context.scope.cautions.values()
    return limited(Result(relation, workspace.symbols), limit), cautions
