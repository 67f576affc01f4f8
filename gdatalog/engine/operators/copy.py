"""`Copy`: a relation that equals another one, as `?1(x, y) <- path(x, y).` does. No rule runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from gdatalog.engine.context import ExecutionContext, StratumInputs
from gdatalog.engine.operators import Relations
from gdatalog.engine.operators.base import LeafOperator
from gdatalog.parser.syntax import Atom, Const, Param, Var
from gdatalog.plan.conditions import Unsuited, When
from gdatalog.planner.check import CheckedRule, Stratum
from gdatalog.planner.placement import Work
from gdatalog.planner.rewrite.adornments import asked_for
from gdatalog.planner.rewrite.program_sizes import Expected
from gdatalog.records import dataclass
from gdatalog.storage.keys import encode_value
from gdatalog.storage.on_device import KnownRows
from gdatalog.storage.relation import Relation


@dataclass(frozen=True, slots=True)
class Copy(LeafOperator):
    """The rule copies `relation`, without those of its columns that hold constants."""

    rule: CheckedRule
    relation: str

    def __str__(self) -> str:
        return f"a copy of {self.relation}"

    @property
    def whole(self) -> bool:
        """Whether the copy has all columns."""
        assert isinstance(self.rule.body, Atom)
        return self.rule.body.args == self.rule.head.args

    def work(self, expected: Expected, context: ExecutionContext) -> Work:
        return Work(0.0, turns=0.0, everywhere=True)

    def run(
        self, prepared: Any, inputs: StratumInputs, until: tuple[When, ...] = ()
    ) -> Relations | When:
        """The copy; `Unsuited` if the relation has rows with other constants."""
        rule = self.rule
        schema, scope = inputs.schemas[rule.head.name], inputs.context.scope
        relation = inputs.relation(self.relation)
        if self.whole:
            same = relation.columns == schema.columns
            return {schema.name: relation if same else relation.renamed(schema.columns)}
        if not relation.store.on_host:
            return Unsuited()
        assert isinstance(rule.body, Atom)
        distinct = relation.store.known >= KnownRows.DISTINCT  # before another thread sorts them
        columns = relation.store.as_they_are()
        kept = []
        for arg, column, kind in zip(rule.body.args, columns, relation.types, strict=True):
            if isinstance(arg, Const | Param):
                value = arg.value if isinstance(arg, Const) else scope.params[arg.name]
                if not np.all(column == encode_value(value, kind, scope.symbols)):
                    return Unsuited()
            else:
                kept.append(column)
        count, blocks = len(columns[0]), [tuple(kept)]
        found = Relation.of_blocks(schema.columns, schema.types, blocks, count, distinct)
        return {schema.name: found}


def applies(stratum: Stratum) -> Copy | None:
    """If a stratum's only rule copies a relation: in the same order, and without columns except
    those that hold a requested constant."""
    if stratum.recursive or len(stratum.rules) != 1:
        return None
    (rule,) = stratum.rules
    args, body = rule.head.args, rule.body
    if not isinstance(body, Atom) or not args:
        return None
    left = tuple(arg for arg in body.args if not isinstance(arg, Const | Param))
    if left != args or len({arg.name for arg in args if isinstance(arg, Var)}) < len(args):
        return None
    whole = len(left) == len(body.args)
    # Other constants may have been requested too.
    return Copy(rule, body.name) if whole or asked_for(body.name) else None
