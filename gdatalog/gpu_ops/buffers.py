"""What launches on a device share: uploaded tables, and where intersections are cached."""

from __future__ import annotations

from gdatalog.gpu_ops.cupy_driver import CupyDriver
from gdatalog.gpu_ops.rows import Array
from gdatalog.gpu_ops.trie_cache import DeviceTries
from gdatalog.overhead import spending
from gdatalog.storage.row_ops import DeviceOps

LARGE_TABLE = 1024  # entries, from which a table on the device is shared
MOST_TABLES = 32


class Buffers:
    """The memory on one device. `indexes`: where intersections by edge are cached. `ends`: an array
    for the time at which each block of a launch ends, if anyone wants to know."""

    def __init__(self, driver: CupyDriver, ops: DeviceOps, indexes: DeviceTries) -> None:
        self.driver = driver
        self.ops = ops
        self.indexes = indexes
        self.ends: Array | None = None
        self._uploaded: dict[int, tuple[Array, Array]] = {}  # tables by their id

    def upload(self, array: Array) -> Array:
        """A host array on the device. Large arrays are cached."""
        if len(array) < LARGE_TABLE:
            return self.driver.xp.asarray(array)
        found = self._uploaded.get(id(array))
        if found is None or found[0] is not array:
            if len(self._uploaded) >= MOST_TABLES:
                self._uploaded.clear()
            with spending("moving", array.nbytes):
                found = array, self.driver.xp.asarray(array)
            self._uploaded[id(array)] = found
        return found[1]

    def forget(self) -> None:
        self._uploaded.clear()
        self.ends = None
