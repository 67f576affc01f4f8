"""`HandOver`: the rows of a level that are more than a chunk become the tasks of compiled loops,
which run the remaining steps depth-first (the hybrid of cuTS and T-DFS)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from gdatalog.calls import Block, GiveUp, NotOnDevice
from gdatalog.engine import derived
from gdatalog.engine.context import RuleInputs, Sources
from gdatalog.engine.depth import Form, JoinNest, form_of_bag, give_bag
from gdatalog.executors.frontier import Frontier
from gdatalog.executors.sinks import Bag, RowSet, Sink, StepCounts
from gdatalog.plan.join_plan import Gather, JoinPlan, Step, slots
from gdatalog.plan.rest_of_join import rest_of
from gdatalog.records import dataclass
from gdatalog.storage.trie import Trie

_rests = lru_cache(256)(rest_of)  # the same plan has the same loops, by its identity


@dataclass(slots=True)
class HandOver:
    """The hand-over of one join into one sink. `taken`: whether there was one. `found`: the number
    of bindings of the loops, if they are counted."""

    join: JoinPlan
    tries: Sequence[Trie]
    inputs: RuleInputs
    label: str
    seen: dict[int, StepCounts] | None
    found: int = 0
    suits: bool = True
    taken: bool = False

    def take(self, steps: Sequence[Step], at: int, frontier: Frontier, sink: Sink) -> bool:
        """Runs the steps from `at` on over the rows of a frontier; False if loops cannot, or are
        not compiled yet."""
        if not self.suits or steps is not self.join.steps or not frontier.size:
            return False
        nest = self._nest(at, frontier, sink)
        if nest is None:
            self.suits = False
            return False
        context, limits = self.inputs.context, self.inputs.limits
        device = context.device.accelerator
        waits = context.settings.hand_over == "auto" and device is not None
        if waits and device is not None and device.waits_for(nest.printed, self.label):
            return False
        held = dict(limits.account.held)
        try:
            blocks = nest.run(self.label)
        except (GiveUp, NotOnDevice, MemoryError):
            limits.account.restore(held)
            self.suits = False
            return False
        self.taken = True
        self._give(nest, blocks, sink)
        self._count(nest, at)
        return True

    def _nest(self, at: int, frontier: Frontier, sink: Sink) -> JoinNest | None:
        """The loops over the rows of a frontier; None if they cannot be printed."""
        if isinstance(sink, Bag):
            specs = [spec for spec in sink.gathering.specs if isinstance(spec, Gather)]
            form = form_of_bag(sink.keys, specs)
        elif isinstance(sink, RowSet) and sink.limit is None and sink.outputs:
            form = Form(tuple(sink.outputs))
        else:
            return None
        exprs = [*form.outputs, *form.keys, *(t for g in form.gathers for t in g.targets)]
        rest = _rests(self.join, at, frozenset().union(*map(slots, exprs)))
        if rest is None or rest.given is None:
            return None
        rows = tuple(frontier.column(slot.name) for slot in rest.given.slots)
        tries = dict(zip(self.join.tries, self.tries, strict=True))
        sources = Sources(tries.__getitem__, lambda _: (rows, frontier.size))
        counted = self.seen is not None
        nest = JoinNest(rest, form, sources, self.inputs.context, counted=counted)
        return None if nest.reason is not None else nest

    def _give(self, nest: JoinNest, blocks: list[Block], sink: Sink) -> None:
        blocks = [derived.laid(block, self.inputs.ops) for block in blocks]
        if isinstance(sink, RowSet):
            sink.add_blocks(blocks)
        elif isinstance(sink, Bag):
            give_bag(nest.form, self.join.orbit, sink.gathering, blocks)

    def _count(self, nest: JoinNest, at: int) -> None:
        """Adds the loops' counts to those of the join's own steps."""
        if self.seen is None:
            return
        later = self.join.steps[at:]
        own = dict(zip(map(id, nest.join.steps[-len(later) :]), map(id, later), strict=True))
        for step, counts in nest.seen.items():
            self.seen.setdefault(own.get(step, step), StepCounts()).add(counts)
        last = nest.seen.get(id(nest.join.steps[-1]))
        self.found += 0 if last is None else last.rows_out


def hand_over(
    join: JoinPlan,
    tries: Sequence[Trie],
    inputs: RuleInputs,
    label: str,
    seen: dict[int, StepCounts] | None,
) -> HandOver | None:
    """What takes the rows of a join that runs breadth-first; None if the setting says so, or, under
    "auto", if a strategy was chosen: it runs alone."""
    settings = inputs.context.settings
    automatic = inputs.context.device.accelerator is not None and settings.strategy == "auto"
    if settings.hand_over == "never" or (settings.hand_over == "auto" and not automatic):
        return None
    return HandOver(join, tries, inputs, label, seen)
