"""How near breadth-first kernels come to the memory's own speed, by the sectors that they touch."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.gpu.clocks import medians
from benchmarks.gpu.setting import Setting
from benchmarks.records import Ask, Case, Figure

SUITE = "bandwidth"


def run(setting: Setting) -> Iterator[Case]:
    rate, figure = copied(setting)
    case = Case(SUITE, "a large copy on the device", [figure])
    case.asks = [Ask("a copy on the device", "", "", f"{rate / 1e9:,.0f} GB/s", None)]
    yield case


def copied(setting: Setting) -> tuple[float, Figure]:
    """Bytes read and written in a second by a copy of what no cache can hold."""
    xp, driver = setting.xp, setting.driver
    size = 1 << 12 if setting.small else 1 << 29  # of 8 bytes: 4 GiB
    values, out = xp.arange(size), xp.full(size, -1)

    def copy() -> None:
        driver.span("copy", lambda: xp.copyto(out, values))

    copy()
    assert bool((out == values).all())
    seen = medians(driver, copy, setting.budget, 20)
    seconds = seen.kernels or seen.wall
    moved = 2 * values.nbytes
    told = f"copy, {moved / 1e9:,.1f} GB moved: {moved / seconds / 1e9:,.0f} GB/s"
    return moved / seconds, Figure(told, warm=seen.wall, kernels=seconds, runs=seen.runs)
