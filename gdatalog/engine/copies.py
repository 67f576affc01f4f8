"""Relations that are copies of others: `?1(x, y) <- path(x, y).` needs no evaluation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gdatalog.cpu_ops.evaluate import Scope
from gdatalog.parser.syntax import Atom, Const, Expr, Param, Var
from gdatalog.planner.adornments import asked_for
from gdatalog.planner.checked import Schema, Stratum
from gdatalog.storage.elsewhere import Known
from gdatalog.storage.keys import encode_value
from gdatalog.storage.relation import Relation


def copied(
    stratum: Stratum, schema: Schema, relation: Callable[[str], Relation], scope: Scope
) -> Relation | None:
    """The one relation of a stratum without data of its own, if all of it is another's: in the
    same order, and but for columns that hold one constant, which is asked for."""
    if stratum.recursive or len(stratum.rules) != 1:
        return None
    (rule,) = stratum.rules
    args, body = rule.head.args, rule.body
    if not isinstance(body, Atom) or not args:
        return None
    left = [(at, arg) for at, arg in enumerate(body.args) if not isinstance(arg, Const | Param)]
    if tuple(arg for _, arg in left) != args:
        return None
    if len({arg.name for arg in args if isinstance(arg, Var)}) < len(args):
        return None
    if len(left) == len(body.args):
        found = relation(body.name)
        return found if found.columns == schema.columns else found.renamed(schema.columns)
    if not asked_for(body.name):
        return None
    return _without_constants(relation(body.name), body.args, schema, scope)


def _without_constants(
    whole: Relation, args: tuple[Expr, ...], schema: Schema, scope: Scope
) -> Relation | None:
    if not whole.store.here:
        return None
    columns = whole.store.as_they_are()
    kept = []
    for arg, column, kind in zip(args, columns, whole.types, strict=True):
        if isinstance(arg, Const | Param):
            value = arg.value if isinstance(arg, Const) else scope.params[arg.name]
            if not np.all(column == encode_value(value, kind, scope.symbols)):
                return None
        else:
            kept.append(column)
    distinct = whole.store.known >= Known.DISTINCT
    return Relation.of_blocks(schema.columns, schema.types, [tuple(kept)], whole.at_most, distinct)
