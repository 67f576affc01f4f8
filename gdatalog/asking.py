"""Answers queries: by an execution of their text, and later by what they are bound to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gdatalog.engine.catalog.parameters import GivenList
from gdatalog.engine.evaluator.bound import Bound, bind
from gdatalog.engine.execution import typed_params
from gdatalog.parser import Program
from gdatalog.records import dataclass
from gdatalog.relations import answer, limited
from gdatalog.result import Result
from gdatalog.settings import Settings
from gdatalog.values import ParamType, Value
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
    if strategy == "auto" and max_rows is None and workspace.runs_here:
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
