"""Compiles a GPU's kernels on first use, and launches them.

A driver (`cupy_driver.py`; tests have one without a GPU) compiles a source and launches its
kernels, with as many blocks as the size of the data needs. Arrays are those of the driver's array
module `xp`: CuPy on a GPU.
"""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING
from weakref import ref

from gdatalog.gpu_ops.elementwise import Elementwise
from gdatalog.gpu_ops.sources import whole
from gdatalog.overhead import spending
from gdatalog.threads import PoolTask, begun

if TYPE_CHECKING:
    from gdatalog.gpu_ops.cupy_driver import CupyDriver
    from gdatalog.gpu_ops.cupy_kernel import CupyKernel
    from gdatalog.storage.table import Array


THREADS = 256  # of a block, as in search.cuh
EACH = 4  # entries of a thread in a tile, as in search.cuh
TILE = EACH * THREADS  # entries that a block takes at a time
LEVEL_EACH = 8  # the same in a level's kernels, which read more of an entry
SPREAD = 256  # tiles, below which threads have fewer entries each in a level's kernels
LEVEL_BLOCKS = 5  # of these kernels, at least, that a multiprocessor has registers for
WAVES = 4  # of blocks that do not wait for each other
TYPES = {"int32": "i32", "int64": "i64", "float64": "double", "uint8": "u8"}


def tile_of(size: int, most: int) -> int:
    """The entries of a tile of a level's kernels (`entries_each` in search.cuh); `most`: of each
    thread."""
    return THREADS * max(1, min(most, -(-size // (THREADS * SPREAD))))


def type_of(array: Array) -> str:
    """The name, in kernels, of the type of an array's entries."""
    return TYPES[str(array.dtype)]


def text_of(types: dict[str, str], text: str) -> str:
    """A source, with the types that it leaves open."""
    return "".join(f"#define {alias} {kind}\n" for alias, kind in types.items()) + text


class Kernels:
    """The kernels of one driver, each compiled on first use. `arrays`: those of any type."""

    def __init__(self, driver: CupyDriver) -> None:
        self.driver = driver
        self.arrays = getattr(driver.xp, "kernels", None) or Elementwise(driver)
        self._known: dict[tuple[str, str], CupyKernel] = {}
        self._coming: dict[tuple[str, str], PoolTask] = {}  # that threads compile, or have tried to
        atexit.register(_settle, ref(self))

    def soon(self, text: str, name: str) -> bool:
        """Whether a kernel is at hand, or is to be waited for. Otherwise another thread compiles
        it."""
        key, driver = (text, name), self.driver
        if key in self._known or not driver.compiles_ahead:
            return True
        if key in self._coming:
            return self._coming[key].wait(0)
        if driver.is_stored(whole(text)):
            return True

        def compile() -> None:
            with suppress(Exception), driver.use():  # whoever needs it raises what fails
                self._known[key] = self._compiled(text, name)

        self._coming[key] = begun(compile)
        return False

    def settle(self) -> None:
        """Waits for what other threads compile."""
        for task in [*self._coming.values()]:
            task.wait()

    def kernel(self, text: str, name: str) -> CupyKernel:
        """The kernel of a source with its types."""
        if (text, name) in self._coming:
            with spending("compiling"):
                self._coming[text, name].wait()
        kernel = self._known.get((text, name))
        if kernel is None:
            with spending("compiling"):
                kernel = self._known[text, name] = self._compiled(text, name)
        return kernel

    def _compiled(self, text: str, name: str) -> CupyKernel:
        return self.driver.kernels(whole(text), [name], f"the kernel {name}")[name]

    def launch(
        self,
        text: str,
        name: str,
        types: dict[str, str],
        size: int,
        args: Sequence[Array | float],
        waves: int = 1,
        of_block: int = TILE,
    ) -> None:
        """Launches a block for so many of `size` entries, but no more than run at once, or `waves`
        times as many: if blocks do not wait for each other, those of one multiprocessor then start
        as others end.

        `types` defines the names of types that the source does not define.
        """
        kernel = self.kernel(text_of(types, text), name)
        blocks = max(1, min(-(-size // of_block), waves * kernel.resident(THREADS)))
        kernel.launch(blocks, THREADS, args)


def _settle(kernels: ref[Kernels]) -> None:
    """Waits for what is being compiled when the process ends, which would crash the compiler."""
    found = kernels()
    if found is not None:
        found.settle()
