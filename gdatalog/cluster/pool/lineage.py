"""Values that were kept on workers and are lost: made again from what made them.

A value has a recipe, which is the call that made it, or an origin, whose source makes several
together. What it was made of may be lost too, or gone because nothing needed it any more; then that
comes first.
"""

from __future__ import annotations

from typing import Any

from gdatalog.cluster.pool.calling import part_of, run_call
from gdatalog.cluster.pool.calls import BAD, Kept, Origin, Part, Recipe, Source, whole
from gdatalog.cluster.pool.sending import Sending


class Lineage:
    """What one stage has made again."""

    def __init__(self, sending: Sending) -> None:
        self._sending = sending
        self._remade: dict[Recipe | Origin, Any] = {}  # futures

    def forget(self) -> None:
        """What was made again may be what is not as it was."""
        self._remade.clear()

    def revived(self, each: Kept | Part, every: bool) -> bool:
        """Whether what a call needs was lost; then it is made again. `every`: from all that is
        placed, for workers do not have it."""
        kept = whole(each)
        lost = kept.future.status in BAD
        part_lost = False
        if isinstance(each, Part) and each.key in kept.parts:
            part_lost = lost or kept.parts[each.key].status in BAD
            if part_lost:
                del kept.parts[each.key]
        if lost and kept.recipe is not None:
            self.remake(kept.recipe, every)
        return lost or part_lost

    def remake(self, recipe: Recipe | Origin, every: bool) -> None:
        """Makes a value again, and before that what it is made of, as far as that is gone."""
        self._ask_sources(recipe)
        todo = [recipe]
        while todo:
            each = todo[-1]
            if self._there(each) is not None:
                todo.pop()
                continue
            if isinstance(each, Origin):  # which has been lost since
                self._ask_sources(each)
                continue
            there = [(*made, self._there(made[0])) for made in each.inputs]  # it may change soon
            needed = [source for source, _, future in there if future is None]
            if needed:
                todo += [source for source in needed if not isinstance(source, Kept)]
                continue
            inputs = []
            for _, part, future in there:
                inputs += (
                    self._sending.map(part_of, None, [future], list(part)) if part else [future]
                )
            brought = self._sending.bringing(each.placed, sent=True, every=every)
            (future,) = self._sending.map(run_call, each.worker, [each.packed], [inputs], [brought])
            self._made_again(each, future)
            todo.pop()

    def _ask_sources(self, recipe: Recipe | Origin) -> None:
        """Has sources make again what is needed for something: each all that was lost."""
        todo: list[Recipe | Origin | Kept] = [recipe]
        seen: set[Recipe | Origin] = set()
        wanted: dict[int, tuple[Source, list[Origin]]] = {}
        while todo:
            each = todo.pop()
            if isinstance(each, Kept) or each in seen or self._there(each) is not None:
                continue
            seen.add(each)
            if isinstance(each, Recipe):
                todo += [source for source, _ in each.inputs]
            else:
                wanted.setdefault(id(each.source), (each.source, []))[1].append(each)
        for source, some in wanted.values():
            some += [origin for origin in source.origins if origin.lost and origin not in some]
            for origin, future in zip(some, source.again(some), strict=True):
                self._made_again(origin, future)

    def _there(self, each: Recipe | Origin | Kept) -> Any:
        """The future of what is there; None if it has to be made."""
        if isinstance(each, Kept):
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
