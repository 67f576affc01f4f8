"""The same queries over ids from 0 on, and over ids of 64 bits that lie far apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.columns import Columns
from benchmarks.records import Case, faster
from benchmarks.setting import Setting
from benchmarks.sides import Gdatalog

FACTOR = 1_000_003
AT_LEAST = 0.77  # times as fast as over ids from 0 on
RULES = {
    "chains of 3": "n(count()) <- E(_, y), E(y, z), E(z, _).",
    "triangles": "n(count()) <- E(x, y), E(y, z), E(x, z), x < y < z.",
    "ends of 2 steps": "far(count_distinct(x, z)) <- E(x, y), E(y, z), x < 1_000 * {factor}.",
}


@dataclass(frozen=True, slots=True)
class Scaled(Gdatalog):
    """Ids times a factor."""

    factor: int = 1

    @property
    def name(self) -> str:
        return "ours, ids from 0 on" if self.factor == 1 else "ours, ids far apart"

    def load(self, data: Columns) -> Any:
        far = {
            name: {column: ids.astype(np.int64) * self.factor for column, ids in relation.items()}
            for name, relation in data.items()
        }
        return Gdatalog.load(self, far)


def run(setting: Setting) -> Iterator[Case]:
    graph = setting.graph("ego-Twitter")
    for name, rule in RULES.items():
        what = f"{name}, {graph.name}"
        if not setting.wants(what, 30):
            continue
        near, far = (Scaled(rule.format(factor=f), factor=f) for f in (1, FACTOR))
        case = setting.race("sparse_keys", what, setting.graph_data(graph), [near, far])
        case.asks.append(faster(case, far.name, [near.name], AT_LEAST))
        yield case
