"""How many lanes walk a subtree together.

A tile does best where lists are about as long as it is wide: lanes of a wider one have nothing to
do, those of a narrower one take more turns than there need be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

TILES = (1, 2, 4, 8, 16, 32)
LEAST = 4  # less is worth it only where lists have a value or two


def lanes_for(tries: Sequence[Any]) -> int:
    """The tile for loops over the lists of these tries, by how long they are on average."""
    mean = 1.0
    for trie in tries:
        for level in trie.levels[1:]:
            lists = max(1, len(level.offsets) - 1)
            mean = max(mean, len(level.values) / lists)
    wide = next((tile for tile in TILES if tile >= mean), TILES[-1])
    return max(LEAST, wide)
