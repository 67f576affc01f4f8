"""Notes each plan that is made, and all texts that may be printed of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from gdatalog.gpu_ops.loops import loops_of
from gdatalog.plan.join_plan import Join, JoinPlan, RulePlan, Step
from gdatalog.printer.distinct import NewRows
from gdatalog.printer.expressions import Unprintable
from gdatalog.printer.lattice import print_lattice
from gdatalog.printer.leaves import GroupLeaf, RowLeaf
from gdatalog.printer.module import PrintedPlan, print_plan
from gdatalog.printer.nest import Leaf
from gdatalog.printer.worklist import print_partitioned
from gdatalog.printer.worklist_tile import print_tiles
from gdatalog.report.numbers import about
from tests.plan_text import format_rule
from tests.replay.programs import Program

Make = Callable[[int, bool], PrintedPlan]  # of how many lanes (0: for a CPU), and whether it counts

# How many lanes, and whether it counts; and what short programs are printed in besides, by turns.
PLAIN = (0, False)
OTHERS = ((1, False), (32, False), (0, True), (32, True))
BY_TURNS = (*((form,) for form in OTHERS), *((),) * 7)
SEPARATOR = " / "


class Recorder:
    """`texts`: what has been noted, by program, rule, kind and a number.

    Three of its methods stand for the functions that print. They give nothing: whoever asks is told
    that there are no loops.
    """

    def __init__(self, cuda: bool = True) -> None:
        self.cuda = cuda  # whether the forms of a device are printed, and translated
        self.texts: dict[str, str] = {}
        self._program = Program("", "")
        self._numbers: dict[str, int] = {}
        self._owners: list[tuple[JoinPlan, str]] = []
        self._seen: set[object] = set()
        self._turn = 0

    def begin(self, program: Program) -> None:
        self._program = program
        self._owners.clear()
        if not program.goes_on:
            self._seen.clear()
        self._turn = sum(program.name.encode())

    def add(self, rule: str, kind: str, text: str) -> None:
        key = SEPARATOR.join((self._program.name, rule, kind))
        number = self._numbers[key] = self._numbers.get(key, 0) + 1
        self.texts[f"{key}{SEPARATOR}{number}"] = text

    # ------------------------------------------------------------------------------- what is noted

    def planned(self, plan: RulePlan) -> RulePlan:
        """What a planner has made."""
        self._owners += ((join, plan.relation) for join in plan.joins)
        self.add(plan.relation, "plans", format_rule(plan))
        self.add(plan.relation, "estimates", format_rule(plan, _expected))
        return plan

    def join(
        self,
        join: JoinPlan,
        tries: Sequence[Any],
        leaf: Leaf,
        intersect: str,
        tile: int = 0,
        given: Sequence[Any] = (),
        counted: bool = False,
        modular: bool = False,
        keeps: bool = False,
        keeps_rows: bool = False,
    ) -> PrintedPlan:
        for what, each in _leaves(join, leaf):
            if self._first((join, what)):

                def make(lanes: int, counted: bool, each: Leaf = each) -> PrintedPlan:
                    if lanes and isinstance(each, NewRows) and each.hashed:
                        raise Unprintable("a tile's hash set has numbers of its own for a row")
                    how = intersect, lanes, given, counted, modular, keeps, keeps_rows
                    return print_plan(join, tries, copy(each), *how)

                self._loops(self._owner(join), what, make)
        raise Unprintable("its text is all that is wanted")

    def split(
        self,
        recursive: Sequence[Any],
        tries: Sequence[Any],
        lists: Sequence[Any],
        splits: str,
        counts: bool,
        intersect: str,
        counted: bool = False,
    ) -> PrintedPlan:
        head = ", ".join(dict.fromkeys(rule.head for rule in recursive))
        if self._first(("split", *recursive)):
            ways = {
                "worklists": lists,
                "worklists, hashed": [replace(each, stamps=None) for each in lists],
            }
            for what, held in ways.items():
                for only in (False, True):

                    def make(
                        lanes: int, counted: bool, held: Any = held, only: bool = only
                    ) -> PrintedPlan:
                        given = recursive, tries, held, splits, only, intersect
                        if lanes:
                            return print_tiles(*given, lanes, counted)
                        return print_partitioned(*given, counted)

                    self._loops(head, f"{what}, numbers of rows" if only else what, make)
        raise Unprintable("its text is all that is wanted")

    def improving(
        self,
        kept: Sequence[Any],
        follows: Sequence[Any],
        tries: Sequence[Any],
        numbered: bool,
        counted: bool = False,
    ) -> PrintedPlan:
        head = ", ".join(each.name for each in kept)
        if self._first(("improving", *follows)):
            ways = (False,) if kept[0].split is not None else (False, True)
            for way in ways:
                what = "best values, groups numbered" if way else "best values"

                def make(lanes: int, counted: bool, way: bool = way) -> PrintedPlan:
                    if lanes:
                        raise Unprintable("not printed for tiles")
                    return print_lattice(kept, follows, tries, way, counted)

                self._loops(head, what, make)
        raise Unprintable("its text is all that is wanted")

    # --------------------------------------------------------------------------------- printing

    def _loops(self, rule: str, what: str, make: Make) -> None:
        """Notes the text of loops in all forms, or plain and by turns in another one."""
        self._turn += 1
        others = OTHERS if self._program.every else BY_TURNS[self._turn % len(BY_TURNS)]
        for lanes, counted in (PLAIN, *others):
            if lanes and not self.cuda:
                continue
            try:
                printed = make(lanes, counted)
            except Unprintable:
                continue
            told = f"{what}, counted" if counted else what
            if not lanes:
                self.add(rule, f"loops: {told}", printed.source)
            elif printed.parallel:
                self.add(rule, f"CUDA: {told}, {lanes} lanes", loops_of(printed).source)

    def _first(self, key: object) -> bool:
        """Whether this is asked for the first time by this program."""
        known = key in self._seen
        self._seen.add(key)
        return not known

    def _owner(self, join: JoinPlan) -> str:
        """The relation whose rule a join is of."""
        for same in (lambda other: other is join, lambda other: other == join):
            for other, rule in self._owners:
                if same(other):
                    return rule
        return "?"


def _expected(step: Step) -> str:
    return about(step.estimate) if isinstance(step, Join) else ""


def _leaves(join: JoinPlan, leaf: Leaf) -> Iterator[tuple[str, Leaf]]:
    """What may become of a join's rows, in words: what is asked for, and in the rounds of a
    fixpoint only rows that are new."""
    if not isinstance(leaf, RowLeaf):
        yield "aggregates" if isinstance(leaf, GroupLeaf) else type(leaf).__name__, leaf
        return
    yield "rows with weights" if leaf.weighted else "rows", leaf
    if join.given is not None and join.scan is None and not leaf.weighted:
        yield "new rows by marks", NewRows(leaf.outputs)
        yield "new rows by a hash set", NewRows(leaf.outputs, hashed=True)
