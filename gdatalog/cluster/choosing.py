"""Which shares a join gets: those that move the fewest bytes of all whose blocks fit a worker."""

from __future__ import annotations

from itertools import count

from gdatalog.cluster.census import Census
from gdatalog.cluster.shares import Shares

EACH = 4  # blocks for each worker, at least, so that all of them have work to the end


def choose(census: Census, memory: int, workers: int) -> Shares | None:
    """`memory`: bytes of bundles that a worker can hold at once. None: even the smallest blocks
    that the census knows of need more."""
    for classes in count(1):
        starts = [
            sorted({round(at * domain.classes / classes) for at in range(classes)})
            for domain in census.domains
        ]
        shares = census.shares(starts)
        if shares.largest <= memory and len(shares.blocks) >= EACH * workers:
            return shares
        if all(domain.classes <= classes for domain in census.domains):
            return shares if shares.largest <= memory else None
    raise AssertionError
