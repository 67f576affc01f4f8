"""The number of lanes that walk a subtree together."""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.storage.loop_tables import HashTrie
from gdatalog.storage.trie import Trie

TILES = (1, 2, 4, 8, 16, 32)
GROUP = 8  # lanes that take the turns of one range, where the lanes of a tile have short ranges
WIDER = 8  # lanes per mean length: most time goes into the long lists
# With MANY values and no list longer than SHORT, tiles are as narrow as the mean length.
SHORT, MANY = 32, 4_000_000


def lanes_for(tries: Sequence[Trie]) -> int:
    """The tile width for loops over the lists of these tries, from their mean length. Slices use
    the mean of the whole trie, so that all cells run one kernel."""
    mean, longest, values = 1.0, 0, 0
    if any(isinstance(trie, HashTrie) for trie in tries):
        return TILES[-1]  # their lists may become long
    for trie in tries:
        for level in (trie.whole or trie).levels[1:]:
            lists = max(1, len(level.offsets) - 1)
            mean = max(mean, len(level.values) / lists)
            longest = max(longest, int(level.longest))
            values = max(values, len(level.values))
    wider = 1 if longest <= SHORT and values >= MANY else WIDER
    return next((tile for tile in TILES if tile >= wider * mean), TILES[-1])
