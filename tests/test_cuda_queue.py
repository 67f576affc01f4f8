"""The queue, the pool and the work of depth-first kernels: no task is lost or done twice."""

from __future__ import annotations

import re
import shutil
import subprocess
from enum import IntEnum
from pathlib import Path
from typing import Final

import pytest

from gdatalog.gpu_ops import control_words
from tests.cuda_host import needs_compiler
from tests.cuda_queue.walks import text_of

TASKS: Final = text_of("tasks.cuh")

# ------------------------------------------------------------------------------------- numbers


def enum_of(text: str, name: str) -> dict[str, int]:
    (body,) = re.findall(rf"enum {name} \{{(.*?)\}}", text, re.DOTALL)
    return {word: int(value) for word, value in re.findall(r"(\w+) = (\d+)", body)}


def numbers_of(names: type[IntEnum]) -> dict[str, int]:
    return {each.name: each.value for each in names}


def test_python_and_cuda_have_the_same_numbers() -> None:
    words = enum_of(TASKS, "Word")
    assert words.pop("CONTROL_WORDS") == control_words.CONTROL_WORDS
    assert words == numbers_of(control_words.Word)
    assert all(word % 16 == 0 for word in words.values())
    assert enum_of(TASKS, "Reason") == numbers_of(control_words.Reason)
    assert f"SLOT_WORDS = {control_words.SLOT_WORDS}" in TASKS
    assert "EVERYTHING ((i64)1 << 62)" in TASKS
    assert control_words.EVERYTHING == 1 << 62


@pytest.mark.parametrize(("tiles", "room"), [(1, 2), (2, 4), (3, 8), (64, 128), (65, 256)])
def test_a_ring_has_room_for_each_tile_twice(tiles: int, room: int) -> None:
    assert control_words.capacity(tiles) == room


# -------------------------------------------------------------------- programs of tiles of one lane

ONE_LANE: Final = "#define ONE_LANE\n"
THREADS: Final = ONE_LANE + text_of("one_lane.hpp", "threads.hpp", "tasks.cuh", "races.cpp")
SCHEDULES: Final = ONE_LANE + text_of(
    "one_lane.hpp", "all_schedules.hpp", "tasks.cuh", "published.cuh", "schedules.cpp"
)


def run(text: str, folder: Path, *flags: str, argument: int = 0) -> str:
    """What a program says; reports of ThreadSanitizer are part of it."""
    (folder / "program.cpp").write_text(text, encoding="utf-8")
    command = ["g++", "-std=c++17", "-O1", "-g1", "-w", *flags, "program.cpp", "-o", "program"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    done = subprocess.run(
        ["./program", str(argument)], cwd=folder, capture_output=True, text=True, timeout=120
    )
    return done.stdout + done.stderr


def run_on_threads(text: str, folder: Path) -> str:
    return run(text, folder, "-fsanitize=thread", "-pthread")


def mutant(text: str, found: str, instead: str) -> str:
    assert text.count(found) == 1, found
    return text.replace(found, instead)


# ------------------------------------------------------------------------- threads of the machine


@pytest.fixture(scope="session")
def sanitizer(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skips where ThreadSanitizer cannot be had."""
    if shutil.which("g++") is None:
        pytest.skip("g++ is not here")
    folder = tmp_path_factory.mktemp("sanitizer")
    text = '#include <cstdio>\nint main() { std::puts("runs"); }\n'
    try:
        said = run_on_threads(text, folder)
    except subprocess.CalledProcessError:
        pytest.skip("g++ has no ThreadSanitizer here")
    if "runs" not in said:
        pytest.skip("ThreadSanitizer does not run here")


@pytest.mark.usefixtures("sanitizer")
def test_threads_race_nowhere(tmp_path: Path) -> None:
    assert run_on_threads(THREADS, tmp_path) == "wrong: 0\n"


@pytest.mark.usefixtures("sanitizer")
@pytest.mark.parametrize(
    ("found", "instead"),
    [
        ("store_release(ring, slot, lap + 1)", "store_relaxed(ring, slot, lap + 1)"),
        pytest.param(
            "store_release(ring, slot, lap + capacity)",
            "store_relaxed(ring, slot, lap + capacity)",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "__atomic_load_n(a + i, __ATOMIC_ACQUIRE)",
            "__atomic_load_n(a + i, __ATOMIC_RELAXED)",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["put", "get", "turn"],
)
def test_weaker_orders_are_races(found: str, instead: str, tmp_path: Path) -> None:
    assert "data race" in run_on_threads(mutant(THREADS, found, instead), tmp_path)


# ------------------------------------------------------------------------------- every schedule


def wrongs_of(said: str) -> dict[str, tuple[int, int]]:
    """For each scene, how many schedules went wrong, of how many."""
    found = re.findall(r"^(.*): (\d+) of (\d+)$", said, re.MULTILINE)
    return {scene: (int(wrong), int(runs)) for scene, wrong, runs in found}


@needs_compiler
@pytest.mark.parametrize("more", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_every_schedule_with_few_preemptions(more: int, tmp_path: Path) -> None:
    scenes = wrongs_of(run(SCHEDULES, tmp_path, argument=more))
    published, runs = scenes.pop("published")
    assert 0 < published < runs  # T-DFS's queue, as it was published
    assert len(scenes) == 5
    assert {wrong for wrong, _ in scenes.values()} == {0}
    assert sum(runs for _, runs in scenes.values()) > 20_000


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize(
    ("found", "weak"),
    [
        ("ticket = atomic_add(control, HEAD, (i64)1);", "ticket = load_relaxed(control, HEAD); "
         "store_relaxed(control, HEAD, ticket + 1);"),
        ("ticket = atomic_add(control, TAIL, got);", "{ ticket = load_relaxed(control, TAIL); "
         "store_relaxed(control, TAIL, ticket + got); }"),
        ("if (atomic_add(control, QUEUED, (i64)1) < 0) return false;",
         "atomic_add(control, QUEUED, (i64)1); return false;"),
    ],
    ids=["two take one", "two put one", "who finds none does not look again"],
)  # fmt: skip
def test_what_each_step_is_for(found: str, weak: str, tmp_path: Path) -> None:
    said = run(mutant(SCHEDULES, found, weak), tmp_path)
    assert "stuck" in said or any(wrong for wrong, _ in wrongs_of(said).values())
