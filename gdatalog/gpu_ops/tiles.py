"""How many lanes walk a subtree together.

Lanes of a tile that is wider than lists are long have nothing to do; but a narrow one takes many
turns for a long list, and it is there that most of the time goes. Where there is none, and work
for all lanes, each walks alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

TILES = (1, 2, 4, 8, 16, 32)
WIDER = 8  # times the mean length: the long lists are where the time goes
# No list is longer than SHORT, and there are so MANY values.
SHORT, MANY = 32, 4_000_000


def lanes_for(tries: Sequence[Any]) -> int:
    """The tile for loops over the lists of these tries, by how long they are on average: for slices
    by the lists of the whole, so that all cells run one kernel."""
    mean, longest, values = 1.0, 0, 0
    for trie in tries:
        for level in (trie.whole or trie).levels[1:]:
            lists = max(1, len(level.offsets) - 1)
            mean = max(mean, len(level.values) / lists)
            longest = max(longest, int(level.longest))
            values = max(values, len(level.values))
    wider = 1 if longest <= SHORT and values >= MANY else WIDER
    return next((tile for tile in TILES if tile >= wider * mean), TILES[-1])
