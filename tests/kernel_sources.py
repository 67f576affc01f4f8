"""All CUDA that there is, as NVRTC is to see it: (what it is of, source)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.resources import files

from gdatalog.gpu_ops.sources import source_of, whole

Source = tuple[str, str]

# Every function of a tile, so that they are compiled for each width, and not only read.
TILES = """
typedef Tile<{width}> T;
KERNEL(tile_{width})(ARRAY(const i64) values, ARRAY(i64) out, i64 count) {{
    const T t = tile_here<{width}>();
    SHARED(i64, part, 32);
    i64 total = 0, low = 0, high = 0;
    for (i64 i = tile_of_grid<{width}>(); i < count; i += tiles_of_grid<{width}>()) {{
        const i64 value = values[i] + t.rank;
        total += sum(t, value);
        low += least(t, value);
        high += greatest(t, value);
        const u32 odd = ballot(t, (value & 1) != 0);
        total += before(t, odd) + bits_of(odd) + lowest_bit(odd);
        if (any(t, value > 9) && !all(t, value > 9)) total += from_rank(t, value, 0);
        sync(t);
    }}
    if (thread_of_block() < 32) part[thread_of_block()] = total;
    block_sync();
    if (t.rank == 0) atomic_add(out, 0, part[t.first & 31]);
    atomic_min(out, 1, low);
    atomic_max(out, 2, high);
}}
"""


def files_of_kernels() -> Iterator[Source]:
    """The files of `kernels/`, each with what it includes and nothing else."""
    for path in sorted((files("gdatalog.gpu_ops") / "kernels").iterdir(), key=lambda p: p.name):
        if path.name.endswith(".cuh"):
            yield path.name, source_of(path.name)


def tiles() -> Iterator[Source]:
    for width in (1, 2, 4, 8, 16, 32):
        yield f"tiles of {width}", whole('#include "tile.cuh"\n' + TILES.format(width=width))


def generated() -> Iterable[Source]:
    """The kernels of plans."""
    return ()


def everything() -> Iterator[Source]:
    yield from files_of_kernels()
    yield from tiles()
    yield from generated()
