"""Runs programs, and notes each plan that is made and each text that is printed of it.

Where the engine asks for compiled loops it is told that they cannot be printed, so it goes on
breadth-first: nothing is compiled. Its clock stands still, for some choices go by how long things
take.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gdatalog as gd
from gdatalog import watching
from gdatalog.cpu_ops import loose
from gdatalog.engine import depth, session
from gdatalog.engine.files import Folders
from gdatalog.gpu_ops import sources
from gdatalog.gpu_ops.loops import loops_of
from gdatalog.plan.format import format_rule
from gdatalog.plan.nodes import Join, JoinPlan, RulePlan, Step
from gdatalog.planner import rules
from gdatalog.printer import improving, module, worklist
from gdatalog.printer.expressions import Unprintable
from gdatalog.printer.fresh import Fresh
from gdatalog.printer.leaves import Groups, Leaf, Rows
from gdatalog.printer.module import Printed
from gdatalog.printer.worklist_tile import print_tiles
from gdatalog.report.words import about
from tests.replay.programs import Program

assert session  # it imports all of the engine
Make = Callable[[int, bool], Printed]  # of how many lanes (0: for a CPU), and whether it counts

# How many lanes, and whether it counts; and what short programs are printed in besides, by turns.
PLAIN = (0, False)
OTHERS = ((1, False), (32, False), (0, True), (32, True))
BY_TURNS = (*((form,) for form in OTHERS), *((),) * 7)
SEPARATOR = " / "


class Recorder:
    """`texts`: what has been noted, by program, rule, kind and a number."""

    def __init__(self) -> None:
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

    # ---------------------------------------------------------------- what stands for functions

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
    ) -> Printed:
        for what, each in _leaves(join, leaf):
            if self._first((join, what)):

                def make(lanes: int, counted: bool, each: Leaf = each) -> Printed:
                    return self._print(join, tries, copy(each), intersect, lanes, given, counted)

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
    ) -> Printed:
        head = ", ".join(dict.fromkeys(rule.head for rule in recursive))
        if self._first(("split", *recursive)):
            ways = {
                "worklists": lists,
                "worklists, hashed": [replace(each, stamps=None) for each in lists],
                "worklists, with known rows": [replace(e, known=e.seeds) for e in lists],
            }
            for what, held in ways.items():
                for only in (False, True):

                    def make(
                        lanes: int, counted: bool, held: Any = held, only: bool = only
                    ) -> Printed:
                        given = recursive, tries, held, splits, only, intersect
                        if lanes:
                            return print_tiles(*given, lanes, counted)
                        return self._print_split(*given, counted)

                    self._loops(head, f"{what}, numbers of rows" if only else what, make)
        raise Unprintable("its text is all that is wanted")

    def improving(
        self,
        kept: Sequence[Any],
        follows: Sequence[Any],
        tries: Sequence[Any],
        numbered: bool,
        counted: bool = False,
    ) -> Printed:
        head = ", ".join(each.name for each in kept)
        if self._first(("improving", *follows)):
            ways = (False,) if kept[0].split is not None else (False, True)
            for way in ways:
                what = "best values, groups numbered" if way else "best values"

                def make(lanes: int, counted: bool, way: bool = way) -> Printed:
                    if lanes:
                        raise Unprintable("not printed for tiles")
                    return self._print_improving(kept, follows, tries, way, counted)

                self._loops(head, what, make)
        raise Unprintable("its text is all that is wanted")

    # --------------------------------------------------------------------------------- printing

    def _loops(self, rule: str, what: str, make: Make) -> None:
        """Notes the text of loops in all forms, or plain and by turns in another one."""
        self._turn += 1
        others = OTHERS if self._program.every else BY_TURNS[self._turn % len(BY_TURNS)]
        for lanes, counted in (PLAIN, *others):
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

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Within, the engine plans and prints here."""
        self._print = module.print_plan
        self._print_split = worklist.print_split
        self._print_improving = improving.print_improving
        plan_rule = rules.plan_rule

        def planned(*args: Any, **options: Any) -> RulePlan:
            return self.planned(plan_rule(*args, **options))

        stand_ins: list[tuple[Any, Any]] = [
            (plan_rule, planned),
            (module.print_plan, self.join),
            (worklist.print_split, self.split),
            (improving.print_improving, self.improving),
            (depth.printed_once, _printed_anew),
            (watching.apart, lambda work, long=True: work()),  # a thread for each takes long
            (loose.loose_of, lambda relation, columns: None),  # it is compiled
            (sources.whole, lambda text: text),  # the files that it includes are noted once
            *((clock, _stopped) for clock in (time.perf_counter, time.process_time)),
        ]
        _put(stand_ins)
        try:
            yield
        finally:
            _put([(new, old) for old, new in reversed(stand_ins)])


