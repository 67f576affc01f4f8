"""What is said of machines whose CUDA is half there, and what devices are opened on them."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from threading import get_ident
from types import SimpleNamespace
from typing import Any

import pytest

import gdatalog as gd
from gdatalog.cancellation import Watch, apart
from gdatalog.engine import devices
from gdatalog.engine.device import Cpu
from gdatalog.engine.devices import LATER, OPENED
from gdatalog.gpu_ops import cupy_driver, probe
from gdatalog.gpu_ops.diagnosis import checks, trouble
from gdatalog.gpu_ops.probe import Card, Probe
from gdatalog.shell import cli
from gdatalog.turns import Turns
from tests.cuda_host import HostDriver

CARD = Card("NVIDIA H200", 141 << 30, (9, 0))
OLD = Card("Tesla V100", 16 << 30, (7, 0))
CUPY12, CUPY13 = ("cupy-cuda12x", "14.2.0"), ("cupy-cuda13x", "14.2.0")

DRIVER = Probe(hardware=True, library=True)
CARDS = replace(DRIVER, driver="570.1", cuda=(12, 8), cards=(CARD,))
WELL = replace(CARDS, packages=(CUPY12,), built=12, nvrtc=(12, 9))
NEW = replace(CARDS, cuda=(13, 0))
INSTALL12 = "python -m pip install '.[cuda12]'"
INSTALL13 = "python -m pip install '.[cuda13]'"
UNINSTALL12 = "python -m pip uninstall -y cupy-cuda12x"
UNINSTALL13 = "python -m pip uninstall -y cupy-cuda13x"

# What is seen; what is said of it, the last of all; what to do.
STATES = [
    (Probe(), "there is no NVIDIA GPU", 'use device="cpu"'),
    (Probe(hardware=True), "there is an NVIDIA GPU, but no driver for it", "install NVIDIA's"),
    (replace(DRIVER, visible=""), "CUDA_VISIBLE_DEVICES='' hides all GPUs", "unset CUDA_VIS"),
    (replace(DRIVER, visible="-1"), "CUDA_VISIBLE_DEVICES='-1' hides all", "unset CUDA_VIS"),
    (
        replace(DRIVER, visible="7", refusal="CUDA_ERROR_NO_DEVICE"),
        "the driver sees no GPU (CUDA_VISIBLE_DEVICES='7')",
        "--gpus all",
    ),
    (replace(DRIVER, refusal="CUDA_ERROR_SYSTEM_NOT_READY"), "does not start", "fabricmanager"),
    (
        replace(DRIVER, refusal="CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
        "does not start: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        "restart the machine",
    ),
    (replace(DRIVER, refusal="error 12345"), "does not start: error 12345", "nvidia-smi"),
    (replace(CARDS, cuda=(11, 8)), "570.1, supports CUDA up to 11.8: too old", "update NVIDIA's"),
    (replace(CARDS, cards=()), "the driver sees none", "nvidia-smi"),
    (
        replace(CARDS, cards=(replace(OLD, capability=(6, 1)),)),
        "compute capability 6.1: too old, compute capability 7.0 is needed",
        "use another GPU",
    ),
    (replace(CARDS, broken="ModuleNotFoundError: cupy"), "not installed", INSTALL12),
    (replace(NEW, broken="ModuleNotFoundError: cupy"), "not installed", INSTALL13),
    # CUDA 13 compiles nothing for a V100, so its extra is the other one.
    (replace(NEW, cards=(OLD,), broken="ModuleNotFoundError: cupy"), "not installed", INSTALL12),
    (
        replace(NEW, cards=(OLD,), packages=(CUPY13,), built=13, nvrtc=(13, 0)),
        "is for CUDA 13, which does not support this GPU",
        f"{UNINSTALL13} && {INSTALL12}",
    ),
    (
        replace(CARDS, packages=(CUPY12, CUPY13)),
        "cupy-cuda12x 14.2.0 and cupy-cuda13x 14.2.0: they overwrite each other's files",
        f"{UNINSTALL12} cupy-cuda13x && {INSTALL12}",
    ),
    (
        replace(CARDS, packages=(CUPY12,), broken="ImportError: libcudart.so"),
        "cupy-cuda12x 14.2.0, but its import fails: ImportError: libcudart.so",
        f"{UNINSTALL12} && {INSTALL12}",
    ),
    (
        replace(CARDS, packages=(("cupy-cuda12x", "13.4"),), built=12, nvrtc=(12, 9)),
        "cupy-cuda12x 13.4: too old, 14 is needed",
        f"{UNINSTALL12} && {INSTALL12}",
    ),
    (
        replace(CARDS, packages=(CUPY13,), built=13),
        "cupy-cuda13x 14.2.0 is for CUDA 13, but the driver supports 12.8",
        f"{UNINSTALL13} && {INSTALL12} (or update the driver)",
    ),
    (
        replace(WELL, nvrtc=None, no_nvrtc="RuntimeError: no libnvrtc.so.12"),
        "CuPy finds no NVRTC: RuntimeError: no libnvrtc.so.12",
        INSTALL12,
    ),
    (
        replace(WELL, trial="OutOfMemoryError: Out of memory"),
        "fails: OutOfMemoryError: Out of memory",
        "that the GPU is idle",
    ),
]


@pytest.mark.parametrize(("seen", "said", "cure"), STATES)
def test_what_is_missing_and_what_mends_it(seen: Probe, said: str, cure: str) -> None:
    found = checks(seen)
    assert said in found[-1].found
    assert cure in (found[-1].cure or "")
    assert trouble(seen) == found[-1]
    assert all(check.cure is None and not check.absent for check in found[:-1])


def test_a_machine_that_is_well() -> None:
    assert trouble(WELL) is None
    assert [(check.name, check.found) for check in checks(WELL)] == [
        ("GPU driver", "570.1, supports CUDA up to 12.8"),
        ("GPU", "cuda:0 NVIDIA H200, 141.0 GiB, compute capability 9.0"),
        ("CuPy", "cupy-cuda12x 14.2.0"),
        ("GPU compiler", "NVRTC 12.9"),
        ("a kernel", "compiled and run"),
    ]
    # A newer driver runs what was built for older CUDA.
    assert trouble(replace(WELL, cuda=(13, 1))) is None


def test_a_gpu_of_a_number_that_is_not_there() -> None:
    found = trouble(WELL, 1)
    assert found is not None and found.found == "there is no cuda:1"
    assert found.cure is not None and found.cure.startswith("there is cuda:0: cuda:0 NVIDIA H200")
    found = trouble(replace(WELL, cards=(CARD, CARD)), 2)
    assert found is not None and found.cure is not None and "cuda:0 to cuda:1" in found.cure
    assert trouble(replace(WELL, cards=(CARD, CARD)), 1) is None


# ------------------------------------------------------------------------------- opening


def chosen(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the log says of the device."""
    return [message for message in caplog.messages if message.startswith("device: ")]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A machine with files of a driver, of which a probe says what the test wants."""
    state = SimpleNamespace(seen=WELL, looks=0, opened=[], cupy=True)

    def look(number: int = 0, trial: bool = True) -> Probe:
        state.looks += 1
        return state.seen  # type: ignore[no-any-return]

    def opened(numbers: Sequence[int], why: str, memory: int | None) -> devices.OpenDevice:
        gpu = Cpu()
        gpu.name = f"cuda:{','.join(map(str, numbers))}"
        state.opened.append((*numbers, memory))
        return devices.OpenDevice(gpu, why, state.use)

    @contextmanager
    def use() -> Iterator[None]:
        state.inside = True
        try:
            yield
        finally:
            state.inside = False

    state.use, state.inside = use, False
    monkeypatch.setattr(probe, "look", look)
    monkeypatch.setattr(probe, "look_at_driver", lambda: state.seen)
    monkeypatch.setattr(devices, "_opened", opened)
    monkeypatch.setattr(devices, "plainly_none", lambda: False)
    monkeypatch.setattr(devices, "has_cupy", lambda: state.cupy)
    devices._trouble.cache_clear()
    yield state
    devices._trouble.cache_clear()


def test_what_runs_apart_for_a_call_works_on_its_device_too() -> None:
    """A new thread has no context of CUDA, in which alone kernels are launched."""
    inside: set[int] = set()

    @contextmanager
    def use() -> Iterator[None]:
        inside.add(get_ident())
        try:
            yield
        finally:
            inside.remove(get_ident())

    def here() -> tuple[bool, bool]:
        return get_ident() in inside, get_ident() == caller

    caller = get_ident()
    turns = Turns(use, Watch())
    with turns.call():
        assert apart(here) == (False, False)
        with turns.turn():
            assert apart(here) == (True, False)
        assert apart(here) == (False, False)
    later = Turns(nullcontext, Watch())
    with later.call():
        assert later.enter(use)
        assert apart(here) == (True, False)
    with later.call():
        assert apart(here) == (False, False)
    assert not inside


def test_auto_opens_a_gpu_when_work_pays_and_says_so(
    machine: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="gdatalog")
    with gd.connect() as db:
        assert db.query("p(1). ?- p(x).").fetchall() == [(1,)]
        assert (db.device, db.workspace.why) == ("cpu", LATER)
        assert repr(db) == "<gdatalog.Database on cpu: empty>"
        assert machine.looks == 0 and machine.opened == []
        assert chosen(caplog) == [f"device: cpu ({LATER})"]
        with db.call():
            assert db.workspace.later is not None and db.workspace.later.open() is not None
            assert machine.inside  # the rest of the call works on it
        assert not machine.inside
        assert (db.device, db.workspace.why) == ("cpu and cuda:0", OPENED)
        assert repr(db) == "<gdatalog.Database on cpu and cuda:0: empty>"
        with db.call():
            assert machine.inside
    assert chosen(caplog) == [f"device: cpu ({LATER})", f"device: cpu and cuda:0 ({OPENED})"]
    assert machine.opened == [(0, None)] and machine.looks == 1
    machine.opened.clear()
    assert gd.connect(device="cuda:0").device == gd.connect(device="cuda").device == "cuda:0"
    assert machine.looks == 2  # once for each process: without a trial
    gd.connect(device="cuda:0", memory_limit="1KiB")
    assert machine.opened == [(0, None), (0, None), (0, 1024)]


def test_several_gpus_are_asked_for(machine: Any) -> None:
    machine.seen = replace(WELL, cards=(CARD, CARD, CARD))
    for name in ("cuda:0,1", "cuda:2,0"):
        assert gd.connect(device=name).device == name
    assert gd.connect(device="cuda:all").device == "cuda:0,1,2"
    assert gd.query("p(1).", device="cuda:0,1").fetchall() == [(1,)]
    with pytest.raises(gd.DeviceError, match=r"cuda:0,3 cannot be used: .* no cuda:3"):
        gd.connect(device="cuda:0,3")
    machine.seen = WELL
    assert gd.connect(device="cuda:all").device == "cuda:0"


@pytest.mark.parametrize(
    ("name", "said", "cure"),
    [
        ("cuda:", "there is no device 'cuda:'", 'did you mean "cuda"?'),
        ("cuda:1,", "there is no device 'cuda:1,'", '"cuda:0,1" for two together'),
        ("CUDA:0, 1", "there is no device 'CUDA:0, 1'", 'did you mean "cuda:0,1"?'),
        ("cuda:1,0,1", "'cuda:1,0,1' names GPU 1 twice", 'device="cuda:1,0"'),
        ("cuda:1,01", "'cuda:1,01' names GPU 1 twice", 'device="cuda:1"'),
        ("cuda:-1", "there is no device 'cuda:-1'", "devices are"),
    ],
)
def test_names_of_no_device(name: str, said: str, cure: str) -> None:
    for call in (lambda: gd.connect(device=name), lambda: gd.query("p(1).", device=name)):
        with pytest.raises(gd.UsageError) as caught:
            call()
        assert caught.value.message == said and cure in (caught.value.hint or "")


def test_auto_says_why_it_takes_no_gpu(machine: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="gdatalog")
    machine.seen = replace(CARDS, packages=(CUPY12,), broken="ImportError: libcudart.so")
    with gd.connect() as db:
        assert db.device == "cpu" and db.workspace.later is not None
        for _ in range(2):
            assert db.workspace.later.open() is None
        why = "CuPy: cupy-cuda12x 14.2.0, but its import fails: ImportError: libcudart.so"
        assert db.workspace.why == f"the GPU is not used: {why}; gdatalog --doctor tells more"
        assert db.device == "cpu"
    assert chosen(caplog) == [f"device: cpu ({LATER})", f"device: cpu ({db.workspace.why})"]
    assert machine.looks == 1


def test_a_gpu_that_fails_while_auto_opens_it(
    machine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> Any:
        raise gd.DeviceError("opening cuda:0 failed on the GPU: cudaErrorDevicesUnavailable")

    monkeypatch.setattr(devices, "_opened", fails)
    with gd.connect() as db:
        assert db.workspace.later is not None and db.workspace.later.open() is None
        assert "opening cuda:0 failed on the GPU: cudaErrorDevices" in db.workspace.why
        assert db.device == "cpu"


@pytest.mark.skipif(sys.platform != "linux", reason="files of Linux")
def test_without_cupy_auto_says_so_at_once(machine: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="gdatalog")
    machine.cupy = False
    with gd.connect() as db:
        assert db.device == "cpu" and db.workspace.later is None and machine.looks == 0
        why = "the GPU is not used: CuPy: not installed; gdatalog --doctor tells more"
        assert db.workspace.why == why
    assert chosen(caplog) == [f"device: cpu ({why})"]


def test_a_gpu_that_was_asked_for_and_cannot_be_used(machine: Any) -> None:
    machine.seen = replace(CARDS, broken="ModuleNotFoundError: cupy")
    with pytest.raises(gd.DeviceError) as caught:
        gd.connect(device="cuda")
    assert caught.value.message == "cuda cannot be used: CuPy: not installed"
    assert caught.value.hint == f"in a clone of gdatalog: {INSTALL12}"
    machine.seen = WELL
    with pytest.raises(gd.DeviceError, match="there is no cuda:9"):
        gd.connect(device="cuda:9")


def test_looking_for_a_gpu_breaks_nothing(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(number: int, trial: bool) -> Probe:
        raise AttributeError("cuDeviceGet")

    monkeypatch.setattr(probe, "look", breaks)
    with gd.connect() as db:
        assert db.workspace.later is not None and db.workspace.later.open() is None
        assert db.device == "cpu"
        assert "looking for it failed: AttributeError: cuDeviceGet" in db.workspace.why
    with pytest.raises(gd.DeviceError, match="looking for it failed"):
        gd.connect(device="cuda")


def test_the_command_line_ends_with_three(machine: Any, capsys: Any) -> None:
    machine.seen = replace(CARDS, packages=(CUPY13,), built=13)
    assert cli.run(["--device", "cuda", "-c", "?- 1 < 2."]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("device error: cuda cannot be used: CuPy: cupy-cuda13x 14.2.0 is for")
    assert "hint: in a clone of gdatalog: python -m pip uninstall -y cupy-cuda13x &&" in err
    assert cli.run(["--device", "auto", "-c", "?- 1 < 2."]) == 0


def test_a_thread_works_on_the_device_while_it_has_its_turn(machine: Any) -> None:
    db = gd.connect(device="cuda")
    machine.inside = False
    with db.call(), db.call():
        assert machine.inside
    assert not machine.inside

    with pytest.raises(gd.UsageError), db.call():
        db.query("?- 1 < 2.", limit=-1)
    assert not machine.inside

    def fails() -> Any:
        raise MemoryError

    turns = Turns(fails, Watch())
    for _ in range(2):  # the turn is free again
        with pytest.raises(MemoryError), turns.call(), turns.turn():
            pass


def test_a_gpu_is_opened_by_its_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    used = []

    class Driver(HostDriver):
        def __init__(self, number: int) -> None:
            super().__init__(number=number)

        @contextmanager
        def use(self) -> Iterator[None]:
            used.append(self.name)
            yield

    monkeypatch.setattr(cupy_driver, "CupyDriver", Driver)
    opened = devices._opened((1,), "because", 1 << 20)
    assert (opened.device.name, opened.why, used) == ("cuda:1", "because", ["cuda:1"])
    with opened.use():
        assert len(used) == 2
    opened.device.close()
    used.clear()
    opened = devices._opened((2, 0, 1), "because", None)
    assert (opened.device.name, used) == ("cuda:2,0,1", ["cuda:2", "cuda:0", "cuda:1"])
    assert opened.device.members == ("cuda:2", "cuda:0", "cuda:1")
    with opened.use():
        assert used[-1] == "cuda:2"
        opened.device.close()


def test_where_there_is_no_gpu_nothing_of_cuda_is_imported() -> None:
    text = (
        "import sys, gdatalog as gd\n"
        "gd.connect().query('?- 1 < 2.')\n"
        "print([m for m in sys.modules if m.startswith(('cupy', 'gdatalog.gpu_ops'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", text],
        capture_output=True,
        encoding="utf-8",
        check=True,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )
    assert done.stdout == "[]\n"


@pytest.mark.skipif(sys.platform != "linux", reason="files of Linux")
def test_what_tells_that_there_is_plainly_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    files: set[str] = set()
    monkeypatch.setattr("os.path.exists", lambda path: path in files)
    assert devices.plainly_none()
    files.add("/dev/nvidiactl")
    assert not devices.plainly_none()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert not devices.plainly_none()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", " ")
    assert devices.plainly_none()


# ------------------------------------------------------------------------------- looking


class _Library:
    """What stands for libcuda: two GPUs, CUDA 12.8; or what it says instead of starting."""

    def __init__(self, status: int = 0) -> None:
        self.status = status

    def cuInit(self, flags: int) -> int:
        return self.status

    def cuGetErrorName(self, status: int, text: Any) -> int:
        text._obj.value = b"CUDA_ERROR_NO_DEVICE" if status == 100 else None
        return 0

    def cuDriverGetVersion(self, version: Any) -> int:
        version._obj.value = 12080
        return 0

    def cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = 3
        return 0

    def cuDeviceGet(self, device: Any, number: int) -> int:
        device._obj.value = number + 5
        return 101 if number == 2 else 0

    def cuDeviceGetName(self, name: Any, length: int, device: ctypes.c_int) -> int:
        name.value = f"card {device.value}".encode()
        return 0

    def cuDeviceTotalMem_v2(self, memory: Any, device: ctypes.c_int) -> int:
        memory._obj.value = device.value << 30
        return 0

    def cuDeviceGetAttribute(self, value: Any, attribute: int, device: ctypes.c_int) -> int:
        value._obj.value = {75: 9, 76: 1}[attribute]
        return 0


@pytest.fixture
def visible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(probe, "_packages", lambda: iter([CUPY12]))


def _cupy(**given: Any) -> Any:
    """What stands for CuPy: built for CUDA 12, NVRTC 12.9; `given` instead."""

    parts: dict[str, Any] = {"built": lambda: 12090, "nvrtc": lambda: (12, 9), **given}
    return SimpleNamespace(
        cuda=SimpleNamespace(
            driver=SimpleNamespace(get_build_version=parts["built"]),
            nvrtc=SimpleNamespace(getVersion=parts["nvrtc"]),
        ),
    )


@pytest.mark.usefixtures("visible")
def test_looking_at_a_machine_that_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "driver_library", _Library)
    monkeypatch.setitem(sys.modules, "cupy", _cupy())
    monkeypatch.setattr(cupy_driver, "CupyDriver", lambda number: HostDriver())
    seen = probe.look(1)
    assert seen.cards == (Card("card 5", 5 << 30, (9, 1)), Card("card 6", 6 << 30, (9, 1)))
    assert (seen.cuda, seen.built, seen.nvrtc) == ((12, 8), 12, (12, 9))
    assert trouble(seen, 1) is None
    assert probe.look(2).built is None  # CuPy is not imported for a GPU that is not there


@pytest.mark.usefixtures("visible")
def test_looking_at_cupy_that_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fails(*args: object) -> Any:
        raise RuntimeError("it\nfails" + "!" * 400)

    monkeypatch.setattr(probe, "driver_library", _Library)
    (tmp_path / "cupy.py").write_text('raise RuntimeError("it\\nfails" + "!" * 400)')
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    seen = probe.look()
    assert seen.broken is not None and seen.broken.startswith("RuntimeError: it fails!")
    assert len(seen.broken) == 300
    monkeypatch.setitem(sys.modules, "cupy", _cupy(nvrtc=fails))
    assert str(probe.look().no_nvrtc).startswith("RuntimeError: it fails")
    monkeypatch.setitem(sys.modules, "cupy", _cupy())
    monkeypatch.setattr(cupy_driver, "CupyDriver", fails)
    assert str(probe.look().trial).startswith("RuntimeError: it fails")
    assert probe.look(trial=False).trial is None
    monkeypatch.setitem(sys.modules, "cupy", _cupy(built=lambda: 13000))
    found = trouble(probe.look())
    assert found is not None and "is for CUDA 13" in found.found


@pytest.mark.usefixtures("visible")
def test_looking_at_drivers_that_do_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "driver_library", lambda: _Library(100))
    assert probe.look().refusal == "CUDA_ERROR_NO_DEVICE"
    monkeypatch.setattr(probe, "driver_library", lambda: _Library(7))
    assert probe.look().refusal == "error 7"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert probe.look() == Probe("-1", probe._hardware(), True, packages=(CUPY12,))
    monkeypatch.setattr(probe, "driver_library", lambda: None)
    assert not probe.look().library
