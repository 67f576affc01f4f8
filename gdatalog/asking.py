"""Answers queries: by an execution of their text, and later by what they are bound to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import is_
from typing import Any

from gdatalog.engine.catalog.parameters import GivenList
from gdatalog.engine.compiler.compiled import Compiled
from gdatalog.engine.compiler.constants import SharedText
from gdatalog.engine.evaluator.bound import Bound, bind
from gdatalog.engine.execution import typed_params
from gdatalog.errors import Error
from gdatalog.parser import Program
from gdatalog.records import dataclass
from gdatalog.relations import answer, limited
from gdatalog.result import Result
from gdatalog.settings import Settings
from gdatalog.values import ParamType, TypeName, Value
from gdatalog.workspace import Workspace

MOST = 256  # queries that are remembered with a catalog


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
    if strategy == "auto" and max_rows is None and workspace.chunk_rows is None:
        catalog = workspace.catalog
        given = {**catalog.params, **params} if catalog.params else params
        typed = typed_params(program, given)
        asked = _asked(workspace, program, params, typed)
        if asked is not None:
            values = {name: value for name, (_, value) in typed.items()}
            result = _bound_answer(workspace, asked, values, limit, warns)
            if result is not None:
                return result
    execution = workspace.execution(program, params=params, strategy=strategy)
    result = answer(execution, execution.asked(), limit, max_rows)
    if warns:
        workspace.tell(execution, params)
    else:
        workspace.warn(execution.context.scope.cautions.values())
    return result


def _asked(
    workspace: Workspace,
    program: Program,
    params: Mapping[str, Any],
    typed: Mapping[str, tuple[ParamType, Value | GivenList]],
) -> Bound | None:
    """What a query is bound to, if it has been asked before over this catalog."""
    before, settings = workspace.catalog.bound, workspace.settings
    key = id(program), tuple([(name, kind) for name, (kind, _) in typed.items()])
    asked: AskedQuery | None = before.get(key)
    if asked is None or asked.settings is not settings:
        if len(before) >= MOST:
            before.clear()
        before[key] = AskedQuery(program, settings)
        return None
    if not asked.tried:
        asked.tried = True
        execution = workspace.execution(program, params=params)
        known = execution.compiled.parameters
        if all(name in known for name in params):
            asked.bound = bind(execution.evaluator, execution.compiled)
    return asked.bound


def _bound_answer(
    workspace: Workspace,
    bound: Bound,
    values: Mapping[str, Value | GivenList],
    limit: int | None,
    warns: bool,
) -> Result | None:
    compiled = bound.compiled
    context = workspace.bound_context(compiled, values)
    relation = bound.relation(context, None if limit is None else max(1, limit))
    if relation is None:
        return None
    cautions = context.scope.cautions
    if cautions or (warns and compiled.cautions):
        workspace.warn((*(compiled.cautions if warns else ()), *cautions.values()))
    return limited(Result(relation, workspace.symbols), limit)
