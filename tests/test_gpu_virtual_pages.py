"""Pages that kernels read, on the host and on the device: what is mapped, and what fails."""

from __future__ import annotations

import ctypes
import gc
import random
import subprocess
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gdatalog.gpu_ops import copies, cupy_driver, virtual_memory
from gdatalog.gpu_ops.paged_tries import Paged
from gdatalog.gpu_ops.virtual_memory import Refused
from gdatalog.gpu_ops.virtual_pages import VirtualPages
from gdatalog.storage.trie import Trie, TrieLevel
from tests.cuda_host import HostDriver, needs_compiler
from tests.cuda_host.arrays import ndarray
from tests.cuda_host.driver import HostCopied, _Pinned
from tests.cuda_host.pages import HostMemory, array, copy

pytestmark = needs_compiler


def test_pages_keep_what_is_written_wherever_they_lie() -> None:
    rng, memory = random.Random(5), HostMemory(64)
    pages = VirtualPages(memory, 1000, copy, array, partial(HostCopied, HostDriver().copies, 0))
    data = np.arange(1000, dtype=np.uint8)
    pages.write(0, data[:504])
    pages.write(504, data[504:])
    there = pages.array(8, 123, "i8")
    for _ in range(20):
        wanted = rng.sample(range(16), rng.randint(0, 16))
        pages.place(wanted)
        assert pages.placed == set(wanted)
        assert memory.held == 64 * len(wanted)
        assert there.get().tolist() == data.view("i8")[1:124].tolist()
        if rng.random() < 0.5:
            memory.fail_after[True] = memory.made[True] + rng.randint(0, 3)
            before = pages.placed
            try:
                pages.place(range(16))
            except MemoryError:
                assert pages.placed == before and memory.held == 64 * len(before)
            memory.fail_after.clear()
            assert there.get().tolist() == data.view("i8")[1:124].tolist()
    del pages, there
    gc.collect()
    assert not memory.ranges and not memory.handles


def of_sixteen_pages(memory: HostMemory, copies: Any = copy) -> VirtualPages:
    return VirtualPages(memory, 1000, copies, array, partial(HostCopied, HostDriver().copies, 0))


@pytest.mark.parametrize("name", ["map", "settle", "copy"])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_pages_are_whole_wherever_a_swap_is_refused(name: str, times: int) -> None:
    """Once, or what mends it as well; what lies aside goes in any case."""
    memory = HostMemory(64)

    def copied(source: int, target: int, size: int) -> None:
        memory._call("copy")
        copy(source, target, size)

    pages = of_sixteen_pages(memory, copied)
    data = np.arange(1000, dtype=np.uint8)
    pages.write(0, data)
    there = pages.array(8, 123, "i8")
    failed = 0
    for first in range(12):
        pages.place((1, 2, 5))
        begin = memory.called[name] + first
        memory.refused[name] = range(begin, begin + times)
        for wanted in (2, 3, 4, 9), (0, 1, 2):
            try:
                pages.place(wanted)
            except Refused:
                failed += 1
                assert len(memory.ranges) == 1
                assert memory.held == 64 * len(pages.placed)
            else:
                assert pages.placed == set(wanted)
                assert there.get().tolist() == data.view("i8")[1:124].tolist()
        memory.refused.clear()
        pages.place(pages.placed)
        assert there.get().tolist() == data.view("i8")[1:124].tolist()
    assert failed >= 2
    memory.refused[name] = range(memory.called[name], 1 << 20)
    with pytest.raises(Refused):
        pages.place((7, 8, 9))
    del pages, there
    gc.collect()
    assert not memory.ranges and not memory.handles


def test_pages_that_are_refused_are_given_back_at_once() -> None:
    memory = HostMemory(64)
    memory.fail_after[False] = 5
    with pytest.raises(MemoryError) as held:
        of_sixteen_pages(memory)
    assert not memory.ranges and not memory.handles
    memory.fail_after.clear()
    memory.refused["map"] = (0,)
    with pytest.raises(Refused) as other:
        of_sixteen_pages(memory)
    assert not memory.ranges and not memory.handles
    del held, other


