"""What holds for all tests: which of them are of a GPU, what they share, that Ctrl-C is heard."""

from __future__ import annotations

import gc
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from importlib import import_module
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import is_hypothesis_test, settings

from gdatalog.engine import rule_plans
from tests import on_gpu
from tests.cases import cases
from tests.clusters import Workers, workers

HERE = Path(__file__).parent
# Files whose tests take long for what they notice: `make check-rest` runs them, as the slow ones.
SLOW = """
answers_at_a_terminal benchmarks cluster_blocks cluster_cells cluster_checkpoints cluster_connecting
cluster_data cluster_devices cluster_faults cluster_killed cluster_lost cluster_oracle
cluster_partitioned cluster_parts cluster_pool cluster_recursion cluster_replicated cluster_rows
cluster_shell cluster_traffic depth_first_use long_programs loops notebook_kernel notebooks package
paper_benchmarks printed_expressions prompt rounds saving shares site souffle stopping terminating
"""
MARKS = ("slow", "drawn", "gpu", "host")

# Cases that are alike: of so many one is run; all with GDATALOG_SEED=random and on a GPU.
EVERY = {
    "test_algebra.py::test_counts_beyond_64_bits": 3,
    "test_cells.py::test_rows_of_cells": 2,
    "test_cluster_checkpoints.py::test_a_worker_that_is_killed_costs_a_round": 3,
    "test_cluster_checkpoints.py::test_each_shape": 3,
    "test_cluster_devices.py::test_workers_with_a_gpu_give_the_same": 2,
    "test_cluster_killed.py::test_twenty_workers_killed_midway": 2,
    "test_cluster_oracle.py::test_corners": 2,
    "test_cluster_oracle.py::test_examples": 3,
    "test_cluster_oracle.py::test_programs": 2,
    "test_cluster_oracle.py::test_programs_on_more_or_fewer": 3,
    "test_cluster_partitioned.py::test_corners": 2,
    "test_cluster_partitioned.py::test_examples": 2,
    "test_cluster_recursion.py::test_a_worker_that_dies_changes_nothing": 2,
    "test_cluster_recursion.py::test_each_shape": 3,
    "test_cluster_replicated.py::test_example": 2,
    "test_depth_first.py::test_foreign_keys": 2,
    "test_depth_first.py::test_patterns": 6,
    "test_gpu_auto.py::test_examples": 5,
    "test_gpu_bits.py::test_many_lists_are_recoded": 3,
    "test_gpu_cells.py::test_joins_in_cells": 2,
    "test_gpu_counted.py::test_dense_patterns": 3,
    "test_gpu_fresh.py::test_given_rows": 10,
    "test_gpu_full.py::test_rows_of_marked_rounds_leave_a_device_that_is_full": 3,
    "test_gpu_full.py::test_rows_of_rounds_with_marks_have_the_machines_memory": 4,
    "test_gpu_group.py::test_all_devices_together_give_what_one_gives": 2,
    "test_gpu_group.py::test_the_same_breadth_first": 2,
    "test_gpu_levelwise.py::test_example": 3,
    "test_gpu_lists.py::test_many_lists_meet": 2,
    "test_gpu_nested_rows.py::test_borrowed_rows": 2,
    "test_gpu_pages.py::test_joins_in_pages": 2,
    "test_gpu_partitioned.py::test_shapes": 8,
    "test_gpu_patterns.py::test_halves_by_degree": 2,
    "test_gpu_results.py::test_examples_that_never_leave_the_device": 2,
    "test_gpu_rounds.py::test_shapes": 8,
    "test_gpu_tallies.py::test_as_enumerated": 9,
    "test_gpu_tallies.py::test_branches_of_bits": 3,
    "test_gpu_tallies.py::test_lists_are_kept_by_edges": 5,
    "test_gpu_tallies.py::test_shapes": 9,
    "test_gpu_tallies.py::test_the_greatest_of_an_orbit": 5,
    "test_gpu_tallies.py::test_the_keys_of_a_small_table_are_looked_up": 2,
    "test_gpu_virtual_pages.py::test_pages_are_whole_wherever_a_swap_is_refused": 3,
    "test_gpu_walks.py::test_example": 8,
    "test_gpu_walks.py::test_patterns": 8,
    "test_gpu_walks.py::test_tiles_borrow_longer_buffers": 2,
    "test_grouped.py::test_rules": 3,
    "test_limits.py::test_a_process_holds_no_more_than_its_limit": 2,
    "test_limits.py::test_a_wide_query_with_a_small_answer": 3,
    "test_local_counts.py::test_by_ranks": 4,
    "test_local_counts.py::test_counts_agree_with_the_oracle": 3,
    "test_local_counts.py::test_labels_directions_and_loops_stay": 5,
    "test_local_counts.py::test_lists_that_are_kept": 3,
    "test_order.py::test_patterns_are_looked_for_in_a_good_order": 2,
    "test_patterns.py::test_orbits_of_five_vertices_fit_together": 2,
    "test_planning.py::test_few_sets_of_last_variables_are_looked_at": 3,
    "test_planning.py::test_few_turns_are_looked_at_however_many_variables_there_are": 4,
    "test_real_counts.py::test_ordered_embeddings": 2,
    "test_second_run.py::test_another_process_compiles_nothing": 5,
    "test_second_run.py::test_what_was_compiled_is_not_compiled_again": 3,
    "test_second_run.py::test_whole_programs_compile_nothing_anew": 2,
    "test_spill.py::test_groups_in_files": 2,
    "test_split_by_degree.py::test_any_degree_splits": 2,
    "test_split_by_degree.py::test_drawn_counts_agree_with_the_oracle": 3,
    "test_split_by_degree.py::test_halves_add_up": 4,
    "test_split_by_degree.py::test_light_halves_split_again": 3,
    "test_symmetric_counts.py::test_any_bound_gives_the_same_counts": 2,
}


