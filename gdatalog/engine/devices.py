"""Opens devices by name; for "auto", a GPU when the first work pays there.

Opening a GPU takes seconds, so nothing of CUDA is imported before; on a machine that plainly has no
GPU, never.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any

from gdatalog.engine.nvidia import plainly_none
from gdatalog.errors import DeviceError, Error, UsageError, meant
from gdatalog.overhead import spending
from gdatalog.records import cached_property

if TYPE_CHECKING:
    from gdatalog.engine.device import Device

ASKED = "asked for"
NO_GPU = "there is no NVIDIA GPU"
NOT_USED = "the GPU is not used: {}; gdatalog --doctor tells more"
LATER = "large work runs on a GPU, if one is usable"  # it is not opened yet
OPENED = "large work runs on the GPU"
PLAIN = (ASKED, NO_GPU, LATER, OPENED)  # nothing is missing
ALL = "cuda:all"
_NAME = re.compile(r"cuda(?::(?:\d+(?:,\d+)*|all))?")


class OpenDevice:
    """A device and why it was chosen. Within `use()`, this thread works on it."""

    def __init__(
        self,
        device: Device | Callable[[], Device],
        why: str,
        use: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """`device` may be a function that makes it when it is first needed, with the engine."""
        self._made = device
        self.why = why
        self.use = use

    @cached_property
    def device(self) -> Device:
        return self._made() if callable(self._made) else self._made


class LaterGpu:
    """The first GPU, for `device="auto"`: opened when the first work pays there.

    `device`: the GPU, once it is opened. `why`: what "auto" has chosen so far, for users.
    """

    def __init__(
        self,
        opening: Callable[[], OpenDevice],
        entered: Callable[[Callable[[], AbstractContextManager[None]]], bool] = lambda use: (
            use() is not None
        ),
    ) -> None:
        """`opening` opens the GPU, or returns the CPU and the reason. `entered` gets `use`, in
        whose context the present call goes on; it returns False while another call uses the GPU."""
        self.device: Device | None = None
        self.why = LATER
        self.entered = entered
        self._opening = opening
        self._use: Callable[[], AbstractContextManager[None]] | None = None

    def open(self) -> Device | None:
        """The GPU, opened at the first call; None if it cannot be used, or another call uses it."""
        if self._use is not None and self.device is None:
            return None
        return self.device if self.entered(self._opened) else None

    @property
    def why_not(self) -> str:
        """Why `open` returned None."""
        tried = self._use is not None and self.device is None
        return self.why if tried else "another call may use the GPU"

    def _opened(self) -> AbstractContextManager[None]:
        if self._use is None:
            with spending("opening"):
                opened = self._opening()
                opened.device  # noqa: B018  # makes it
            if opened.device.name == "cpu":
                self.why, self._use = opened.why, opened.use
                log_device("cpu", self.why)
            else:
                self.device, self.why, self._use = opened.device, OPENED, opened.use
                log_device(f"cpu and {opened.device.name}", self.why)
        return self._use()

    def for_data(self, data: Any, least: int) -> Device | None:
        """The GPU for data, if at least so many bytes of it lie on one."""
        from gdatalog.storage.raw import bytes_on_device

        return self.open() if bytes_on_device(data) >= least else None

    def use(self) -> AbstractContextManager[None]:
        """A context in which this thread may use the GPU, if it is open."""
        return nullcontext() if self.device is None or self._use is None else self._use()

    def close(self) -> None:
        if self.device is not None:
            self.device.close()


def log_device(name: str, why: str) -> None:
    """Tells Python's logging, if it is in use, what "auto" has chosen."""
    if "logging" in sys.modules:
        import logging

        logging.getLogger("gdatalog").info("device: %s (%s)", name, why)


def open_device(name: str, memory: int | None = None) -> OpenDevice:
    """Opens "cpu", or any "cuda". `memory`: the bytes that a GPU may keep between queries, if the
    user sets them.

    >>> open_device("cpu").device.name
    'cpu'
    """
    if kind_of(name) == "cpu":
        return _cpu(ASKED)
    if name == ALL:  # the first if there is none, which then counts as missing
        from gdatalog.gpu_ops.probe import look_at_driver

        numbers = tuple(range(max(1, len(look_at_driver().cards))))
    else:
        numbers = numbers_of(name)
    for number in numbers:
        problem = _trouble(number, trial=False)
        if problem is not None:
            description, cure = problem
            raise DeviceError(f"{name} cannot be used: {description}", hint=cure)
    return _opened(numbers, ASKED, memory)


