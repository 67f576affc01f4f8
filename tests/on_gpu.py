"""`pytest -m gpu`: the host's tests of kernels run on a GPU as well, and those that need one.

What the tests call HostDriver is then a driver of the GPU: the same cases, the same answers. Tests
that look into the harness itself (`HOST_ONLY`) stay on the host.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gdatalog.gpu_ops.cupy_driver import CupyDriver
from gdatalog.gpu_ops.diagnosis import trouble
from gdatalog.gpu_ops.probe import look, look_at_driver

# Files whose tests are of kernels: all that are named so, but those of what is said of GPUs.
NOT_KERNELS = {"test_gpu_benchmarks.py", "test_gpu_checks.py", "test_gpu_use.py"}
HOST_ONLY = {
    "test_a_buffer_that_is_filled_too_soon_is_seen",
    "test_a_call_is_stopped_on_all_devices",
    "test_a_copy_that_fails_is_an_error_and_the_next_query_works",
    "test_a_device_that_is_full",
    "test_a_device_that_is_full_in_the_middle",
    "test_a_device_that_is_full_is_relieved_once",
    "test_a_device_that_is_lost_is_left_out",
    "test_a_device_without_room_for_copies_is_not_asked",
    "test_a_few_rows_are_found_by_one",
    "test_a_fixpoint_that_is_under_way_can_be_stopped",
    "test_a_first_answer_does_not_wait_for_its_kernel",
    "test_a_join_that_reads_more_than_expected_waits_for_its_kernel",
    "test_a_kernel_that_does_not_compile_is_no_reason_to_leave_one_out",
    "test_a_kernel_that_does_not_wait_for_a_copy_is_a_fault",
    "test_a_kernel_that_leaves_the_memory_of_its_range_is_a_fault",
    "test_a_partitioned_fixpoint_that_does_not_fit_goes_on_with_bitmaps",
    "test_a_small_fixpoint_runs_on_the_first_once_it_is_compiled",
    "test_a_small_first_answer_waits_for_no_kernel_of_its_own",
    "test_a_wait_for_a_kernel_can_be_interrupted",
    "test_after_an_error_no_device_is_at_work",
    "test_a_stop_is_seen_soon_if_turns_are_long",
    "test_all_loops_of_a_text_are_compiled_together",
    "test_an_interrupt_leaves_the_next_call_right",
    "test_columns_are_copied_to_the_device_once",
    "test_edges_are_put_in_order_once",
    "test_few_rows_do_not_keep_all_tiles",
    "test_indexes_that_the_host_has_no_room_for_twice_are_cut_into_cells",
    "test_little_work_stays_on_the_first",
    "test_little_memory_is_unused",
    "test_memory_that_runs_out_in_the_middle_leaves_the_rule_to_the_cpu",
    "test_only_rules_that_run_once_wait_for_kernels",
    "test_other_settings_have_loops",
    "test_pages_are_whole_wherever_a_swap_is_refused",
    "test_pages_keep_what_is_written_wherever_they_lie",
    "test_pages_that_are_refused_are_given_back_at_once",
    "test_pages_that_find_no_room_on_the_device_leave_the_rule_to_the_cpu",
    "test_ranges_serve_the_next_array_until_memory_is_short",
    "test_rounds_are_one_launch_and_one_wait",
    "test_rounds_go_to_the_device_when_they_are_large",
    "test_rounds_that_were_recorded_stay_so_while_rows_grow_in_place",
    "test_rounds_that_are_under_way_can_be_stopped",
    "test_rules_of_a_round_run_side_by_side",
    "test_rules_that_differ_in_names_share_a_kernel",
    "test_small_work_waits_for_no_kernel",
    "test_the_rounds_of_a_fixpoint_move_nothing",
    "test_the_tiles_of_a_block_have_one_table",
    "test_tiles_take_small_units_alone",
    "test_what_other_queries_have_left_makes_room_for_an_index",
    "test_what_the_drivers_library_is_called_with",
    "test_who_stops_a_query_does_not_wait_for_its_copies",
    "test_without_virtual_memory_it_is_copied",
    "test_without_room_on_the_host_a_rule_runs_in_cells",
}


@cache
def reason() -> str:
    """Why nothing runs on a GPU here; empty: one is usable."""
    found = trouble(look())
    return "" if found is None else f"needs an NVIDIA GPU. {found.name}: {found.found}"


@cache
def gpus() -> int:
    """How many GPUs there are."""
    return len(look_at_driver().cards)


class GpuDriver(CupyDriver):
    """Takes what HostDriver takes: threads take their turns here as they like."""

    recordings: int

    def __init__(self, seed: int = 0, **told: Any) -> None:
        number = told.pop("number", 0)
        if number >= gpus():
            pytest.skip(f"needs {number + 1} GPUs; there are {gpus()}")
        super().__init__(number)
        self.__dict__.update(told, seed=seed, recordings=0)

    def recorded(self, launch: Callable[[], None]) -> Callable[[], None]:
        self.recordings += 1
        return super().recorded(launch)

    @contextmanager
    def use(self) -> Iterator[None]:
        """Says which device it is, as the host's does."""
        from tests.cuda_host.arrays import working_on

        with super().use(), working_on(self.number):
            yield


