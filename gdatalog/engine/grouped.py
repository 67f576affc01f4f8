"""How the rows of each group of a join are told apart: by how many bits their keys have."""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.plan.dedup import groups_of, kept_apart, level_of
from gdatalog.plan.nodes import Compact, JoinPlan
from gdatalog.records import dataclass
from gdatalog.storage.trie import Trie

# Bits of a number that a group's rows are told apart by: of a bitmap, of one for rows on the way,
# and of a hash set's keys. They stay in a core's own cache.
BITMAP_BITS, COMPACT_BITS, MOST_KEY_BITS = 23, 20, 62
LOOKS, LOOKS_EACH = 16, 4  # at 64 words of a bitmap: for a group, and for each row of it
LEAST_GROUPS = 64  # so that there is work for each thread


@dataclass(frozen=True, slots=True)
class Grouped:
    """How the rows of a group are told apart: `hashed` by a hash set, else by a bitmap. `compacts`:
    the variables of bitmaps on the way, by the number of the step."""

    hashed: bool
    compacts: tuple[tuple[int, tuple[str, ...]], ...] = ()


def grouped_of(join: JoinPlan, tries: Sequence[Trie]) -> Grouped | None:
    """How the rows of a join over these tries are told apart group by group; None if not so."""
    groups = groups_of(join)
    if groups is None:
        return None

    def bits(names: Sequence[str]) -> int:
        parts = [level_of(join, name) for name in names]
        spans = [tries[part.trie].levels[part.depth].span for part in parts]
        return sum((high - low).bit_length() for low, high in spans)

    first = level_of(join, groups.by[0])
    many = len(tries[first.trie].levels[first.depth])
    if bits(groups.keys) > MOST_KEY_BITS or many < LEAST_GROUPS:
        return None
    # Bitmaps are looked through for each group, 64 words at a time.
    looks = max(LOOKS, LOOKS_EACH * groups.estimate / max(1, many))
    widest = int(looks).bit_length() + 11
    compacts = []
    for number, step in enumerate(join.steps):
        if isinstance(step, Compact):
            names = kept_apart(join, groups, step)
            if names is not None and bits(names) <= min(widest, COMPACT_BITS):
                compacts.append((number, names))
    return Grouped(bits(groups.keys) > min(widest, BITMAP_BITS), tuple(compacts))
