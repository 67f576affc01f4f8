"""A GPU as a device of the engine: its verbs, and the tries that they read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from gdatalog.executors.limits import Limits
from gdatalog.gpu_ops.driver import Driver
from gdatalog.gpu_ops.levels import DeviceLevel
from gdatalog.gpu_ops.sums import Sums
from gdatalog.gpu_ops.tiles import lanes_for
from gdatalog.gpu_ops.walk import Block, Walks
from gdatalog.plan.effects import all_steps, expressions
from gdatalog.plan.nodes import RulePlan, TrieRef
from gdatalog.printer.expressions import printable
from gdatalog.printer.module import Printed
from gdatalog.storage.relation import Relation
from gdatalog.storage.trie import Trie

LARGEST_CHUNK = 1 << 26  # rows: more at once keep the device no busier


class Gpu:
    """`engine.device.Device` by way of a driver."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.ops: Any = Sums(driver)
        self.walks = Walks(driver, self.ops)
        self._tries: WeakKeyDictionary[Relation, dict[TrieRef, Trie]] = WeakKeyDictionary()

    @property
    def name(self) -> str:
        return self.driver.name

    def trie(self, relation: Relation, ref: TrieRef) -> Trie:
        """The trie of a relation that a plan asks for, copied to the device once."""
        known = self._tries.setdefault(relation, {})
        if ref not in known:
            tests = tuple((test.left, test.op, test.right) for test in ref.tests)
            host = relation.trie(ref.columns, tests, ref.weighted, ref.ranked)
            known[ref] = self._copied(host)
        return known[ref]

    def refuses(self, plan: RulePlan) -> str | None:
        """Why a rule cannot run here, if it cannot: it makes strings."""
        computed = [expr for gather in plan.gathers for expr in gather.targets]
        for join in plan.joins:
            computed += join.outputs
            computed += (expr for step in all_steps(join.steps) for expr in expressions(step))
        return next(filter(None, map(printable, (*computed, *plan.head))), None)

    def room(self, spare: int) -> tuple[int, int]:
        """What is free here."""
        return self.driver.free_memory(), LARGEST_CHUNK

    def lanes(self, tries: Sequence[Trie], knobs: Any) -> int:
        return int(knobs.tile) or lanes_for(tries)

    def ready(self, printed: Printed) -> bool:
        return self.walks.ready(printed)

    def walk(
        self,
        printed: Printed,
        tries: Sequence[Trie],
        scope: Any,
        limits: Limits,
        told: str,
        knobs: Any,
        wanted: int | None,
    ) -> list[Block]:
        """A plan's rows, depth-first."""
        return self.walks.run(printed, tries, scope, limits, told, wanted)

    def close(self) -> None:
        """Lets go of the tries and the kernels."""
        self.walks.forget()
        self._tries.clear()

    def _copied(self, host: Trie) -> Trie:
        xp = self.driver.xp
        levels = [
            DeviceLevel(xp, xp.asarray(level.values), xp.asarray(level.offsets))
            for level in host.levels
        ]
        weights = None if host.weights is None else xp.asarray(host.weights)
        labels = None if host.labels is None else xp.asarray(host.labels)
        return DeviceTrie(xp, levels, host.total, weights, labels)


class DeviceTrie(Trie):
    """As `Trie`, over the arrays of `xp`."""

    __slots__ = ("xp",)

    def __init__(self, xp: Any, *parts: Any) -> None:
        super().__init__(*parts)
        self.xp = xp

    def weight_sums(self) -> Any:
        """How many rows stand before each node of the last level, and behind the last."""
        if self._weight_sums is None:
            assert self.weights is not None
            sums = self.xp.zeros(len(self.weights) + 1, dtype=self.xp.int64)
            sums[1:] = self.xp.cumsum(self.weights)
            self._weight_sums = sums
        return self._weight_sums
