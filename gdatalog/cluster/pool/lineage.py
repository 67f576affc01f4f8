"""Values that were kept on workers and are lost: made again from what made them.

Dask runs tasks again whose values are lost, as long as the scheduler knows them and all that they
need. It does not know how scattered data are made, nor anything after a restart. So a value has a
recipe, which is the call that made it. What it was made of may be lost too, or gone because nothing
needed it any more; then that comes first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gdatalog.cluster.pool.broadcast import Broadcaster
from gdatalog.cluster.pool.calls import Origin, Recipe, RemoteElement, RemoteValue, whole
from gdatalog.cluster.pool.execution import part_of, run_call
from gdatalog.cluster.pool.worker_cache import BAD


class Lineage:
    """What one stage has made again."""

    def __init__(self, broadcaster: Broadcaster, submit: Callable[..., list[Any]]) -> None:
        self._broadcaster = broadcaster
        self._submit = submit
        self._remade: dict[Recipe | Origin, Any] = {}  # futures

    def forget(self) -> None:
        """What was made again may be what is not as it was."""
        self._remade.clear()

    def revived(self, each: RemoteValue | RemoteElement, every: bool) -> bool:
        """Whether what a call needs was lost; then it is made again. `every`: from all that is
        placed, for workers do not have it."""
        kept = whole(each)
        lost = kept.future.status in BAD
        part_lost = False
        if isinstance(each, RemoteElement) and each.key in kept.parts:
            part_lost = lost or kept.parts[each.key].status in BAD
            if part_lost:
                del kept.parts[each.key]
        if lost and kept.recipe is not None:
            self._remake(kept.recipe, every)
        return lost or part_lost

    def _remake(self, recipe: Recipe | Origin, every: bool) -> None:
        """Makes a value again, and before that what it is made of, as far as that is gone."""
        todo = [recipe]
        while todo:
            each = todo[-1]
            if self._there(each) is not None:
                todo.pop()
                continue
            if isinstance(each, Origin):
                before = self._remade.get(each)
                if before is not None and before.status != "lost":
                    raise each.lost(before)
                self._made_again(each, each.make())
                continue
            there = [(*made, self._there(made[0])) for made in each.inputs]  # it may change soon
            needed = [source for source, _, future in there if future is None]
            if needed:
                todo += [source for source in needed if not isinstance(source, RemoteValue)]
                continue
            inputs = []
            for _, part, future in there:
                inputs += self._submit(part_of, None, [future], list(part)) if part else [future]
            sent = [one for one in each.placed if one.sent or every]
            brought = self._broadcaster.brought(sent, True)
            (future,) = self._submit(run_call, each.worker, [each.body], [inputs], [brought])
            self._made_again(each, future)
            todo.pop()

    def _there(self, each: Recipe | Origin | RemoteValue) -> Any:
        """The future of what is there; None if it has to be made."""
        if isinstance(each, RemoteValue):
            return each.future
        kept = each.kept()
        if kept is not None and kept.future.status not in BAD:
            return kept.future
        found = self._remade.get(each)
        return found if found is not None and found.status not in BAD else None

    def _made_again(self, each: Recipe | Origin, future: Any) -> None:
        self._remade[each] = future
        kept = each.kept()
        if kept is not None:
            kept.future = future
            kept.parts.clear()
