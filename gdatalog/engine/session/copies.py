"""Relations that are copies of others: `?1(x, y) <- path(x, y).` is not evaluated."""

from __future__ import annotations

import numpy as np

from gdatalog.cpu_ops.evaluate import Scope
from gdatalog.parser.syntax import Atom, Const, Expr, Param, Var
from gdatalog.plan.conditions import Unsuited
from gdatalog.plan.stratum import Copy, Fallback, Once
from gdatalog.planner.check.checked import CheckedRule, Schema, Stratum
from gdatalog.planner.rewrite.adornments import asked_for
from gdatalog.storage.keys import encode_value
from gdatalog.storage.on_device import KnownRows
from gdatalog.storage.relation import Relation


def copy_of(stratum: Stratum) -> Copy | None:
    """Detects that a stratum's only relation is a copy of another one: without data of its own, in
    the same order, and without columns except those that hold a requested constant."""
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
        return Copy(body.name)
    # Other constants may have been requested too.
    return Copy(body.name, Fallback((Unsuited(),), Once())) if asked_for(body.name) else None


def copied(
    copy: Copy, rule: CheckedRule, schema: Schema, relation: Relation, scope: Scope
) -> Relation | None:
    """Returns the copy; None if the relation has rows with other constants."""
    if copy.fallback is None:
        same = relation.columns == schema.columns
        return relation if same else relation.renamed(schema.columns)
    assert isinstance(rule.body, Atom)
    return _without_constants(relation, rule.body.args, schema, scope)


def _without_constants(
    whole: Relation, args: tuple[Expr, ...], schema: Schema, scope: Scope
) -> Relation | None:
    if not whole.store.on_host:
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
    distinct = whole.store.known >= KnownRows.DISTINCT
    return Relation.of_blocks(schema.columns, schema.types, [tuple(kept)], whole.at_most, distinct)
