"""The queue, the pool and the work of depth-first kernels: no task is lost or done twice."""

from __future__ import annotations

import re
import shutil
import subprocess
from enum import IntEnum
from pathlib import Path
from typing import Final

import pytest

from gdatalog.gpu_ops import control, sources

HERE: Final = Path(__file__).parent / "cuda_host"
TASKS: Final = sources.whole((HERE / "tasks.cuh").read_text(encoding="utf-8"))

# ------------------------------------------------------------------------------------- numbers


def enum_of(text: str, name: str) -> dict[str, int]:
    (body,) = re.findall(rf"enum {name} \{{(.*?)\}}", text, re.DOTALL)
    return {word: int(value) for word, value in re.findall(r"(\w+) = (\d+)", body)}


def numbers_of(names: type[IntEnum]) -> dict[str, int]:
    return {each.name: each.value for each in names}


def test_python_and_cuda_have_the_same_numbers() -> None:
    words = enum_of(TASKS, "Word")
    assert words.pop("CONTROL_WORDS") == control.CONTROL_WORDS
    assert words == numbers_of(control.Word)
    assert all(word % 16 == 0 for word in words.values())
    assert enum_of(TASKS, "Reason") == numbers_of(control.Reason)
    assert f"SLOT_WORDS = {control.SLOT_WORDS}" in TASKS
    assert "EVERYTHING ((i64)1 << 62)" in TASKS
    assert control.EVERYTHING == 1 << 62


@pytest.mark.parametrize(("tiles", "room"), [(1, 2), (2, 4), (3, 8), (64, 128), (65, 256)])
def test_a_ring_has_room_for_each_tile_twice(tiles: int, room: int) -> None:
    assert control.capacity(tiles) == room


# ------------------------------------------------------------------------- threads of the machine

THREADS: Final = "\n".join(
    [
        "#define ONE_LANE",
        (HERE / "threads.hpp").read_text(encoding="utf-8").replace("#pragma once\n", ""),
        TASKS,
        (HERE / "races.cpp").read_text(encoding="utf-8"),
    ]
)


def run_on_threads(text: str, folder: Path) -> str:
    """What a program of races.cpp says, ThreadSanitizer's reports included."""
    (folder / "races.cpp").write_text(text, encoding="utf-8")
    flags = ["-std=c++17", "-O1", "-g1", "-w", "-fsanitize=thread", "-pthread"]
    command = ["g++", *flags, "races.cpp", "-o", "races"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    done = subprocess.run(["./races"], cwd=folder, capture_output=True, text=True, timeout=60)
    return done.stdout + done.stderr


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


def mutant(text: str, found: str, instead: str) -> str:
    assert text.count(found) == 1, found
    return text.replace(found, instead)


@pytest.mark.usefixtures("sanitizer")
def test_threads_race_nowhere(tmp_path: Path) -> None:
    assert run_on_threads(THREADS, tmp_path) == "wrong: 0\n"


@pytest.mark.usefixtures("sanitizer")
@pytest.mark.parametrize(
    ("found", "instead"),
    [
        ("store_release(ring, slot, lap + 1)", "store_relaxed(ring, slot, lap + 1)"),
        ("store_release(ring, slot, lap + capacity)", "store_relaxed(ring, slot, lap + capacity)"),
    ],
    ids=["put", "get"],
)
def test_a_weaker_store_is_a_race(found: str, instead: str, tmp_path: Path) -> None:
    assert "data race" in run_on_threads(mutant(THREADS, found, instead), tmp_path)
