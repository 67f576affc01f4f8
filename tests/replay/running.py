"""Runs programs, for a recorder of what they plan and print.

Where the engine asks for compiled loops it is told that there are none, so it goes on
breadth-first: nothing is compiled. Its clock stands still, for some choices go by how long things
take.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gdatalog as gd
from gdatalog import cancellation
from gdatalog.cpu_ops import loose_tries
from gdatalog.engine import depth, execution, rule_plans
from gdatalog.engine.catalog.folders import Folders
from gdatalog.gpu_ops.sources import whole
from gdatalog.plan.join_plan import RulePlan
from gdatalog.planner import rule
from gdatalog.printer import lattice, module, worklist
from gdatalog.printer.expressions import Unprintable
from gdatalog.printer.module import PrintedPlan
from tests.kernel_sources import fused
from tests.replay.programs import Program
from tests.replay.recorder import Recorder
from tests.test_engine_oracle import frame

assert execution  # it imports all of the engine


def collect(programs: Iterable[Program], kernels: bool = True, cuda: bool = True) -> dict[str, str]:
    """The texts that programs make, and those of the kernels that are the same for all."""
    recorder = Recorder(cuda)
    with listening(recorder), warnings.catch_warnings():
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
        workspace = db.workspace
        # Each join is printed; and no hash set is asked for, whose functions would be compiled.
        workspace.force(strategy="lftj", dedup="sort")
        for name, rows in program.data.items():
            db[name] = frame(*rows) if isinstance(rows, tuple) else rows
        path = program.path or Path(folder, "program.dl")
        parsed = workspace.parse(program.text, str(path))
        folders = Folders(str(program.facts), folder)
        asked = workspace.execution(parsed, params=program.params, folders=folders)
        names = [name for stratum in asked.checked.strata for name in stratum.relations]
        for name in sorted(names, key=lambda name: not name.startswith("?")):
            with suppress(gd.Error):  # a computation fails: what came before is noted
                asked.relation(name)


def _note_kernels(recorder: Recorder) -> None:
    recorder.begin(Program("kernels", ""))
    for path in sorted((files("gdatalog.gpu_ops") / "kernels").iterdir(), key=lambda p: p.name):
        if path.name.endswith(".cuh"):
            recorder.add(path.name, "CUDA: file", path.read_text(encoding="utf-8"))
    for told, text in fused():
        recorder.add(told, "CUDA: fused", text)


@contextmanager
def listening(recorder: Recorder) -> Iterator[None]:
    """Within, a recorder is told what the engine plans and prints."""
    plan_rule = rule.plan_rule

    def planned(*args: Any, **options: Any) -> RulePlan:
        return recorder.planned(plan_rule(*args, **options))

    stand_ins: list[tuple[Any, Any]] = [
        (plan_rule, planned),
        (module.print_plan, recorder.join),
        (worklist.print_partitioned, recorder.split),
        (lattice.print_lattice, recorder.improving),
        (depth.printed_once, _printed_anew),
        (rule_plans.looked_up, lambda rule: False),  # stored plans would not be noted
        (cancellation.apart, lambda work, long=True: work()),  # a thread for each takes long
        (loose_tries.loose_of, lambda relation, columns: None),  # it is compiled
        (whole, lambda text: text),  # the files that it includes are noted once
        *((clock, _stopped) for clock in (time.perf_counter, time.process_time)),
    ]
    _put(stand_ins)
    try:
        yield
    finally:
        _put([(new, old) for old, new in reversed(stand_ins)])


def _printed_anew(key: object, make: Callable[[], PrintedPlan | str]) -> PrintedPlan | str:
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