def numbers_of(name: str) -> tuple[int, ...]:
    """The numbers of the GPUs in a name like "cuda".

    >>> numbers_of("cuda"), numbers_of("cuda:1"), numbers_of("cuda:0,2")
    ((0,), (1,), (0, 2))
    """
    numbers = tuple(map(int, (name.partition(":")[2] or "0").split(",")))
    twice = next((number for number in numbers if numbers.count(number) > 1), None)
    if twice is not None:
        once = ",".join(map(str, dict.fromkeys(numbers)))
        raise UsageError(
            f"{name!r} names GPU {twice} twice", hint=f'name each once: device="cuda:{once}"'
        )
    return numbers


def why_no_gpu() -> str | None:
    """Why "auto" opens no GPU, as far as files tell; None if it may. Imports nothing."""
    if plainly_none():
        return NO_GPU
    if sys.platform == "linux" and not has_cupy():  # where files tell that there is a GPU
        return NOT_USED.format("CuPy: not installed")
    return None


def has_cupy() -> bool:
    """Whether CuPy seems to be installed."""
    from importlib.util import find_spec

    return "cupy" in sys.modules or find_spec("cupy") is not None


def kind_of(name: str) -> str:
    """Whether a device is "cpu", "auto", or any "cuda".

    >>> kind_of("cuda:1")
    'cuda'
    """
    if name in ("cpu", "auto"):
        return name
    name = name if isinstance(name, str) else repr(name)
    if _NAME.fullmatch(name) is None:
        kinds = ("auto", "cpu", "cuda")
        spoken = name.lower().replace(" ", "")
        near = "cuda" if spoken in ("gpu", "nvidia") else meant(name, kinds)
        if _NAME.fullmatch(spoken) is not None:
            near = spoken
        hint = (
            'devices are "auto", "cpu", "cuda", "cuda:1" for the second GPU, "cuda:0,1" for two '
            'together, and "cuda:all"'
        )
        if near is not None:
            hint = f'did you mean "{near}"? {hint}'
        raise UsageError(f"there is no device {name!r}", hint=hint)
    if name != ALL:
        numbers_of(name)
    return "cuda"


def _cpu(why: str) -> OpenDevice:
    from gdatalog.engine.device import CPU

    return OpenDevice(CPU, why)


def usable(memory: int | None = None) -> OpenDevice:
    """The first GPU, or the CPU if that GPU cannot be used."""
    if plainly_none():
        return _cpu(NO_GPU)
    problem = _trouble(0, trial=True)
    if problem is not None:
        return _cpu(NOT_USED.format(problem[0]))
    try:
        return _opened((0,), "a GPU is there", memory)
    except Error as failure:
        return _cpu(NOT_USED.format(failure.message))


@cache
def _trouble(number: int, trial: bool) -> tuple[str, str | None] | None:
    """Why a GPU cannot be used, and a cure; probed once. `trial`: whether a kernel is tried, too.
    If a kernel fails on a GPU that was asked for by name, the first query raises the error."""
    from gdatalog.gpu_ops.diagnosis import trouble
    from gdatalog.gpu_ops.probe import look

    try:
        found = trouble(look(number, trial), number)
    except Exception as problem:  # a driver may raise anything; the CPU still works
        description = f"looking for it failed: {type(problem).__name__}: {problem}"
        return description, "gdatalog --doctor tells what is there"
    return None if found is None else (f"{found.name}: {found.found}", found.cure)


def _opened(numbers: Sequence[int], why: str, memory: int | None) -> OpenDevice:
    from gdatalog.gpu_ops.cupy_driver import CupyDriver

    first, *others = drivers = list(map(CupyDriver, numbers))
    for driver in drivers:
        driver.prepare()

    def made() -> Device:
        from gdatalog.gpu_ops.device import Gpu

        with first.use():
            if not others:
                return Gpu(first, memory)
            from gdatalog.gpu_ops.group import DeviceGroup

            return DeviceGroup((first, *others), memory)

    return OpenDevice(made, why, first.use)