def test_what_other_queries_have_left_makes_room_for_an_index() -> None:
    def trie(size: int) -> Trie:
        values = np.arange(size, dtype=np.int32)
        offsets = np.array([0, size], dtype=np.int32)
        return Trie([TrieLevel(values, offsets, np)], size, None)

    class Bounded(HostMemory):
        def created(self, on_device: bool) -> int:
            if len(self.handles) >= 50:
                raise MemoryError
            return super().created(on_device)

    driver = HostDriver()
    driver.virtual = Bounded(128)
    paged_tries = Paged(driver)
    one, other = trie(500), trie(700)
    paged_tries.of(one, lambda: None)
    paged_tries.of(other, lambda: None)
    assert paged_tries.made(one) is None and paged_tries.made(other) is not None


def test_a_gpu_that_is_full_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    full = {"pool", "others"}

    class Memory:
        page = 1 << 21

        def __init__(self, number: int, host: bool) -> None:
            assert host

        def current(self) -> Any:
            return nullcontext()

        def try_out(self) -> None:
            if full:
                raise MemoryError

    monkeypatch.setattr(virtual_memory, "VirtualMemory", Memory)
    driver = cupy_driver.CupyDriver.__new__(cupy_driver.CupyDriver)
    driver._virtual, driver._arena, driver.number = {}, None, 0
    pool = SimpleNamespace(free_all_blocks=lambda: full.discard("pool"))
    driver._cupy = SimpleNamespace(get_default_memory_pool=lambda: pool)
    assert driver.page == 0 and not driver._virtual
    full.add("pool")
    full.remove("others")
    assert driver.page == 1 << 21 and not full


def test_what_the_drivers_library_is_called_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a library that has the same functions, and tells what it was given."""
    source, library = Path(__file__).parent / "cuda_host" / "fake_driver.c", tmp_path / "fake.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    loaded = ctypes.CDLL(str(library))
    loaded.said.restype = ctypes.c_char_p
    monkeypatch.setattr(virtual_memory.ctypes, "CDLL", lambda _: loaded)
    memory = virtual_memory.opened(1, host=True)
    assert memory is not None and memory.page == 1 << 22
    size = 1 << 22
    assert loaded.said().decode().splitlines() == [
        f"reserve {2 * size} by {size}",
        f"create {size} at 3 0",
        f"create {size} at 1 1",
        f"map {size} of 5",
        f"map {size} of 6",
        f"access {2 * size} for 1 1: 3",
        f"unmap {2 * size}",
        "release 5",
        "release 6",
        f"free {2 * size}",
    ]
    loaded.cuCtxSetCurrent(None)  # another thread
    found = ctypes.c_void_p()
    with memory.current():
        loaded.cuCtxGetCurrent(ctypes.byref(found))
        assert found.value == 0x77
    loaded.cuCtxGetCurrent(ctypes.byref(found))
    assert found.value is None
    assert [memory.created(True), memory.created(False)] == [7, 8]
    with pytest.raises(MemoryError):
        memory.created(True)
    loaded.again()
    with pytest.raises(virtual_memory.Refused, match="cuNothing: error 0"):
        memory.call("cuNothing")
    said = len(loaded.said())
    memory.settle()
    with pytest.raises(virtual_memory.Refused, match="cuMemMap"):
        memory.map(1 << 30, [7, 99])
    assert loaded.said()[said:].decode().splitlines() == [
        "settle 0x77",
        f"map {size} of 7",
        f"map {size} of 99",
        f"unmap {size}",
    ]
    said = len(loaded.said())
    arena = virtual_memory.VirtualMemory(1, host=False)
    assert arena.created(True, 3) == 7
    arena.map(1 << 30, [7], 3)
    assert loaded.said()[said:].decode().splitlines() == [
        f"create {3 * size} at 1 1",
        f"map {3 * size} of 7",
        f"access {3 * size} for 1 1: 3",
        f"access {3 * size} for 1 0: 3",  # another GPU may read it
    ]
    assert virtual_memory.opened(0, host=True) is None  # which has no such attribute


def test_arrays_are_fetched_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a GPU; here by what stands for CUDA."""
    monkeypatch.setattr(copies, "BUFFER", 64)
    source = np.arange(1000, dtype=np.int32)
    there = ndarray(source)
    cuda = SimpleNamespace(
        alloc_pinned_memory=lambda size: _Pinned(np.zeros(size, dtype=np.uint8)),
        get_current_stream=lambda: SimpleNamespace(ptr=0),
        Event=lambda **_: SimpleNamespace(record=lambda _: None, synchronize=lambda: None),
        runtime=SimpleNamespace(
            memcpyDeviceToHost=2,
            memcpyAsync=lambda to, start, size, *_: copy(start, to, size),
        ),
    )
    assert copies.fetched(cuda, there).tolist() == source.tolist()