def collect(programs: Iterable[Program], kernels: bool = True) -> dict[str, str]:
    """The texts that programs make, and those of the kernels that are the same for all."""
    recorder = Recorder()
    with recorder.listening(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for program in programs:
            recorder.begin(program)
            try:
                _run(program)
            except gd.Error:
                continue  # it is refused
            except Exception as error:
                error.add_note(f"in the program {program.name}:\n{program.text}")
                raise
        if kernels:
            _note_kernels(recorder)
    return recorder.texts


def _run(program: Program) -> None:
    """Evaluates all relations of a program, those that its queries ask for first."""
    with (
        TemporaryDirectory() as folder,
        gd.connect(device="cpu", threads=2, memory_limit="1GiB") as db,
    ):
        for name, text in program.files.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        workspace = db._workspace
        # Each join is printed; and no hash set is asked for, whose functions would be compiled.
        workspace.force(strategy="lftj", telling="sort")
        for name, rows in program.data.items():
            db[name] = _frame(rows) if isinstance(rows, tuple) else rows
        path = program.path or Path(folder, "program.dl")
        parsed = workspace.parse(program.text, str(path))
        folders = Folders(str(program.facts), folder)
        asked = workspace.session(parsed, program.params, folders=folders)
        names = [name for stratum in asked.checked.strata for name in stratum.relations]
        for name in sorted(names, key=lambda name: not name.startswith("?")):
            with suppress(gd.Error):  # a computation fails: what came before is noted
                asked.relation(name)


def _frame(typed: tuple[tuple[str, ...], list[Any]]) -> Any:
    from tests.test_engine_oracle import frame

    return frame(*typed)


def _note_kernels(recorder: Recorder) -> None:
    from tests.kernel_sources import fused

    recorder.begin(Program("kernels", ""))
    for path in sorted((files("gdatalog.gpu_ops") / "kernels").iterdir(), key=lambda p: p.name):
        if path.name.endswith(".cuh"):
            recorder.add(path.name, "CUDA: file", path.read_text(encoding="utf-8"))
    for told, text in fused():
        recorder.add(told, "CUDA: fused", text)


def _expected(step: Step) -> str:
    return about(step.estimate) if isinstance(step, Join) else ""


def _leaves(join: JoinPlan, leaf: Leaf) -> Iterator[tuple[str, Leaf]]:
    """What may become of a join's rows, in words: what is asked for, and in the rounds of a
    fixpoint only rows that are new."""
    if not isinstance(leaf, Rows):
        yield "aggregates" if isinstance(leaf, Groups) else type(leaf).__name__, leaf
        return
    yield "rows with weights" if leaf.weighted else "rows", leaf
    if join.given is not None and join.scan is None and not leaf.weighted:
        yield "new rows by marks", Fresh(leaf.outputs)
        yield "new rows by a hash set", Fresh(leaf.outputs, hashed=True)


def _printed_anew(key: object, make: Callable[[], Printed | str]) -> Printed | str:
    """In the place of `printed_once`, which remembers the texts of other programs."""
    try:
        return make()
    except Unprintable as reason:
        return str(reason)


def _stopped() -> float:
    return 0.0


def _put(stand_ins: Sequence[tuple[Any, Any]]) -> None:
    """Puts something else in the place of each function, wherever the package has it by name."""
    for module_name, loaded in list(sys.modules.items()):
        if module_name.partition(".")[0] != "gdatalog":
            continue
        for name, value in list(vars(loaded).items()):
            for old, new in stand_ins:
                if value is old:
                    setattr(loaded, name, new)
