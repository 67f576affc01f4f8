"""How many random cases a test draws: all of them, or fewer with GDATALOG_PROGRAMS below 300."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

PROGRAMS = int(os.environ.get("GDATALOG_PROGRAMS", "300"))
FUZZ = int(os.environ.get("GDATALOG_FUZZ", "300"))

# Numbers of drawn cases each of which compiles kernels of its own. Four of the eight run with and
# without races, shared tasks and a large pool; the others with the other widths of tiles as well.
SEEDS = range(8) if PROGRAMS >= 300 else (1, 2, 4, 7)


def cases(number: int, least: int = 10) -> int:
    """That many of a test's own number of cases."""
    return min(number, max(least, number * PROGRAMS // 300))


def share(percent: int) -> settings:
    """Settings for that share of all programs."""
    return settings(
        max_examples=max(1, PROGRAMS * percent // 100),
        deadline=None,
        phases=[Phase.reuse, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
