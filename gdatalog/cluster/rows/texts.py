"""Symbols on workers: which texts a join needs, and texts that workers make.

Most joins only compare symbols for equality, for which codes suffice. Joins that read or order
texts get the symbol table. A text that a worker makes gets a code above those of the table, valid
only there: the text comes back with the rows, and the driver assigns its code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

import numpy as np

from gdatalog.cluster.pool.broadcast import Broadcast
from gdatalog.cluster.pool.task_stage import Pool
from gdatalog.cpu_ops.expressions import Scope
from gdatalog.executors.gather import Gathering
from gdatalog.plan import join_plan as p
from gdatalog.plan.effects import all_steps, expressions, may_fail
from gdatalog.records import dataclass, field
from gdatalog.storage.rows import Columns
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array
from gdatalog.values import TypeName


def placed_texts(pool: Pool, symbols: SymbolTable) -> Broadcast:
    """The current symbol table, broadcast; older versions are dropped."""
    return pool.broadcast(("texts", id(symbols)), symbols, version=len(symbols))


def texts_for(pool: Pool, plans: Sequence[p.RulePlan], scope: Scope) -> Broadcast | FewTexts:
    """The symbol table that workers need for these plans."""
    if any(map(reads_texts, plans)):
        return placed_texts(pool, scope.symbols)
    return FewTexts.of(plans, scope)


def asks_for_ranks(plan: p.RulePlan) -> bool:
    """Whether a rule uses the ranks of symbols among all others, which only one table at one time
    defines."""
    return any(
        part.function == "ord" and part.args[0].type == "symbol"
        for part in _parts(expressions_of(plan))
        if isinstance(part, p.Apply)
    )


def reads_texts(plan: p.RulePlan) -> bool:
    """Whether a rule's joins need the texts of symbols, not only their equality."""
    for part in _parts(expressions_of(plan)):
        if not isinstance(part, p.Apply) or part.function in ("=", "!="):
            continue
        if "symbol" in (part.type, *(arg.type for arg in part.args)):
            return True
    reductions = [
        step.reduction
        for join in plan.joins
        for step in all_steps(join.steps)
        if isinstance(step, p.Branch) and step.reduction is not None
    ]
    specs: list[p.Gather | p.Reduction] = [*plan.gathers, *reductions]
    compared = [spec for spec in specs if spec.kind in ("min", "max", "any_value")]
    if any(target.type == "symbol" for spec in compared for target in spec.targets):
        return True
    # Error messages show the values of a failing expression.
    return any(
        may_fail(join.steps)
        and any(
            isinstance(step, p.Join) and step.type == "symbol" for step in all_steps(join.steps)
        )
        for join in plan.joins
    )


def makes_texts(expressions: Iterable[p.Expr]) -> bool:
    """Whether evaluating expressions may make texts that are in no table yet."""
    return any(isinstance(expr, p.Apply) and expr.type == "symbol" for expr in expressions)


def expressions_of(plan: p.RulePlan) -> Iterator[p.Expr]:
    """The expressions that a rule's joins evaluate."""
    for join in plan.joins:
        yield from join.outputs
        for step in all_steps(join.steps):
            yield from expressions(step)
    for gather in plan.gathers:
        yield from gather.targets


def _parts(expressions: Iterable[p.Expr]) -> Iterator[p.Expr]:
    """Expressions, and all those within them."""
    for expr in expressions:
        yield expr
        if isinstance(expr, p.Apply):
            yield from _parts(expr.args)


class FewTexts(SymbolTable):
    """A symbol table with only the texts that plans name, under their codes in a larger table."""

    def __init__(self, codes: Mapping[str, int], length: int) -> None:
        super().__init__()
        self._codes = dict(codes)
        self.length = length

    @staticmethod
    def of(plans: Sequence[p.RulePlan], scope: Scope) -> FewTexts:
        texts: set[str] = set()
        for part in _parts(chain.from_iterable(map(expressions_of, plans))):
            if isinstance(part, p.Constant) and part.type == "symbol":
                texts.add(str(part.value))
            elif isinstance(part, p.Parameter) and part.type == "symbol":
                texts.add(str(scope.params[part.name]))
        codes = {text: scope.symbols.intern(text) for text in texts}
        return FewTexts(codes, len(scope.symbols))

    def __len__(self) -> int:
        return self.length

    def __reduce__(self) -> tuple[object, ...]:
        return FewTexts, (self._codes, self.length)

    def intern(self, text: str) -> int:
        return self._codes[text]


@dataclass(slots=True)
class NewTexts:
    """Texts that a worker made, in ascending order of their codes there."""

    codes: Array = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    texts: list[str] = field(default_factory=list)

    @staticmethod
    def among(columns: Sequence[Array], known: int, symbols: SymbolTable) -> NewTexts:
        """The texts of those codes in columns that are at least `known`."""
        found = [column[column >= known] for column in columns]
        codes = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *found]))
        return NewTexts(codes, symbols.texts_of(codes))

    def coder(self, symbols: SymbolTable) -> Callable[[Array], Array]:
        """Translates codes of the worker to codes of this table."""
        here = np.array([symbols.intern(text) for text in self.texts], dtype=np.int64)

        def recoded(column: Array) -> Array:
            anew = column >= self.codes[0]
            changed: Array = column.astype(np.int32)
            changed[anew] = here[np.searchsorted(self.codes, column[anew])]
            return changed

        return recoded


def symbol_columns(blocks: Sequence[Columns], types: Sequence[TypeName]) -> list[Array]:
    """The symbol columns of rows."""
    places = [at for at, kind in enumerate(types) if kind == "symbol"]
    return [block[at] for block in blocks for at in places]


def gathered_symbols(gathering: Gathering, keys: Sequence[TypeName]) -> list[Array]:
    """The symbol columns of a gathering whose keys have these types."""
    found: list[Array] = []

    def seen(column: Array) -> Array:
        found.append(column)
        return column

    gathering.recode(keys, seen)
    return found