def asked(config: pytest.Config) -> bool:
    """Whether tests of the GPU are to run, and no others."""
    expression = config.option.markexpr or ""
    return chosen(expression, {"gpu"}) and not chosen(expression, set())


def chosen(expression: str, marks: set[str]) -> bool:
    """Whether `-m expression` runs a test of these marks."""
    words = re.sub(r"\w+", lambda w: _word(w[0], marks), expression)
    return bool(eval(words or "True"))


def _word(word: str, marks: set[str]) -> str:
    return word if word in ("and", "or", "not") else str(word in marks)


def configure(config: pytest.Config) -> None:
    if not asked(config):
        # "auto" is the CPU for all other tests, and for the programs that they start.
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    elif not reason():
        take_the_place_of_the_host(GpuDriver)


def take_the_place_of_the_host(driver: Any) -> None:
    """Before test files are imported."""
    import tests.cuda_host
    import tests.cuda_host.driver

    tests.cuda_host.HostDriver = driver  # type: ignore[misc]
    tests.cuda_host.driver.HostDriver = driver  # type: ignore[misc]
    tests.cuda_host.needs_compiler = pytest.mark.skipif(False, reason="NVRTC compiles")


def of_kernels(path: Path) -> bool:
    return path.name.startswith("test_gpu_") and path.name not in NOT_KERNELS


def leave_out(config: pytest.Config, path: Path) -> bool:
    """Other files are not even imported: a machine with a GPU need not have all that they use."""
    is_test = path.name.startswith("test_") and path.suffix == ".py"
    return asked(config) and is_test and path.name != "test_on_gpu.py" and not of_kernels(path)


def on_host(path: Path) -> bool:
    """Whether all tests of a file compile kernels for the host, or with NVRTC."""
    return of_kernels(path) or path.name.startswith("test_cuda_") or path.name == "test_nvrtc.py"


def mark(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks the tests of kernels on the host, and those of them that a GPU runs too."""
    for item in items:
        if on_host(Path(item.path)):
            item.add_marker("host")
    if not asked(config) or reason():
        return
    for item in items:
        own = getattr(item, "originalname", item.name)
        if of_kernels(Path(item.path)) and own not in HOST_ONLY:
            item.add_marker("gpu")


def table(config: pytest.Config, reports: Mapping[str, Sequence[Any]]) -> list[str]:
    """What ran, by file: how many tests passed, failed and were skipped, and their seconds."""
    if not asked(config):
        return []
    files: dict[str, dict[str, float]] = {}
    for kind in ("passed", "failed", "error", "skipped"):
        for report in reports.get(kind, ()):
            of = files.setdefault(report.nodeid.split("::")[0].rpartition("/")[2], {})
            of[kind] = of.get(kind, 0) + 1
            of["seconds"] = of.get("seconds", 0.0) + getattr(report, "duration", 0.0)
    lines = [f"{'on the GPU':<28}{'passed':>8}{'failed':>8}{'skipped':>8}{'seconds':>9}"]
    for name, of in sorted(files.items()):
        failed = of.get("failed", 0) + of.get("error", 0)
        lines.append(
            f"{name:<28}{of.get('passed', 0):>8}{failed:>8}{of.get('skipped', 0):>8}"
            f"{of['seconds']:>9.1f}"
        )
    return [*lines, reason()] if reason() else lines