def pytest_configure(config: pytest.Config) -> None:
    on_gpu.configure(config)
    _share_compiled(config)
    _hear_ctrl_c()
    _draw_the_same()
    _plan_anew()
    _collect_seldom()


def _plan_anew() -> None:
    """Rules are planned, also those that earlier runs of the tests have planned; except where a
    test is about stored plans."""
    rule_plans.LONG_TEXT = rule_plans.MANY_ATOMS = sys.maxsize


def _share_compiled(config: pytest.Config) -> None:
    """All processes of a run find the kernels that one of them has compiled (cuda_host)."""
    if hasattr(config, "workerinput") or "GDATALOG_CUDA_HOST" in os.environ:
        return
    os.environ["GDATALOG_CUDA_HOST"] = folder = tempfile.mkdtemp(prefix="gdatalog-cuda-host-")
    config.add_cleanup(partial(os.environ.pop, "GDATALOG_CUDA_HOST"))
    config.add_cleanup(partial(shutil.rmtree, folder, ignore_errors=True))


def _hear_ctrl_c() -> None:
    """What a shell starts in the background ignores Ctrl-C, and so would what tests start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _seeded() -> bool:
    return os.environ.get("GDATALOG_SEED") != "random"


def _draw_the_same() -> None:
    """The same cases in each run, unless GDATALOG_SEED is "random"; and none has a deadline."""
    few = cases(100)  # where a test does not say how many
    settings.register_profile("gdatalog", derandomize=_seeded(), deadline=None, max_examples=few)
    settings.load_profile("gdatalog")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if _left_out(collection_path, config) else None


def _left_out(path: Path, config: pytest.Config) -> bool:
    return on_gpu.leave_out(config, path) or _none_chosen(config, path)


def _none_chosen(config: pytest.Config, path: Path) -> bool:
    """Whether `-m` leaves out all tests of a file, which then need not be imported.

    A test has the marks of its file, and may have those that the file's text names.
    """
    if not (path.name.startswith("test_") and path.suffix == ".py"):
        return False
    expression = config.option.markexpr or ""
    words = set(re.findall(r"\w+", expression))
    if not words <= {*MARKS, "and", "or", "not"}:
        return False
    marks = {"slow"} if _is_slow(path) else set()
    marks |= {"host", "gpu"} if on_gpu.on_host(path) else set()
    text = path.read_text(encoding="utf-8")
    possible = [mark for mark in MARKS if mark in marks or f"mark.{mark}" in text]
    possible += ["drawn"] if "@given" in text else []
    return not any(
        on_gpu.chosen(expression, given)
        for size in range(len(possible) + 1)
        for given in map(set, combinations(possible, size))
        if marks - {"gpu"} <= given
    )


def _is_slow(path: Path) -> bool:
    return path.stem.removeprefix("test_") in SLOW.split()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    on_gpu.mark(config, items)
    for item in items:
        if _is_slow(item.path):
            item.add_marker("slow")
        if is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker("drawn")
    if not on_gpu.asked(config) and _seeded():
        _leave_out_alike(config, items)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """In a fresh clone each file of tests is compiled, assertions and all: every process begins
    with another one, and finds what others have compiled."""
    worker = getattr(session.config, "workerinput", None)
    if worker is None or [Path(each).resolve() for each in session.config.args] != [HERE]:
        return
    paths = [path for path in sorted(HERE.glob("test_*.py")) if not _left_out(path, session.config)]
    first = len(paths) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    for path in paths[first:] if first else ():
        with suppress(Exception, pytest.skip.Exception):  # collecting it will tell
            import_module(path.stem)


def pytest_collection_finish() -> None:
    _freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    if nextitem is not None and nextitem.path != item.path:
        _freeze()


def _collect_seldom() -> None:
    """Plans and syntax trees are no garbage: looking for some at each 700 would be a thirtieth of
    the tests' time."""
    gc.set_threshold(20_000, 20, 20)


def _freeze() -> None:
    """From now on garbage collection, which each error of a query asks for, leaves out what there
    is: tests, and what caches hold."""
    gc.collect()
    gc.freeze()


def _leave_out_alike(config: pytest.Config, items: list[pytest.Item]) -> None:
    met: dict[str, int] = dict.fromkeys(EVERY, -1)
    left: list[pytest.Item] = []
    for item in items:
        name = f"{item.path.name}::{getattr(item, 'originalname', item.name)}"
        if name in EVERY:
            met[name] += 1
            if met[name] % EVERY[name]:
                left.append(item)
    out = set(left)
    items[:] = [item for item in items if item not in out]
    config.hook.pytest_deselected(items=left)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    for line in on_gpu.table(config, terminalreporter.stats):
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Workers]:
    """`cluster(2)`: a client of a Dask cluster of two workers, which are processes here."""
    with workers() as asked:
        yield asked
