"""What one GPU of a group does of a join or fixpoint: piece after piece, one launch at a time.

Nobody waits here for a GPU that is at work: the thread that calls launches on all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from time import perf_counter
from typing import Any

from gdatalog.calls import Block
from gdatalog.gpu_ops.device import Gpu
from gdatalog.gpu_ops.launch import STOP, Launched, Steps, stop
from gdatalog.gpu_ops.rows import Array
from gdatalog.plan.placement import DeviceWork

Found = list[list[Block]]  # blocks of rows, by relation


class Share:
    """The pieces that a GPU takes. `begin(part)`: the launches of a piece. `beside`: arrays on this
    GPU to which they add counts."""

    def __init__(
        self, gpu: Gpu, begin: Callable[[int], Steps[Found]], beside: Mapping[str, Array]
    ) -> None:
        self.gpu, self.driver = gpu, gpu.driver
        self.begin = begin
        self.beside = beside
        self.found: dict[int, Found] = {}
        self.work = DeviceWork()
        self._began = perf_counter()
        self._part = 0
        self._steps: Steps[Found] | None = None
        self._launched: Launched | None = None

    @property
    def ended(self) -> bool:
        """Whether the launch that is under way has ended, or nothing is under way."""
        return self._launched is None or self.driver.ended(self._launched[1])

    def go_on(self, claims: Iterator[int], parts: int, poll: Callable[[], None]) -> bool:
        """Launches what comes after the launch that has ended; or of the next piece, from a counter
        that all GPUs share. Returns whether there was anything."""
        with self.driver.use():
            read: Any = None
            if self._launched is not None:
                control, reading = self._launched
                read = self.driver.wait(poll, control, *STOP, reading)
            while True:
                if self._steps is None:
                    self._part = next(claims)
                    if self._part >= parts:
                        self.driver.synchronize()  # other GPUs may only copy finished arrays
                        self.work.seconds = perf_counter() - self._began
                        return False
                    self._steps, read = self.begin(self._part), None
                try:
                    self._launched = self._steps.send(read)
                    return True
                except StopIteration as end:
                    self._steps = self._launched = None
                    self._keep(end.value)

    def _keep(self, found: Found) -> None:
        self.found[self._part] = found
        self.work.pieces += 1
        self.work.rows += sum(len(block[0]) for blocks in found for block in blocks)

    def stop(self) -> None:
        """Ends the launch that is under way, and waits for its end."""
        if self._launched is not None:
            with suppress(BaseException), self.driver.use():
                stop(self._launched, self.driver)
        if self._steps is not None:
            self._steps.close()
