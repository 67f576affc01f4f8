"""Relations that are copies of others: `?1(x, y) <- path(x, y).` needs no evaluation."""

from __future__ import annotations

from collections.abc import Callable

from gdatalog.parser.syntax import Atom, Var
from gdatalog.planner.checked import Schema, Stratum
from gdatalog.storage.relation import Relation


def copied(
    stratum: Stratum, schema: Schema, relation: Callable[[str], Relation]
) -> Relation | None:
    """The one relation of a stratum without data of its own, if all of it is another's."""
    if stratum.recursive or len(stratum.rules) != 1:
        return None
    (rule,) = stratum.rules
    args, body = rule.head.args, rule.body
    if not isinstance(body, Atom) or body.args != args or not args:
        return None
    if len({arg.name for arg in args if isinstance(arg, Var)}) < len(args):
        return None
    found = relation(body.name)
    return found if found.columns == schema.columns else found.renamed(schema.columns)
