"""What a device keeps of a run, for queries that run again over the same tries."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from weakref import ref as weak

from gdatalog.engine.context import ExecutionContext
from gdatalog.plan.join_plan import JoinPlan, Slot
from gdatalog.records import dataclass
from gdatalog.settings import Settings
from gdatalog.storage.trie import Trie


@dataclass(frozen=True, slots=True)
class RunFor:
    """What a run was prepared for. `joins`: its joins, whose ids are in its key. `params`:
    those that decide which rows are possible, if any do."""

    joins: Sequence[JoinPlan]
    tries: Sequence[weak[Trie]]
    settings: Settings
    params: Mapping[str, object] | None

    def serves(self, context: ExecutionContext, tries: Iterable[Trie]) -> bool:
        """Whether it serves a run over these tries."""
        if self.settings != context.settings:
            return False
        if self.params is not None and self.params != context.scope.params:
            return False
        return all(known() is trie for known, trie in zip(self.tries, tries, strict=True))


def run_for(
    context: ExecutionContext, joins: Sequence[JoinPlan], tries: Sequence[Trie]
) -> RunFor | None:
    """What is prepared now; None if it serves no other run."""
    if context.metrics.lasting or not all(isinstance(trie, Trie) for trie in tries):
        return None
    fixed = all(isinstance(output, Slot) for join in joins for output in join.outputs)
    params = None if fixed else dict(context.scope.params)
    return RunFor(joins, [weak(trie) for trie in tries], context.settings, params)


def key_of(joins: Sequence[JoinPlan], *beside: Collection[str]) -> object:
    """The key of a run, which holds while its joins are kept."""
    return tuple([id(join) for join in joins]), *map(tuple, beside)
